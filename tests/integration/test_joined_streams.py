"""A stream that is cut and joined again is the same as uncut, also when the server is killed in the middle."""

import json
import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from web_server import WebServer

pytestmark = pytest.mark.slow

CONFIG = """
[llms.main]
provider = "openai"
base_url = "{url}"
api_key = "not-a-real-key"
retries = 0

[[responses]]
llm = "main"
model = "m-1"
tools = {{ enabled = true }}

[tools.effects]
lease_s = 1

[[tools.registry]]
name = "pay"
description = "Pay."
parameters = {{ type = "object", properties = {{ amount = {{ type = "integer" }} }}, required = ["amount"] }}
effect = "write"
implementation = {{ type = "python", function = "bank:pay" }}

[conversations]
path = "kept.db"
"""
BANK = """
def pay(amount: int) -> str:
    with open("paid.txt", "a") as file:
        file.write(f"{amount}\\n")
    return "paid"
"""
CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "pay", "arguments": '{"amount": 5}'}}
WORDS = 400


class Model:
    """Asks for the tool, then writes word after word, each once it is ``allowed``; other words whenever it is asked."""

    def __init__(self) -> None:
        self.allowed = threading.Semaphore(0)
        self.asked: list[list] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            disable_nagle_algorithm = True

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.asked.append(body["messages"])
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                if body["messages"][-1]["role"] != "tool":
                    self.say({"role": "assistant", "content": "I pay. ", "tool_calls": [CALL]})
                    self.say({}, "tool_calls")
                else:
                    time = len(outer.asked)
                    for number in range(WORDS):
                        outer.allowed.acquire()
                        self.say({"content": f"{time}.{number} "})
                    self.say({}, "stop")
                self.wfile.write(b"data: [DONE]\n\n")

            def say(self, delta, reason=None):
                chunk = {"id": "c", "object": "chat.completion.chunk", "model": "m-1"}
                chunk["choices"] = [{"index": 0, "delta": delta, "finish_reason": reason}]
                self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
                self.wfile.flush()

            def log_message(self, *args):
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request, client_address):
                """Say nothing of readers that were killed."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.allowed.release(10 * WORDS)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def model():
    model = Model()
    yield model
    model.close()


@pytest.fixture
def start(tmp_path, model):
    """Start a server over the same folder, as often as a test likes."""
    (tmp_path / "bank.py").write_text(BANK)
    started = []

    def begin():
        started.append(WebServer(tmp_path, CONFIG.format(url=model.url)))
        return started[-1]

    yield begin
    for server in started:
        server.close()


def heard(response, most=None):
    """The events of a stream, (id, name, data), until it ends or that many have come; one without an id is left out."""
    found, event = [], {}
    for line in response.iter_lines():
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            event[name] = value
        elif event:
            if "id" in event:
                found.append((int(event["id"]), event["event"], json.loads(event["data"])))
            event = {}
            if len(found) == most:
                break
    return found


CLIENT = httpx.Client(timeout=30, verify=False)  # one for all: making one takes longer than a request


@pytest.fixture(scope="module", autouse=True)
def closing():
    yield
    CLIENT.close()


def begin(server, most):
    body = {"prompt": "Pay and tell.", "conversation": "c", "stream": True}
    with CLIENT.stream("POST", f"{server.url}chat/api", json=body) as answer:
        return heard(answer, most)


def join(server, id, after=0, most=None):
    headers = {"last-event-id": str(after)}
    with CLIENT.stream("GET", f"{server.url}api/turns/{id}/events", headers=headers) as answer:
        assert answer.status_code in (200, 204), answer.read()
        return heard(answer, most)


@pytest.mark.parametrize(("how", "seed"), [("killed", 1), ("stopped", 2)])
def test_a_stream_cut_fifty_times_is_the_same_after_the_server_went_away(start, model, tmp_path, how, seed):
    """It went away twice in the middle; the tool ran once, and its answer was asked for once."""
    chance = random.Random(seed)
    server = start()
    found = begin(server, 2)
    id = found[0][2]["id"]
    away = chance.sample(range(4, 40), 2)
    for cut in range(48):
        most = chance.randint(1, 5)
        model.allowed.release(most)
        found += join(server, id, found[-1][0], most)
        if cut in away:
            getattr(server, {"killed": "kill", "stopped": "close"}[how])()
            server = start()
    model.allowed.release(10 * WORDS)
    found += join(server, id, found[-1][0])

    assert found == join(server, id)
    assert [number for number, _, _ in found] == [*range(1, len(found) + 1)]
    names = [name for _, name, _ in found]
    assert (names.count("turn_resumed"), names.count("turn"), names[-1]) == (2, 1, "turn")
    stands = found[len(names) - names[::-1].index("turn_resumed") :]
    said = "".join(data["text"] for _, name, data in stands if name == "text")
    assert said == "I pay. " + found[-1][2]["content"]
    assert found[-1][2]["status"] == "done"
    assert [name for _, name, _ in stands].count("tool_finished") == 1
    assert (tmp_path / "paid.txt").read_text() == "5\n"
    assert [messages[-1]["role"] for messages in model.asked].count("user") == 1

    server.close()
    server = start()
    assert join(server, id) == found
    assert join(server, id, found[-1][0]) == []


def test_of_two_servers_that_start_at_once_one_goes_on(start, model, tmp_path):
    """Both tell the same."""
    server = start()
    found = begin(server, 8)
    id = found[0][2]["id"]
    while len(model.asked) < 2:  # else the payment may be cut off, and its outcome is unknown
        CLIENT.get(f"{server.url}health")
    server.kill()
    servers = []
    threads = [threading.Thread(target=lambda: servers.append(start())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    model.allowed.release(10 * WORDS)
    streams = [join(server, id) for server in servers]
    assert streams[0] == streams[1]
    assert streams[0][: len(found)] == found
    assert [name for _, name, _ in streams[0]].count("turn_resumed") == 1
    assert (tmp_path / "paid.txt").read_text() == "5\n"


@pytest.mark.parametrize("moment", ["accepted", "paid"])
def test_a_background_response_is_finished_after_its_server_was_killed(start, model, tmp_path, moment):
    """By the next one, whose clients need only its id; the tool ran once."""
    server = start()
    body = {"model": "flexchat", "input": "Pay and tell.", "background": True}
    made = CLIENT.post(f"{server.url}v1/responses", json=body).json()
    assert made["status"] in ("queued", "in_progress")

    def show():
        return CLIENT.get(f"{server.url}v1/responses/{made['id']}").json()

    while moment == "paid" and len(model.asked) < 2:
        assert show()["status"] in ("queued", "in_progress")
    server.kill()
    server = start()
    model.allowed.release(10 * WORDS)
    while (shown := show())["status"] in ("queued", "in_progress"):
        pass
    assert (shown["id"], shown["status"]) == (made["id"], "completed")
    text = "".join(part["text"] for item in shown["output"] for part in item["content"])
    assert text.endswith(f".{WORDS - 1} ")
    assert (tmp_path / "paid.txt").read_text() == "5\n"
