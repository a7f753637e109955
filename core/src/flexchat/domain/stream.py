"""Pieces of an answer and of a turn, as they arrive.

A provider yields TextDelta … ToolCallEnd and, last, one StreamEnd. A turn passes them on, adds ToolStarted and
ToolFinished while the tools run, goes on to the next answer (whose part indexes start again at 0), and ends with
one TurnEnd. Trouble is raised, never yielded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from .chat import ChatResult
from .messages import ToolCall
from .text import scrub
from .tools import ToolCallRecord
from .turn import Turn


@attrs.frozen
class TextDelta:
    """More text for the part at index of the message being written."""

    index: int
    text: str


@attrs.frozen
class ReasoningDelta:
    """More thought for the part at index."""

    index: int
    text: str


@attrs.frozen
class ToolCallStart:
    """The model has named a tool; its arguments are still being written."""

    index: int
    name: str


@attrs.frozen
class ToolCallDelta:
    """More of the arguments: a fragment of JSON text."""

    index: int
    arguments: str


@attrs.frozen
class ToolCallEnd:
    """A call is complete. It does not run before StreamEnd."""

    index: int
    call: ToolCall


@attrs.frozen
class StreamEnd:
    """The model's answer is complete: exactly what an unstreamed exchange returns."""

    result: ChatResult


@attrs.frozen
class ToolStarted:
    """A tool begins to run; calls of one answer may run side by side."""

    call: ToolCall


@attrs.frozen
class ToolFinished:
    """A tool has answered, well or badly. Arrives in the order the tools finish."""

    record: ToolCallRecord


@attrs.frozen
class TurnEnd:
    """The last event: exactly what an unstreamed turn returns."""

    turn: Turn


ChatEvent = TextDelta | ReasoningDelta | ToolCallStart | ToolCallDelta | ToolCallEnd | StreamEnd
StreamEvent = ChatEvent | ToolStarted | ToolFinished | TurnEnd


def result_of(events: Iterable[ChatEvent]) -> ChatResult:
    """Return what an answer's events come to: the result in the last of them."""
    last: ChatEvent | None = None
    for last in events:  # noqa: B007  # only the last counts
        pass
    assert type(last) is StreamEnd, "an answer's last event is StreamEnd"
    return last.result


_DELTAS = (TextDelta, ReasoningDelta, ToolCallDelta)


class CharacterJoiner:
    """Joins what a stream cut in the middle of a character; one for each answer.

    Half of a surrogate pair at the end of a delta is kept until the next delta of its part brings the other half. One
    that stays alone becomes U+FFFD.
    """

    def __init__(self) -> None:
        self._held: dict[int, TextDelta | ReasoningDelta | ToolCallDelta] = {}

    def joined(self, events: Iterable[ChatEvent]) -> Iterator[ChatEvent]:
        """Yield the events that come next, every delta in whole characters."""
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
        """Yield the halves that stay alone: nothing follows behind the end of their part, or of the answer."""
        ended = [*self._held] if type(event) is StreamEnd else [getattr(event, "index", -1)]
        for index in ended:
            if index in self._held:
                yield _with_text(self._held.pop(index), "\ufffd")


def _with_text(
    event: TextDelta | ReasoningDelta | ToolCallDelta, text: str
) -> TextDelta | ReasoningDelta | ToolCallDelta:
    return type(event)(event.index, text)
