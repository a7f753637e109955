"""Prints a turn: the answer as it arrives, tool calls as they run, and the step it is waiting for."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import attrs
from flexchat.domain import (
    DEFAULT_TENANT,
    AnswerEnd,
    Citation,
    ModelRequestStarted,
    PhaseStarted,
    QuestionAnswered,
    QuestionAsked,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallRecord,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    Turn,
    TurnFinished,
    TurnSuspended,
)
from flexchat.domain.media import in_brief
from flexchat.domain.prices import Cost

from .context import OK, PENDING
from .conversations_store import SHORT_ID
from .terminal import Style, Terminal, one_line

if TYPE_CHECKING:
    from .questions import Questions

SHOWN_AFTER_S = 0.3
COUNTED_AFTER_S = 3.0

_PHASES = {
    "topic detection": "Detecting the topic",
    "rag collection": "Searching documents",
    "intent detection": "Detecting the intent",
}


class Waiting:
    """Shows the status of one turn, with the seconds if it takes long; nothing if standard error is not a terminal.

    Use it as a context manager; ``show`` takes the turn's events.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._doing = self._how_far = ""
        self._since = 0.0
        self._phase = ""
        self._running: dict[str, str] = {}  # names of tools by their calls' ids
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Waiting:
        return self

    def __exit__(self, *_: object) -> None:
        self._say("")

    def show(self, event: StreamEvent) -> None:
        """Show an event."""
        match event:
            case PhaseStarted():
                self._phase = _PHASES.get(event.phase, "")
                self._say(self._phase)
            case ModelRequestStarted():
                self._say(self._phase or f"Waiting for {event.model or event.llm}")
            case ReasoningDelta():
                self._say("Thinking")
            case TextDelta():
                self._say("")
            case ToolStarted():
                self._running[event.call.id] = event.call.name
                self._say(f"Running {event.call.name}")
            case ToolProgress() if self._running:
                self._say(f"Running {event.tool}", format_progress(event))
            case QuestionAsked():
                self._say("")
            case QuestionAnswered() if self._running:
                self._say(f"Running {[*self._running.values()][-1]}")
            case ToolFinished():
                self._running.pop(event.record.call_id, None)
                self._say(f"Running {[*self._running.values()][-1]}" if self._running else "")

    def _say(self, doing: str, how_far: str = "") -> None:
        self._how_far = how_far
        if doing == self._doing:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._doing, self._since = doing, time.monotonic()
        if not doing:
            self._terminal.status("")
        elif self._terminal.shows_status():
            self._timer = asyncio.get_running_loop().call_later(SHOWN_AFTER_S, self._tick)

    def _tick(self) -> None:
        seconds = time.monotonic() - self._since
        dots = self._terminal.symbol("…", "...")
        self._terminal.status(
            self._doing
            + (f": {self._how_far}" if self._how_far else "")
            + dots
            + (f" {seconds:.0f} s" if seconds >= COUNTED_AFTER_S else "")
        )
        self._timer = asyncio.get_running_loop().call_later(1 - seconds % 1, self._tick)


def format_progress(event: ToolProgress) -> str:
    """Format the progress of a tool: "3 of 10, reading"; a total of 1 or 100 is shown as a percentage."""
    done, total = event.progress, event.total
    if total == 1:
        progress = f"{done:.0%}"
    elif total == 100:
        progress = f"{done:g} %"
    else:
        progress = f"{done:g}" if total is None else f"{done:g} of {total:g}"
    return f"{progress}, {event.message}" if event.message else progress


_MAX_STEP = 400
_MAX_SOURCE = 80
_MAX_SOURCES = 5
_INDENT = " " * 8  # the most a writer of steps may put before them


async def show_turn(
    events: AsyncGenerator[StreamEvent, None],
    terminal: Terminal,
    *,
    streamed: bool = True,
    part: Callable[[str], str] | None = None,
    in_full: bool = False,
    person: Questions | None = None,
) -> Turn:
    """Write a turn while it runs, its answer to standard output, the rest to standard error; return the turn.

    On a terminal, a line on standard error shows the step in progress.

    Args:
        part: Selects the part of the answer to write; the answer is then written once it is complete.
        in_full: Whether arguments and results of tools are shown in full.
        person: Answers its questions.
    """
    transcript = Transcript(terminal, terminal.say, streamed=streamed and part is None, part=part, in_full=in_full)
    with Waiting(terminal) as waiting:
        async with contextlib.aclosing(events):
            async for event in events:
                waiting.show(event)
                transcript.show(event)
                if person is not None:
                    person.see(event)
    assert transcript.turn is not None, "a turn ends with TurnFinished or TurnSuspended"
    if transcript.turn.citations:
        terminal.say(f"sources: {format_sources(transcript.turn.citations)}", "dim")
    spent = Spending.of(transcript.turn)
    if terminal.interactive() and spent.is_counted:
        terminal.say(f"{spent.tokens()}, {spent.cost.explained()}", "dim")
    for warning in transcript.turn.response.warnings:
        terminal.say(f"note: {warning}", "dim")
    return transcript.turn


