"""Our messages as the ``contents`` of a request.

A message is encoded once and its bytes stay with it (``message.memo``): a request in a long conversation is put
together from pieces.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, assert_never

from flexchat.plugin import ToolCall
from flexchat.provider import (
    AssistantMessage,
    MediaPart,
    Message,
    OpaquePart,
    ProviderData,
    ProviderRequestError,
    ReasoningPart,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
    finite,
    from_bytes,
    to_bytes,
    to_text,
    utf8,
)

SCOPE = "gemini"
"""Who may get back what this dialect received: see ProviderData."""

SIGNATURE = "thoughtSignature"
NO_SIGNATURE = "skip_thought_signature_validator"
"""What Google documents for a call that came without a signature: another provider's, or a written one."""

_ENVELOPES = (
    {"success", "result", "tool_name", "execution_time_ms"},
    {"success", "error", "tool_name", "execution_time_ms"},
    {"success", "error", "hint", "tool_name", "execution_time_ms"},
)
_EMPTY = b'{"text":""}'


class _Call(NamedTuple):
    """What a function response says of its call: the call's place in the answer, its name, the service's id."""

    place: int
    name: str
    wire_id: str | None


class _Content(NamedTuple):
    role: str
    holds_responses: bool
    parts: list[tuple[int, bytes]]


def leading_instructions(messages: Sequence[Message]) -> tuple[int, str]:
    """Return how many system messages stand at the front, and their texts joined."""
    texts = []
    for message in messages:
        if type(message) is not SystemMessage:
            break
        texts.append(message.content)
    return len(texts), "\n\n".join(text for text in texts if text)


class ContentsWriter:
    """Writes contents for one server.

    Args:
        origin: scheme://host[:port] of the server; what it once said goes back to it as it said it.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin

    def contents(self, messages: Sequence[Message], *, signatures: bool) -> bytes:
        """Return the JSON array.

        Neighbours of one role are one content, with one exception: function responses share theirs with nothing, and
        all responses to one answer stand in it, in the order of the calls. It begins with the user.

        Args:
            messages: Without the leading system messages.
            signatures: Puts NO_SIGNATURE where a model that insists on signatures would miss one.
        """
        contents: list[_Content] = []
        calls: dict[str, _Call] = {}
        key = f"{SCOPE} {self._origin} {signatures}"
        for message in messages:
            place, entry = 0, message.memo.get(key)
            match message:
                case ToolMessage():
                    call = calls.get(message.tool_call_id) or _Call(len(calls), message.name, None)
                    place = call.place
                    if entry is None or entry[1] != call[1:]:
                        entry = message.memo[key] = to_bytes(_function_response(message, call)), call[1:]
                case AssistantMessage():
                    if entry is None:
                        entry = message.memo[key] = self._assistant(message, signatures)
                    calls.update(entry[1])
                case UserMessage() | SystemMessage():
                    if entry is None:
                        entry = message.memo[key] = b",".join(map(to_bytes, _user_parts(message))), None
                case _:
                    assert_never(message)
            if entry[0]:
                _add(contents, message, place, entry[0])
        if not contents or contents[0].role != "user":
            contents.insert(0, _Content("user", False, [(0, _EMPTY)]))
        return b"[" + b",".join(map(_content, contents)) + b"]"

    def _assistant(self, message: AssistantMessage, signatures: bool) -> tuple[bytes, dict[str, _Call]]:
        parts: list[dict[str, Any]] = []
        calls: dict[str, _Call] = {}
        for part in message.parts:
            ours = self._is_ours(part.provider_data)
            if isinstance(part, ToolCall):
                written = _function_call(part, ours)
                if signatures and not calls:
                    written.setdefault(SIGNATURE, NO_SIGNATURE)
                calls[part.id] = _Call(len(calls), part.name, part.wire_id if ours else None)
            else:
                found = _said(part, ours)
                if found is None:
                    continue
                written = found
            parts.append(written)
        return b",".join(map(_part_bytes, parts)), calls

    def _is_ours(self, data: ProviderData | None) -> bool:
        return data is not None and data.scope == SCOPE and data.origin == self._origin


def _add(contents: list[_Content], message: Message, place: int, parts: bytes) -> None:
    role = "model" if type(message) is AssistantMessage else "user"
    holds_responses = type(message) is ToolMessage
    if contents and contents[-1][:2] == (role, holds_responses):
        contents[-1].parts.append((place, parts))
    else:
        contents.append(_Content(role, holds_responses, [(place, parts)]))


_HEADS = {"user": b'{"role":"user","parts":[', "model": b'{"role":"model","parts":['}


def _content(content: _Content) -> bytes:
    parts = content.parts
    if content.holds_responses and len(parts) > 1:
        parts = sorted(parts, key=itemgetter(0))
    return _HEADS[content.role] + b",".join([part for _, part in parts]) + b"]}"


def _part_bytes(part: dict[str, Any]) -> bytes:
    try:
        return to_bytes(part)
    except ValueError:
        return to_bytes(finite(part))


def _side(data: ProviderData | None, ours: bool, key: str = "part") -> dict[str, Any]:
    """Return what stood beside the payload of a part (key "part"), or in it beyond what we read ("payload")."""
    found = data.data.get(key) if ours and data is not None else None
    return dict(found) if isinstance(found, Mapping) else {}


def _said(part: TextPart | ReasoningPart | RefusalPart | MediaPart | OpaquePart, ours: bool) -> dict[str, Any] | None:
    """Return a part of the model's; None for one that does not go to this server."""
    side = _side(part.provider_data, ours)
    match part:
        case TextPart():
            return {"text": part.text, **side} if part.text or side else None
        case ReasoningPart():
            return {"text": part.text, **side} if ours else None
        case RefusalPart():
            return {"text": part.text} if part.text else None
        case MediaPart():
            return {**_media(part, _side(part.provider_data, ours, "payload")), **side}
        case OpaquePart():
            # A signature with nothing to sign is refused.
            return side if ours and set(side) - {SIGNATURE} else None
        case _:
            assert_never(part)


