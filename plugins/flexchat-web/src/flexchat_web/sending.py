"""Sends answers: JSON, text, and server-sent events that end when the client leaves.

Long answers are made a piece at a time, so that short requests do not wait for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.responses import Response, StreamingResponse
from starlette.types import Scope, Send

from .operations import Bytes, Event, Json, Reply, Stream, Text, Written
from .problems import ApiError

if TYPE_CHECKING:
    from .serving import Serving

KEEP_ALIVE_SECONDS = 15.0
BEGUN_KEEP_ALIVE_SECONDS = 4.0
"""How long a stream is silent before a comment keeps it open. The first would fix the status at 200, so it comes later;
after that, clients that wait 5 seconds for each piece are served."""

SLOW_READER_SECONDS = 60.0
"""How long one piece of a stream may wait for the client to read; then the connection is closed."""

AT_ONCE = 20
"""Items of a long list that are made or encoded before other requests get their turn."""

MAX_CHARACTERS = 64 * 1024
"""Of a long text, encoded before other requests get their turn."""

T = TypeVar("T")


def encoded(data: Any) -> bytes:
    """Return data as JSON in UTF-8. NaN and Infinity, which JSON lacks, become null."""
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
    except ValueError:
        text = json.dumps(_finite(data), ensure_ascii=False, separators=(",", ":"), default=_plain)
    return text.encode("utf-8", "replace")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (frozenset, set)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} is not JSON data")


def _finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(item) for item in data]
    return data


def encode_reply(reply: Reply) -> Reply:
    """Encode a reply that holds JSON data; other replies are returned unchanged."""
    return Written(encoded(reply.data), reply.status, reply.headers) if isinstance(reply, Json) else reply


def event_bytes(event: Event) -> bytes:
    """Return an event as it goes over the wire. Source: the HTML standard, "Server-sent events"."""
    if event.comment:
        return f": {' '.join(event.comment.split())}\n\n".encode("utf-8", "replace")
    data = event.data if isinstance(event.data, str) else encoded(event.data).decode()
    lines = [f"id: {event.id}"] if event.id is not None else []
    lines += [f"event: {event.name}"] if event.name is not None else []
    lines += [f"data: {line}" for line in data.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    return ("\n".join(lines) + "\n\n").encode("utf-8", "replace")


class Streams:
    """The open streams, so that all of them can end when the server shuts down."""

    def __init__(self) -> None:
        self._open: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        """Count the open connections."""
        return len(self._open)

    @contextlib.contextmanager
    def open(self) -> Iterator[asyncio.Future[None]]:
        """Count one more; the future is done once the stream has to end."""
        stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open.add(stopped)
        try:
            yield stopped
        finally:
            self._open.discard(stopped)

    def stop(self) -> None:
        """Make all of them end."""
        for stopped in self._open:
            if not stopped.done():
                stopped.set_result(None)


def response_of(reply: Json | Written | Text) -> Response:
    """Convert a reply that is not a stream."""
    match reply:
        case Json():
            return Response(encoded(reply.data), reply.status, reply.headers, "application/json")
        case Written():
            return Response(reply.body, reply.status, reply.headers, "application/json")
    kind = None if reply.status == 204 else reply.media_type
    return Response(reply.text.encode("utf-8", "replace"), reply.status, reply.headers, kind)


def problem_response(problem: ApiError, *, openai: bool = False) -> Response:
    """Convert a problem, to OpenAI's format if the operation uses it."""
    data, kind = (
        (problem.to_openai(), "application/json") if openai else (problem.to_dict(), "application/problem+json")
    )
    return Response(encoded(data), problem.status, problem.headers, kind)


def stream_head(stream: Stream) -> Response:
    """Return the answer that a stream begins with, without its events."""
    headers = {"x-accel-buffering": "no", **stream.headers}
    return StreamingResponse((), headers=headers, media_type="text/event-stream")


async def send_stream(stream: Stream, send: Send, *, failed: Callable[[Exception], Event], streams: Streams) -> None:
    """Send a stream.

    Args:
        failed: Makes the last event of a stream that raised.
        streams: The open ones; this one joins them.

    Raises:
        ApiError: The stream raised it before its first event: nothing has been sent yet.
    """
    with streams.open() as stopped:
        await _Streaming(stream, send, failed).run(stopped)


