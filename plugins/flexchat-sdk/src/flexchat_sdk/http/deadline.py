"""The deadlines of one request, on a single timer that is rescheduled as rarely as possible."""

from __future__ import annotations

import asyncio
import time
from typing import Any


class Deadline:
    """Cancel a request's task when an await takes too long: call ``wait`` before each await, ``rest`` after it.

    asyncio.timeout around every chunk of a stream would cost microseconds each. Here, moving a deadline is an
    assignment; the timer compares when it fires, and is rescheduled if the deadline has moved.
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
        """Limit the current task's next await to *seconds*, and to the total; return the due time of the loop."""
        due = self._loop.time() + seconds
        self._due = due = due if due < self._end else self._end
        self._task = task = asyncio.current_task()
        if task is not None:
            # Cancellations requested so far are the caller's; passed() compares with this count.
            self._cancelling = task.cancelling()
        timer = self._timer
        # Only an earlier deadline needs a new timer; a later one is noticed when the timer fires.
        if timer is None or timer.when() > due:
            if timer is not None:
                timer.cancel()
            self._timer = self._loop.call_at(due, self._check)
        return due

    def shorten(self, total_s: float) -> None:
        """Limit all later waits to total_s from now."""
        self._end = min(self._end, self._loop.time() + total_s)

    def rest(self) -> None:
        """Suspend the deadline: the await is over."""
        self._task = None

    def close(self) -> None:
        """Release the timer."""
        self._task = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def passed(self) -> bool:
        """Return whether a caught CancelledError came from this deadline alone.

        Call it at most once for each cancellation: it takes the deadline's request to cancel back from the task.
        """
        task = asyncio.current_task()
        return self._ended and task is not None and task.uncancel() <= self._cancelling

    @property
    def is_total(self) -> bool:
        """Whether the total, rather than the limit of one await, has passed."""
        return self._due >= self._end

    def _check(self) -> None:
        self._timer = None
        if self._task is None:
            return  # between two awaits: cancelling now would interrupt the caller's own work
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._check)
            return
        self._ended = True
        self._task.cancel()


class TimeLeft:
    """The seconds left of a time limit shared by several requests."""

    def __init__(self, timeout_s: float | None) -> None:
        self._end = None if timeout_s is None else time.monotonic() + timeout_s

    def __call__(self, at_most: float | None = None) -> float | None:
        """Return the seconds left; None for no limit. Never 0, so that the request itself times out."""
        seconds = None if self._end is None else max(self._end - time.monotonic(), 0.001)
        return seconds if at_most is None else at_most if seconds is None else min(seconds, at_most)
