"""The health of the servers that requests go to, shared by all services at the same server.

A circuit breaker leaves a failing server alone for a while, and its callers get an error at once. A budget keeps
retries so few that they never become a load in themselves.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

WINDOW_S = 30
MIN_CALLS = 20
PAUSE_S = 15.0
SHARE = 0.1  # retries each request earns
RESERVE = 10.0  # retries available at the start, and the most that can be saved up
REFILL_PER_S = RESERVE / 60  # so that a rarely used service gets retries at all
CIRCUIT_OPEN = "circuit_open"  # the code of the error of a provider whose breaker is open

_ENDS = (".", "?", "!")


class CircuitOpen(Exception):
    """A breaker refuses a call.

    Attributes:
        retry_after_s: When the next one may be let through, in seconds.
    """

    def __init__(self, text: str, retry_after_s: float) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s


class CircuitBreaker:
    """Watches the calls of one endpoint.

    Closed, it lets every call through. When at least half of at least 20 calls of the last 30 s have failed, it opens:
    calls are refused, except for one trial every 15 s. A trial that succeeds closes it. Calls that began before it last
    opened or closed do not count.

    Args:
        name: The endpoint's name, for texts.
        clock: Returns monotonic seconds.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock = name, clock
        self._window = _Window()
        self._epoch = 0
        self._opened_at: float | None = None
        self._next_trial = 0.0
        self._trial: WatchedCall | None = None
        self._reason = ""

    @property
    def is_open(self) -> bool:
        """Whether calls are refused."""
        return self._opened_at is not None

    def call(self) -> WatchedCall:
        """Let a call begin: enter the returned context manager around it.

        Raises:
            CircuitOpen: The breaker is open.
        """
        if self._opened_at is None:
            return WatchedCall(self, self._epoch)
        now = self._clock()
        if now < self._next_trial:
            remaining = self._next_trial - now
            raise CircuitOpen(
                f"{self._name} is not asked for now: {self._reason}{'' if self._reason.endswith(_ENDS) else '.'} "
                f"Requests have been refused for {now - self._opened_at:.0f} s, "
                f"the next attempt is in {remaining:.0f} s",
                remaining,
            )
        # Moved before the trial runs: the calls that begin meanwhile are refused instead of tried as well.
        self._next_trial = now + PAUSE_S
        self._trial = WatchedCall(self, self._epoch)
        return self._trial

    def succeeded(self, call: WatchedCall) -> None:
        """Record a call that was answered."""
        # Begun before the breaker last opened or closed: its outcome is no evidence about the service now.
        if call.epoch != self._epoch:
            return
        if self._opened_at is None:
            self._window.count(self._clock(), 0)
            return
        log.info("%s answers again", self._name)
        self._change(None)

    def failed(self, call: WatchedCall, error: BaseException) -> None:
        """Record a call in which the service failed."""
        if call.epoch != self._epoch:
            return
        now = self._clock()
        if self._opened_at is not None:
            self._next_trial = now + PAUSE_S
            return
        self._window.count(now, 1)
        calls, failures = self._window.sums(now)
        if calls >= MIN_CALLS and failures * 2 >= calls:
            self._reason = f"{failures} of {calls} calls failed within {WINDOW_S} s, the last one because {error}"[:400]
            log.warning("%s: %s; it is left alone for %g s", self._name, self._reason, PAUSE_S)
            self._change(now)
            self._next_trial = now + PAUSE_S

    def abandoned(self, call: WatchedCall) -> None:
        """Record a call whose caller left before the outcome was known. Another trial may take its place."""
        if call is self._trial and call.epoch == self._epoch:
            self._next_trial = self._clock()

    def _change(self, opened_at: float | None) -> None:
        self._opened_at, self._trial = opened_at, None
        self._epoch += 1
        self._window = _Window()


class WatchedCall:
    """One call: a context manager around it that reports its outcome to the breaker.

    Attributes:
        epoch: How often the breaker had opened or closed when it began.
        answered: Set once something has arrived: if the caller then leaves, the call counts as a success.
    """

    __slots__ = ("_breaker", "answered", "epoch")

    def __init__(self, breaker: CircuitBreaker, epoch: int) -> None:
        self._breaker, self.epoch = breaker, epoch
        self.answered = False

    def __enter__(self) -> WatchedCall:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        blames_service = getattr(error, "blames_service", None)  # of a ProviderError or a FetchError
        if error is None:
            self._breaker.succeeded(self)
        elif blames_service:
            self._breaker.failed(self, error)
        # An error that is the request's fault is an answer: the service is alive.
        elif self.answered or blames_service is not None:
            self._breaker.succeeded(self)
        else:
            self._breaker.abandoned(self)


class _Window:
    """Calls and failures of the last 30 s, counted per second: its size does not grow with the load."""

    def __init__(self) -> None:
        self._seconds = [-1] * WINDOW_S
        self._calls = [0] * WINDOW_S
        self._failures = [0] * WINDOW_S

    def count(self, now: float, failures: int) -> None:
        second = int(now)
        at = second % WINDOW_S
        if self._seconds[at] != second:
            self._seconds[at], self._calls[at], self._failures[at] = second, 0, 0
        self._calls[at] += 1
        self._failures[at] += failures

    def sums(self, now: float) -> tuple[int, int]:
        oldest = int(now) - WINDOW_S
        recent = [at for at, second in enumerate(self._seconds) if second > oldest]
        return sum(self._calls[at] for at in recent), sum(self._failures[at] for at in recent)


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
    """One server's health: its breaker, its retry budget, and the clock both use; ``name`` is its origin."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self.clock = name, clock
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
