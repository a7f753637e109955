"""A turn as a person sees it: the answer as it arrives, tool calls as they run."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import PurePath
from typing import Any

import attrs
from flexchat.domain import (
    AnswerEnd,
    Citation,
    StreamEvent,
    TextDelta,
    ToolCall,
    ToolCallRecord,
    ToolFinished,
    ToolStarted,
    Turn,
    TurnFinished,
)
from flexchat.domain.media import in_brief
from flexchat.domain.prices import Cost

from .terminal import Style, Terminal, one_line
from .waiting import Waiting

_LONGEST_STEP = 400
_LONGEST_SOURCE = 80
_MOST_SOURCES = 5
_INDENT = " " * 8  # the most a writer of steps may put before them


async def show_turn(
    events: AsyncGenerator[StreamEvent, None],
    terminal: Terminal,
    *,
    streamed: bool = True,
    part: Callable[[str], str] | None = None,
    in_full: bool = False,
) -> Turn:
    """Write a turn while it runs, its answer to standard output, the rest to standard error; return the turn.

    On a terminal, a line on standard error shows the step in progress.

    Args:
        part: Selects the part of the answer to write; the answer is then written once it is complete.
        in_full: Whether arguments and results of tools are shown in full.
    """
    transcript = Transcript(terminal, terminal.say, streamed=streamed and part is None, part=part, in_full=in_full)
    with Waiting(terminal) as waiting:
        async with contextlib.aclosing(events):
            async for event in events:
                waiting.show(event)
                transcript.show(event)
    assert transcript.turn is not None, "a turn ends with TurnFinished"
    if transcript.turn.citations:
        terminal.say(f"sources: {spoken_sources(transcript.turn.citations)}", "dim")
    if terminal.interactive() and (spent := format_spending(transcript.turn)):
        terminal.say(spent, "dim")
    for warning in transcript.turn.response.warnings:
        terminal.say(f"note: {warning}", "dim")
    return transcript.turn


class Transcript:
    """Writes the events of one turn.

    Args:
        steps: Writes a line about a tool call, in a style.
        streamed: Whether to write the text as it arrives, or only the complete answer at the end.
        part: Returns what is written of a complete answer; None: all of it.

    Attributes:
        turn: The turn, once it has ended.
    """

    def __init__(
        self,
        terminal: Terminal,
        steps: Callable[[str, Style], None],
        *,
        streamed: bool = True,
        part: Callable[[str], str] | None = None,
        in_full: bool = False,
    ) -> None:
        self.turn: Turn | None = None
        self._terminal = terminal
        self._steps = steps
        self._streamed = streamed
        self._part = part
        self._in_full = in_full
        self._written = False
        self._answer_ended = False
        self._running = 0
        self._side_by_side = False

    def show(self, event: StreamEvent) -> None:
        """Write whatever an event shows."""
        match event:
            case TextDelta() if self._streamed:
                if self._answer_ended:
                    self._terminal.end_line()
                    self._answer_ended = False
                self._terminal.write_markdown(event.text)
                self._written = True
            case AnswerEnd(result=result):
                self._answer_ended = not result.is_paused
            case ToolStarted():
                self._running += 1
                self._side_by_side = self._running > 1
                self._step("→", "->", spoken_call(event.call))
                if self._in_full:
                    self._lines(event.call.arguments if event.call.error is None else event.call.raw_arguments)
            case ToolFinished():
                who = f"{event.record.tool}: " if self._side_by_side else ""
                self._running -= 1
                self._side_by_side = self._side_by_side and self._running > 0
                self._step("←", "<-", who + spoken_result(event.record), time_of(event.record))
                if self._in_full:
                    found = event.record.result
                    self._lines(found.result if found.success else found.explained())
            case TurnFinished():
                self.turn = event.turn
                if not self._written and event.turn.content:
                    if self._part is None:
                        self._terminal.write_markdown(event.turn.content)
                    else:
                        self._terminal.write(self._part(event.turn.content))
                self._terminal.end_line()

    def _lines(self, value: Any) -> None:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
        for line in text.splitlines():
            self._steps(f"    {one_line(line, max(len(line), 1) * 6)}", "dim")

    def _step(self, arrow: str, plain: str, text: str, end: str = "") -> None:
        width = max(min(self._terminal.width, _LONGEST_STEP) - len(_INDENT), 40)
        sign = self._terminal.symbol(arrow, plain)
        self._steps(f"{sign} {one_line(text, width - len(end) - 3)}{end}", "dim")


def spoken_call(call: ToolCall) -> str:
    """Return a call as written in code: calculator(expression="1 + 1")."""
    if call.arguments is None:
        return f"{call.name}({call.raw_arguments})"
    return f"{call.name}({', '.join(f'{name}={_to_json(value)}' for name, value in call.arguments.items())})"


def spoken_result(record: ToolCallRecord) -> str:
    """Return the outcome of a call."""
    result = record.result
    if not result.success:
        return f"failed: {result.explained()}"
    if not (result.media or result.left_out):
        return _to_json(_core_of(result.result))
    value = [] if result.result in (None, "") else [_to_json(_core_of(result.result))]
    return " ".join([*value, *map(in_brief, result.media), *(f"[{each}]" for each in result.left_out)])


def spoken_sources(citations: Sequence[Citation]) -> str:
    """Return an answer's sources: those it names or, if none, all that the model was shown."""
    named = [citation for citation in citations if citation.named] or citations
    places = list(dict.fromkeys(map(_place, named)))
    more = len(places) - _MOST_SOURCES
    return ", ".join(places[:_MOST_SOURCES]) + (f" and {more} more" if more > 0 else "")


