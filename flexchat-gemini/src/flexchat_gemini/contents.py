"""Our messages as the ``contents`` of a request."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeGuard, assert_never

from flexchat.plugin import ToolCall
from flexchat_sdk import (
    AssistantMessage,
    AssistantPart,
    Base64,
    History,
    Ids,
    Json,
    MediaLimits,
    MediaPart,
    Message,
    OpaquePart,
    ProviderRequestError,
    ReasoningPart,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
    WireMessage,
    finite,
    from_bytes,
    join,
    media_behind_results,
    sent_arguments,
    to_text,
    utf8,
    with_accepted_media,
)

from .dialects import PARAMETERS

SCOPE = "gemini"
"""Scope of what this dialect received and may get back: see ProviderData."""

SIGNATURE = "thoughtSignature"
NO_SIGNATURE = "skip_thought_signature_validator"
"""What Google documents for a call that came without a signature: another provider's, or a written one."""

_ENVELOPE = frozenset({"success", "tool_name", "execution_time_ms"})
_IN_ENVELOPE = frozenset({"result", "error", "hint", "media", "left_out"})
# What both a function response and a user's content may hold. Source: Google's page on function calling, "Multimodal
# function responses", and on image understanding.
_IN_RESULTS = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"})
# Sent under the names that Google's pages have for them.
_WIRE_TYPES = {
    "audio/mpeg": "audio/mp3",
    "video/quicktime": "video/mov",
    "video/x-msvideo": "video/avi",
    "video/x-ms-wmv": "video/wmv",
}
_MAX_TOTAL_BYTES = 100_000_000 * 3 // 4 - 1_000_000  # before Base64; the rest is for texts
# Source: ai.google.dev/gemini-api/docs/file-input-methods (100 MB inline, 50 MB for a PDF), image-understanding (types,
# 3,600 images), document-processing (1,000 pages), audio and video-understanding (types), November 2026.
LIMITS = MediaLimits(
    types={
        **dict.fromkeys(("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")),
        "application/pdf": 50_000_000,
        "text/plain": None,
        **dict.fromkeys(("audio/wav", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac")),
        **dict.fromkeys(("video/mp4", "video/mpeg", "video/quicktime", "video/webm", "video/3gpp")),
        **dict.fromkeys(("video/x-flv", "video/x-msvideo", "video/x-ms-wmv")),
    },
    max_count=3600,
    max_total_bytes=_MAX_TOTAL_BYTES,
    max_pages=1000,
    source="https://ai.google.dev/gemini-api/docs/file-input-methods",
)
NO_MEDIA = MediaLimits(types={}, source=LIMITS.source)
# Source: FunctionDeclaration.name in the API's reference.
_LEGAL_NAME = r"[A-Za-z0-9_.:-]{1,128}"
_EMPTY = b'{"text":" "}'  # the service refuses an empty text


class _Called(NamedTuple):
    """A function response's call: FlexChat's id, position in the answer, name, and the service's id."""

    id: str
    place: int
    name: str
    wire_id: str | None


class _Content(NamedTuple):
    role: str
    holds_responses: bool
    parts: list[tuple[float, Json]]


_HEADS = {"user": b'{"role":"user","parts":[', "model": b'{"role":"model","parts":['}


def fits_in_result(part: MediaPart) -> bool:
    """Return whether a part can be sent with a function's response."""
    return part.data is not None and part.mime_type in _IN_RESULTS


class ContentsWriter:
    """Writes contents for one server.

    Args:
        origin: scheme://host[:port] of the server; its own answers are sent back to it unchanged.
    """

    def __init__(self, origin: str) -> None:
        self._histories = {
            (signatures, media): History(
                SCOPE,
                origin,
                functools.partial(_encode, signatures=signatures, media=media),
                legal_name=_LEGAL_NAME,
                variant=f"{'signed' if signatures else ''} {'media' if media else ''}",
            )
            for signatures in (False, True)
            for media in (False, True)
        }

    def contents(self, messages: Sequence[Message], *, signatures: bool, media: bool = False) -> Json:
        """Return the JSON array.

        Neighbours of one role become one content, except function responses: all responses to one answer form a
        separate content, in the order of the calls. The first content is the user's.

        Args:
            messages: Messages without the leading system messages.
            signatures: Insert NO_SIGNATURE where a model that requires signatures would miss one.
            media: Put media into function responses; otherwise into the content after them.

        Raises:
            ProviderRequestError: A message cannot be represented.
        """
        if not media:
            messages = media_behind_results(messages, fits_in_result)
        entries = self._histories[signatures, media].entries(messages)
        contents: list[_Content] = []
        for message, (parts, names) in zip(messages, entries, strict=True):
            if not parts:
                continue
            kind = type(message)
            role = "model" if kind is AssistantMessage else "user"
            holds_responses = kind is ToolMessage
            place = 0 if not holds_responses else names.place if type(names) is _Called else math.inf
            if contents and contents[-1][:2] == (role, holds_responses):
                contents[-1].parts.append((place, parts))
            else:
                contents.append(_Content(role, holds_responses, [(place, parts)]))
        if not contents or contents[0].role != "user":
            contents.insert(0, _Content("user", False, [(0, _EMPTY)]))
        return b"[" + join(b",", map(_content, contents)) + b"]"


def _content(content: _Content) -> Json:
    parts = content.parts
    if content.holds_responses and len(parts) > 1:
        parts = sorted(parts, key=itemgetter(0))
    return _HEADS[content.role] + join(b",", [part for _, part in parts]) + b"]}"


def _encode(message: Message, ids: Ids, *, signatures: bool, media: bool) -> WireMessage:
    """Return a message's parts."""
    match message:
        case ToolMessage():
            return _function_response(message, ids.answered, media)
        case AssistantMessage():
            return _assistant(message, ids, signatures)
        case SystemMessage():  # after the beginning there is no place for one
            return {"text": f"<system>\n{message.content}\n</system>"} if message.content else None
        case UserMessage():
            own_media = [_media(part, {}) for part in message.media]
            return [{"text": message.content}, *own_media] if message.content else own_media
        case _:
            assert_never(message)


def _assistant(message: AssistantMessage, ids: Ids, signatures: bool) -> list[dict[str, Any]]:
    parts = []
    calls = 0
    for part in message.parts:
        if isinstance(part, ToolCall):
            call = _function_call(part, ids)
            if signatures and not calls:
                call.setdefault(SIGNATURE, NO_SIGNATURE)
            parts.append(call)
            ids.note(part, _Called(part.id, calls, part.name, _wire_id(part, ids)))
            calls += 1
        elif (wire := _encode_part(part, ids)) is not None:
            parts.append(wire)
    return parts


def _encode_part(
    part: TextPart | ReasoningPart | RefusalPart | MediaPart | OpaquePart, ids: Ids
) -> dict[str, Any] | None:
    """Encode a part of a model's message; None for one that is not sent to this server."""
    side = _side(part, ids)
    match part:
        case TextPart():
            return {"text": part.text, **side} if part.text or side else None
        case ReasoningPart():
            return {"text": part.text, **side} if ids.is_ours(part.provider_data) and (part.text or side) else None
        case RefusalPart():
            return {"text": part.text} if part.text else None
        case MediaPart():
            return {**_media(part, _side(part, ids, "payload")), **side}
        case OpaquePart():
            # A signature with nothing to sign is refused.
            return side if set(side) - {SIGNATURE} else None
        case _:
            assert_never(part)


def _side(part: AssistantPart, ids: Ids, key: str = "part") -> dict[str, Any]:
    """Return unread fields of a part: those beside its payload (key "part"), or inside it ("payload")."""
    value = ids.ours(part.provider_data).get(key)
    return dict(value) if isinstance(value, Mapping) else {}


def _function_call(call: ToolCall, ids: Ids) -> dict[str, Any]:
    wire_id = _wire_id(call, ids)
    wire: dict[str, Any] = {"id": wire_id} if wire_id else {}
    arguments = dict(sent_arguments(call.name, call.arguments or {}, PARAMETERS))
    wire |= {"name": call.name, "args": arguments, **_side(call, ids, "payload")}
    return {"functionCall": wire, **_side(call, ids)}


def _wire_id(call: ToolCall, ids: Ids) -> str | None:
    return call.wire_id if ids.is_ours(call.provider_data) else None


def _function_response(message: ToolMessage, call: object, media: bool) -> dict[str, Any]:
    """Return a result.

    Args:
        call: A _Called; anything else for a result of no call that is there.
        media: Whether its media stand in it.
    """
    name, wire_id = (call.name, call.wire_id) if isinstance(call, _Called) else (message.name, None)
    wire: dict[str, Any] = {"id": wire_id} if wire_id else {}
    if media and message.media:
        message = with_accepted_media(message, fits_in_result)
    parts = {"parts": [_media(part, {}) for part in message.media]} if media and message.media else {}
    return {"functionResponse": {**wire, "name": name, "response": _response(message), **parts}}


def _response(message: ToolMessage) -> dict[str, Any]:
    """Build the response object of a result with ``output`` or ``error``, the keys the service defines.

    FlexChat's envelope becomes one of them, with the hint beside the error. Any other object is used unchanged, and
    other values are wrapped.
    """
    try:
        value = finite(from_bytes(utf8(message.content)))
    except (ValueError, RecursionError):
        value = message.content
    response: dict[str, Any]
    if _is_envelope(value):
        fields: dict[str, Any] = {key: value[key] for key in ("error", "hint") if key in value}
        response = {"output": value.get("result")} if value["success"] else fields
        response |= {key: value[key] for key in ("media", "left_out") if key in value}
    elif message.is_error and not (isinstance(value, dict) and "error" in value):
        response = {"error": value}
    else:
        response = value if isinstance(value, dict) else {"output": value}
    if _holds_reference(response):
        # The service takes $ref for a reference to a part of the response: as text it is only text.
        key = "error" if message.is_error else "output"
        response = {key: to_text(response[key] if set(response) == {key} else response)}
    return response


def _is_envelope(value: object) -> TypeGuard[dict[str, Any]]:
    if not isinstance(value, dict) or not (value.keys() >= _ENVELOPE and value.keys() - _ENVELOPE <= _IN_ENVELOPE):
        return False
    return type(value["success"]) is bool and ("result" in value) is not ("error" in value)


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


def _media(part: MediaPart, rest: Mapping[str, Any]) -> dict[str, Any]:
    if part.data is not None:
        mime_type = _WIRE_TYPES.get(part.mime_type, part.mime_type)
        return {"inlineData": {"mimeType": mime_type, "data": Base64(part.data), **rest}}
    if part.url is None:
        raise ProviderRequestError(f"a {part.kind} needs data or a url", kind="unsupported_feature")
    return {"fileData": {"mimeType": part.mime_type, "fileUri": part.url, **rest}}
