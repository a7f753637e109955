"""Pieces of an answer and of a turn, as they arrive.

A provider yields TextDelta … ToolCallEnd and, last, one StreamEnd. A turn passes them on, adds ToolStarted and
ToolFinished while the tools run, goes on to the next answer (whose part indexes start again at 0), and ends with
one TurnEnd. Trouble is raised, never yielded.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from .chat import ChatResult
from .messages import ToolCall
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
