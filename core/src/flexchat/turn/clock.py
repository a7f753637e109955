"""The one clock of a turn."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType

from ..errors import TurnTimeoutError

_GRACE_S = 0.02
"""How long after its time a turn is ended from outside: a tool or service that knows how much time is left usually
notices first, and can say more about what was going on."""


class Clock:
    """How long a turn has taken and may still take.

    Args:
        limit_ms: Milliseconds it may take (limits.turn_timeout_ms).
        until: When the surrounding turn's time runs out, by time.monotonic(); None if there is no surrounding turn.

    Attributes:
        doing: What is taking time now, for the error of a turn that takes too long.
        until: When its time runs out, by time.monotonic().
    """

    __slots__ = ("_outer", "_started", "doing", "limit_ms", "until")

    def __init__(self, limit_ms: int, until: float | None = None) -> None:
        self.limit_ms = limit_ms
        self.doing = "its start"
        self._outer = until
        self.restart()

    def restart(self) -> None:
        """Count from now on: time spent waiting for other turns does not count."""
        self._started = time.monotonic()
        own = self._started + self.limit_ms / 1000
        self.until = own if self._outer is None or own < self._outer else self._outer

    def elapsed_ms(self) -> float:
        """Return the milliseconds since the turn began."""
        return (time.monotonic() - self._started) * 1000

    def left(self) -> float:
        """Return the seconds the turn may still take; below 0 once time has run out."""
        return self.until - time.monotonic()

    def look(self) -> None:
        """Check that there is time left.

        Raises:
            TurnTimeoutError: There is none.
        """
        if self.left() <= 0:
            raise self.too_late()

    def too_late(self) -> TurnTimeoutError:
        """Return the error of a turn that takes too long."""
        return TurnTimeoutError(self.limit_ms, self.doing)

    def alarm(self) -> Alarm:
        """Return a context manager that ends its body when time runs out: the turn's only timer.

        Raises:
            TurnTimeoutError: The body did not finish in time.
        """
        return Alarm(self)


class Alarm:
    """See Clock.alarm."""

    __slots__ = ("_clock", "_timeout")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timeout = asyncio.timeout(max(clock.left(), 0) + _GRACE_S)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as over:
            raise self._clock.too_late() from over.with_traceback(None)
        finally:  # breaks a cycle: the timeout holds the task, the task its error, the error this frame
            del self._timeout
