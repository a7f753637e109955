"""The state of the servers that requests go to, shared by all services at the same server.

Retries are few enough that they never become a load in themselves.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from .breaker import CircuitBreaker

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


class Endpoint:
    """One server's health: its breaker, its retry budget, and the clock both use."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.breaker = CircuitBreaker(name, clock)
        self.budget = RetryBudget(clock)


class Endpoints:
    """The endpoints of one FlexChat, each made when it is first named."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, Endpoint] = {}

    def of(self, origin: str) -> Endpoint:
        """Return the endpoint at an origin: "https://api.example.com"."""
        if origin not in self._known:
            self._known[origin] = Endpoint(origin, self._clock)
        return self._known[origin]

    def unshared(self, name: str) -> Endpoint:
        """Return a new endpoint, shared with no other service."""
        return Endpoint(name, self._clock)
