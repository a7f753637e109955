"""A scripted Chat Completions server on loopback."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from web_server import WebServer

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


class ChatServer:
    """Answers each request with the next reply: a message ({content, tool_calls}), or (status, body).

    A request with stream = true is answered with server-sent events that say the same. The last reply repeats. Each
    request releases ``asked``; while ``open`` is cleared, answers wait.
    """

    def __init__(self) -> None:
        self.replies: list = []
        self.requests: list[dict] = []
        self.headers: list[dict] = []
        self.asked = threading.Semaphore(0)
        self.open = threading.Event()
        self.open.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            disable_nagle_algorithm = True
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.requests.append(body)
                outer.headers.append(dict(self.headers))
                outer.asked.release()
                outer.open.wait(20)
                reply = outer.replies[min(len(outer.requests), len(outer.replies)) - 1]
                if isinstance(reply, tuple):
                    self.send(reply[0], "application/json", json.dumps(reply[1]).encode())
                elif body.get("stream"):
                    self.send(200, "text/event-stream", outer.streamed(reply))
                else:
                    self.send(200, "application/json", json.dumps(outer.whole(reply)).encode())

            def do_GET(self):
                models = {"object": "list", "data": [{"id": "m-1", "object": "model"}]}
                self.send(200, "application/json", json.dumps(models).encode())

            def send(self, status, kind, content):
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @staticmethod
    def reason(reply: dict) -> str:
        return reply.get("finish_reason") or ("tool_calls" if reply.get("tool_calls") else "stop")

    def whole(self, reply: dict) -> dict:
        message = {"role": "assistant", "content": reply.get("content")}
        if "tool_calls" in reply:
            message["tool_calls"] = reply["tool_calls"]
        choice = {"index": 0, "message": message, "finish_reason": self.reason(reply)}
        usage = {**USAGE, **reply.get("usage", {})}
        return {"id": "c-1", "object": "chat.completion", "model": "m-1", "choices": [choice], "usage": usage}

    def streamed(self, reply: dict) -> bytes:
        deltas: list[dict] = [{"role": "assistant", "content": None}]
        deltas += [{"content": word} for word in (reply.get("content") or "").split(" ") if word]
        if "tool_calls" in reply and not reply["tool_calls"]:
            deltas.append({"tool_calls": []})
        for index, call in enumerate(reply.get("tool_calls") or ()):
            function = call["function"]
            text = function["arguments"]
            start = {**call, "index": index, "function": {**function, "arguments": ""}}
            deltas.append({"tool_calls": [start]})
            for part in (text[: len(text) // 2], text[len(text) // 2 :]):
                deltas.append({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
        chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": self.reason(reply)}]})
        chunks.append({"choices": [], "usage": {**USAGE, **reply.get("usage", {})}})
        base = {"id": "c-1", "object": "chat.completion.chunk", "model": "m-1"}
        lines = [f"data: {json.dumps({**base, **chunk})}\n\n" for chunk in chunks]
        return "".join([*lines, "data: [DONE]\n\n"]).encode()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def call(name: str, arguments: object, id: str = "call_1") -> dict:
    """A tool call as the wire has it; arguments: an object, or the text itself."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


@pytest.fixture
def chat_server() -> Iterator[ChatServer]:
    """A running server; give it replies."""
    server = ChatServer()
    yield server
    server.close()


@pytest.fixture
def wire_call():
    """Make a tool call as the wire has it."""
    return call


@pytest.fixture(scope="session")
def demo_server(tmp_path_factory) -> Iterator[WebServer]:
    """`flexchat serve` as someone without a configuration gets it. Nothing of it may be changed."""
    server = WebServer(tmp_path_factory.mktemp("demo"))
    yield server
    server.close()


@pytest.fixture
def serve(tmp_path) -> Iterator[Callable[..., WebServer]]:
    """Start `flexchat serve` with a configuration: ``serve(toml, "--read-only")``."""
    servers: list[WebServer] = []

    def start(config: str | None = None, *options: str) -> WebServer:
        folder = tmp_path / f"serve{len(servers)}"
        folder.mkdir()
        servers.append(WebServer(folder, config, *options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def browser():
    """A browser, for all tests of a module."""
    pytest.importorskip("playwright", reason="the page's tests need Playwright")
    from web_browser import open_browser

    yield from open_browser()


@pytest.fixture
def visit(browser):
    """Open a page: ``page = visit(server.url + "#/tools", size=NARROW, theme="dark")``; see Visits."""
    from web_browser import Visits

    visits = Visits(browser)
    yield visits
    visits.end()