@attrs.frozen
class Spending:
    """The tokens and the cost of turns.

    Attributes:
        counted: Whether any service reported its tokens.
    """

    turns: int = 0
    read: int = 0
    written: int = 0
    counted: bool = False
    cost: Cost = attrs.field(factory=lambda: Cost.total(()))

    @classmethod
    def of(cls, turn: Turn) -> Spending:
        """Add up the usage of all phases of a turn."""
        rounds = [one for phase in turn.phases for one in phase.rounds] + [*turn.response.rounds]
        usage = [one.usage for one in rounds if one.usage is not None]
        read, written = sum(u.input_tokens or 0 for u in usage), sum(u.output_tokens or 0 for u in usage)
        return cls(1, read, written, bool(usage), turn.cost)

    def __add__(self, other: Spending) -> Spending:
        cost = other.cost if not self.turns else self.cost + other.cost
        return Spending(
            self.turns + other.turns,
            self.read + other.read,
            self.written + other.written,
            self.counted or other.counted,
            cost,
        )

    def tokens(self) -> str:
        """Format the tokens: "1,204 tokens in, 88 out"."""
        return f"{self.read:,} tokens in, {self.written:,} out" if self.counted else "tokens not counted"


def format_spending(turn: Turn) -> str:
    """Format the tokens and the cost of a turn: "1,204 tokens in, 88 out, $0.0042"; empty if none were counted."""
    spent = Spending.of(turn)
    return f"{spent.tokens()}, {spent.cost.explained()}" if spent.counted else ""


def time_of(record: ToolCallRecord) -> str:
    """Format the suffix of a result: its duration, and the adjustments."""
    return "  (" + "; ".join([f"{record.result.execution_time_ms} ms", *record.result.notes]) + ")"


def _core_of(value: Any) -> Any:
    """Return the only value of a result that just wraps one value."""
    return value["result"] if isinstance(value, dict) and value.keys() == {"result"} else value


def _place(citation: Citation) -> str:
    title, source = (one_line(text, _LONGEST_SOURCE) for text in (citation.title, citation.source or ""))
    if not source or not title:
        return source or title
    return source if title == PurePath(source).name else f"{title} ({source})"


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
