"""How many retries an endpoint gets: few enough that they never become a load in themselves."""

from __future__ import annotations

import time
from collections.abc import Callable

SHARE = 0.1
"""Retries each request earns."""
RESERVE = 10.0
"""Retries available at the start, and the most that can be saved up."""
REFILL_PER_S = RESERVE / 60
"""Retries earned per second, so that a rarely used service gets retries at all."""


class RetryBudget:
    """A token bucket: for n requests in t seconds, at most RESERVE + n × SHARE + t × REFILL_PER_S retries.

    Without it, a failing service gets, with two retries, three times its load at the worst moment.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tokens = RESERVE
        self._filled_at = clock()

    def request(self) -> None:
        """Count a request; its retries do not count."""
        tokens = self._tokens + SHARE
        self._tokens = tokens if tokens < RESERVE else RESERVE

    def take(self) -> bool:
        """Take one retry from the budget; return whether there was one."""
        now = self._clock()
        self._tokens = min(RESERVE, self._tokens + (now - self._filled_at) * REFILL_PER_S)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
