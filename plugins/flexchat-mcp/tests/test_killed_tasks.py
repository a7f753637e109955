"""FlexChat is killed while a server works on a task: it is polled by its id, over whatever connection there is."""

import argparse
import http.server
import json
import signal
import threading
import time

import pytest
from mcp_server import Server

from .conftest import ERAS, output_of, start_flexchat

pytestmark = pytest.mark.slow

TOOL = {
    "name": "count",
    "description": "Count something, for good.",
    "inputSchema": {"type": "object"},
    "execution": {"taskSupport": "required"},
}


class OverHttp(http.server.BaseHTTPRequestHandler):
    """Answers each request with a server of its own: what is to last is in the folder."""

    disable_nagle_algorithm = True
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        told = []
        server = Server(argparse.Namespace(folder=self.server.folder, era=self.server.era, fault=["tasks"]))
        server.is_modern = "io.modelcontextprotocol/protocolVersion" in (asked.get("params") or {}).get("_meta", {})
        server.write = told.append
        if "id" in asked:
            server.answer(asked)
        if asked.get("method", "").startswith("tasks/"):
            server.note("headers", self.headers["mcp-name"])
        body = told[0].encode() if told else b""
        self.send_response(200 if told else 202)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send_error(405)

    def log_message(self, *args):
        pass


@pytest.fixture(params=["stdio", "http"])
def table(request, folder):
    """Return the table of a server of an era."""
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), OverHttp)
    web.folder = folder.path
    threading.Thread(target=web.serve_forever, daemon=True).start()

    def make(era):
        web.era = era
        where = {"command": folder.command(era, "tasks")}
        if request.param == "http":
            where = {"url": f"http://127.0.0.1:{web.server_port}/mcp"}
        return {"name": "fake", "call_timeout_ms": 60_000, **where}

    yield make
    web.shutdown()
    web.server_close()


@pytest.fixture
def flexchat(folder, table):
    """Return what starts the command line in the server's folder."""
    folder.tools(TOOL)

    def start(era, *words):
        return start_flexchat(folder, table(era), *words)

    return start


def polled(folder, process):
    """Wait until the task is polled once more."""
    before, end = len(folder.lines("polls")), time.monotonic() + 30
    while len(folder.lines("polls")) == before:
        if time.monotonic() > end or process.poll() is not None:
            raise AssertionError(process.communicate())
        time.sleep(0.01)


def killed(folder, process):
    """Kill it when the task is polled for the first time; it ends when nobody is there."""
    polled(folder, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize("era", ERAS)
def test_a_call_under_a_key_gets_its_result_from_another_process(folder, flexchat, era):
    folder.fault('task {"until": "end"}')
    words = ("tools", "call", "count", "--key", "order 7")
    killed(folder, flexchat(era, *words))
    second = flexchat(era, *words)  # waits for the end, too, as soon as the first counts as dead
    polled(folder, second)
    (folder.path / "end").touch()

    assert "count done" in output_of(second)
    assert (len(folder.lines("effects")), len(folder.lines("tasks_made"))) == (1, 1)
    (effect,) = json.loads(output_of(flexchat(era, "effects", "list", "--json")))
    (id,) = {json.loads(line)["id"] for line in folder.lines("tasks_made")}
    assert (effect["state"], effect["handle"]) == ("done", {"task": id})
    assert f'handle:       {{"task": "{id}"}}' in output_of(flexchat(era, "effects", "show", effect["key"]))
    assert folder.lines("cancels") == []
    assert {*folder.lines("headers")} <= {id}


@pytest.mark.parametrize("era", ERAS)
def test_a_turn_goes_on_with_the_result_of_its_task(folder, flexchat, era):
    folder.fault('task {"until": "end"}')
    killed(folder, flexchat(era, "ask", "count with fake"))
    (folder.path / "end").touch()
    end = time.monotonic() + 30
    while True:
        (turn,) = json.loads(output_of(flexchat(era, "turns", "list", "--json")))
        if turn["state"] == "interrupted":
            break
        assert time.monotonic() < end
    answer = output_of(flexchat(era, "turns", "resume", turn["id"]))

    assert "count done" in answer
    assert "unknown" not in answer
    assert (len(folder.lines("effects")), len(folder.lines("tasks_made"))) == (1, 1)
    assert json.loads(output_of(flexchat(era, "effects", "list", "--unknown", "--json"))) == []


def test_a_server_that_has_forgotten_its_tasks_leaves_the_effect_unknown(folder, flexchat):
    folder.fault('task {"until": "end"}')
    words = ("tools", "call", "count", "--key", "order 7")
    killed(folder, flexchat("modern", *words))
    for path in (folder.path / "tasks").iterdir():
        path.unlink()
    second = flexchat("modern", *words)
    out, err = second.communicate(timeout=60)

    assert "it no longer has the task's result" in out + err
    (effect,) = json.loads(output_of(flexchat("modern", "effects", "list", "--unknown", "--json")))
    assert effect["tool"] == "count"
    assert len(folder.lines("effects")) == 1
