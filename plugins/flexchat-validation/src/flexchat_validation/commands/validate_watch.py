"""How far a validation run is, while it runs."""

from __future__ import annotations

import asyncio
import contextlib

from flexchat.host import counted
from flexchat_cli import Terminal

from ..attempts import Attempt
from ..running import Progress, ValidationRun


async def watch(run: ValidationRun, terminal: Terminal) -> None:
    """Make a run's attempts and show the progress on standard error."""
    plan = run.plan
    parts = [counted(len(plan.models), "model"), counted(len(plan.cases), "case"), counted(plan.runs, "run")]
    before = f", {run.progress.done} of them made before" if run.progress.done else ""
    terminal.say(f"{counted(run.run.planned, 'attempt')}: {' x '.join(parts)}{before}", "dim")
    ticking = asyncio.create_task(_tick(run, terminal))
    try:
        async with contextlib.aclosing(run.events()) as events:
            async for event in events:
                if isinstance(event, Attempt) and terminal.verbose:
                    name = f"{event.key.model_id}: {event.case}"
                    terminal.say(f"{event.outcome}: {name}{''.join(f'; {text}' for text in event.problems)}", "dim")
                terminal.status(progress_line(run.progress, terminal.width))
    finally:
        ticking.cancel()
        terminal.status("")


async def _tick(run: ValidationRun, terminal: Terminal) -> None:
    while True:
        await asyncio.sleep(0.5)
        terminal.status(progress_line(run.progress, terminal.width))


def progress_line(progress: Progress, width: int) -> str:
    """Return a run's progress on one line: counts, a bar if there is room, the time left."""
    counts = f"{progress.done} of {progress.planned}"
    parts = [f"{progress.passed} passed", f"{progress.failed} failed"]
    parts += [counted(progress.errors, "error")] if progress.errors else []
    if progress.waiting:
        return f"{counts}: {', '.join(parts)}; waiting: {progress.waiting}"
    parts += [f"about {duration(progress.eta_s)} left"] if progress.eta_s is not None else []
    rest = f"{counts}: {', '.join(parts)}"
    room = min(30, width - len(rest) - 5)
    if room < 5:
        return rest
    filled = room * min(progress.done, progress.planned) // max(progress.planned, 1)
    return f"[{'#' * filled}{'.' * (room - filled)}] {rest}"


def duration(seconds: float) -> str:
    """Return a time for people: "40 ms", "0.4 s", "12 s", "3 min 5 s", "2 h 10 min"."""
    if seconds < 0.095:
        return f"{max(1, round(seconds * 1000))} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
