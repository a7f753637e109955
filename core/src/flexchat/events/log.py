"""All numbered events of one turn, for readers who come and go; the turn waits for none of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from ..domain import ReasoningDelta, StreamEvent, TextDelta, ToolCallDelta
from ..errors import ForgottenEventsError

MOST_EVENTS = 100_000
MOST_CHARACTERS = 8 * 1024 * 1024
"""Of the pieces of answers. Other events hold data the turn holds anyway."""


class EventLog:
    """Keeps the events of one turn: a Listener of its sink, and ``after`` reads them from any number on.

    Beyond the limits, the oldest events are forgotten, at least a quarter of them at once.

    Attributes:
        is_ended: Whether there will be no more events.
    """

    __slots__ = ("_changed", "_characters", "_events", "_forgotten", "_most_characters", "_most_events", "is_ended")

    def __init__(self, most_events: int = MOST_EVENTS, most_characters: int = MOST_CHARACTERS) -> None:
        self.is_ended = False
        self._most_events, self._most_characters = most_events, most_characters
        self._events: list[StreamEvent] = []  # the first has the number _forgotten + 1
        self._forgotten = 0
        self._characters = 0
        self._changed = asyncio.Event()

    @property
    def number(self) -> int:
        """The number of the last event; 0 before the first."""
        return self._forgotten + len(self._events)

    @property
    def last(self) -> StreamEvent | None:
        """The last event."""
        return self._events[-1] if self._events else None

    def add(self, number: int, event: StreamEvent) -> None:
        """Keep the next event."""
        assert number == self.number + 1, "events come in the order of their numbers"
        self._events.append(event)
        self._characters += _characters(event)
        if len(self._events) > self._most_events or self._characters > self._most_characters:
            self._forget()
        self._wake()

    def end(self) -> None:
        """End the log: readers stop once they have read everything."""
        self.is_ended = True
        self._wake()

    async def after(self, number: int) -> AsyncGenerator[tuple[int, StreamEvent], None]:
        """Yield all events after that number, each with its own number, until the last one has arrived.

        Raises:
            ForgottenEventsError: Some of them are no longer kept.
        """
        while True:
            while number < self.number:
                if number < self._forgotten:
                    raise ForgottenEventsError(
                        f"the events of this turn are kept from number {self._forgotten + 1}, not from {number + 1}"
                    )
                event = self._events[number - self._forgotten]
                number += 1
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
        most_events, most_characters = self._most_events * 3 // 4, self._most_characters * 3 // 4
        count = 0
        while len(self._events) - count > most_events or (
            self._characters > most_characters and count < len(self._events) - 1
        ):
            self._characters -= _characters(self._events[count])
            count += 1
        del self._events[:count]
        self._forgotten += count


def _characters(event: StreamEvent) -> int:
    match event:
        case TextDelta() | ReasoningDelta():
            return len(event.text)
        case ToolCallDelta():
            return len(event.arguments)
    return 0
