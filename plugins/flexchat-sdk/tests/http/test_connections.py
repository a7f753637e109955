"""The default transport: connections are used again, survive storms, and find their proxy."""

import asyncio
import base64
import contextlib
import os
import random
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from flexchat.errors import ProviderError
from flexchat_sdk.http.client import HttpClient, Timeouts
from flexchat_sdk.http.connections import AiohttpTransport, proxy_arguments

Serve = Callable[[Any], Awaitable[str]]


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0


async def keep_answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float = 0) -> None:
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(2 if b"POST" in head else 0)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        await asyncio.sleep(delay_s)
        writer.write(b"4\r\nda")
        await asyncio.sleep(delay_s)
        writer.write(b"ta\r\n")
        await asyncio.sleep(delay_s)
        writer.write(b"0\r\n\r\n")


async def test_a_connection_is_used_again(serve: Serve) -> None:
    """One after the other, plain and streamed requests share a connection, also where the end comes late."""
    connections = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        await keep_answering(reader, writer, 0.002)

    client = HttpClient("test", await serve(handler), {})
    for _ in range(5):
        assert (await client.post("/x", b"{}")).body == b"data"
        async with client.stream("/x", b"{}") as answer:
            async for piece in answer:
                if piece.endswith(b"ta"):
                    await answer.finish()
                    break
    await client.aclose()

    assert len(connections) == 1


@pytest.mark.slow
async def test_a_storm_of_cancellations_does_no_harm(serve: Serve) -> None:
    """2,000 requests cancelled at random points; then 10 of 10 plain ones work and no descriptor is left."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await keep_answering(reader, writer, 0.001)

    client = HttpClient("test", await serve(handler), {}, timeouts=Timeouts(connect_s=5, total_s=20))
    await client.post("/x", b"{}")
    before = open_descriptors()
    chance = random.Random(7)

    async def one(number: int) -> None:
        if number % 2:
            await client.post("/x", b"{}")
        else:
            async with client.stream("/x", b"{}") as answer:
                async for _ in answer:
                    pass

    async def cancelled(number: int) -> None:
        task = asyncio.create_task(one(number))
        await asyncio.sleep(chance.random() * 0.008)
        task.cancel()
        if number % 3 == 0:
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    for start in range(0, 2000, 100):
        await asyncio.gather(*[cancelled(n) for n in range(start, start + 100)])

    answers = [(await client.post("/x", b"{}")).body for _ in range(10)]
    await client.aclose()
    await asyncio.sleep(0.05)

    assert answers == [b"data"] * 10
    if before:
        # The client's own connection is gone too; the server's side of others may still be closing.
        assert open_descriptors() <= before + 2


async def test_many_wait_at_once(serve: Serve) -> None:
    """Three hundred requests that wait for their answer do not wait for each other."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await keep_answering(reader, writer, 0.02)

    client = HttpClient("test", await serve(handler), {})

    async with asyncio.timeout(5):
        answers = await asyncio.gather(*[client.post("/x", b"{}") for _ in range(300)])
    await client.aclose()

    assert {answer.body for answer in answers} == {b"data"}


def test_a_client_serves_one_loop_after_the_other() -> None:
    """Connections belong to a loop; in another loop new ones are opened."""
    client = HttpClient("test", "http://127.0.0.1:9", {})

    for _ in range(2):
        with pytest.raises(ProviderError):
            asyncio.run(_ask(client))


async def _ask(client: HttpClient) -> None:
    try:
        await client.post("/x", b"{}")
    finally:
        await client.aclose()


async def test_a_large_body_and_a_foreign_stream_are_sent(serve: Serve) -> None:
    """Bodies of several MiB, and requests made by others, go through."""
    seen = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        seen.append(len(await reader.readexactly(length)))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    url = await serve(handler)
    client = HttpClient("test", url, {})
    await client.post("/x", b"x" * 3 * 2**20)
    await client.aclose()
    transport = AiohttpTransport()
    response = await transport.handle_async_request(httpx.Request("POST", url, content=b"abc"))
    await response.aclose()
    await transport.aclose()

    assert (seen, response.status_code) == ([3 * 2**20, 3], 200)


def test_proxies_of_the_environment_are_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTPS_PROXY is used with its credentials, NO_PROXY and loopback are reached directly."""
    for name in ("HTTP_PROXY", "http_proxy", "https_proxy", "all_proxy", "ALL_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://user:pass@proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "inside.example")

    found = proxy_arguments("https://api.example/v1")

    assert str(found["proxy"]) == "http://proxy.example:3128"
    assert found["proxy_headers"]["Proxy-Authorization"] == "Basic " + base64.b64encode(b"user:pass").decode()
    assert proxy_arguments("https://inside.example") == {}
    assert proxy_arguments("http://127.0.0.1:8000") == {}
    assert proxy_arguments("https://localhost") == {}


async def test_a_proxy_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A SOCKS proxy is refused in words."""
    monkeypatch.delenv("http_proxy", raising=False)
    monkeypatch.setenv("HTTP_PROXY", "socks5://proxy.example")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.delenv("no_proxy", raising=False)
    client = HttpClient("test", "http://api.example", {})

    with pytest.raises(ProviderError, match="socks5"):
        await client.post("/x", b"{}")
    await client.aclose()


async def test_a_kept_connection_that_the_server_has_closed_costs_nobody_an_error() -> None:
    """Servers close idle connections; the request that meets one is sent again, once and at once."""
    answers = 0

    async def one_answer_a_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal answers
        await reader.readuntil(b"\r\n\r\n")
        answers += 1
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        await writer.drain()
        with contextlib.suppress(asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")  # the next request finds a connection that closes without an answer
        writer.close()

    server = await asyncio.start_server(one_answer_a_connection, "127.0.0.1", 0)
    client = HttpClient("test", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", {})
    try:
        bodies = [(await client.post("/x", b"{}")).body for _ in range(4)]
    finally:
        await client.aclose()
        server.close()

    assert (bodies, answers) == ([b"ok"] * 4, 4)


async def test_a_kept_connection_of_an_answer_that_was_refused_costs_nobody_an_error_either(serve: Serve) -> None:
    """A web page is not read to its end; its connection is kept all the same, and the server may close it."""
    answers = [b"text/html", b"application/json", b"text/html", b"application/json"]

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        kind = answers.pop(0)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: " + kind + b"\r\n\r\nok")

    client = HttpClient("test", await serve(handler), {})
    for _ in range(2):
        with pytest.raises(ProviderError, match="web page"):
            await client.get("/x")
        assert (await client.get("/x")).body == b"ok"
    await client.aclose()


async def test_a_fresh_connection_that_breaks_is_not_tried_again(serve: Serve) -> None:
    """It cannot have been closed for its age: repeating is for those who count repetitions."""
    asked = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        await reader.readuntil(b"\r\n\r\n")
        asked += 1
        writer.transport.abort()

    client = HttpClient("test", await serve(handler), {})
    with pytest.raises(ProviderError, match="without an answer"):
        await client.post("/x", b"{}")
    await client.aclose()

    assert asked == 1
