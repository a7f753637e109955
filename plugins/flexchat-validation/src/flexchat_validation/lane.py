"""The attempts waiting for one service, and how many of them it may get at once."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence

import attrs

from .planning import Task


@attrs.define
class Lane:
    """What is to be tried at one service.

    Attributes:
        queue: Waiting attempts, each with the number of this try.
        limit: How many may run at once.
        workers: How many take from it.
        cause: Why the service last failed, in its own words; empty if it has not.
    """

    service: str
    queue: deque[tuple[Task, int]] = attrs.field(factory=deque)
    limit: int = 1
    workers: int = 0
    waiting: str = ""
    cause: tuple[str, ...] = ()
    _paused_until: float = 0.0
    _slowed_at: float = 0.0

    def take(self, given_up: Mapping[str, str]) -> tuple[Task, int] | None:
        """Return the next task; None if there is none, or the lane's limit of simultaneous attempts is reached."""
        if self.workers > self.limit:
            return None
        while self.queue:
            planned = self.queue.popleft()
            if planned[0].model_id not in given_up:
                return planned
        return None

    def hold(self, problems: Sequence[str], wait_s: float, *, slower: bool, asked_at: float) -> None:
        """Leave the service alone for a while; slower: also halve the number of requests afterwards.

        If one limit hit several attempts at once, only the first makes it slower.
        """
        now = time.monotonic()
        self._paused_until = max(self._paused_until, now + wait_s)
        self.waiting = f"{self.service}: {' '.join(problems)}"
        if slower and asked_at >= self._slowed_at:
            self.limit = max(1, self.limit // 2)
            self._slowed_at = now

    async def ready(self) -> None:
        """Wait until the service may be asked again."""
        while (wait_s := self.paused_s()) > 0:  # noqa: ASYNC110  what is waited for is a time, which may move
            await asyncio.sleep(wait_s)

    def paused_s(self) -> float:
        """Return the remaining pause of the service, in seconds."""
        return self._paused_until - time.monotonic()
