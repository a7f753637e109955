"""The one place where a turn reports what happens to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..domain import StreamEvent, TurnEvent, TurnFinished, TurnInfo
from ..plugin.hooks import Hooks
from .feed import Feed
from .log import EventLog

log = logging.getLogger(__name__)

Listener = Callable[[int, StreamEvent], None]
"""Gets each event and its number, from 1, on the turn's own task; must not block; what it raises is logged."""


class Sink:
    """Reports every event of one turn: to the plugins first, then to listeners, with its number, then to the reader.

    Attributes:
        info: The turn.
        number: The number of the last event sent to listeners; 0 before the first.
        is_read: Whether the pieces of an answer reach a reader or a listener.
        is_whole: Whether answers are passed on only once they are complete.
        delta: Passes on a piece of an answer (a ChatEvent, or whatever its reader expects), and returns whether
            ``room`` must be awaited before the next.
        wants: Returns whether a kind of event has a receiver; without one, the event need not be made.
    """

    __slots__ = ("_feed", "_hooks", "_listeners", "_log", "delta", "info", "is_read", "is_whole", "number", "wants")

    def __init__(
        self,
        info: TurnInfo,
        hooks: Hooks,
        feed: Feed | None = None,
        listeners: Sequence[Listener] = (),
        *,
        log: EventLog[StreamEvent] | None = None,
        is_whole: bool = False,
    ) -> None:
        self.info = info
        self.number = 0
        self._hooks = hooks
        self._feed = feed
        self._log = log
        # The log comes first: a listener may start to read it at the event it has just received.
        self._listeners = (*listeners,) if log is None else (log.add, *listeners)
        self.is_whole = is_whole
        self.is_read = feed is not None or bool(self._listeners)
        put = _nothing if feed is None else feed.put
        self.delta: Callable[[Any], bool] = self._numbered if self._listeners else put
        self.wants: Callable[[type[TurnEvent]], bool] = _always if self.is_read else hooks.wants

    async def tell(self, event: TurnEvent) -> None:
        """Report an event. A plugin that fails on it is logged, and the turn continues."""
        if self._hooks.wants(type(event)):
            await self._hooks.tell(event)
        if self.delta(event):
            await self.room()

    def open_answer(self) -> None:
        """Mark the start of an answer: until ``settle``, its pieces may be taken back."""
        if self._log is not None:
            self._log.open_answer()

    def settle(self) -> None:
        """Mark the end of an answer."""
        if self._log is not None:
            self._log.settle()

    def take_back(self, count: int) -> bool:
        """Remove the last pieces, unless a reader or a listener has had one; return whether they are removed."""
        # Other listeners act on an event at once, so nothing they have had can be withdrawn.
        if len(self._listeners) > (self._log is not None) and count:
            return False
        if self._log is None:
            return self._feed is None or self._feed.take_back(count)
        if not self._log.take_back(count):
            return False
        self.number -= count
        return True

    async def tell_end(self, event: TurnEvent, within_s: float) -> None:
        """Report how the turn ended. The reader gets only a TurnFinished; for any other end, it gets the error.

        Args:
            within_s: Seconds the plugins may take; after that they are no longer waited for.
        """
        try:
            if self._hooks.wants(type(event)):
                async with asyncio.timeout(within_s):
                    await self._hooks.tell(event)
        except TimeoutError:
            log.warning("the plugins take over %.1f s to handle a %s", within_s, type(event).__name__)
        # Also if the plugins take too long or the task is cancelled: readers wait for this event to stop.
        finally:
            if isinstance(event, TurnFinished):
                self.delta(event)
            else:
                self._number(event)

    async def room(self) -> None:
        """Wait for a reader that is far behind."""
        if self._feed is not None:
            await self._feed.room()

    async def seam(self) -> None:
        """Wait until the reader has taken everything and asks for more; without a reader, return at once."""
        if self._feed is not None:
            await self._feed.seam()

    async def begin(self, event: TurnEvent, further: Iterable[StreamEvent] = ()) -> None:
        """Report that a request to a model, or a tool, is about to start, or that a turn goes on.

        The reader gets it first, and has asked for more when this returns: if it leaves the stream at an event,
        nothing after that has started, and no plugin was notified of it.

        Args:
            further: What the reader and the listeners get after it, at once, and plugins do not.
        """
        self.delta(event)
        for each in further:
            self.delta(each)
        await self.seam()
        if self._hooks.wants(type(event)):
            await self._hooks.tell(event)

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


def _always(kind: type[TurnEvent]) -> bool:
    return True
