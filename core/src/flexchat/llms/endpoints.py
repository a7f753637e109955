"""What is known about the servers behind the configured services, shared by all services at the same server."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..plugin.contracts import ChatProvider
from .breaker import CircuitBreaker
from .retry_budget import RetryBudget


class Endpoint:
    """One server's health: its breaker, its retry budget, and the clock both use."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.breaker = CircuitBreaker(name, clock)
        self.budget = RetryBudget(clock)


class Endpoints:
    """The endpoints of one FlexChat, each made when the first service names it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, Endpoint] = {}

    def of(self, provider: ChatProvider) -> Endpoint:
        """Return the endpoint named by a provider's attribute ``endpoint``; a separate one if it names none."""
        name = getattr(provider, "endpoint", None)
        if not isinstance(name, str):
            return Endpoint(f"provider {provider.name}", self._clock)
        if name not in self._known:
            self._known[name] = Endpoint(name, self._clock)
        return self._known[name]
