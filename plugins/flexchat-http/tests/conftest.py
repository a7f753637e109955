"""A service on loopback that counts what it gets, and chats whose tools call it."""

import asyncio
import contextlib
import json
from collections.abc import Callable

import attrs
import pytest
from flexchat import FlexChat


@attrs.define
class Got:
    """A request as it arrived."""

    method: str
    target: str
    headers: dict
    body: bytes


@attrs.define
class Service:
    """What a service got, and how it answers: a function of (service, request, writer)."""

    answer: Callable
    got: list = attrs.field(factory=list)
    url: str = ""
    address: str = ""
    connections: int = 0

    async def serve(self, reader, writer):
        self.connections += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, target, _ = head[0].split(" ")
                headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                request = Got(method, target, headers, body)
                self.got.append(request)
                if await self.answer(self, request, writer) is False:
                    break
        writer.close()


def reply(body=b"{}", status=200, kind="application/json", **headers):
    """An answer that is always the same."""
    raw = body if isinstance(body, bytes) else body.encode()
    lines = [f"HTTP/1.1 {status} x", f"content-length: {len(raw)}", *([f"content-type: {kind}"] if kind else [])]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]

    async def answer(service, request, writer):
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + raw)

    return answer


@pytest.fixture
async def serve():
    """Start a service that answers in a given way."""
    servers, tasks = [], set()

    async def start(answer=None):
        service = Service(answer or reply())

        async def guarded(reader, writer):
            tasks.add(asyncio.current_task())
            with contextlib.suppress(asyncio.CancelledError):
                await service.serve(reader, writer)
            writer.close()

        server = await asyncio.start_server(guarded, "127.0.0.1", 0)
        servers.append(server)
        service.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        service.url = f"http://{service.address}"
        return service

    yield start
    for server in servers:
        server.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def entry(url, parameters=None, **rest):
    """An entry of tools.registry for an HTTP tool; keys that are not the implementation's are given as tool={…}."""
    tool = rest.pop("tool", {})
    properties = {name: {"type": kind} for name, kind in (parameters or {"q": "string"}).items()}
    return {
        "name": "call",
        "description": "Call the service.",
        "parameters": {"type": "object", "properties": properties},
        "implementation": {"type": "http", "url": url, **rest},
        **tool,
    }


@pytest.fixture
async def opened(tmp_path):
    """Open a chat with these tools, from a file; they may reach loopback."""
    chats = []

    def open_chat(*entries, allow=("127.0.0.1",), **network):
        config = {
            "llms": {"r": {"provider": "rehearsal"}},
            "responses": [{"llm": "r", "model": "any"}],
            "tools": {"registry": list(entries)},
            "network": {"allow": list(allow), **network},
        }
        path = tmp_path / f"chat{len(chats)}.json"
        path.write_text(json.dumps(config))
        chats.append(FlexChat.from_config(path))
        return chats[-1]

    yield open_chat
    for chat in chats:
        await chat.aclose()
