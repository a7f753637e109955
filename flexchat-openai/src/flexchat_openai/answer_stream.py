"""What the readers of both APIs share beyond how any service's answer is read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from flexchat.http import answer_stream
from flexchat.plugin import ChatEvent


class AnswerStream(answer_stream.AnswerStream):
    """Reads one answer of either API: ``[DONE]`` ends it, and one in a list is unwrapped."""

    is_ended_by_done = True

    def _whole(self, answer: Any) -> Iterator[ChatEvent]:
        if isinstance(answer, list) and answer:  # Gemini's layer wraps its errors
            answer = answer[0]
        yield from self._answer(answer if isinstance(answer, dict) else {})

    @abstractmethod
    def _answer(self, answer: dict[str, Any]) -> Iterator[ChatEvent]:
        """Yield the events of a whole answer; an empty one for what is no JSON object."""
