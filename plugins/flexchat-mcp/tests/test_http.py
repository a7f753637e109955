"""Servers over HTTP: the SDK's own, of both eras and transports, and some that break; all behind the guard."""

import asyncio
import contextlib
import json

import pytest
import uvicorn
from flexchat import FlexChat
from mcp.server.mcpserver import MCPServer

from .conftest import until

pytestmark = pytest.mark.anyio


def made():
    server = MCPServer("calc")
    server.effects = []

    @server.tool()
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    def count() -> str:
        """Count something."""
        server.effects.append(1)
        return "counted"

    return server


@pytest.fixture
async def serve():
    """Serve an ASGI app on loopback."""
    servers = []

    async def start(app):
        server = uvicorn.Server(
            uvicorn.Config(app, port=0, ws="none", log_level="error", lifespan="on", timeout_graceful_shutdown=1)
        )
        task = asyncio.create_task(server.serve())
        servers.append((server, task))
        await until(lambda: server.started)
        return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"

    yield start
    for server, task in servers:
        server.should_exit = server.force_exit = True
        await asyncio.wait([task])


@pytest.fixture
async def chat_at(tmp_path):
    """Open a chat with the tools of a URL."""
    chats = []

    def make(url, *, allow=("127.0.0.1",), **rest):
        config = {
            "llms": {"r": {"provider": "rehearsal"}},
            "responses": [{"llm": "r", "model": "any", "tools": {"allowed_tools": ["mcp/*"]}}],
            "tools": {"mcp": [{"url": url, **rest}]},
            "network": {"allow": list(allow)},
        }
        path = tmp_path / "chat.json"
        path.write_text(json.dumps(config))
        chats.append(FlexChat.from_config(path))
        return chats[-1]

    yield make
    for chat in chats:
        await chat.aclose()


def why(chat):
    (said,) = chat.tools.sources.missing(["mcp/*"])
    return said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "stateless", "plain", "version"),
    [
        ("auto", False, False, "2026-07-28"),
        ("auto", True, True, "2026-07-28"),
        ("handshake", False, False, "2025-11-25"),
        ("handshake", False, True, "2025-11-25"),
        ("handshake", True, False, "2025-11-25"),
    ],
)
async def test_a_server_of_the_sdk_is_called(chat_at, serve, protocol, stateless, plain, version):
    url = await serve(made().streamable_http_app(stateless_http=stateless, json_response=plain))
    chat = chat_at(f"{url}/mcp", protocol=protocol, effects={"add": "read"})

    found = [await chat.call_tool("add", {"a": 1}), await chat.call_tool("add", {"a": 1, "b": 1})]

    assert [each.result for each in found] == [3, 2]
    assert chat.tools.sources.by_name["mcp"]._source.server.state.version == version


@pytest.mark.slow
async def test_an_old_sse_server_is_called(chat_at, serve):
    url = await serve(made().sse_app())
    chat = chat_at(f"{url}/sse", transport="sse", effects={"add": "read"})

    assert (await chat.call_tool("add", {"a": 1})).result == 3


