"""A time limit shared by several requests."""

from __future__ import annotations

import time


class TimeLeft:
    """The seconds left of a time limit shared by several requests."""

    def __init__(self, timeout_s: float | None) -> None:
        self._end = None if timeout_s is None else time.monotonic() + timeout_s

    def __call__(self, at_most: float | None = None) -> float | None:
        """Return the seconds left; None for no limit. Never 0, so that the request itself times out."""
        seconds = None if self._end is None else max(self._end - time.monotonic(), 0.001)
        return seconds if at_most is None else at_most if seconds is None else min(seconds, at_most)
