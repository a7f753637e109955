"""How many requests a service gets at a time: ``max_parallel`` of its entry in llms."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary


class Slots:
    """``most`` slots for requests in each event loop; who finds none free waits, in the order of coming."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    def here(self) -> asyncio.Semaphore:
        """Return the slots of the running event loop: enter them as a context manager around a request."""
        return self._of_loops.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self._most))
