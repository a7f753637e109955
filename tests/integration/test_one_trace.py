"""One trace from the page's request to an MCP server, across an acceptance, a worker, and kill -9."""

import argparse
import json
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from mcp_server import Server
from postgres_server import dsn, schema, server  # noqa: F401  fixtures
from web_server import WebServer

pytestmark = pytest.mark.slow

GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE = GIVEN.split("-")[1]
CONFIG = """
[conversations]
provider = "postgresql"
dsn = "{dsn}"
schema = "{schema}"

[queue]
schema = "{schema}_queue"

[llms.bot]
provider = "scripted"
replies = [
    {{ tool_calls = [{{ name = "look" }}] }},
    {{ tool_calls = [{{ name = "add", arguments = {{ a = 1 }} }}] }},
    {{ text = "done" }},
]

[tools.effects]
lease_s = 2.0

[network]
allow = ["127.0.0.1:{port}"]

[[tools.mcp]]
name = "fake"
url = "http://127.0.0.1:{port}/mcp"

[[responses]]
llm = "bot"
model = "m"
tools = {{ enabled = true }}

[[tools.registry]]
name = "look"
description = "Look"
effect = "read"
timeout_ms = 60000
parameters = {{ type = "object", properties = {{}} }}
implementation = {{ type = "python", function = "looking:look" }}
"""
LOOKING = """
import pathlib, time

def look():
    here = pathlib.Path(__file__).parent
    (here / "looked").touch()
    while not (here / "go").exists():
        time.sleep(0.02)
    return "seen"
"""
WORKER = """
import json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

file_name, sys.argv[1:] = sys.argv[1], ["worker"]

class Lines(SpanExporter):
    def export(self, spans):
        with open(file_name, "a") as file:
            for span in spans:
                context, links = span.context, [f"{link.context.span_id:016x}" for link in span.links]
                trace_id, span_id, state = f"{context.trace_id:032x}", f"{context.span_id:016x}", context.trace_state
                parent = span.parent and f"{span.parent.span_id:016x}"
                line = [span.name, trace_id, span_id, parent, links, state.to_header()]
                print(json.dumps(line), file=file)
        return SpanExportResult.SUCCESS

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(Lines()))
trace.set_tracer_provider(provider)
from flexchat_command import main
raise SystemExit(main())
"""


class McpOverHttp(BaseHTTPRequestHandler):
    """Answers each request anew, and keeps the headers and _meta of calls."""

    disable_nagle_algorithm = True
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked, answers = json.loads(self.rfile.read(int(self.headers["content-length"]))), []
        of_folder = Server(argparse.Namespace(folder=self.server.folder, era="modern", fault=[]))
        of_folder.is_modern, of_folder.write = True, answers.append
        if asked.get("method") == "tools/call":
            self.server.calls.append((dict(self.headers.items()), asked["params"]["_meta"]))
        if "id" in asked:
            of_folder.answer(asked)
        body = answers[0].encode() if answers else b""
        self.send_response(200 if answers else 202)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send_error(405)

    def log_message(self, *args):
        pass


@pytest.fixture
def mcp(tmp_path):
    (tmp_path / "mcp").mkdir()
    web = ThreadingHTTPServer(("127.0.0.1", 0), McpOverHttp)
    web.folder, web.calls = tmp_path / "mcp", []
    threading.Thread(target=web.serve_forever, daemon=True).start()
    yield web
    web.shutdown()
    web.server_close()


def soon(condition, within_s=60.0):
    until = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < until, "it has not happened"
        time.sleep(0.05)  # another process has no event to wait for


def spans_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_one_trace_from_the_page_to_an_mcp_server_across_a_kill(tmp_path, server, schema, mcp):  # noqa: F811
    config = CONFIG.format(dsn=server.dsn(), schema=schema, port=mcp.server_port)
    (tmp_path / "looking.py").write_text(LOOKING)
    (tmp_path / "worker.py").write_text(WORKER)
    (tmp_path / "flexchat.toml").write_text(config)
    accept = [sys.executable, "-m", "flexchat", "tools", "accept", "fake"]
    done = subprocess.run(accept, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr

    def worker(name):
        command = [sys.executable, "worker.py", str(tmp_path / name)]
        return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    web, workers = WebServer(tmp_path, config, "--accept-only"), [worker("first")]
    try:
        headers = {"traceparent": GIVEN, "tracestate": "vendor=page"}
        body = {"prompt": "Look, then add", "conversation": "c", "accept": True}
        answer = httpx.post(f"{web.url}chat/api", json=body, headers=headers, timeout=60)
        assert answer.status_code == 202, answer.text
        soon(lambda: (tmp_path / "looked").exists())
        soon(lambda: {"wait queue", "chat m"} <= {name for name, *_ in spans_of(tmp_path / "first")})
        workers[0].kill()
        workers[0].wait()
        (tmp_path / "go").touch()
        workers.append(worker("second"))
        soon(lambda: "invoke_agent" in [name for name, *_ in spans_of(tmp_path / "second")])
    finally:
        web.close()
        for each in workers:
            each.kill()
            each.communicate()
    # The MCP package opens its connection outside turns, with spans of its own.
    first, second = (
        [
            span
            for span in spans_of(tmp_path / name)
            if not span[0].startswith(("MCP send server", "MCP send tools/list"))
        ]
        for name in ("first", "second")
    )
    assert {trace for _, trace, *_ in (*first, *second)} == {TRACE}
    assert {state for *_, state in (*first, *second)} == {"vendor=page"}
    ((sent, meta),) = mcp.calls
    assert sent["traceparent"] == meta["traceparent"]
    assert sent["traceparent"].split("-")[1] == TRACE
    assert sent["tracestate"] == meta["tracestate"] == "vendor=page"
    (called,) = [id for name, _, id, *_ in second if name == "execute_tool add"]
    # With an SDK, the MCP package adds a span of its own below the tool's.
    below = [id for name, _, id, parent, *_ in second if parent == called]
    assert sent["traceparent"].split("-")[2] in {called, *below}
    (links,) = [links for name, *_, links, _ in second if name == "invoke_agent"]
    # The first run's own span was never ended; its spans are below it.
    root_of_first = next(parent for name, _, _, parent, *_ in first if name == "wait queue")
    assert root_of_first in links
    assert GIVEN.split("-")[2] in links  # it was accepted in a process without an SDK
