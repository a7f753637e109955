"""Concurrency of calls: exclusive tools run alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

import attrs


@attrs.define
class _Lane:
    """Running and waiting calls of one event loop."""

    changed: asyncio.Condition = attrs.field(factory=asyncio.Condition)
    running: int = 0
    alone: bool = False


class SideBySide:
    """Runs calls concurrently, except those of exclusive tools, which wait for and block all others."""

    def __init__(self) -> None:
        self._lanes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Lane] = WeakKeyDictionary()

    @asynccontextmanager
    async def place(self, *, exclusive: bool) -> AsyncIterator[None]:
        """Wait until the call may run, and hold its slot."""
        lane = self._lanes.setdefault(asyncio.get_running_loop(), _Lane())
        async with lane.changed:
            await lane.changed.wait_for(lambda: not lane.alone and not (exclusive and lane.running))
            lane.running, lane.alone = lane.running + 1, exclusive
        try:
            yield
        finally:
            lane.running, lane.alone = lane.running - 1, False
            async with lane.changed:
                lane.changed.notify_all()
