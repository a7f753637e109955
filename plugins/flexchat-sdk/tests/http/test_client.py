"""Every trouble of a connection becomes the right error, with a sentence that says what to do."""

import asyncio
import gzip
import ssl
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
from flexchat.errors import (
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderRequestError,
    ProviderTimeoutError,
)
from flexchat_sdk.http import client as client_module
from flexchat_sdk.http.client import HttpAnswer, HttpClient, Timeouts

Answering = Callable[..., Awaitable[str]]
SHORT = Timeouts(connect_s=1, first_byte_s=0.05, idle_s=0.05, total_s=5)
FOUND = b"HTTP/1.1 302 Found\r\nlocation: http://other.example/y\r\n\r\n"
PAGE = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<html>"
OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


def mocked(handler: Callable[[httpx.Request], httpx.Response], **rest: object) -> HttpClient:
    transport = httpx.MockTransport(handler)
    return HttpClient("test", "https://api.example/v1", {"authorization": "Bearer k"}, transport=transport, **rest)


async def posted(url: str, timeouts: Timeouts = SHORT) -> HttpAnswer:
    client = HttpClient("test", url, {}, timeouts=timeouts)
    try:
        return await client.post("/x", b"{}")
    finally:
        await client.aclose()


async def read(client: HttpClient) -> list[bytes]:
    async with client.stream("/x", b"{}") as answer:
        return [piece async for piece in answer]


async def streamed(url: str, timeouts: Timeouts = SHORT) -> bytes:
    client = HttpClient("test", url, {}, timeouts=timeouts)
    try:
        return b"".join(await read(client))
    finally:
        await client.aclose()


async def test_a_request_is_sent_as_it_should_be() -> None:
    """Path under the base URL, our headers, no compression asked for, body unchanged; the answer in full."""

    def handler(request: httpx.Request) -> httpx.Response:
        assert request.method == "POST"
        assert str(request.url) == "https://api.example/v1/chat"
        assert request.headers["authorization"] == "Bearer k"
        assert request.headers["accept-encoding"] == "identity"
        assert request.headers["content-length"] == "2"
        assert request.content == b"{}"
        return httpx.Response(201, headers={"X-Request-Id": "r1"}, content=b"answer")

    answer = await mocked(handler).post("/chat", b"{}")

    assert (answer.status, answer.headers["x-request-id"], answer.body) == (201, "r1", b"answer")


async def test_the_real_transport_sends_and_receives(answering: Answering) -> None:
    """An ordinary exchange over a real connection, whole and streamed."""
    url = await answering(OK + b"content-length: 2\r\n\r\n", b"ok")

    assert (await posted(url)).body == b"ok"
    assert await streamed(url) == b"ok"


async def test_get_has_no_body() -> None:
    """GET sends none and returns the answer."""

    def handler(request: httpx.Request) -> httpx.Response:
        assert (request.method, request.content) == ("GET", b"")
        return httpx.Response(200, content=b"[]")

    assert (await mocked(handler).get("/models")).body == b"[]"


async def test_a_query_of_the_base_url_stays_behind_the_path() -> None:
    """Azure's api-version goes with every request."""
    seen = []
    transport = httpx.MockTransport(lambda request: seen.append(str(request.url)) or httpx.Response(200))
    client = HttpClient("test", "https://a.example/openai/?api-version=1", {}, transport=transport)

    await client.get("/models")

    assert seen == ["https://a.example/openai/models?api-version=1"]


@pytest.mark.parametrize(
    "url", ["", "api.example", "ftp://api.example", "http://", "http://[", "http://a:port", "https://a b/"]
)
def test_an_unusable_base_url_is_refused(url: str) -> None:
    """What is no http address is said to be none, when the client is made."""
    with pytest.raises(ProviderRequestError, match="base_url"):
        HttpClient("test", url, {})


def test_a_key_that_cannot_be_sent_is_refused_without_showing_it() -> None:
    """The error names the header, not its value."""
    with pytest.raises(ProviderRequestError) as caught:
        HttpClient("test", "http://a", {"authorization": "Bearer secret\n"})

    assert "line break" in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_nothing_listens() -> None:
    """A refused connection asks whether the server runs."""
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()

    with pytest.raises(ProviderConnectionError, match=f"nothing listens at 127.0.0.1:{port}.*base_url") as caught:
        await posted(f"http://127.0.0.1:{port}")

    assert caught.value.retryable
    assert caught.value.provider == "test"


async def test_a_name_that_does_not_resolve() -> None:
    """An unknown host is named."""
    with pytest.raises(ProviderConnectionError, match=r"no-such-host.invalid.*cannot be resolved"):
        await posted("http://no-such-host.invalid", Timeouts(connect_s=5, total_s=10))


