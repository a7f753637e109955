"""Carries events from a running turn to its reader: in order, and never further ahead than is safe."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

MAX_AHEAD = 64
"""How many events may be unread before the turn waits for its reader."""


class Feed:
    """Carries the events of one turn to one reader, in another task of the same event loop.

    The turn is at most MAX_AHEAD events ahead, and not at all at a ``seam``: a reader that stops at an event knows
    that nothing beyond the next seam has started. An asyncio.Queue costs four times as much per event.

    Attributes:
        pending: The events ready to be taken.
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
        """Wait until there are events to take; return False at the end.

        Raises:
            BaseException: The error the turn ended with.
        """
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