@pytest.mark.parametrize("tool", ["add", "count"])
async def test_an_old_sse_server_that_breaks_is_connected_again(chat_at, tool):
    """The SDK's transport sends nothing more once a message was refused, and nobody gets an answer."""
    got, streams, is_broken = [], [], False

    async def handle(reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        if head.startswith("get"):
            streams.append(writer)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: endpoint\ndata: /post\n\n")
            return
        length = next(int(line[15:]) for line in head.split("\r\n") if line.startswith("content-length:"))
        body = json.loads(await reader.readexactly(length))
        got.append(body)
        is_call = body.get("method") == "tools/call"
        writer.write(plain("502 Bad Gateway" if is_call and is_broken else "202 Accepted", "text/plain", "Ok")(body))
        writer.close()
        if "id" in body and not (is_call and is_broken):
            answer = ordinary(body)
            if body["method"] == "initialize":
                info = {"capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
                answer = reply(body, {"protocolVersion": "2025-11-25", **info})
            streams[-1].write(b"event: message\ndata: " + answer.partition(b"\r\n\r\n")[2] + b"\n\n")

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/sse"
    chat = chat_at(url, transport="sse", effects={"add": "read"}, protocol="handshake", call_timeout_ms=4_000)
    assert (await chat.call_tool("add", {})).result == "ok"
    is_broken = True
    broken = await chat.call_tool(tool, {})
    is_broken = False

    assert "did not answer: it answered a message with HTTP 502" in broken.error
    assert ("unknown whether" in (broken.hint or "")) is (tool == "count")
    assert (await chat.call_tool("count", {})).result == "ok"
    server.close()
    for stream in streams:
        stream.close()


async def raw(answer):
    """Serve HTTP by hand: a function of (number, body) gives the bytes, or None to close at once."""
    got = []

    async def handle(reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = next(
                (int(line[15:]) for line in head.lower().split("\r\n") if line.startswith("content-length:")), 0
            )
            body = json.loads(await reader.readexactly(length) or b"{}")
            got.append((head, body))
            made = answer(body)
            if made is not None:
                writer.write(made)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp", got


def reply(body, result=None, status="200 OK", **rest):
    data = json.dumps({"jsonrpc": "2.0", "id": body.get("id"), "result": result or {}, **rest}).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n"
    return f"{head}connection: close\r\n\r\n".encode() + data


TOOLS = [
    {"name": "add", "description": "Add.", "inputSchema": {"type": "object"}},
    {"name": "count", "description": "Count.", "inputSchema": {"type": "object"}},
]


def ordinary(body):
    match body.get("method"):
        case "server/discover":
            capabilities = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
            return reply(body, {**capabilities, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"})
        case "tools/list":
            return reply(body, {"tools": TOOLS, "resultType": "complete", "ttlMs": 60_000, "cacheScope": "private"})
    return reply(body, {"content": [{"type": "text", "text": "ok"}], "resultType": "complete"})


async def test_headers_and_token_are_sent_with_each_request_and_never_shown(chat_at, tmp_path):
    server, url, got = await raw(ordinary)
    chat = chat_at(url, headers={"X-Team": "blue-team-7"}, auth={"bearer": "very-secret-1"})
    assert (await chat.call_tool("add", {})).result == "ok"
    server.close()

    heads = [head.lower() for head, body in got]
    assert all("authorization: bearer very-secret-1" in head and "x-team: blue-team-7" in head for head in heads)
    assert [body["method"] for _, body in got] == ["server/discover", "tools/list", "tools/call"]
    assert "mcp-method: tools/call" in heads[-1]
    assert "secret" not in next(tmp_path.glob("*.lock")).read_text()


async def test_a_forbidden_address_is_not_reached(chat_at):
    server, url, got = await raw(ordinary)
    chat = chat_at(url, allow=())

    await chat.call_tool("add", {})
    server.close()

    assert "may not be reached: it does not lead to the public network" in why(chat)
    assert got == []


async def test_no_redirect_leads_elsewhere(chat_at):
    other, elsewhere, reached = await raw(ordinary)
    moved = f"HTTP/1.1 307 x\r\nlocation: {elsewhere}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()
    server, url, _ = await raw(lambda body: moved)
    chat = chat_at(url, auth={"bearer": "very-secret-1"})

    await chat.call_tool("add", {})
    server.close()
    other.close()

    assert "edirect" in why(chat)
    assert reached == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            lambda body: reply(body, status="401 Unauthorized", error={"code": 1, "message": "who are you"}),
            "who are you",
        ),
        (lambda body: b"HTTP/1.1 500 x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n", "answered HTTP 500"),
        (lambda body: b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nhi", "content type"),
        (lambda body: b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{]", "JSON"),
        (lambda body: None, "closed the connection"),
    ],
)
async def test_a_server_that_is_none_is_said(chat_at, answer, said):
    server, url, _ = await raw(answer)
    chat = chat_at(url)

    await chat.call_tool("add", {})
    server.close()

    assert said in why(chat)


def refused(status, text="token expired: very-secret-1"):
    return f"HTTP/1.1 {status} x\r\ncontent-length: {len(text)}\r\nconnection: close\r\n\r\n{text}".encode()


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 406, 415, 418, 429, 500, 503])
async def test_a_refusal_names_status_and_address_and_no_secret(chat_at, status):
    server, url, _ = await raw(lambda body: refused(status))
    chat = chat_at(url + "?key=1234567", auth={"bearer": "very-secret-1"})

    await chat.call_tool("add", {})
    server.close()

    assert f"{url} answered HTTP {status}" in why(chat)
    assert "token expired: ***" in why(chat)
    assert "1234567" not in why(chat)


@pytest.mark.parametrize("status", [401, 403, 404, 429])
async def test_a_call_refused_amid_the_work_names_the_status_and_has_done_nothing(chat_at, status):
    server, url, _ = await raw(lambda body: refused(status) if body.get("method") == "tools/call" else ordinary(body))
    chat = chat_at(url, auth={"bearer": "very-secret-1"})

    found = await chat.call_tool("add", {"a": 1})
    server.close()

    assert f"answered HTTP {status}: " in found.error or f"answered HTTP {status} " in found.error
    assert "unknown" not in (found.hint or "")


@pytest.mark.slow
async def test_an_older_server_is_spoken_to_over_sse_without_being_configured_so(serve, chat_at):
    url = await serve(made().sse_app())
    chat = chat_at(f"{url}/sse")

    assert (await chat.call_tool("add", {"a": 1})).success
    await chat.tools.sources.restart("mcp")
    assert (await chat.call_tool("add", {"a": 1})).success


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_nobody_there_is_said(chat_at, transport):
    chat = chat_at("http://127.0.0.1:1/mcp", transport=transport)

    await chat.call_tool("add", {})

    assert "nothing listens at 127.0.0.1:1" in why(chat)


async def test_an_sse_server_that_refuses_is_said(chat_at):
    answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    server, url, _ = await raw(lambda body: answer)
    chat = chat_at(url, transport="sse")

    await chat.call_tool("add", {})
    server.close()

    assert why(chat).endswith("it answered 404 Not Found")


async def test_a_token_that_is_not_taken_is_said(chat_at):
    answer = b"HTTP/1.1 401 x\r\nwww-authenticate: Bearer\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    server, url, _ = await raw(lambda body: answer)
    chat = chat_at(url, auth={"bearer": "very-secret-1"})

    await chat.call_tool("add", {})
    server.close()

    assert "it does not take the token in its table" in why(chat)


def cut(body):
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"


def cut_stream(body):
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\nevent: message\r\ndata: {"


def large(body):
    return reply(body, {"content": [{"type": "text", "text": "x" * 300_000}], "resultType": "complete"})


def large_stream(body):
    data = json.dumps({"jsonrpc": "2.0", "id": body["id"], "result": {"content": [], "_meta": {"x": "x" * 300_000}}})
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    return head + f"event: message\r\ndata: {data}\r\n\r\n".encode()


@pytest.mark.parametrize("broken", [lambda body: None, cut, cut_stream, large, large_stream])
async def test_a_write_whose_answer_is_lost_is_unknown_and_sent_once(chat_at, broken):
    server, url, got = await raw(lambda body: (broken if body.get("method") == "tools/call" else ordinary)(body))
    chat = chat_at(url, max_bytes=200_000)

    found = await chat.call_tool("count", {})
    server.close()

    assert "it is unknown whether 'count' took effect" in found.hint
    assert [body["method"] for _, body in got].count("tools/call") == 1


def plain(status, kind="text/html", text="<h1>Try later</h1>"):
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(text)}\r\nconnection: close\r\n\r\n"
    return lambda body: f"{head}{text}".encode()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (plain("504 Gateway Timeout"), "HTTP 504 (text/html)"),
        (plain("502 Bad Gateway", "application/json", '{"message": "upstream"}'), "HTTP 502 (application/json)"),
        (plain("500 x", "text/event-stream", ": no event\n\n"), "HTTP 500 (text/event-stream)"),
        (plain("200 OK"), "HTTP 200 (text/html)"),
        (plain("202 Accepted", "application/json", ""), "HTTP 202 (application/json)"),
        (plain("200 OK", "application/json", "{]"), "parse"),
        (plain("200 OK", "text/event-stream", "event: message\ndata: {]\n\n"), "parse"),
    ],
)
async def test_a_write_that_is_answered_with_something_else_is_unknown(chat_at, answer, said):
    """By a gateway that did not wait, or a server that broke after it had acted. Its other tools go on."""
    server, url, got = await raw(lambda body: (answer if body.get("method") == "tools/call" else ordinary)(body))
    chat = chat_at(url, restarts=0, effects={"add": "read"})

    found = await chat.call_tool("count", {})
    read = [await chat.call_tool("add", {}) for _ in range(2)]
    server.close()

    assert said in found.error
    assert "it is unknown whether 'count' took effect" in found.hint
    assert [effect.state for effect in await chat.effects()] == ["unknown"]
    assert [body["method"] for _, body in got].count("tools/call") == 3
    assert all(said in each.error for each in read)


