"""Which calls may run at the same time: exclusive tools run alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

import attrs


@attrs.define
class _Lane:
    """What runs on one event loop."""

    changed: asyncio.Condition = attrs.field(factory=asyncio.Condition)
    running: int = 0
    alone: bool = False


class SideBySide:
    """Lets calls run side by side, and one of an exclusive tool only when no other runs."""

    def __init__(self) -> None:
        self._lanes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Lane] = WeakKeyDictionary()

    @asynccontextmanager
    async def place(self, *, exclusive: bool) -> AsyncIterator[None]:
        """Wait for a place, and hold it."""
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