class _Streaming:
    """One answer of events. Its state: whether it has begun, and when something was last sent."""

    def __init__(self, stream: Stream, send: Send, failed: Callable[[Exception], Event]) -> None:
        self._stream, self._send, self._failed = stream, send, failed
        self._begun = False
        self._sent = 0

    async def run(self, stopped: asyncio.Future[None]) -> None:
        # The generator runs in a single task throughout: what it holds may be bound to the task.
        pump = asyncio.create_task(self._pump())
        try:
            slice_s, silent_s = min(KEEP_ALIVE_SECONDS, BEGUN_KEEP_ALIVE_SECONDS), 0.0
            while not pump.done() and not stopped.done():
                before = self._sent
                await asyncio.wait({pump, stopped}, timeout=slice_s, return_when=asyncio.FIRST_COMPLETED)
                silent_s = silent_s + slice_s if self._sent == before else 0.0
                is_over = silent_s >= (slice_s if self._begun else KEEP_ALIVE_SECONDS)
                if not pump.done() and not stopped.done() and is_over:
                    await self._piece(b": keep-alive\n\n")
                    silent_s = 0.0
            if pump.done():
                pump.result()
        finally:
            await ended(pump)
        if pump.cancelled() or pump.exception() is not None:
            await self._stopped()
        await self._send({"type": "http.response.body", "body": b""})

    async def _stopped(self) -> None:
        problem = ApiError(503, "the server is being stopped; ask again once it is back", kind="server-stopped")
        if not self._begun:
            raise problem
        await self._piece(event_bytes(self._stream.stopped or self._failed(problem)))

    async def _pump(self) -> None:
        async with contextlib.aclosing(self._stream.events) as events:
            try:
                async for event in events:
                    await self._piece(event_bytes(event))
            except Exception as error:
                if not self._begun or isinstance(error, SlowReaderError):
                    raise
                # The status is sent: the client learns from the last event that its answer is not complete.
                await self._piece(event_bytes(self._failed(error)))

    async def _piece(self, piece: bytes) -> None:
        if not self._begun:
            self._begun = True
            headers = stream_head(self._stream).raw_headers
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        self._sent += 1
        await _send_piece(self._send, piece)


def is_current(scope: Scope, etag: str) -> bool:
    """Return whether a client has the version of an answer with this ETag."""
    sent = [value for name, value in scope["headers"] if name == b"if-none-match"]
    tags = b",".join(sent).decode("latin-1").split(",")
    return etag in [each.strip().removeprefix("W/") for each in tags]


async def send_bytes(reply: Bytes, scope: Scope, send: Send) -> None:
    """Send an answer of bytes, or only its headers: for HEAD, and to a client that has it already.

    Raises:
        SlowReaderError: The client does not read it.
    """
    etag = reply.headers.get("etag")
    is_known = etag is not None and is_current(scope, etag)
    head = Response(None, 304 if is_known else 200, reply.headers, None if is_known else reply.media_type)
    headers = [pair for pair in head.raw_headers if pair[0] != b"content-length"]
    async with contextlib.aclosing(reply.pieces):
        await send({"type": "http.response.start", "status": head.status_code, "headers": headers})
        if not is_known and scope["method"] != "HEAD":
            await _send_piece(send, reply.first)
            async for piece in reply.pieces:
                await _send_piece(send, piece)
        await send({"type": "http.response.body", "body": b""})


async def _send_piece(send: Send, piece: bytes) -> None:
    try:
        async with asyncio.timeout(SLOW_READER_SECONDS):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    except TimeoutError:
        raise SlowReaderError from None


class SlowReaderError(Exception):
    """The client does not read what is sent to it."""


async def ended(task: asyncio.Task[Any]) -> None:
    """Cancel a task if it still runs, and wait for it to end; ignore what it raises."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()


class LongAnswers(asyncio.Lock):
    """Held while a long answer is made: many at once would together take the event loop from all others."""

    def __init__(self, serving: Serving) -> None:
        super().__init__()


async def paced(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield items, with a turn for other requests after each AT_ONCE."""
    for number, item in enumerate(items, 1):
        yield item
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)


async def encoded_in_pieces(value: Any) -> bytes:
    """Encode data like ``encoded``, yielding to other requests within long texts and lists."""
    return b"".join([piece async for piece in _pieces(value)])


async def _pieces(value: Any) -> AsyncIterator[bytes]:
    if isinstance(value, Mapping):
        opening = b"{"
        for key, item in value.items():
            yield opening + encoded(key) + b":"
            opening = b","
            async for piece in _pieces(item):
                yield piece
        yield b"}" if value else b"{}"
        return
    step = MAX_CHARACTERS if isinstance(value, str) else AT_ONCE
    if not isinstance(value, str | list | tuple) or len(value) <= step:
        yield encoded(value)
        return
    opening, between, closing = (b'"', b"", b'"') if isinstance(value, str) else (b"[", b",", b"]")
    for start in range(0, len(value), step):
        yield opening + encoded(value[start : start + step])[1:-1]
        opening = between
        await asyncio.sleep(0)
    yield closing


async def turn_reply(serving: Serving, content: str, data: Mapping[str, Any], headers: Mapping[str, str]) -> Reply:
    """Make the answer that *data* of a turn is; encoded in pieces if the turn's text is long."""
    if len(content) <= MAX_CHARACTERS:
        return Json(data, headers=headers)
    async with serving.shared(LongAnswers):
        return Written(await encoded_in_pieces(data), headers=headers)
