"""The time that several requests have together."""

from __future__ import annotations

import time


class TimeLeft:
    """What is left of a time for several requests, in seconds."""

    def __init__(self, timeout_s: float | None) -> None:
        self._end = None if timeout_s is None else time.monotonic() + timeout_s

    def __call__(self, at_most: float | None = None) -> float | None:
        """Return it; None for no limit. Never 0, so that it is the request that is too late."""
        left = None if self._end is None else max(self._end - time.monotonic(), 0.001)
        return left if at_most is None else at_most if left is None else min(left, at_most)
