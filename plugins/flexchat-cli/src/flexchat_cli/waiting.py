"""A status line on the terminal that shows the step a turn is waiting for, until there is output."""

from __future__ import annotations

import asyncio
import time

from flexchat.domain import (
    ModelRequestStarted,
    PhaseStarted,
    QuestionAnswered,
    QuestionAsked,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)

from .terminal import Terminal

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