def _function_call(call: ToolCall, ours: bool) -> dict[str, Any]:
    said: dict[str, Any] = {"id": call.wire_id} if ours and call.wire_id else {}
    said |= {"name": call.name, "args": dict(call.arguments or {}), **_side(call.provider_data, ours, "payload")}
    return {"functionCall": said, **_side(call.provider_data, ours)}


def _function_response(message: ToolMessage, call: _Call) -> dict[str, Any]:
    said: dict[str, Any] = {"id": call.wire_id} if call.wire_id else {}
    return {"functionResponse": {**said, "name": call.name, "response": _response(message)}}


def _response(message: ToolMessage) -> dict[str, Any]:
    """Return what the model reads of a result: ``output`` or ``error``, the two keys the service knows.

    Our envelope becomes one of them, with its hint beside the error; any other object is the output itself; everything
    else is wrapped.
    """
    try:
        value = finite(from_bytes(utf8(message.content)))
    except (ValueError, RecursionError):
        value = message.content
    if isinstance(value, dict) and set(value) in _ENVELOPES and type(value["success"]) is bool:
        told = {key: value[key] for key in ("error", "hint") if key in value}
        response = {"output": value.get("result")} if value["success"] else told
    elif message.is_error and not (isinstance(value, dict) and "error" in value):
        response = {"error": value}
    else:
        response = value if isinstance(value, dict) else {"output": value}
    if _holds_reference(response):
        # The service takes $ref for a reference to a part of the response: as text it is only text.
        key = "error" if message.is_error else "output"
        response = {key: to_text(response[key] if set(response) == {key} else response)}
    return response


def _holds_reference(value: object) -> bool:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if "$ref" in item:
                return True
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
    return False


def _user_parts(message: UserMessage | SystemMessage) -> list[dict[str, Any]]:
    if type(message) is SystemMessage:  # after the beginning there is no place for one
        return [{"text": f"<system>\n{message.content}\n</system>"}] if message.content else []
    assert type(message) is UserMessage
    media = [_media(part, {}) for part in message.media]
    return [{"text": message.content}, *media] if message.content or not media else media


def _media(part: MediaPart, rest: Mapping[str, Any]) -> dict[str, Any]:
    if part.data is not None:
        data = base64.b64encode(part.data).decode("ascii")
        return {"inlineData": {"mimeType": part.mime_type, "data": data, **rest}}
    if part.url is None:
        raise ProviderRequestError(f"a {part.kind} needs data or a url", kind="unsupported_feature")
    return {"fileData": {"mimeType": part.mime_type, "fileUri": part.url, **rest}}
