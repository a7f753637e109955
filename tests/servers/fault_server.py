"""A server on loopback that goes wrong on purpose, in as many ways as we know, in every dialect."""

import asyncio
import gzip
import json
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs

ANSWER = "answer"
PIECES = ("Hello", " ", "world")
MIB = 2**20
MUCH = "x" * 10 * MIB
SEPARATORS = ("Hel\u2028lo", "\u0085 \u2029", "world")
PATIENT = {"timeout_s": 6.0, "first_byte_timeout_s": 5.0, "idle_timeout_s": 5.0}
BOMB = gzip.compress(bytes(32 * MIB))


class Wire:
    """One request at the server, and ways to answer it well or badly.

    Attributes:
        frames: The right answer in this dialect and mode, in the pieces a server writes.
        ending: How many of the last frames end a stream.
        attempt: Which request this is, from 1.
    """

    def __init__(self, writer, reader, dialect, streamed: bool, pieces: Sequence[str], attempt: int) -> None:
        self.writer, self.reader, self.dialect, self.streamed, self.attempt = writer, reader, dialect, streamed, attempt
        self.ending = len(dialect.end(""))
        if streamed:
            self.frames = dialect.frames(pieces)
        else:
            self.frames = [_json(dialect.whole("".join(pieces)))]

    @property
    def body(self) -> bytes:
        return b"".join(self.frames)

    @property
    def half(self) -> bytes:
        """The answer up to the middle of a word, which is inside of a JSON text."""
        return self.body[: self.body.index(b"world") + 2]

    @property
    def kind(self) -> str:
        streams = "text/event-stream" if self.dialect.is_sse else "application/x-ndjson"
        return streams if self.streamed else "application/json"

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self, status: int = 200, *, kind: str | None = None, **headers: Any) -> None:
        lines = [f"HTTP/1.1 {status} X", f"content-type: {kind or self.kind}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join([*lines, "\r\n"]).encode())

    async def answer(self, body: bytes, status: int = 200, **headers: Any) -> None:
        await self.head(status, content_length=len(body), **headers)
        await self.send(body)

    async def chunks(self, pieces: Sequence[bytes], *, end: bool = True) -> None:
        await self.head(transfer_encoding="chunked")
        for piece in pieces:
            await self.chunk(piece)
        if end:
            await self.send(b"0\r\n\r\n")

    async def chunk(self, piece: bytes) -> None:
        await self.send(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        await asyncio.sleep(0)

    async def hold(self) -> None:
        """Keep the connection until the client leaves."""
        await self.reader.read()

    def reset(self) -> None:
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


@attrs.frozen(kw_only=True)
class Fault:
    """One way to go wrong.

    Attributes:
        what: What the server does, for people.
        serve: Does it.
        whole, streamed: What must come of it: "answer", or the error's class without Provider and Error; empty where
            the fault makes no sense.
        pieces: What the right answer says.
        waits: Whether it ends only by a deadline.
        needs_end: Whether it makes sense only where a dialect says that nothing follows.
        retries: How often the provider may ask again.
        requests: How many requests it must take.
    """

    name: str
    what: str
    serve: Callable[[Wire], Awaitable[None]]
    whole: str
    streamed: str
    pieces: Sequence[str] = PIECES
    waits: bool = False
    needs_end: bool = False
    retries: int = 0
    requests: int = 1


FAULTS: list[Fault] = []


def fault(
    whole: str = "", streamed: str | None = None, **rest: Any
) -> Callable[[Callable[[Wire], Awaitable[None]]], Callable[[Wire], Awaitable[None]]]:
    """Add the function to FAULTS; its docstring says what the server does."""

    def add(serve: Callable[[Wire], Awaitable[None]]) -> Callable[[Wire], Awaitable[None]]:
        what, name = (serve.__doc__ or "").strip().rstrip("."), serve.__name__.replace("_", " ")
        in_stream = whole if streamed is None else streamed
        FAULTS.append(Fault(name=name, what=what, serve=serve, whole=whole, streamed=in_stream, **rest))
        return serve

    return add


@asynccontextmanager
async def serving(fault: Fault, dialect: Any, streamed: bool) -> AsyncIterator[tuple[str, list[float]]]:
    """Run a server with this fault; gives its address, and when each request came."""
    requests: list[float] = []
    tasks = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        tasks.add(task)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
            await reader.readexactly(int(length[0]) if length else 0)
            requests.append(time.monotonic())
            await fault.serve(Wire(writer, reader, dialect, streamed, fault.pieces, len(requests)))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has left
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", requests
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


# The connection


@fault("Connection")
async def closed_without_an_answer(wire: Wire) -> None:
    """Closes the connection instead of answering."""


@fault("Connection")
async def reset_without_an_answer(wire: Wire) -> None:
    """Resets the connection instead of answering."""
    wire.reset()


@fault("Connection")
async def reset_in_the_middle(wire: Wire) -> None:
    """Resets the connection in the middle of the answer."""
    await wire.chunks([wire.half], end=False)
    wire.reset()


@fault("Connection")
async def half_closed(wire: Wire) -> None:
    """Stops sending in the middle and goes on listening."""
    await wire.chunks([wire.half], end=False)
    wire.writer.write_eof()
    await wire.hold()


@fault("Connection")
async def length_too_long(wire: Wire) -> None:
    """Announces more bytes than it sends."""
    await wire.head(content_length=len(wire.body) + 10)
    await wire.send(wire.half)


@fault("Protocol")
async def length_too_short(wire: Wire) -> None:
    """Announces fewer bytes than it sends."""
    await wire.head(content_length=len(wire.half))
    await wire.send(wire.body)


@fault("Protocol")
async def broken_chunks(wire: Wire) -> None:
    """Sends a chunk whose length is not a number."""
    await wire.chunks([wire.half], end=False)
    await wire.send(b"zz\r\n" + wire.body + b"\r\n0\r\n\r\n")


@fault("Protocol")
async def another_protocol(wire: Wire) -> None:
    """Answers in SSH."""
    await wire.send(b"SSH-2.0-OpenSSH_9.9\r\n")


@fault("Protocol")
async def endless_headers(wire: Wire) -> None:
    """Sends headers without end."""
    await wire.send(b"HTTP/1.1 200 OK\r\n")
    for _ in range(10_000):
        await wire.send(b"x-more: 1\r\n" * 100)


@fault("Protocol")
async def endless_header(wire: Wire) -> None:
    """Sends one header of a megabyte."""
    await wire.send(b"HTTP/1.1 200 OK\r\nx-more: " + b"1" * MIB)
    await wire.hold()


@fault(ANSWER)
async def early_hints(wire: Wire) -> None:
    """Sends 100 and 103 before the answer."""
    await wire.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n")
    await wire.answer(wire.body)


# Time


@fault("Timeout", waits=True)
async def silence(wire: Wire) -> None:
    """Accepts the request and sends nothing."""
    await wire.hold()


@fault("Timeout", waits=True)
async def half_a_header(wire: Wire) -> None:
    """Stops in the middle of its headers."""
    await wire.send(b"HTTP/1.1 200 OK\r\ncontent-ty")
    await wire.hold()


@fault("Timeout", waits=True)
async def silence_behind_the_headers(wire: Wire) -> None:
    """Sends headers and nothing else."""
    await wire.head(transfer_encoding="chunked")
    await wire.hold()


@fault("Timeout", waits=True)
async def silence_in_the_middle(wire: Wire) -> None:
    """Stops in the middle of the answer and holds the connection."""
    await wire.chunks([wire.half], end=False)
    await wire.hold()


@fault("Timeout", waits=True)
async def slow_drip(wire: Wire) -> None:
    """Sends a byte now and then, for ever."""
    await wire.head(transfer_encoding="chunked")
    while True:
        await wire.chunk(b" " if not wire.streamed or not wire.dialect.is_sse else b":")
        await asyncio.sleep(0.05)


@fault(ANSWER)
async def byte_by_byte(wire: Wire) -> None:
    """Sends every byte by itself."""
    await wire.chunks([bytes([byte]) for byte in wire.body])


# Size


@fault("Protocol")
async def gzip_bomb(wire: Wire) -> None:
    """Sends 32 KB that unpack to 32 MB."""
    await wire.answer(BOMB, content_encoding="gzip")


@fault(ANSWER, "Protocol", pieces=(MUCH,))
async def event_of_10_mib(wire: Wire) -> None:
    """Sends 10 MiB of text in one event."""
    await wire.answer(wire.body)


@fault("Protocol")
async def no_line_end(wire: Wire) -> None:
    """Sends 10 MiB without a line end."""
    await wire.answer(MUCH.encode())


@fault("Protocol", "", pieces=(MUCH, MUCH))
async def answer_of_20_mib(wire: Wire) -> None:
    """Sends 20 MiB of text."""
    await wire.answer(wire.body)


# The body


@fault("Protocol")
async def cut_json(wire: Wire) -> None:
    """Ends the answer in the middle of a JSON text, as if that were all."""
    await wire.answer(wire.half)


@fault("", "Protocol")
async def no_end_marker(wire: Wire) -> None:
    """Ends the stream after a piece of text, without the event that ends an answer."""
    await wire.chunks(wire.frames[: -wire.ending - 1])


@fault("", "Protocol")
async def cut_tool_call(wire: Wire) -> None:
    """Ends the stream in a tool call."""
    begin = wire.frames[: len(wire.dialect.begin)]
    await wire.chunks([*begin, *map(wire.dialect.frame, wire.dialect.call)])


@fault("Protocol")
async def empty_body(wire: Wire) -> None:
    """Answers 200 with nothing."""
    await wire.answer(b"")


@fault("Protocol")
async def no_content(wire: Wire) -> None:
    """Answers 204."""
    await wire.head(204)


@fault("Protocol")
async def web_page(wire: Wire) -> None:
    """Answers 200 with a web page."""
    await wire.answer(b"<!doctype html><html><body>Sign in</body></html>", kind="text/html; charset=utf-8")


@fault("Protocol")
async def web_page_in_disguise(wire: Wire) -> None:
    """Sends a web page and calls it what was asked for."""
    await wire.answer(b"<!doctype html>\n\n<html><body>Sign in</body></html>\n\n")


@fault("", ANSWER)
async def whole_for_a_stream(wire: Wire) -> None:
    """Answers a streamed request with one JSON object."""
    await wire.answer(_json(wire.dialect.whole("".join(PIECES))), kind="application/json")


@fault(ANSWER, "")
async def stream_for_a_whole(wire: Wire) -> None:
    """Answers an unstreamed request with a stream."""
    kind = "text/event-stream" if wire.dialect.is_sse else "application/x-ndjson"
    await wire.answer(b"".join(wire.dialect.frames(PIECES)), kind=kind)


@fault("Protocol")
async def bad_utf_8(wire: Wire) -> None:
    """Sends a byte inside a string that is not UTF-8."""
    await wire.answer(wire.body.replace(b"world", b"wor\xffld"))


@fault(ANSWER, pieces=SEPARATORS)
async def line_separators(wire: Wire) -> None:
    """Sends U+2028, U+2029 and U+0085 unescaped inside texts."""
    await wire.answer(wire.body)


@fault(ANSWER)
async def byte_order_mark(wire: Wire) -> None:
    """Begins with a byte order mark."""
    await wire.answer(b"\xef\xbb\xbf" + wire.body)


@fault("Protocol")
async def null_for_the_answer(wire: Wire) -> None:
    """Sends null where the answer should be."""
    dialect = wire.dialect
    await wire.answer(dialect.frame(dialect.hollow) if wire.streamed else _json(dialect.hollow_whole))


@fault("Protocol")
async def another_type(wire: Wire) -> None:
    """Sends a JSON text where an object should be."""
    await wire.answer(wire.dialect.frame("Hello world") if wire.streamed else b'"Hello world"')


@fault("Protocol")
async def deep_nesting(wire: Wire) -> None:
    """Sends a hundred thousand opening brackets."""
    nested = b"[" * 100_000
    await wire.answer(b"data: " + nested + b"\n\n" if wire.streamed and wire.dialect.is_sse else nested + b"\n")


@fault("Overloaded")
async def error_with_status_200(wire: Wire) -> None:
    """Reports an error with status 200, in a stream after some text."""
    if wire.streamed:
        await wire.chunks([*wire.frames[: -wire.ending - 1], wire.dialect.frame(wire.dialect.failed)])
    else:
        await wire.answer(_json(wire.dialect.failed_whole))


@fault("", ANSWER, needs_end=True)
async def text_behind_the_end(wire: Wire) -> None:
    """Goes on after the event that ends the answer."""
    await wire.chunks([*wire.frames, wire.dialect.frame(wire.dialect.say("!"))])


@fault("", ANSWER)
async def end_twice(wire: Wire) -> None:
    """Sends the events that end the answer twice."""
    await wire.chunks([*wire.frames, *wire.frames[-wire.ending :]])


@fault("", ANSWER)
async def comments(wire: Wire) -> None:
    """Sends comments, pings and empty lines between the events."""
    noise = b": ping\n\n:\n\nid: 7\nretry: 5\n\n\n\n" if wire.dialect.is_sse else b"\n\n"
    await wire.chunks([noise, *[frame + noise for frame in wire.frames]])


@fault("", ANSWER)
async def crlf_cut_in_two(wire: Wire) -> None:
    """Ends lines in CR LF and cuts its chunks between the two."""
    parts = wire.body.split(b"\n")
    await wire.chunks([parts[0] + b"\r", *[b"\n" + part + b"\r" for part in parts[1:-1]], b"\n" + parts[-1]])


# Encodings


@fault(ANSWER)
async def gzip_unasked(wire: Wire) -> None:
    """Packs the answer with gzip, which was not asked for."""
    await wire.answer(gzip.compress(wire.body), content_encoding="gzip")


@fault("Protocol")
async def gzip_cut(wire: Wire) -> None:
    """Ends the packed answer in the middle, as if that were all."""
    packed = gzip.compress(wire.half)
    await wire.answer(packed[:-12], content_encoding="gzip")


@fault("Protocol")
async def unknown_encoding(wire: Wire) -> None:
    """Packs the answer in a way that was not asked for and is not known."""
    await wire.answer(wire.body, content_encoding="br")


# Status


@fault("Protocol")
async def redirect(wire: Wire) -> None:
    """Redirects to another address."""
    await wire.answer(b"", 307, location="http://other.example/v1")


@fault("Auth")
async def refused_key_in_html(wire: Wire) -> None:
    """Refuses the key with a web page."""
    await wire.answer(b"<html>401</html>", 401, kind="text/html")


@fault("Overloaded")
async def broken_with_html(wire: Wire) -> None:
    """Answers 500 with a web page."""
    await wire.answer(b"<html>Internal Server Error</html>", 500, kind="text/html")


@fault("Overloaded")
async def broken_error(wire: Wire) -> None:
    """Answers 502 and breaks off in the middle of the error."""
    await wire.head(502, content_length=1000)
    await wire.send(b'{"error": {"mess')


@fault("RateLimit", retries=2)
async def retry_after_a_day(wire: Wire) -> None:
    """Answers 429 with Retry-After: 99999."""
    await wire.answer(b"{}", 429, retry_after=99999)


@fault("RateLimit", retries=2, requests=3)
async def always_429(wire: Wire) -> None:
    """Answers 429, again and again."""
    await wire.answer(b"{}", 429)


@fault(ANSWER, retries=2, requests=2)
async def retry_after_a_date(wire: Wire) -> None:
    """Answers 503 with a Retry-After date that has passed, then well."""
    if wire.attempt == 1:
        await wire.answer(b"{}", 503, retry_after="Wed, 21 Oct 2015 07:28:00 GMT")
    else:
        await wire.answer(wire.body)


@fault(ANSWER, retries=2, requests=3)
async def fine_at_last(wire: Wire) -> None:
    """Answers 503, resets the connection, then answers well."""
    if wire.attempt == 1:
        await wire.answer(b"busy", 503)
    elif wire.attempt == 2:
        wire.reset()
    else:
        await wire.answer(wire.body)
