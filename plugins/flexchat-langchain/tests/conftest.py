"""Servers on this machine that answer ChatOllama and ChatAnthropic with what a test wants them to hear."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from flexchat_langchain.client import AnthropicClient, OllamaClient


class ReplayingServer(ThreadingHTTPServer):
    """Answers one request after the other.

    Attributes:
        bodies: What was asked, oldest first.
    """

    daemon_threads = True

    def __init__(self, replies):
        self.replies = list(replies)
        self.bodies = []
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        pass  # a client that left early


class _Handler(BaseHTTPRequestHandler):
    disable_nagle_algorithm = True

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.bodies.append(body)
        reply = self.server.replies.pop(0) if self.server.replies else Reply(status=500, text="asked once too often")
        status, kind, content = (_anthropic if "/v1/messages" in self.path else _ollama)(reply, body)
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args):
        pass


class Reply:
    """What a model says: text and calls, or an error of the service."""

    def __init__(self, text="", calls=(), *, thought="", finish=None, status=200):
        self.text, self.calls, self.thought, self.finish, self.status = text, calls, thought, finish, status


def _ollama(reply, body):
    if reply.status != 200:
        return reply.status, "application/json", json.dumps({"error": reply.text}).encode()
    said = {"role": "assistant", "content": reply.text}
    if reply.thought:
        said["thinking"] = reply.thought
    if reply.calls:
        said["tool_calls"] = [{"function": {"name": name, "arguments": args}} for name, args in reply.calls]
    counts = {"prompt_eval_count": 11, "eval_count": 7}
    last = {"model": body["model"], "message": {"role": "assistant", "content": ""}, "done": True, **counts}
    lines = [
        {"model": body["model"], "message": said, "done": False},
        {**last, "done_reason": reply.finish or "stop"},
    ]
    return 200, "application/x-ndjson", b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _anthropic(reply, body):
    if reply.status != 200:
        error = {"type": "error", "error": {"type": "api_error", "message": reply.text}}
        return reply.status, "application/json", json.dumps(error).encode()
    content = [{"type": "thinking", "thinking": reply.thought, "signature": "sig-1"}] if reply.thought else []
    content += [{"type": "text", "text": reply.text}] if reply.text else []
    used = len(json.dumps(body["messages"]))  # ids are unique for ever
    content += [
        {"type": "tool_use", "id": f"toolu_{used}_{n}", "name": name, "input": args}
        for n, (name, args) in enumerate(reply.calls)
    ]
    stop = reply.finish or ("tool_use" if reply.calls else "end_turn")
    whole = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": content}
    whole |= {"stop_reason": stop, "stop_sequence": None, "usage": {"input_tokens": 11, "output_tokens": 7}}
    if not body.get("stream"):
        return 200, "application/json", json.dumps(whole).encode()
    return 200, "text/event-stream", b"".join(_frames(whole))


def _frames(whole):
    yield _frame("message_start", message={**whole, "content": [], "stop_reason": None})
    for index, block in enumerate(whole["content"]):
        match block["type"]:
            case "text":
                hollow, deltas = {"text": ""}, [{"type": "text_delta", "text": block["text"]}]
            case "thinking":
                hollow = {"thinking": "", "signature": ""}
                deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
                deltas += [{"type": "signature_delta", "signature": block["signature"]}]
            case _:
                hollow, written = {"input": {}}, json.dumps(block["input"])
                deltas = [{"type": "input_json_delta", "partial_json": half} for half in (written[:4], written[4:])]
        yield _frame("content_block_start", index=index, content_block={**block, **hollow})
        for delta in deltas:
            yield _frame("content_block_delta", index=index, delta=delta)
        yield _frame("content_block_stop", index=index)
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield _frame("message_delta", delta=delta, usage=whole["usage"])
    yield _frame("message_stop")


def _frame(kind, **rest):
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **rest})}\n\n".encode()


@pytest.fixture
def reply():
    """What a model says."""
    return Reply


@pytest.fixture
def replaying():
    """Starts servers that give these replies, one after the other."""
    started = []

    def start(*replies):
        server = ReplayingServer(replies)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        started.append((server, thread))
        return server

    yield start
    for server, thread in started:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(params=["ollama", "anthropic"])
def kind(request):
    """Whose model it is: every flow is the same for both."""
    return request.param


@pytest.fixture
async def connect(kind, replaying):
    """Makes a client of a server that gives these replies."""
    clients = []

    def make(executor, *replies, **rest):
        server = replaying(*replies)
        if kind == "ollama":
            client = OllamaClient(executor, model="qwen3", base_url=server.url, **rest)
        else:
            settings = {"base_url": server.url, "api_key": "test-key-0815", "max_retries": 0}
            client = AnthropicClient(executor, model="claude-test", **settings, **rest)
        clients.append(client)
        return client, server

    yield make
    for client in clients:
        await client.aclose()
