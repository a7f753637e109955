"""The one clock of a turn."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Any

from ..errors import TurnTimeoutError

_GRACE_S = 0.002
_GRACES = 10
"""How long, and how often, a turn whose time is up waits before it is ended from outside: a tool or service that knows
how much time is left notices first, and can say more about what was going on. Several short waits: if the whole
process stands still, only one of them passes meanwhile, and whoever was to notice still comes first."""


class Clock:
    """How long a turn has taken and may still take.

    As a context manager it ends its body with a TurnTimeoutError when time runs out: the turn's only timer.

    Args:
        limit_ms: Milliseconds it may take (limits.turn_timeout_ms).
        until: When the surrounding turn's time runs out; None if there is no surrounding turn.

    Attributes:
        activity: What is taking time now, for the error of a turn that takes too long.
        until: When its time runs out, by time.monotonic(); later if it was stopped.
    """

    _timeout: asyncio.Timeout
    _timer: asyncio.TimerHandle

    def __init__(self, limit_ms: int, until: float | None = None) -> None:
        self.limit_ms = limit_ms
        self.activity = "its start"
        self._outer = until
        self._stops, self._stopped_at = 0, 0.0
        self.restart()

    def restart(self) -> None:
        """Count from now on: time spent waiting for other turns does not count."""
        self._started = time.monotonic()
        # A nested turn ends with the one around it, which waits for the tool that started it.
        own = self._started + self.limit_ms / 1000
        self.until = own if self._outer is None or own < self._outer else self._outer

    def elapsed_ms(self) -> float:
        """Return the milliseconds since the turn began."""
        return (time.monotonic() - self._started) * 1000

    def remaining_s(self) -> float:
        """Return the seconds the turn may still take; below 0 once time has run out."""
        return self.until - (self._stopped_at if self._stops else time.monotonic())

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Stop the clock: the time a person takes to reply does not count against the turn."""
        if not self._stops:
            self._stopped_at = time.monotonic()
        self._stops += 1
        try:
            yield
        finally:
            self._stops -= 1
            if not self._stops:
                self.until += time.monotonic() - self._stopped_at

    def check(self) -> None:
        """Raise a TurnTimeoutError if no time is left."""
        if self.remaining_s() <= 0:
            raise self.timeout_error()

    def timeout_error(self) -> TurnTimeoutError:
        """Return the error of a turn that takes too long."""
        return TurnTimeoutError(self.limit_ms, self.activity)

    async def __aenter__(self) -> None:
        # Never rescheduled to the deadline itself: a stopped clock moves it, and the graces come after it.
        self._timeout = asyncio.timeout(None)
        await self._timeout.__aenter__()
        self._wait(max(self.remaining_s(), 0), _GRACES)

    def _wait(self, seconds: float, graces: int) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._check_alarm, graces)

    def _check_alarm(self, graces: int) -> None:
        left_s = self.remaining_s()
        if left_s > _GRACE_S:  # it was stopped meanwhile, or is now
            self._wait(left_s, _GRACES)
        elif graces:
            self._wait(_GRACE_S, graces - 1)
        else:
            self._timeout.reschedule(0)  # now

    async def __aexit__(self, *error: Any) -> None:
        self._timer.cancel()
        try:
            await self._timeout.__aexit__(*error)
        except TimeoutError as over:
            raise self.timeout_error() from over.with_traceback(None)
        finally:  # breaks cycles: the timeout holds the task, the task its error, the error this frame
            del self._timeout, self._timer
