"""Sizes of messages in bytes, which bound their tokens: no tokenizer writes a token for less than one byte."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flexchat import MediaPart, Message, ToolMessage, UserMessage
from flexchat.plugin import ToolCall
from flexchat_sdk import AssistantMessage, OpaquePart, ReasoningPart

PER_MESSAGE = 16
"""Bytes for the role, the ids and the marks around a message."""
MAX_IMAGE = 6_000
"""Most tokens of an image in its full size: Anthropic 1,600, OpenAI (high detail) 5,900, Gemini 258 a tile."""
STEPS = 16
"""Steps of the tokens per byte: small changes must not move what is left out, and with it the cached prefix."""

_MEMO = "history bytes"


def size_of(message: Message) -> int:
    """Return a bound of a message's tokens, in bytes; it is remembered with the message."""
    size: int | None = message.memo.get(_MEMO)
    if size is None:
        size = message.memo[_MEMO] = PER_MESSAGE + _size(message)
    return size


def _size(message: Message) -> int:
    if isinstance(message, AssistantMessage):
        return sum(map(_part_size, message.parts))
    size = len(message.content.encode())
    if isinstance(message, ToolMessage):
        size += 2 * len(message.tool_call_id) + len(message.name)
    return size + sum(map(media_size, message.media)) if isinstance(message, UserMessage | ToolMessage) else size


def _part_size(part: Any) -> int:
    if isinstance(part, ToolCall):
        return PER_MESSAGE + 2 * len(part.id) + len(part.name) + len(part.arguments_text.encode())
    if isinstance(part, MediaPart):
        return media_size(part)
    size = 0 if isinstance(part, OpaquePart) else len(part.text.encode())
    # Opaque data goes back only to its service, which may count it.
    opaque = part.provider_data is not None and isinstance(part, OpaquePart | ReasoningPart)
    return size + len(json.dumps(part.provider_data.data, default=str)) if opaque else size


def media_size(part: MediaPart) -> int:
    """Return a bound of the tokens of a medium; of sounds, videos and documents an estimate from their size."""
    size = len(part.data or b"")
    if part.mime_type.startswith("text/"):  # sent as text
        return size
    if part.kind == "image":
        # One that is only named by its address may be of any size.
        return MAX_IMAGE if part.data is None else min(max(size, 300), MAX_IMAGE)
    return max(size // 16, 2_000)


def sizes_of_tools(tools: Sequence[Mapping[str, Any]]) -> int:
    """Return the bytes of tools in a service's format."""
    return sum(len(json.dumps(tool, default=str, ensure_ascii=False).encode()) for tool in tools)


def tokens_per_byte(rounds: Iterable[Any], llm: str, model: str) -> float | None:
    """Return the tokens per byte of a model's last answer that reports them, rounded up to a step; None if none does.

    Args:
        rounds: Answers, oldest first, with their usage and the record of their request.
    """
    for each in reversed([*rounds]):
        record, usage = each.history, each.usage
        if (each.llm, each.model) != (llm, model):  # another tokenizer
            continue
        if isinstance(record, Mapping) and usage is not None and usage.input_tokens:
            size = record.get("bytes")
            if isinstance(size, int) and size > 0:
                ratio: float = math.ceil(usage.input_tokens / size * STEPS) / STEPS
                return min(ratio, 1.0)
    return None
