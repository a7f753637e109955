"""Scheduling of concurrent searches, cheapest first."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import AsyncIterator


class Lane:
    """Admits a limited number of searches at a time; those with the fewest words wait least.

    First come, first served would let one client's burst of long questions delay all others.
    """

    def __init__(self, width: int) -> None:
        self._free = width
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = itertools.count()

    @contextlib.asynccontextmanager
    async def turn(self, words: int) -> AsyncIterator[None]:
        """Wait until a search of *words* words may run, and hold its slot."""
        if self._free:
            self._free -= 1
        else:
            admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (words, next(self._arrivals), admitted))
            try:
                await admitted
            except asyncio.CancelledError:
                if not admitted.cancelled():  # Cancelled while being admitted: pass the slot on, or it is lost.
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
