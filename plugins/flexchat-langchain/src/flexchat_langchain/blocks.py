"""Conversion between LangChain's content blocks and FlexChat's message parts."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import attrs
from flexchat.plugin import ToolCall
from flexchat_sdk import (
    AssistantPart,
    MediaPart,
    OpaquePart,
    ProviderData,
    ReasoningPart,
    RefusalPart,
    TextPart,
    WrongShape,
    text_in,
    utf8,
)

SCOPE = "langchain"
"""Prefix of the origin in ProviderData of LangChain models."""

CALL_BLOCKS = frozenset({"tool_use", "tool_call", "tool_call_chunk", "function_call", "invalid_tool_call"})
"""Types of the blocks that repeat, inside the content, a call that stands in tool_calls too."""

# Block type to the key of its text, for blocks of langchain-core and of the integrations.
TEXTS = {"text": "text", "output_text": "text", "text-plain": "text"}
_THOUGHTS = {"reasoning": "reasoning", "thinking": "thinking", "reasoning_content": "reasoning_content"}
_REDACTED = frozenset({"redacted_thinking"})
_Kind = Literal["image", "audio", "video", "document"]
_KINDS: Mapping[str, _Kind] = {"image": "image", "audio": "audio", "video": "video", "file": "document"}
_ANY_TYPE = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4", "document": "application/pdf"}
_CALL_END = frozenset({"input_json_delta"})  # from a ChatAnthropic stream that ended before its call began


def sendable(text: str) -> str:
    """Replace unpaired surrogates, which SDKs reject, with U+FFFD."""
    return text if text.isascii() else utf8(text).decode()


def plain(value: Any) -> Any:
    """Reduce *value* to JSON data, dropping entries of dicts and lists that are not, such as bytes and objects."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items() if isinstance(key, str) and _is_json(item)}
    return value


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def text_of(content: Any) -> str:
    """Flatten a message's content to text; blocks without text are shown as JSON."""
    if isinstance(content, str):
        return content
    return "".join(_read(block) for block in (content if isinstance(content, Iterable) else ()))


def _read(block: Any) -> str:
    if isinstance(block, str):
        return block
    text = block.get(TEXTS.get(block.get("type", "text"), "")) if isinstance(block, Mapping) else None
    return text if isinstance(text, str) else json.dumps(block, ensure_ascii=False, default=str)


def user_content(text: str, media: Iterable[MediaPart]) -> str | list[str | dict[Any, Any]]:
    """Build the content of a user message: a string, or blocks if there are media."""
    blocks: list[str | dict[Any, Any]] = [media_block(part) for part in media]
    if not blocks:
        return sendable(text)
    return [{"type": "text", "text": sendable(text)}, *blocks] if text else blocks


def result_content(text: str, media: Sequence[MediaPart]) -> str | list[str | dict[Any, Any]]:
    """Build the content of a tool message: a string, or blocks if there are media."""
    return [{"type": "text", "text": text}, *map(media_block, media)] if media else text


def content_parts(content: Any, separator: str) -> tuple[str, tuple[MediaPart, ...]]:
    """Split a message's content into text and media; unknown blocks are shown as JSON.

    Args:
        separator: Between the texts.
    """
    if isinstance(content, str):
        return content, ()
    others, media = apart(content)
    return separator.join(map(_read, others)), media


def apart(content: Iterable[Any], *, inline: bool = False) -> tuple[list[Any], tuple[MediaPart, ...]]:
    """Separate the media from the other blocks of a message.

    Args:
        inline: Separate only media with inline data.
    """
    read = [(block, _medium(block) if isinstance(block, Mapping) else None) for block in content]
    if inline:
        read = [(block, part if part is not None and part.data is not None else None) for block, part in read]
    return [block for block, part in read if part is None], tuple([part for _, part in read if part is not None])


def media_block(part: MediaPart) -> dict[Any, Any]:
    """Build LangChain's standard block for a medium."""
    kind = "file" if part.kind == "document" else part.kind
    block: dict[Any, Any] = {"type": kind, "mime_type": part.mime_type}
    if part.data is not None:
        block["base64"] = base64.b64encode(part.data).decode()
    else:
        block["url"] = part.url
    return {**block, "extras": {"filename": part.name}} if part.name else block


