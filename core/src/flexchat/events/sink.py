"""The one place where a turn reports what happens to it, and the feed that carries it to one reader."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from ..domain import StreamEvent, TurnEvent, TurnFinished, TurnInfo, TurnSuspended
from ..plugin.hooks import Hooks
from .log import EventLog

log = logging.getLogger(__name__)

MAX_AHEAD = 64
"""How many events may be unread before the turn waits for its reader."""


class Feed:
    """Carries the events of one turn to one reader, in another task of the same event loop.

    The turn is at most MAX_AHEAD events ahead, and not at all at a ``seam``: a reader that stops at an event knows
    that nothing beyond the next seam has started. An asyncio.Queue costs four times as much per event.
    """

    __slots__ = ("_ended", "_error", "_reader", "_waiting", "pending")

    def __init__(self) -> None:
        self.pending: deque[Any] = deque()
        self._reader: asyncio.Future[None] | None = None  # the reader waits for an event
        self._waiting: list[asyncio.Future[None]] = []  # the turn's tasks that wait for the reader
        self._ended = False
        self._error: BaseException | None = None

    def add(self, event: Any) -> bool:
        """Add an event; return whether the turn must wait for its reader (``room``) before the next one."""
        self.pending.append(event)
        if self._reader is not None:
            self._wake_reader()
        return len(self.pending) >= MAX_AHEAD

    def take_back(self, count: int) -> bool:
        """Remove the last events, unless the reader has had one of them; return whether they are removed."""
        # Fewer are left than were put: the reader has had at least one of them.
        if len(self.pending) < count:
            return False
        for _ in range(count):
            self.pending.pop()
        return True

    async def room(self) -> None:
        """Wait until the reader has caught up."""
        while len(self.pending) > MAX_AHEAD // 2:
            await self._for_the_reader()

    async def seam(self) -> None:
        """Wait until the reader has taken everything and asks for more."""
        # A reader that waits for the next event has finished with all earlier ones. An empty queue alone would not
        # prove that: the last event may still be in its hands.
        while self.pending or self._reader is None:
            await self._for_the_reader()

    def end(self, error: BaseException | None = None) -> None:
        """End the feed: the reader gets what is left, then the error if there is one."""
        self._ended, self._error = True, error
        if self._reader is not None:
            self._wake_reader()

    async def filled(self) -> bool:
        """Wait until there are events to take; return False at the end, or raise the error the turn ended with."""
        while not self.pending:
            if self._ended:
                if self._error is None:
                    return False
                # Raised once: a reader that asks again gets the end of the stream.
                error, self._error = self._error, None
                try:
                    raise error
                finally:
                    del error  # its traceback holds this frame, and through it the turn
            self._reader = asyncio.get_running_loop().create_future()
            self._wake_turn()
            try:
                await self._reader
            finally:
                self._reader = None
        return True

    def take(self) -> Any:
        """Return the next event; there must be one."""
        event = self.pending.popleft()
        # Woken at half, not at each event: a turn and a reader that alternate event by event switch tasks each time.
        if self._waiting and len(self.pending) <= MAX_AHEAD // 2:
            self._wake_turn()
        return event

    async def _for_the_reader(self) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    def _wake_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():
            reader.set_result(None)

    def _wake_turn(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()


class Sink:
    """Reports every event of one turn: to the plugins first, then to its reader, in a feed, or to its log; what is
    announced reaches the reader first.

    Attributes:
        is_read: Whether the pieces of an answer reach a reader, now or later.
        is_whole: Whether answers are passed on only once they are complete.
        pass_on: Passes on a piece of an answer (a ChatEvent, or whatever its reader expects), and returns whether
            ``room`` must be awaited before the next.
        take_back: Removes the last pieces, unless a reader has had one; returns whether they are removed.
        room: Waits for a reader that is far behind.
        seam: Waits until the reader has taken everything and asks for more; without a reader, returns at once.
        open_answer: Marks the start of an answer: until ``settle``, its pieces may be taken back.
        settle: Marks the end of an answer.
        has_receiver: Returns whether a kind of event has a receiver; without one, the event need not be made.
    """

    def __init__(
        self, info: TurnInfo, hooks: Hooks, receiver: Feed | EventLog[StreamEvent] | None = None, is_whole: bool = False
    ) -> None:
        self.info = info
        self._hooks = hooks
        self._log = event_log = receiver if isinstance(receiver, EventLog) else None
        feed = receiver if isinstance(receiver, Feed) else None
        self.is_whole = is_whole
        self.is_read = receiver is not None
        # Bound here, because they are called for each piece of an answer.
        self.room = _return_at_once if feed is None else feed.room
        self.seam = _return_at_once if feed is None else feed.seam
        self.pass_on: Callable[[Any], bool] = (lambda event: False) if receiver is None else receiver.add
        self.take_back: Callable[[int], bool] = (lambda count: True) if receiver is None else receiver.take_back
        self.open_answer: Callable[[], None] = (lambda: None) if event_log is None else event_log.open_answer
        self.settle: Callable[[], None] = (lambda: None) if event_log is None else event_log.settle
        self.has_receiver: Callable[[type[TurnEvent]], bool] = (lambda kind: True) if self.is_read else hooks.wants

    async def emit(self, event: TurnEvent) -> None:
        """Report an event. A plugin that fails on it is logged, and the turn continues."""
        if self._hooks.wants(type(event)):
            await self._hooks.tell(event)
        if self.pass_on(event):
            await self.room()

    async def emit_end(self, event: TurnEvent, within_s: float) -> None:
        """Report how the turn ended: to the plugins, which have ``within_s`` seconds, then to the reader or the log.

        The reader gets a TurnFinished or TurnSuspended; for any other end, it gets the error.
        """
        try:
            if self._hooks.wants(type(event)):
                async with asyncio.timeout(within_s):
                    await self._hooks.tell(event)
        except TimeoutError:
            log.warning("the plugins take over %.1f s to handle a %s", within_s, type(event).__name__)
        # Also if the plugins take too long or the task is cancelled: readers wait for this event to stop.
        finally:
            if isinstance(event, TurnFinished | TurnSuspended) or self._log is not None:
                self.pass_on(event)

    async def announce(self, event: TurnEvent, further: Iterable[StreamEvent] = ()) -> None:
        """Report that a request to a model, or a tool, is about to start, or that a turn goes on.

        The reader gets it first, and has asked for more when this returns: if it leaves the stream at an event,
        nothing after that has started, and no plugin was notified of it. What is ``further`` is for readers alone.
        """
        self.pass_on(event)
        for each in further:
            self.pass_on(each)
        await self.seam()
        if self._hooks.wants(type(event)):
            await self._hooks.tell(event)


async def _return_at_once() -> None:
    pass
