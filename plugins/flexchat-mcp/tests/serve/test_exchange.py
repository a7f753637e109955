"""One request over HTTP in each era: what it takes, when its answer becomes a stream, and a client that goes."""

import asyncio
import json

import pytest
from flexchat_mcp.serve import exchange
from mcp_fixtures import META, MODERN

OLDER = "2025-11-25"
ERAS = pytest.mark.parametrize("era", [OLDER, MODERN])


class Client:
    """A connection to /mcp that sees what is sent when, and can be left."""

    def __init__(self, app):
        self.app, self.sent, self.gone, self.has_begun = app, [], asyncio.Event(), asyncio.Event()

    async def call(self, era, name, arguments, **meta):
        facts = {f"{META}/protocolVersion": era, f"{META}/clientCapabilities": {}} if era == MODERN else {}
        params = {"name": name, "arguments": arguments, "_meta": {**facts, **meta}}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        headers = {
            "host": "127.0.0.1:8000",
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "content-length": str(len(body)),
            "mcp-protocol-version": era,
            **({"mcp-method": "tools/call", "mcp-name": name} if era == MODERN else {}),
        }
        scope = {"type": "http", "method": "POST", "path": "/mcp", "root_path": "", "scheme": "http"}
        scope |= {"query_string": b"", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000)}
        scope["headers"] = [(name.encode(), value.encode()) for name, value in headers.items()]
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive():
            if messages:
                return messages.pop()
            await self.gone.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            self.sent.append(message)
            self.has_begun.set()

        await self.app(scope, receive, send)

    @property
    def kind(self):
        return dict(self.sent[0]["headers"])[b"content-type"].decode()

    @property
    def pieces(self):
        return [message["body"] for message in self.sent[1:] if message["body"]]


@ERAS
async def test_an_answer_that_takes_long_is_a_stream_with_pings(new_web, era, monkeypatch):
    monkeypatch.setattr(exchange, "PING_S", 0.02)
    client = Client(new_web().app)

    await client.call(era, "wait", {"seconds": 0.2})

    *pings, event = client.pieces
    assert client.kind == "text/event-stream"
    assert set(pings) == {exchange.PING}
    assert event.startswith(b"event: message\r\ndata: {")
    assert json.loads(event.partition(b"data: ")[2])["result"]["content"][0]["text"] == "waited"
    assert client.sent[-1].get("more_body", False) is False


@ERAS
async def test_a_client_that_goes_ends_its_call(new_web, era, monkeypatch):
    monkeypatch.setattr(exchange, "PING_S", 0.02)
    client = Client(new_web().app)
    calling = asyncio.create_task(client.call(era, "wait", {"seconds": 60}))
    await client.has_begun.wait()

    client.gone.set()

    await asyncio.wait_for(calling, 10)
    assert set(client.pieces) <= {exchange.PING}


async def test_the_older_era_is_answered_in_one_piece(new_web):
    client = Client(new_web().app)

    await client.call(OLDER, "note", {"text": "x"})

    assert client.kind == "text/event-stream"
    (event,) = client.pieces
    assert json.loads(event.partition(b"data: ")[2])["result"]["content"][0]["text"] == "noted x"


@ERAS
async def test_a_call_takes_few_tasks(new_web, era, monkeypatch):
    """The SDK's transports make up to ten for each: a stream, its pings and its end, a dispatcher, a router."""
    web, made = new_web(), []
    await Client(web.app).call(era, "note", {"text": "warm"})
    loop = asyncio.get_running_loop()

    def make(loop, coroutine, **how):
        made.append(coroutine)
        return asyncio.Task(coroutine, loop=loop, **how)

    loop.set_task_factory(make)
    try:
        await Client(web.app).call(era, "note", {"text": "x"})
    finally:
        loop.set_task_factory(None)

    names = [each.__qualname__ for each in made]
    assert len([name for name in names if "Manager" in name or "_serve" in name or "_wait_until_gone" in name]) <= 2
    assert len(names) <= 4, names  # two of them are of the ledger
