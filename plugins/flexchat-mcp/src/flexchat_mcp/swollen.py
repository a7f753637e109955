"""Keeps messages of too many parts from the SDK, which checks each: 1 MB of wrong ones takes 2 s, and 1 GB."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

from mcp.client._transport import ReadStream, TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCResponse

from .errors import TOO_LARGE

MOST_PARTS = 100_000
"""Values in a message, those aside that are handed on as they are: the SDK takes half a second for so many."""

_HANDED_ON = {"structuredContent", "inputSchema", "outputSchema", "_meta"}


def is_swollen(message: Any) -> bool:
    """Whether a message has more than MOST_PARTS."""
    left, waiting = MOST_PARTS, [message]
    while waiting:
        part = waiting.pop()
        left -= len(part)
        if left < 0:
            return True
        if isinstance(part, dict):
            waiting += [each for name, each in part.items() if name not in _HANDED_ON and isinstance(each, dict | list)]
        else:
            waiting += [each for each in part if isinstance(each, dict | list)]
    return False


@contextlib.asynccontextmanager
async def without_swollen(transport: AbstractAsyncContextManager[TransportStreams]) -> AsyncIterator[TransportStreams]:
    """Give a transport's streams; in place of a swollen answer comes an error, other swollen messages are left out."""
    async with transport as (read_stream, write_stream):
        yield _Read(read_stream), write_stream


class _Read:
    """A stream of messages, as the SDK reads it."""

    def __init__(self, stream: ReadStream[SessionMessage | Exception]) -> None:
        self._stream = stream

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return await _next(self._stream.receive)

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> _Read:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return await _next(self._stream.__anext__)

    async def __aenter__(self) -> _Read:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, trace)


async def _next(receive: Callable[[], Awaitable[SessionMessage | Exception]]) -> SessionMessage | Exception:
    """Return the next item that the SDK may have."""
    while True:
        found = _small(await receive())
        if found is not None:
            return found


def _small(item: SessionMessage | Exception) -> SessionMessage | Exception | None:
    """Return an item as the SDK may have it; None if it may not."""
    if not isinstance(item, SessionMessage):
        return item
    message = item.message
    if isinstance(message, JSONRPCResponse):
        if not is_swollen(message.result):
            return item
        text = f"its answer has more than {MOST_PARTS:,} parts"
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=message.id, error=ErrorData(code=TOO_LARGE, message=text)))
    if isinstance(message, JSONRPCError):
        return item
    return None if is_swollen(message.params or {}) else item
