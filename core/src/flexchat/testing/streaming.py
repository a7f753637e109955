"""A finished answer as the events of a stream."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from ..plugin import (
    ChatEvent,
    ChatResult,
    ReasoningDelta,
    ReasoningPart,
    StreamEnd,
    TextDelta,
    TextPart,
    ToolCall,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)

_WORD = re.compile(r"\s*\S+\s*|\s+")


def events_of(result: ChatResult) -> Iterator[ChatEvent]:
    """Yield the answer word by word; joined, the pieces are the parts, and the last event is the result itself."""
    for index, part in enumerate(result.message.parts):
        match part:
            case TextPart(text=text):
                yield from (TextDelta(index, word) for word in _WORD.findall(text))
            case ReasoningPart(text=text):
                yield from (ReasoningDelta(index, word) for word in _WORD.findall(text))
            case ToolCall():
                yield ToolCallStart(index, part.name)
                yield from (ToolCallDelta(index, word) for word in _WORD.findall(_raw_arguments(part)))
                yield ToolCallEnd(index, part)
            case _:
                pass  # the other kinds have no event; they arrive with the result
    yield StreamEnd(result)


def _raw_arguments(call: ToolCall) -> str:
    if call.raw_arguments is not None:
        return call.raw_arguments
    return json.dumps(dict(call.arguments or {}), ensure_ascii=False, default=str)
