"""Deadlines of a request, with one timer moved as rarely as possible."""

from __future__ import annotations

import asyncio
from typing import Any


class Deadline:
    """Limits the waiting of one request: call ``wait`` before each await, ``rest`` after it.

    asyncio.timeout around every chunk of a stream would cost microseconds each. Here, moving a deadline is an
    assignment; the timer checks it when it fires, and sleeps again if the deadline has moved on.
    """

    def __init__(self, total_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + total_s
        self._due = self._end
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._ended = False

    def wait(self, seconds: float) -> float:
        """Let the current task wait at most this long, and never beyond the total; return when it is due."""
        due = self._loop.time() + seconds
        self._due = due = due if due < self._end else self._end
        self._task = task = asyncio.current_task()
        if task is not None:
            self._cancelling = task.cancelling()
        timer = self._timer
        if timer is None or timer.when() > due:
            if timer is not None:
                timer.cancel()
            self._timer = self._loop.call_at(due, self._look)
        return due

    def shorten(self, total_s: float) -> None:
        """Limit all later waits to total_s from now."""
        self._end = min(self._end, self._loop.time() + total_s)

    def rest(self) -> None:
        """Stop watching: the task got what it waited for."""
        self._task = None

    def close(self) -> None:
        """Release the timer."""
        self._task = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def passed(self) -> bool:
        """Return whether a caught CancelledError came from this deadline alone."""
        task = asyncio.current_task()
        return self._ended and task is not None and task.uncancel() <= self._cancelling

    @property
    def is_total(self) -> bool:
        """Whether the total ended it."""
        return self._due >= self._end

    def _look(self) -> None:
        self._timer = None
        if self._task is None:
            return
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._look)
            return
        self._ended = True
        self._task.cancel()
