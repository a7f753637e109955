"""How many repetitions an endpoint may be asked: few enough that they never become a load of their own."""

from __future__ import annotations

import time
from collections.abc import Callable

SHARE = 0.1
"""Repetitions a request earns."""
RESERVE = 10.0
"""Repetitions that are there at the start, and the most that can be saved up."""
REFILL_PER_S = RESERVE / 60
"""What time adds, so that a service that is asked rarely may be asked again at all."""


class RetryBudget:
    """A token bucket: of n requests in t seconds at most RESERVE + n × SHARE + t × REFILL_PER_S are repeated.

    Without it a service that fails gets, with two retries, three times its load at the worst moment.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tokens = RESERVE
        self._filled_at = clock()

    def request(self) -> None:
        """Count a request; its repetitions are none."""
        tokens = self._tokens + SHARE
        self._tokens = tokens if tokens < RESERVE else RESERVE

    def take(self) -> bool:
        """Take the right to one repetition, and say whether there was one."""
        now = self._clock()
        self._tokens = min(RESERVE, self._tokens + (now - self._filled_at) * REFILL_PER_S)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