def report_pending(turn: Turn, terminal: Terminal, person: Questions | None = None) -> int:
    """Report how a turn goes on that has not ended, or whose questions found no terminal; return the exit status."""
    id = turn.id[:SHORT_ID]
    if turn.status == "accepted":
        terminal.say(f"turn {id} is accepted, and begins after those before it: flexchat turns show {id}")
    for each in turn.pending:
        of = "" if each.tenant == DEFAULT_TENANT else f" --tenant {shlex.quote(each.tenant)}"
        answer = "" if each.question.digest else " --answer JSON"
        way = f"flexchat approvals approve {each.id[: SHORT_ID + 4]}{answer}{of} (or reject)"
        terminal.say(f"turn {id} is suspended; {each.question.tool} asks: {one_line(each.question.message, _MAX_STEP)}")
        terminal.say(f"  to reply: {way}; flexchat turns resume {id}{of} at a terminal")
    if person is not None and person.unasked and turn.status == "done":
        who = ", ".join(sorted(person.unasked))
        text = f"note: {who} asked, without a terminal: run this at one, or keep the question: questions.expires = "
        terminal.say(f'{text}"1d" in the config', "dim")
    return PENDING if turn.status in ("suspended", "accepted") else OK


@attrs.define(eq=False)
class Transcript:
    """Writes the events of one turn.

    Attributes:
        steps: Writes a line about a tool call, in a style.
        streamed: Whether to write the text as it arrives, or only the complete answer at the end.
        part: Selects the part of a complete answer to write; None: all of it.
        in_full: Whether arguments and results of tools are shown in full.
        turn: The turn, once it has ended.
    """

    terminal: Terminal
    steps: Callable[[str, Style], None]
    streamed: bool = True
    part: Callable[[str], str] | None = None
    in_full: bool = False
    turn: Turn | None = None
    _written: bool = attrs.field(default=False, init=False)
    _answer_ended: bool = attrs.field(default=False, init=False)
    _running: int = attrs.field(default=0, init=False)
    _side_by_side: bool = attrs.field(default=False, init=False)

    def show(self, event: StreamEvent) -> None:
        """Write an event."""
        match event:
            case TextDelta() if self.streamed:
                if self._answer_ended:
                    self.terminal.end_line()
                    self._answer_ended = False
                self.terminal.write_markdown(event.text)
                self._written = True
            case AnswerEnd():
                self._answer_ended = not event.result.is_paused
            case ToolStarted():
                self._running += 1
                self._side_by_side = self._running > 1
                call = event.call
                arguments = call.raw_arguments
                if call.arguments is not None:
                    arguments = ", ".join(f"{name}={_to_json(value)}" for name, value in call.arguments.items())
                self._step("→", "->", f"{call.name}({arguments})")
                if self.in_full:
                    self._lines(call.arguments if call.error is None else call.raw_arguments)
            case ToolFinished():
                who = f"{event.record.tool}: " if self._side_by_side else ""
                self._running -= 1
                self._side_by_side = self._side_by_side and self._running > 0
                result = event.record.result
                notes = "; ".join([f"{result.execution_time_ms} ms", *result.notes])
                self._step("←", "<-", who + format_result(event.record), f"  ({notes})")
                if self.in_full:
                    self._lines(result.result if result.success else result.explained())
            case TurnSuspended():
                self.turn = event.turn
                self.terminal.end_line()
            case TurnFinished():
                self.turn = event.turn
                if not self._written and event.turn.content:
                    if self.part is None:
                        self.terminal.write_markdown(event.turn.content)
                    else:
                        self.terminal.write(self.part(event.turn.content))
                self.terminal.end_line()

    def _lines(self, value: Any) -> None:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
        for line in text.split("\n"):
            self.steps(f"    {one_line(line, max(len(line), 1) * 6)}", "dim")

    def _step(self, arrow: str, plain: str, text: str, end: str = "") -> None:
        width = max(min(self.terminal.width, _MAX_STEP) - len(_INDENT), 40)
        sign = self.terminal.symbol(arrow, plain)
        # A long end takes up a second line; without half of the first one, the text would be cut off entirely.
        self.steps(f"{sign} {one_line(text, max(width - len(end) - 3, width // 2))}{end}", "dim")


def format_result(record: ToolCallRecord) -> str:
    """Return the outcome of a call."""
    result = record.result
    if not result.success:
        return f"failed: {result.explained()}"
    if not (result.media or result.left_out):
        return _to_json(_core_of(result.result))
    value = [] if result.result in (None, "") else [_to_json(_core_of(result.result))]
    return " ".join([*value, *map(in_brief, result.media), *(f"[{each}]" for each in result.left_out)])


def format_sources(citations: Sequence[Citation]) -> str:
    """Return an answer's sources: those it names or, if none, all that the model was shown."""
    cited = [citation for citation in citations if citation.named] or citations
    places = list(dict.fromkeys(map(_place, cited)))
    more = len(places) - _MAX_SOURCES
    return ", ".join(places[:_MAX_SOURCES]) + (f" and {more} more" if more > 0 else "")


@attrs.frozen
class Spending:
    """The tokens and the cost of turns.

    Attributes:
        is_counted: Whether any service reported its tokens.
    """

    turns: int = 0
    read: int = 0
    written: int = 0
    is_counted: bool = False
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
        read, written = self.read + other.read, self.written + other.written
        return Spending(self.turns + other.turns, read, written, self.is_counted or other.is_counted, cost)

    def tokens(self) -> str:
        """Format the tokens: "1,204 tokens in, 88 out"."""
        return f"{self.read:,} tokens in, {self.written:,} out" if self.is_counted else "tokens not counted"


def _core_of(value: Any) -> Any:
    """Return the only value of a result that just wraps one value."""
    return value["result"] if isinstance(value, dict) and value.keys() == {"result"} else value


def _place(citation: Citation) -> str:
    title, source = (one_line(text, _MAX_SOURCE) for text in (citation.title, citation.source or ""))
    if not source or not title:
        return source or title
    return source if title == PurePath(source).name else f"{title} ({source})"


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
