"""Between a transport and the SDK: messages that either would break on are repaired or replaced.

The SDK checks a result as a whole, so one odd tool or part of an answer would cost all of them: an odd tool costs that
tool, an odd key that key, an odd part of an answer that part's form. A text without a UTF-8 form would end the
transport, and with it the calls of every user.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self

import mcp_types as types
from flexchat.host import scrub_json
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCRequest, JSONRPCResponse, methods
from pydantic import ValidationError

from .errors import Code
from .settings import MODERN

MAX_WAITING = 10_000
"""Requests whose answers are repaired when they come; of more, the oldest answers are passed on unchanged."""

MAX_PARTS = 100_000
"""Values in a message, except those passed on unchanged. The SDK checks each: 1 MB of wrong ones takes 2 s and 1 GB."""

_encode = json.JSONEncoder(ensure_ascii=False).encode
_PASSED_ON = {"structuredContent", "inputSchema", "outputSchema", "_meta"}


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
                    error = ErrorData(code=Code.TOO_LARGE, message=f"its answer has more than {MAX_PARTS:,} parts")
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
            if (data := getattr(message, field, None)) is not None:
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


LISTED = "flexchat/listed"
"""Key in _meta of a repaired list: the tools as the server defines them, and the reasons for those left out."""

MAX_TRIED = 1_000  # parts of an answer that are tried one by one; of the rest, only texts keep their form
MAX_ERRORS = 100  # errors in one tool that are looked at; a tool with more keeps what it needs

_NEEDED = ("name", "inputSchema", "description")
_MODERN_RESULT = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}


def repair_list(result: dict[str, Any], version: str) -> dict[str, Any]:
    """Return a page of a server's tools of which the SDK accepts every one; LISTED holds the tools themselves.

    Args:
        version: Of the protocol.
    """
    items = result.get("tools")
    if not isinstance(items, list):
        return result
    tools: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    for index, item in enumerate(items):
        tool = _tool(item)
        if isinstance(tool, dict):
            tools.append(tool)
        else:
            left_out[_name_of(item, index)] = tool
    for_sdk = [_for_sdk(tool, version) for tool in tools]
    meta = result["_meta"] if isinstance(result.get("_meta"), Mapping) else {}
    repaired = {**result, "tools": for_sdk, "_meta": {**meta, LISTED: {"tools": tools, "left_out": left_out}}}
    if result.get("nextCursor") in ("", None):  # some servers write the end of the list so
        repaired.pop("nextCursor", None)
    return repaired


def repair_call(result: dict[str, Any], version: str) -> dict[str, Any]:
    """Return a call's result that the SDK accepts: a part of no known form becomes a text with its JSON."""
    if result.get("resultType", "complete") != "complete" or ("task" in result and "content" not in result):
        return result  # a task, or a question
    repaired = {key: value for key, value in result.items() if value is not None}
    structured = repaired.get("structuredContent")
    if structured is not None and not isinstance(structured, Mapping) and version < MODERN:
        del repaired["structuredContent"]  # earlier versions have objects only
    content = repaired.get("content", [])
    parts = [content] if isinstance(content, (str, Mapping)) else content
    if not isinstance(parts, list):
        return result  # it is no answer
    if "structuredContent" not in repaired and structured is not None and not parts:
        parts = [structured]
    if "content" in repaired or "structuredContent" in result:
        repaired["content"] = _parts(parts, version)
    is_error = repaired.get("isError", False)
    if not isinstance(is_error, bool):
        repaired["isError"] = str(is_error).lower() not in ("false", "0", "")
    if "_meta" in repaired and not isinstance(repaired["_meta"], Mapping):
        del repaired["_meta"]
    return repaired


def _parts(parts: list[Any], version: str) -> list[Any]:
    # Nearly every answer is plain texts, which each version accepts: the SDK checks them a second time.
    if all(_is_plain_text(part) for part in parts):
        return parts
    if all(isinstance(part, dict) for part in parts) and _are_accepted(parts, version):
        return parts
    there = [part for part in parts if part is not None]
    repaired: list[Any] = []
    is_made = False  # texts made in a row are one part, as the model reads them: the SDK takes long over many parts
    for index, part in enumerate(there):
        repaired_part = _part(part, version if index < MAX_TRIED else None)
        was_made, is_made = is_made, repaired_part is not part
        if was_made and is_made:
            repaired[-1].append(repaired_part["text"])
        else:
            repaired.append([repaired_part["text"]] if is_made else part)
    return [{"type": "text", "text": "\n".join(part)} if isinstance(part, list) else part for part in repaired]


