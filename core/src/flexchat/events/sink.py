"""The one place a turn tells what happens to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from ..domain import Happening, StreamEvent, TurnFinished, TurnInfo
from ..plugin.hooks import Hooks
from .feed import Feed

log = logging.getLogger(__name__)

Listener = Callable[[int, StreamEvent], None]
"""Is given each event and its number, from 1, on the turn's own task; it must not block; what it raises is logged."""


class Sink:
    """Tells every event of one turn: the plugins first, then listeners, who get it with its number, then the reader.

    Attributes:
        info: The turn.
        number: Of the last event that listeners were told; 0 before the first.
        is_read: Whether the pieces of an answer reach anybody.
        delta: Passes a piece of an answer on (a ChatEvent, or whatever its reader expects), and says whether ``room``
            is to be awaited before the next.
        wants: Says whether anybody listens to a kind of happening: an event for nobody need not be made.
    """

    __slots__ = ("_feed", "_hooks", "_listeners", "delta", "info", "is_read", "number", "wants")

    def __init__(
        self, info: TurnInfo, hooks: Hooks, feed: Feed | None = None, listeners: Sequence[Listener] = ()
    ) -> None:
        self.info = info
        self.number = 0
        self._hooks = hooks
        self._feed = feed
        self._listeners = tuple(listeners)
        self.is_read = feed is not None or bool(self._listeners)
        put = _nothing if feed is None else feed.put
        self.delta: Callable[[Any], bool] = self._numbered if self._listeners else put
        self.wants: Callable[[type[Happening]], bool] = _always if self.is_read else hooks.wants

    async def tell(self, happening: Happening) -> None:
        """Tell what happens. A plugin that fails on it is logged, and the turn goes on."""
        if self._hooks.wants(type(happening)):
            await self._hooks.tell(happening)
        if self.delta(happening):
            await self.room()

    async def tell_end(self, happening: Happening, within_s: float) -> None:
        """Tell how the turn has ended. The reader hears of a TurnFinished only: of any other end, it gets the error.

        Args:
            within_s: Seconds the plugins may take; those that have not heard of it by then are not waited for.
        """
        try:
            if self._hooks.wants(type(happening)):
                async with asyncio.timeout(within_s):
                    await self._hooks.tell(happening)
        except TimeoutError:
            log.warning("the plugins take over %.1f s to hear of a %s", within_s, type(happening).__name__)
        finally:
            if isinstance(happening, TurnFinished):
                self.delta(happening)
            else:
                self._number(happening)

    async def room(self) -> None:
        """Wait for a reader who is far behind."""
        if self._feed is not None:
            await self._feed.room()

    async def seam(self) -> None:
        """Wait until the reader has taken everything and asks for more; at once without a reader."""
        if self._feed is not None:
            await self._feed.seam()

    async def begin(self, happening: Happening) -> None:
        """Tell that a request to a model, or a tool, is about to begin.

        The reader is told first, and has asked for more when this returns: leaving a stream at an event means that
        nothing behind it has begun, and no plugin has heard of it.
        """
        self.delta(happening)
        await self.seam()
        if self._hooks.wants(type(happening)):
            await self._hooks.tell(happening)

    def _numbered(self, event: Any) -> bool:
        self._number(event)
        return self._feed is not None and self._feed.put(event)

    def _number(self, event: Any) -> None:
        self.number += 1
        for listener in self._listeners:
            try:
                listener(self.number, event)
            except Exception:
                log.exception("a listener failed on event %d of turn %s", self.number, self.info.id)


def _nothing(event: Any) -> bool:
    return False


def _always(kind: type[Happening]) -> bool:
    return True
