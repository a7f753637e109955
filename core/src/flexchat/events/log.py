"""All numbered events of one turn, for readers who come and go; the turn waits for none of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, Generic, TypeVar

from ..domain import ReasoningDelta, TextDelta, ToolCallDelta
from ..errors import ForgottenEventsError

MAX_EVENTS = 100_000
MAX_CHARACTERS = 8 * 1024 * 1024
"""Of the pieces of answers. Other events hold data the turn holds anyway."""

T = TypeVar("T")


def characters(event: Any) -> int:
    """Count an event's characters of an answer; 0 for events without any."""
    match event:
        case TextDelta() | ReasoningDelta():
            return len(event.text)
        case ToolCallDelta():
            return len(event.arguments)
    return 0


class EventLog(Generic[T]):
    """Keeps the events of one turn, added by its sink; ``after`` reads them from any number on.

    Beyond the limits, the oldest events are forgotten, at least a quarter of them at once.

    Args:
        size: Returns how many characters an event counts for.
        first: The number of the first event; those before it are forgotten.

    Attributes:
        is_ended: Whether there will be no more events.
        forgotten: The number of the last event that is no longer kept; 0 if all are.
    """

    def __init__(
        self,
        max_events: int = MAX_EVENTS,
        max_characters: int = MAX_CHARACTERS,
        *,
        size: Callable[[T], int] = characters,
        first: int = 1,
    ) -> None:
        self.is_ended = False
        self._max_events, self._max_characters, self._size = max_events, max_characters, size
        self._events: list[T] = []  # the first has the number forgotten + 1
        self.forgotten = first - 1
        self._characters = 0
        self._delivered = 0  # the highest number any reader has had
        self._settled: int | None = None  # events after it may be taken back; None: none may
        self._changed = asyncio.Event()

    @property
    def number(self) -> int:
        """The number of the last event; 0 before the first."""
        return self.forgotten + len(self._events)

    @property
    def last(self) -> T | None:
        """The last event."""
        return self._events[-1] if self._events else None

    def add(self, event: T) -> bool:
        """Keep the next event. Return False: the turn never waits for a reader of the log."""
        self._events.append(event)
        self._characters += self._size(event)
        if len(self._events) > self._max_events or self._characters > self._max_characters:
            self._forget()
        self._wake()
        return False

    def open_answer(self) -> None:
        """Mark the start of an answer: until ``settle``, its pieces may be taken back."""
        self._settled = self.number

    def settle(self) -> None:
        """Release the pieces of an answer to readers that take only complete ones."""
        if self._settled is not None:
            self._settled = None
            self._wake()

    def take_back(self, count: int) -> bool:
        """Remove the last events, unless a reader has had one of them; return whether they are removed."""
        first = self.number - count
        if count == 0:
            return True
        # What one reader has had, every later reader must get under the same number.
        if self._delivered > first or self.forgotten > first:
            return False
        self._characters -= sum(map(self._size, self._events[-count:]))
        del self._events[-count:]
        return True

    def recheck(self) -> None:
        """Make readers call their ``waits`` again."""
        self._wake()

    def end(self) -> None:
        """End the log: readers stop once they have read everything."""
        self.is_ended = True
        self._wake()

    async def after(
        self, number: int, *, waits: Callable[[], bool] | None = None
    ) -> AsyncGenerator[tuple[int, T], None]:
        """Yield all events after that number, each with its own number, until the last one has arrived.

        While ``waits`` returns True, the pieces of an answer are yielded only once the answer is settled; it is called
        at each event and at ``recheck``. Raises ForgottenEventsError if some of the events are no longer kept.
        """
        while True:
            while number < (self.number if self._settled is None or waits is None or not waits() else self._settled):
                if number < self.forgotten:
                    raise ForgottenEventsError(
                        f"the events of this turn are kept from number {self.forgotten + 1}, not from {number + 1}"
                    )
                event = self._events[number - self.forgotten]
                number += 1
                # Marked before the yield: from here on the reader has it, even if it never comes back.
                self._delivered = max(self._delivered, number)
                yield number, event
            if self.is_ended:
                return
            await self._changed.wait()

    async def ended(self) -> None:
        """Wait until the log has ended."""
        while not self.is_ended:
            await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()  # wakes everyone waiting now
        self._changed.clear()

    def _forget(self) -> None:
        # A quarter at once: deleting from the front of a list moves all that is left.
        max_events, max_characters = self._max_events * 3 // 4, self._max_characters * 3 // 4
        count = 0
        while len(self._events) - count > max_events or (
            self._characters > max_characters and count < len(self._events) - 1
        ):
            self._characters -= self._size(self._events[count])
            count += 1
        del self._events[:count]
        self.forgotten += count
