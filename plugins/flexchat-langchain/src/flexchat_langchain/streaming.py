"""The chunks of a LangChain model as the events of our streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from flexchat.plugin import (
    AssistantMessage,
    ChatEvent,
    ReasoningDelta,
    ReasoningPart,
    TextDelta,
    TextPart,
    ToolCall,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from langchain_core.messages import AIMessage

from .answers import assistant_message, thought_beside
from .blocks import part_of


class ChunkDraft:
    """An answer that is being written. Its state: the sum of the chunks, and how much of each part was passed on.

    Attributes:
        answer: The sum; None before the first chunk.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._sent: dict[int, int] = {}
        self._thinks: bool | None = None  # whether thoughts came first; what came behind the text is no part
        self.answer: AIMessage | None = None

    def add(self, chunk: AIMessage) -> Iterator[ChatEvent]:
        """Take a chunk; yield what it brings."""
        self.answer = chunk if self.answer is None else self.answer + chunk  # type: ignore[assignment]
        yield from self._new_text()

    def message(self) -> AssistantMessage:
        """Return the whole message."""
        assert self.answer is not None
        return assistant_message(self.answer, self._origin, with_thoughts=self._thinks is not False)

    def end(self, message: AssistantMessage) -> Iterator[ChatEvent]:
        """Yield what is left of the texts, and the calls of the whole message.

        Pieces of calls are not shown: integrations cut them in many ways.
        """
        yield from self._new_text(is_last=True)
        for index, part in enumerate(message.parts):
            if isinstance(part, ToolCall):
                yield ToolCallStart(index, part.name)
                raw = part.raw_arguments
                yield ToolCallDelta(index, json.dumps(part.arguments, ensure_ascii=False) if raw is None else raw)
                yield ToolCallEnd(index, part)

    def _new_text(self, *, is_last: bool = False) -> Iterator[ChatEvent]:
        for index, part in enumerate(self._parts()):
            text = part.text if isinstance(part, TextPart | ReasoningPart) else ""
            if not is_last:
                text = text.removesuffix("\ufffd")  # half a character: the other half may be in the next chunk
            sent = self._sent.get(index, 0)
            if len(text) > sent:
                self._sent[index] = len(text)
                event: Any = TextDelta if isinstance(part, TextPart) else ReasoningDelta
                yield event(index, text[sent:])

    def _parts(self) -> list[Any]:
        """Return the parts so far, calls by their blocks, as the whole message will have them."""
        assert self.answer is not None
        content = self.answer.content
        if not isinstance(content, str):
            return [_seen(block, self._origin) for block in content]
        thought = thought_beside(self.answer)
        if self._thinks is None and (thought or content):
            self._thinks = bool(thought)
        thoughts = [ReasoningPart(text=thought)] if thought and self._thinks else []
        return [*thoughts, TextPart(text=content)]


def _seen(block: Any, origin: str) -> Any:
    return part_of(block, origin, [])