def _medium(block: Mapping[str, Any]) -> MediaPart | None:
    """Convert a block to a medium; None if it is not one, or its data is not valid Base64."""
    kind = _KINDS.get(str(block.get("type")))
    if block.get("type") == "image_url":
        place = block.get("image_url")
        return _addressed("image", place.get("url") if isinstance(place, Mapping) else place, None, None)
    if kind is None:
        return None
    mime_type, extras = block.get("mime_type"), block.get("extras")
    name = extras.get("filename") if isinstance(extras, Mapping) else None
    data = block.get("base64") or (block.get("data") if block.get("source_type") == "base64" else None)
    if not isinstance(data, str):
        return _addressed(kind, block.get("url"), mime_type, name)
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return MediaPart(kind=kind, mime_type=str(mime_type or _ANY_TYPE[kind]), data=decoded, name=name)


def _addressed(kind: _Kind, url: Any, mime_type: Any, name: str | None) -> MediaPart | None:
    if not isinstance(url, str) or not url:
        return None
    head, comma, data = url.partition(",")
    if not head.startswith("data:") or not comma:
        return MediaPart(kind=kind, mime_type=str(mime_type or _ANY_TYPE[kind]), url=url, name=name)
    mime_type = head.removeprefix("data:").removesuffix(";base64") or mime_type or _ANY_TYPE[kind]
    return _medium({"type": kind if kind != "document" else "file", "mime_type": mime_type, "base64": data})


def part_of(block: Any, origin: str, calls: list[ToolCall], path: str = "content[]") -> AssistantPart:
    """Convert a block of a model's answer to a part that contains the block, to send it back unchanged.

    Args:
        calls: Calls of the answer that no block has claimed yet; the block's own call is removed. A block for a call
            that is not among them keeps its position, but is not sent back, because it would have no result.
        path: Position of the block in the answer, for errors.

    Raises:
        WrongShape: The text has a wrong type.
    """
    if not isinstance(block, str | Mapping):
        raise WrongShape(path, "text or an object", block)
    data = ProviderData(scope=SCOPE, origin=origin, data={"block": plain(block)})
    if isinstance(block, str):
        return TextPart(text=block, provider_data=data)
    kind = block.get("type", "text" if "text" in block else None)
    if not isinstance(kind, str):
        raise WrongShape(f"{path}.type", "text", kind)
    if kind in CALL_BLOCKS or kind in _CALL_END:
        return _call(block, calls, data) or OpaquePart(kind=kind, provider_data=attrs.evolve(data, data={}))
    if kind in TEXTS:
        return TextPart(text=text_in(block, TEXTS[kind], path, needed=True), provider_data=data)
    if kind in _THOUGHTS:
        return ReasoningPart(text=_reasoning_text(block, kind), provider_data=data)
    if kind in _REDACTED:
        return ReasoningPart(redacted=True, provider_data=data)
    if kind == "refusal":
        return RefusalPart(text=text_in(block, "refusal", path, needed=True), provider_data=data)
    return OpaquePart(kind=kind, provider_data=data)


def _reasoning_text(block: Mapping[str, Any], kind: str) -> str:
    text = block.get(_THOUGHTS[kind])
    if isinstance(text, Mapping):  # ChatBedrock: {"reasoning_content": {"text": …, "signature": …}}
        text = text.get("text")
    if not isinstance(text, str) and isinstance(summary := block.get("summary"), list):  # OpenAI's Responses
        text = "\n".join(str(item.get("text", "")) for item in summary if isinstance(item, Mapping))
    return text if isinstance(text, str) else ""


def _call(block: Mapping[str, Any], calls: list[ToolCall], data: ProviderData) -> ToolCall | None:
    names = [id for id in (block.get("id"), block.get("call_id")) if id]
    for number, call in enumerate(calls):
        if call.wire_id in names if names else call.name == block.get("name"):
            return attrs.evolve(calls.pop(number), provider_data=data)
    return None