async def test_a_certificate_nobody_trusts() -> None:
    """A failed check of a certificate is never repeated."""

    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("x") from ssl.SSLCertVerificationError(1, "self-signed certificate")

    with pytest.raises(ProviderConnectionError, match=r"certificate of api.example") as caught:
        await mocked(handler).post("/x", b"{}")

    assert not caught.value.retryable


async def test_https_to_a_server_that_speaks_http(serve: Callable[[Any], Awaitable[str]]) -> None:
    """A failed TLS handshake asks whether base_url says https by mistake."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with pytest.raises(ProviderConnectionError, match="does base_url say https") as caught:
        await posted((await serve(handler)).replace("http:", "https:"))

    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("pieces", "end", "kind", "text"),
    [
        ((), "close", ProviderConnectionError, "without an answer"),
        ((), "reset", ProviderConnectionError, "without an answer"),
        ((b"HTTP/1.1 200 O",), "close", ProviderError, "127.0.0.1"),
        ((OK + b"content-length: 9\r\n\r\n", b"cut"), "close", ProviderConnectionError, "in the middle"),
        ((OK + b"content-length: 9\r\n\r\n", b"cut"), "reset", ProviderConnectionError, "in the middle"),
        ((OK + b"transfer-encoding: chunked\r\n\r\n", b"3\r\ncut\r\n"), "close", ProviderConnectionError, "middle"),
        ((OK + b"transfer-encoding: chunked\r\n\r\n", b"zz\r\ncut"), "close", ProviderError, "127.0.0.1"),
        ((b"SSH-2.0-OpenSSH_9.9\r\n",), "close", ProviderProtocolError, "does not answer in HTTP"),
        ((FOUND,), "close", ProviderProtocolError, "redirects /x to other.example"),
        ((PAGE,), "close", ProviderProtocolError, "web page.*base_url"),
        ((PAGE.replace(b"text/html", b" Text/HTML;charset=x"),), "close", ProviderProtocolError, "web page"),
        ((OK + b"x: 1\r\n" * 200_000,), "hold", ProviderProtocolError, "HTTP"),
        ((OK + b"x: " + b"1" * 2**20,), "hold", ProviderProtocolError, "HTTP"),
        ((OK + b"content-length: 1\r\ncontent-length: 2\r\n\r\nab",), "close", ProviderProtocolError, "HTTP"),
        ((b"HTTP/1.1 101 Hm\r\nupgrade: x\r\n\r\nab",), "close", ProviderProtocolError, "another protocol"),
        ((OK + b"content-encoding: br\r\n\r\n", b"x"), "close", ProviderProtocolError, "'br'"),
        ((OK + b"content-encoding: gzip\r\n\r\n", b"no gzip"), "close", ProviderProtocolError, "damaged"),
        ((OK + b"content-length: 99999999\r\n\r\n",) + (b"x" * 2**20,) * 17, "close", ProviderProtocolError, "16 MiB"),
    ],
)  # fmt: skip
async def test_a_broken_answer(
    answering: Answering, pieces: tuple[bytes, ...], end: str, kind: type[ProviderError], text: str
) -> None:
    """Whatever a server sends, the error is ours and names the host."""
    url = await answering(*pieces, end=end)

    with pytest.raises(kind, match=text):
        await posted(url)


@pytest.mark.parametrize("whole", [True, False])
async def test_framing_that_breaks_later_is_noticed_at_once(
    serve: Callable[[Any], Awaitable[str]], whole: bool
) -> None:
    """A chunk without a length is an error when it comes, not when the time is over."""
    seen = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + b"transfer-encoding: chunked\r\n\r\n3\r\ncut\r\n")
        await (asyncio.sleep(0.05) if whole else seen.wait())
        writer.write(b"zz\r\nrest\r\n0\r\n\r\n")
        await reader.read()
        await reader.read()

    url = await serve(handler)
    if whole:
        with pytest.raises(ProviderProtocolError, match="HTTP"):
            await posted(url)
        return
    client = HttpClient("test", url, {}, timeouts=Timeouts(first_byte_s=5))
    async with client.stream("/x", b"{}") as answer:
        assert await anext(answer) == b"cut"
        seen.set()
        with pytest.raises(ProviderProtocolError, match="HTTP"):
            await anext(answer)
    await client.aclose()


async def test_gzip_that_was_not_asked_for_is_read(answering: Answering) -> None:
    """A server that compresses all the same is understood."""
    packed = gzip.compress(b"hello")
    url = await answering(OK + b"content-encoding: gzip\r\n\r\n", packed[:7], packed[7:])

    assert (await posted(url)).body == b"hello"


async def test_several_packed_pieces_are_one_answer(answering: Answering) -> None:
    """Some proxies pack each of their pieces by itself."""
    packed = gzip.compress(b"hel") + gzip.compress(b"") + gzip.compress(b"lo")
    url = await answering(OK + b"content-encoding: gzip\r\n\r\n", packed)

    assert (await posted(url)).body == b"hello"


async def test_packed_data_that_is_cut_off_is_noticed(answering: Answering) -> None:
    """Also where the connection ends as it should; nothing at all is an empty answer."""
    packed = gzip.compress(b"hello")[:-9]
    head = OK + b"content-encoding: gzip\r\ncontent-length: "

    with pytest.raises(ProviderProtocolError, match="cut off"):
        await posted(await answering(head + str(len(packed)).encode() + b"\r\n\r\n", packed))
    assert (await posted(await answering(head + b"0\r\n\r\n"))).body == b""


@pytest.mark.parametrize("status", [b"200 OK", b"500 Oh"])
async def test_a_bomb_of_many_members_is_stopped(answering: Answering, status: bytes) -> None:
    """However it is packed, no more than the limit is unpacked."""
    member = gzip.compress(bytes(2**20))
    url = await answering(b"HTTP/1.1 " + status + b"\r\ncontent-encoding: gzip\r\n\r\n", *[member] * 64)

    if status.startswith(b"2"):
        with pytest.raises(ProviderProtocolError, match="16 MiB"):
            await posted(url, Timeouts())
    else:
        assert len((await posted(url, Timeouts())).body) <= client_module.MAX_ERROR_BYTES + 1


async def test_a_compressed_bomb_is_stopped(answering: Answering) -> None:
    """Limits count what comes out, not what comes in."""
    url = await answering(OK + b"content-encoding: gzip\r\n\r\n", gzip.compress(bytes(40 * 2**20)))

    with pytest.raises(ProviderProtocolError, match="16 MiB"):
        await posted(url, Timeouts())


async def test_unpacking_takes_little_more_memory_than_the_answer_unpacked(answering: Answering) -> None:
    """A packed answer is unpacked in steps: at its peak it holds at most 4 MiB more than the same one unpacked."""
    body = bytes(15 * 2**20)
    packed = gzip.compress(body)

    async def peak(url: str) -> int:
        tracemalloc.start()
        try:
            assert len((await posted(url, Timeouts())).body) == len(body)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    plain = await peak(await answering(OK + b"\r\n", *[body[: 2**16]] * (len(body) // 2**16)))

    assert await peak(await answering(OK + b"content-encoding: gzip\r\n\r\n", packed)) < plain + 4 * 2**20


@pytest.mark.parametrize("size", [2**18, 2**18 + 1, 16 * 2**20])
async def test_every_step_of_unpacking_is_taken(answering: Answering, size: int) -> None:
    """Nothing is left behind where an answer ends with a step, or just after one."""
    url = await answering(OK + b"content-encoding: gzip\r\n\r\n", gzip.compress(bytes(size)))

    assert len((await posted(url, Timeouts())).body) == size


async def test_of_an_errors_body_only_the_start_is_read(answering: Answering) -> None:
    """A long error page is cut, and its status still told."""
    url = await answering(b"HTTP/1.1 500 Oh\r\n\r\n", b"x" * 2**20)

    answer = await posted(url)

    assert answer.status == 500
    assert 2**16 <= len(answer.body) < 2**20


@pytest.mark.parametrize("end", ["close", "reset", "hold"])
async def test_an_errors_status_counts_where_its_body_breaks_off(answering: Answering, end: str) -> None:
    """What could be read of the body is told with it."""
    url = await answering(b"HTTP/1.1 502 Oh\r\ncontent-length: 99\r\n\r\n", b"bad gate", end=end)

    answer = await posted(url, Timeouts(total_s=0.2))

    assert answer.status == 502
    assert answer.body in (b"bad gate", b"")  # a reset may take away what had come


@pytest.mark.usefixtures("virtual_time")
@pytest.mark.parametrize(
    ("pieces", "timeouts", "text", "retryable"),
    [
        ((), SHORT, "sent nothing for 0.05 s .first_byte_timeout_s", True),
        ((OK + b"\r\n",), SHORT, "sent nothing for 0.05 s .first_byte_timeout_s", True),
        ((OK + b"\r\n", b"piece"), SHORT, "in the middle.*0.05 s .idle_timeout_s", False),
        ((OK + b"\r\n", b"piece"), Timeouts(total_s=0.05), "within 0.05 s .timeout_s", False),
    ],
)
async def test_each_deadline_says_which_it_was(
    answering: Answering, pieces: tuple[bytes, ...], timeouts: Timeouts, text: str, retryable: bool
) -> None:
    """A silent server is left after its deadline, and the error names the setting."""
    url = await answering(*pieces, end="hold")

    started = time.monotonic()
    with pytest.raises(ProviderTimeoutError, match=text) as caught:
        await streamed(url, timeouts)

    assert caught.value.retryable is retryable
    assert time.monotonic() - started < 1
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@pytest.mark.usefixtures("virtual_time")
async def test_headers_do_not_buy_time(serve: Callable[[Any], Awaitable[str]]) -> None:
    """The first-byte deadline runs from the request to the answer's first byte, headers or not."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.25)
        writer.write(OK + b"\r\n")
        await reader.read()
        await reader.read()

    url = await serve(handler)
    started = time.monotonic()
    with pytest.raises(ProviderTimeoutError, match=r"first_byte_timeout_s"):
        await streamed(url, Timeouts(first_byte_s=0.3))

    assert 0.29 <= time.monotonic() - started < 0.55


