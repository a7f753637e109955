"""The one place where a turn reports what happens to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from ..domain import StreamEvent, TurnEvent, TurnFinished, TurnInfo
from ..plugin.hooks import Hooks
from .feed import Feed
from .log import EventLog

log = logging.getLogger(__name__)


class Sink:
    """Reports every event of one turn: to the plugins first, then to its reader, in a feed, or to its log.

    Attributes:
        info: The turn.
        is_read: Whether the pieces of an answer reach a reader, now or later.
        is_whole: Whether answers are passed on only once they are complete.
        pass_on: Passes on a piece of an answer (a ChatEvent, or whatever its reader expects), and returns whether
            ``room`` must be awaited before the next.
        room: Waits for a reader that is far behind.
        seam: Waits until the reader has taken everything and asks for more; without a reader, returns at once.
        has_receiver: Returns whether a kind of event has a receiver; without one, the event need not be made.
    """

    def __init__(
        self,
        info: TurnInfo,
        hooks: Hooks,
        feed: Feed | None = None,
        *,
        event_log: EventLog[StreamEvent] | None = None,
        is_whole: bool = False,
    ) -> None:
        self.info = info
        self._hooks = hooks
        # Bound here, as are the next two: they are called for each piece of an answer.
        self.room = _return_at_once if feed is None else feed.room
        self.seam = _return_at_once if feed is None else feed.seam
        self._log = event_log
        self.is_whole = is_whole
        self._receiver = receiver = feed if event_log is None else event_log
        self.is_read = receiver is not None
        self.pass_on: Callable[[Any], bool] = _discard if receiver is None else receiver.add
        self.has_receiver: Callable[[type[TurnEvent]], bool] = _always if self.is_read else hooks.wants

    async def emit(self, event: TurnEvent) -> None:
        """Report an event. A plugin that fails on it is logged, and the turn continues."""
        if self._hooks.wants(type(event)):
            await self._hooks.tell(event)
        if self.pass_on(event):
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
        """Remove the last pieces, unless a reader has had one; return whether they are removed."""
        return self._receiver is None or self._receiver.take_back(count)

    async def emit_end(self, event: TurnEvent, within_s: float) -> None:
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
            if isinstance(event, TurnFinished) or self._log is not None:
                self.pass_on(event)

    async def announce(self, event: TurnEvent, further: Iterable[StreamEvent] = ()) -> None:
        """Report that a request to a model, or a tool, is about to start, or that a turn goes on.

        The reader gets it first, and has asked for more when this returns: if it leaves the stream at an event,
        nothing after that has started, and no plugin was notified of it.

        Args:
            further: What readers get after it, at once, and plugins do not.
        """
        self.pass_on(event)
        for each in further:
            self.pass_on(each)
        await self.seam()
        if self._hooks.wants(type(event)):
            await self._hooks.tell(event)


async def _return_at_once() -> None:
    pass


def _discard(event: Any) -> bool:
    return False


def _always(kind: type[TurnEvent]) -> bool:
    return True
