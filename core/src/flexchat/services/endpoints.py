"""The state of the servers that requests go to, shared by all services at the same server."""

from __future__ import annotations

import time
from collections.abc import Callable

from .breaker import CircuitBreaker
from .retry_budget import RetryBudget


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
