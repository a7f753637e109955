"""The one place a turn tells what happens to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..domain import Happening, StreamEvent, TurnInfo
from ..plugin.hooks import Hooks
from .feed import Feed

Listener = Callable[[int, StreamEvent], None]
"""Is given each event and its number, from 1, on the turn's own task; it must not block and not raise."""


class Sink:
    """Gives every event of one turn a number, and tells it: the plugins first, then listeners, then the reader.

    Attributes:
        info: The turn.
        number: Of the last event that was told; 0 before the first.
    """

    __slots__ = ("_feed", "_hooks", "_listeners", "info", "number")

    def __init__(
        self, info: TurnInfo, hooks: Hooks, feed: Feed | None = None, listeners: Sequence[Listener] = ()
    ) -> None:
        self.info = info
        self.number = 0
        self._hooks = hooks
        self._feed = feed
        self._listeners = tuple(listeners)

    @property
    def is_read(self) -> bool:
        """Whether the pieces of an answer reach anybody."""
        return self._feed is not None or bool(self._listeners)

    def wants(self, kind: type[Happening]) -> bool:
        """Return whether anybody listens to that: an event for nobody need not be made."""
        return self._feed is not None or bool(self._listeners) or self._hooks.wants(kind)

    async def tell(self, happening: Happening) -> None:
        """Tell what happens. A plugin that fails on it is logged, and the turn goes on."""
        if self._hooks.wants(type(happening)):
            await self._hooks.tell(happening)
        if self._pass_on(happening):
            await self.room()

    async def tell_plugins(self, happening: Happening) -> None:
        """Tell the plugins and listeners only: of a turn without an end, the reader gets the error."""
        for listener in self._listeners:
            listener(self.number + 1, happening)
        self.number += 1
        if self._hooks.wants(type(happening)):
            await self._hooks.tell(happening)

    def delta(self, piece: Any) -> bool:
        """Pass a piece of an answer on; return whether ``room`` is to be awaited before the next.

        Args:
            piece: A ChatEvent, or whatever else its reader expects.
        """
        return self._pass_on(piece)

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
        self._pass_on(happening)
        await self.seam()
        if self._hooks.wants(type(happening)):
            await self._hooks.tell(happening)

    def _pass_on(self, event: Any) -> bool:
        self.number += 1
        for listener in self._listeners:
            listener(self.number, event)
        return self._feed is not None and self._feed.put(event)