async def test_an_answer_that_comes_whole_has_only_the_total(answering: Answering) -> None:
    """A model that thinks for long before it answers at once is not cut off by the first-byte deadline."""
    url = await answering(end="hold")

    with pytest.raises(ProviderTimeoutError, match=r"within 0.1 s .timeout_s"):
        await posted(url, Timeouts(first_byte_s=0.01, total_s=0.1))


@pytest.mark.usefixtures("virtual_time")
async def test_a_drip_is_ended_by_the_total() -> None:
    """Pieces that keep coming in time move the idle deadline, never the total."""

    async def drip() -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0.02)
            yield b"."

    client = mocked(lambda r: httpx.Response(200, content=drip()), timeouts=Timeouts(idle_s=0.06, total_s=0.15))

    started = time.monotonic()
    with pytest.raises(ProviderTimeoutError, match=r"within 0.15 s .timeout_s"):
        await read(client)

    assert time.monotonic() - started >= 0.14


async def test_the_callers_time_counts_if_it_is_shorter(answering: Answering) -> None:
    """timeout_s of one request lowers the total, never raises it."""
    client = HttpClient("test", await answering(end="hold"), {})

    with pytest.raises(ProviderTimeoutError, match=r"within 0.05 s"):
        await client.post("/x", b"{}", timeout_s=0.05)
    await client.aclose()