@pytest.mark.parametrize(
    "answer",
    [
        lambda body: reply(body, status="500 x", error={"code": -32603, "message": "no such table"}),
        plain("404 Not Found"),
        plain("429 Too Many Requests"),
    ],
)
async def test_a_write_that_was_refused_has_failed(chat_at, answer):
    server, url, _ = await raw(lambda body: (answer if body.get("method") == "tools/call" else ordinary)(body))
    chat = chat_at(url)

    found = await chat.call_tool("count", {})
    server.close()

    assert found.error.startswith("the MCP server 'mcp' refused the call: ")
    assert [effect.state for effect in await chat.effects()] == ["failed"]


async def test_a_read_whose_answer_is_lost_is_asked_again_once(chat_at):
    server, url, got = await raw(lambda body: None if body.get("method") == "tools/call" else ordinary(body))
    chat = chat_at(url, effects={"*": "read"})

    found = await chat.call_tool("add", {})
    server.close()

    assert "the MCP server 'mcp' did not answer" in found.error
    assert [body["method"] for _, body in got].count("tools/call") == 2


@pytest.mark.parametrize("tool", ["add", "count"])
async def test_a_server_that_was_started_anew_and_knows_no_session_is_connected_again(chat_at, tool):
    """It has done nothing: what writes may be sent again, too."""
    sessions, executed = [], []

    def answer(head, body):
        match body.get("method"):
            case "initialize":
                sessions.append(f"s{len(got)}")
                info = {"capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
                made = reply(body, {"protocolVersion": "2025-11-25", **info})
                return made.replace(b"\r\n", f"\r\nmcp-session-id: {sessions[-1]}\r\n".encode(), 1)
            case "server/discover":
                return reply(body, status="400 x", error={"code": -32600, "message": "no session"})
        if not sessions or f"mcp-session-id: {sessions[-1]}" not in head.lower():
            return plain("404 Not Found")(body)
        if "id" not in body:
            return plain("202 Accepted", text="")(body)
        if body["method"] == "tools/call":
            executed.append(body["params"]["name"])
        return ordinary(body)

    server, url, got = await raw(lambda body: answer(got[-1][0], body))
    chat = chat_at(url, protocol="handshake", effects={"add": "read"})
    assert (await chat.call_tool("add", {})).success
    sessions.append("gone")

    found = await chat.call_tool(tool, {})
    server.close()

    assert found.success, found.error
    assert executed == ["add", tool]


async def test_one_lost_answer_does_not_end_other_calls(chat_at):
    """In the SDK, an error of its HTTP client would."""
    go_on = asyncio.Event()
    server, url, _ = await raw(ordinary)
    chat = chat_at(url)
    await chat.call_tool("add", {})
    server.close()
    slow_bodies = []

    async def handle(reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = next(int(line[15:]) for line in head.split("\r\n") if line.startswith("content-length:"))
        body = json.loads(await reader.readexactly(length))
        if body.get("method") == "tools/call" and body["params"]["name"] == "add":
            slow_bodies.append(body)
            await go_on.wait()
            writer.write(ordinary(body))
        elif body.get("method") != "tools/call":
            writer.write(ordinary(body))
        writer.close()

    port = int(url.split(":")[2].split("/")[0])
    server = await asyncio.start_server(handle, "127.0.0.1", port)
    slow = asyncio.ensure_future(chat.call_tool("add", {}))
    await until(lambda: slow_bodies)
    lost = await chat.call_tool("count", {})
    go_on.set()
    found = await slow
    server.close()

    assert "unknown whether" in lost.hint
    assert found.result == "ok"
