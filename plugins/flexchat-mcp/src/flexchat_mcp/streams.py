"""Between a transport and the SDK: messages that either would break on are repaired or replaced.

The SDK checks a result as a whole, so one odd tool or part of an answer would cost all of them; and a text without a
UTF-8 form ends the transport, and with it the calls of every user.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self

from flexchat.host import scrub_json
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCRequest, JSONRPCResponse

from .errors import TOO_LARGE
from .repair import repair_call, repair_list

MAX_WAITING = 10_000
"""Requests whose answers are repaired when they come; of more, the oldest answers are passed on unchanged."""

MAX_PARTS = 100_000
"""Values in a message, except those passed on unchanged. The SDK checks each: 1 MB of wrong ones takes 2 s and 1 GB."""

_encode = json.JSONEncoder(ensure_ascii=False).encode
_PASSED_ON = {"structuredContent", "inputSchema", "outputSchema", "_meta"}

_REPAIRS: Mapping[str, Callable[[dict[str, Any], str], dict[str, Any]]] = {
    "tools/list": repair_list,
    "tools/call": repair_call,
    "tasks/result": repair_call,
}


@contextlib.asynccontextmanager
async def repair_streams(
    transport: AbstractAsyncContextManager[TransportStreams], version: Callable[[], str]
) -> AsyncIterator[TransportStreams]:
    """Give a transport's streams: what is sent has a UTF-8 form, what arrives is repaired.

    An error replaces an answer of too many parts; other messages of too many parts are left out.

    Args:
        version: Returns the version of the protocol, once it is agreed on.
    """
    async with transport as (read_stream, write_stream):
        waiting: dict[int | str, str] = {}
        yield _Read(read_stream, waiting, version), _Write(write_stream, waiting, version)


class _Wrapper:
    """A stream of messages around a transport's."""

    def __init__(self, stream: Any, waiting: dict[int | str, str], version: Callable[[], str]) -> None:
        self._stream, self._waiting, self._version = stream, waiting, version

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        is_handled: bool | None = await self._stream.__aexit__(kind, error, trace)
        return is_handled


class _Read(_Wrapper):
    """A stream of messages, as the SDK reads it."""

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return await self._next(self._stream.receive)

    def __aiter__(self) -> _Read:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return await self._next(self._stream.__anext__)

    async def _next(self, receive: Callable[[], Awaitable[SessionMessage | Exception]]) -> SessionMessage | Exception:
        while True:
            item = await receive()
            usable = self._usable(item) if isinstance(item, SessionMessage) else item
            if usable is not None:
                return usable

    def _usable(self, item: SessionMessage) -> SessionMessage | None:
        """Return a message in a form the SDK can use; None for one it must not read."""
        message = item.message
        match message:
            case JSONRPCResponse():
                # An answer does not name its method, so the request's is looked up by the id.
                method = self._waiting.pop(message.id, "")
                if has_too_many_parts(message.result):
                    error = ErrorData(code=TOO_LARGE, message=f"its answer has more than {MAX_PARTS:,} parts")
                    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=message.id, error=error))
                if method:
                    message.result = _REPAIRS[method](message.result, self._version())
                return item
            case JSONRPCError():
                self._waiting.pop(message.id, None)  # type: ignore[arg-type]  # an error may have no id
                return item
        return None if has_too_many_parts(message.params or {}) else item


class _Write(_Wrapper):
    """A stream of messages, as the SDK writes it."""

    async def send(self, item: SessionMessage) -> None:
        message = item.message
        if isinstance(message, JSONRPCRequest) and message.method in _REPAIRS:
            self._waiting[message.id] = message.method
            # A cancelled request may never be answered, so its entry would stay for ever.
            if len(self._waiting) > MAX_WAITING:
                del self._waiting[next(iter(self._waiting))]
        for field in ("params", "result"):  # of requests and notifications; of answers to the server's questions
            data = getattr(message, field, None)
            if data is not None:
                try:
                    _encode(data).encode()  # far cheaper than a walk through the data
                except (TypeError, ValueError):
                    setattr(message, field, scrub_json(data))
        await self._stream.send(item)


def has_too_many_parts(message: Any) -> bool:
    """Whether a message has more than MAX_PARTS."""
    budget, waiting = MAX_PARTS, [message]
    while waiting:
        part = waiting.pop()
        budget -= len(part)
        if budget < 0:
            return True
        if isinstance(part, dict):
            waiting += [each for name, each in part.items() if name not in _PASSED_ON and isinstance(each, dict | list)]
        else:
            waiting += [each for each in part if isinstance(each, dict | list)]
    return False