async def test_a_callers_cancellation_stays_one(answering: Answering) -> None:
    """CancelledError of the caller's own is not turned into a timeout."""
    client = HttpClient("test", await answering(end="hold"), {})

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await client.post("/x", b"{}")
    await client.aclose()


async def test_leaving_a_stream_closes_the_answer() -> None:
    """Whoever stops reading closes the response, so that the service stops writing."""

    class Watched(httpx.AsyncByteStream):
        closed = False

        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"a"
            yield b"b"

        async def aclose(self) -> None:
            self.closed = True

    body = Watched()
    client = mocked(lambda r: httpx.Response(200, stream=body))

    async with client.stream("/x", b"{}") as answer:
        assert await anext(answer) == b"a"

    assert body.closed


async def test_a_stream_has_its_own_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than the limit of bytes in one stream is an error."""
    monkeypatch.setattr(client_module, "MAX_STREAM_BYTES", 10 * 2**20)

    async def flood() -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b"x" * 2**20

    client = mocked(lambda r: httpx.Response(200, content=flood()))

    with pytest.raises(ProviderProtocolError, match="10 MiB"):
        await read(client)


async def test_a_stream_that_does_not_end_is_left_after_a_moment(answering: Answering) -> None:
    """finish reads on for a fifth of a second, and no trouble in what is left reaches anybody."""
    client = HttpClient("test", await answering(OK + b"\r\n", b"all", end="hold"), {})

    async with client.stream("/x", b"{}") as answer:
        assert await anext(answer) == b"all"
        await answer.finish()
    await client.aclose()


@pytest.mark.usefixtures("virtual_time")
async def test_what_drips_on_behind_the_end_is_left_after_a_moment_too() -> None:
    """finish takes a fifth of a second in all, however many pieces still come."""

    async def drip() -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0.02)
            yield b"."

    client = mocked(lambda r: httpx.Response(200, content=drip()))
    async with client.stream("/x", b"{}") as answer:
        await anext(answer)
        started = time.monotonic()
        await answer.finish()

    assert time.monotonic() - started < 1


async def test_no_error_holds_the_key() -> None:
    """What a transport or proxy says is shown without the key."""

    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("proxy said: bad key topsecretvalue")

    client = mocked(handler, secrets=["topsecretvalue"])

    with pytest.raises(ProviderConnectionError) as caught:
        await client.post("/x", b"{}")

    assert "topsecretvalue" not in str(caught.value)
