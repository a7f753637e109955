"""Deltas of a stream in whole characters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flexchat.domain import AnswerEnd, ChatEvent, ReasoningDelta, TextDelta, ToolCallDelta
from flexchat.domain.text import scrub

_DELTAS = (TextDelta, ReasoningDelta, ToolCallDelta)


class CharacterJoiner:
    """Rejoins characters that a stream cut in half; one instance per answer.

    Half of a surrogate pair at the end of a delta is held back until the next delta of its part brings the other half.
    One that stays alone becomes U+FFFD.
    """

    def __init__(self) -> None:
        self._held: dict[int, TextDelta | ReasoningDelta | ToolCallDelta] = {}

    def joined(self, events: Iterable[ChatEvent]) -> Iterator[ChatEvent]:
        """Yield the next events, with every delta in whole characters."""
        for event in events:
            kind = type(event)
            if kind in _DELTAS:
                text = event.arguments if kind is ToolCallDelta else event.text  # type: ignore[union-attr]
                is_cut = not text.isascii() and scrub(text) is not text
                if is_cut or (self._held and event.index in self._held):  # type: ignore[union-attr]
                    yield from self._whole(event, text)  # type: ignore[arg-type]
                    continue
            elif self._held:
                yield from self._ended(event)
            yield event

    def _whole(self, event: TextDelta | ReasoningDelta | ToolCallDelta, text: str) -> Iterator[ChatEvent]:
        held = self._held.pop(event.index, None)
        if type(held) is type(event):
            text = (held.arguments if type(held) is ToolCallDelta else held.text) + text  # type: ignore[union-attr]
        elif held is not None:
            yield _with_text(held, "\ufffd")
        if "\ud800" <= text[-1:] <= "\udbff":
            self._held[event.index] = _with_text(event, text[-1])
            text = text[:-1]
        if text:
            yield _with_text(event, scrub(text))

    def _ended(self, event: ChatEvent) -> Iterator[ChatEvent]:
        """Yield halves that stay alone, because their part or the answer has ended."""
        ended = [*self._held] if type(event) is AnswerEnd else [getattr(event, "index", -1)]
        for index in ended:
            if index in self._held:
                yield _with_text(self._held.pop(index), "\ufffd")


def _with_text(
    event: TextDelta | ReasoningDelta | ToolCallDelta, text: str
) -> TextDelta | ReasoningDelta | ToolCallDelta:
    return type(event)(event.index, text)
