"""Lets a few searches run at once, those with the least work first."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import AsyncIterator


class Lane:
    """Admits a number of searches at once. Others wait, those of the fewest words in front.

    In the order of arrival, one client that sends long questions in bursts would hold up all others.
    """

    def __init__(self, width: int) -> None:
        self._free = width
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = itertools.count()

    @contextlib.asynccontextmanager
    async def turn(self, words: int) -> AsyncIterator[None]:
        """Wait until a search of so many words may run."""
        if self._free:
            self._free -= 1
        else:
            admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (words, next(self._arrivals), admitted))
            try:
                await admitted
            except asyncio.CancelledError:
                if not admitted.cancelled():  # admitted in the same moment: the place goes to the next
                    self._release()
                raise
        try:
            yield
        finally:
            self._release()

    def _release(self) -> None:
        while self._waiting:
            admitted = heapq.heappop(self._waiting)[2]
            if not admitted.done():
                admitted.set_result(None)
                return
        self._free += 1