def _is_plain_text(part: Any) -> bool:
    return isinstance(part, dict) and len(part) == 2 and part.get("type") == "text" and type(part.get("text")) is str


def _are_accepted(parts: list[Any], version: str) -> bool:
    """Whether the SDK accepts these parts; found out piece by piece, because it lists the faults of all it is given."""
    pieces = (parts[start : start + MAX_TRIED] for start in range(0, len(parts), MAX_TRIED))
    return all(_is_accepted("tools/call", version, {"content": piece}) for piece in pieces)


def _tool(item: Any) -> dict[str, Any] | str:
    """Return a tool without the keys whose values are of no use, or the reason it cannot be one."""
    if not isinstance(item, Mapping):
        return f"it is {_kind(item)}, and not an object"
    fields = {str(key): value for key, value in item.items() if value is not None}
    if not isinstance(fields.get("name"), str) or not fields["name"]:
        return "it has no name"
    if "inputSchema" not in fields:
        return "it has no inputSchema"
    if not isinstance(fields["inputSchema"], Mapping):
        return f"its inputSchema is {_kind(fields['inputSchema'])}, and not an object"
    for _ in range(3):  # unchanged; without the invalid parts; only the required parts
        try:
            tool = types.Tool.model_validate(fields, by_name=False)
            return tool.model_dump(mode="json", by_alias=True, exclude_none=True)
        except ValidationError as error:
            fields = _without(fields, _places(error))
    return "it is not what MCP says"


def _without(tool: Mapping[str, Any], places: Sequence[Sequence[int | str]]) -> dict[str, Any]:
    """Return a tool without what is wrong in it: a key, or a key of its annotations; with what it needs if all may be.

    Args:
        places: Where it is wrong; empty for too many places.
    """
    if not places:
        return {key: tool[key] for key in _NEEDED if isinstance(tool.get(key), (str, Mapping))}
    fields = dict(tool)
    for place in places:
        key = str(place[0])
        annotations = fields.get(key)
        if key == "annotations" and len(place) > 1 and isinstance(annotations, Mapping):
            fields[key] = {name: value for name, value in annotations.items() if name != place[1]}
        else:
            fields.pop(key, None)
    return fields


def _places(error: ValidationError) -> list[tuple[int | str, ...]]:
    if error.error_count() > MAX_ERRORS:
        return []
    return [each["loc"] for each in error.errors(include_url=False, include_input=False, include_context=False)]


def _for_sdk(tool: dict[str, Any], version: str) -> dict[str, Any]:
    """Return a tool in a form its version of the protocol allows; calls are checked by the schema the server lists."""
    if _is_accepted("tools/list", version, {"tools": [tool]}):
        return tool
    return {"name": tool["name"], "inputSchema": {"type": "object"}}


def _part(part: Any, version: str | None) -> dict[str, Any]:
    if version is not None and isinstance(part, dict) and _is_accepted("tools/call", version, {"content": [part]}):
        return part
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    return {"type": "text", "text": part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)}


def _is_accepted(method: str, version: str, result: Mapping[str, Any]) -> bool:
    """Whether the SDK accepts a result in a version of the protocol."""
    data = {**result, **(_MODERN_RESULT if version >= MODERN else {})}
    try:
        methods.validate_server_result(method, version, data)
        if method == "tools/call":  # the newest version also allows other answers, of any content
            types.CallToolResult.model_validate(data, by_name=False)
    except (ValueError, KeyError):  # pydantic's errors are values; a version the SDK does not check is a key
        return False
    return True


def _name_of(item: Any, index: int) -> str:
    name = item.get("name") if isinstance(item, Mapping) else None
    return name if isinstance(name, str) and name else f"tool {index + 1}"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    return {str: "a text", bool: "a boolean", list: "a list"}.get(type(value), "a number")


_REPAIRS: Mapping[str, Callable[[dict[str, Any], str], dict[str, Any]]] = {
    "tools/list": repair_list,
    "tools/call": repair_call,
    "tasks/result": repair_call,
}
