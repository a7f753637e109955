"""A turn that runs independently of its listeners."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

from ..domain import StreamEvent, TextDelta, Turn, TurnFailed, TurnInfo, TurnStarted
from ..domain.journal import JournaledEvent
from ..events.log import EventLog
from .active import ActiveTurn
from .journal import call_events
from .run import End, Work, end_event, unfinished


class TurnHandle:
    """A turn that runs in its own task until it is done, fails, or is cancelled; made by ``FlexChat.start``.

    Listening is optional, and possible at any time and from any event on. The turn never waits for its listeners.
    Its events are numbered from 1; the last is TurnFinished, TurnFailed or TurnCancelled.

    Attributes:
        is_kept: Whether its steps are written to a journal, so that it can be interrupted and resumed.
    """

    def __init__(self, turn: ActiveTurn, event_log: EventLog[StreamEvent], work: Work) -> None:
        self.info: TurnInfo = turn.info
        self._log = event_log
        self._turn: ActiveTurn | None = turn
        self._journal = turn.journal
        self.is_kept = turn.journal is not None
        self._task: asyncio.Task[Turn] = asyncio.get_running_loop().create_task(work(turn))
        self._task.add_done_callback(self._ended)

    @property
    def id(self) -> str:
        """The turn's id: 32 hexadecimal digits."""
        return self.info.id

    @property
    def is_resumed(self) -> bool:
        """Whether it was acquired from its journal, and not begun by a caller."""
        return self._journal is not None and (self._journal.is_resumed or self._journal.was_accepted)

    @property
    def is_ended(self) -> bool:
        """Whether its last event has happened."""
        return self._log.is_ended

    @property
    def number(self) -> int:
        """The number of the latest event."""
        return self._log.number

    def events(
        self, after: int = 0, *, waits: Callable[[], bool] | None = None
    ) -> AsyncGenerator[tuple[int, StreamEvent], None]:
        """Yield past and new events, each with its number, until the turn has ended.

        Closing the generator ends only the listening.

        Args:
            after: Number of the last event already known; 0 for none.
            waits: While it returns True, the pieces of an answer come only once the answer is complete. An answer of
                which nothing has been read is asked for again if it breaks off. It is called at each event and at
                ``recheck``.

        Raises:
            ForgottenEventsError: Some of those events are no longer kept: a turn keeps its last 100,000, and 8 Mi
                characters of its answers.
        """
        return self._log.after(after, waits=waits)

    def recheck(self) -> None:
        """Make readers of ``events`` call their ``waits`` again once its result has changed."""
        self._log.recheck()

    async def result(self) -> Turn:
        """Wait until the turn has ended, and return it: done or cancelled, see its ``status``.

        Raises:
            FlexChatError: It failed, as ``respond`` fails. The error's ``turn`` holds what existed by then.
        """
        last = await self.last()
        if isinstance(last, TurnFailed):
            raise last.error
        return last.turn

    @property
    def end(self) -> End | None:
        """Its last event; None while it runs."""
        last = self._log.last
        return last if isinstance(last, End) else None

    async def last(self) -> End:
        """Wait until the turn has ended, and return its last event; its ``turn`` holds what exists of the turn."""
        await self._log.ended()
        assert self.end is not None, "a turn's last event says how it ended"
        return self.end

    def cancel(self) -> None:
        """End the turn; ``result`` waits for its end. What exists of it by then is kept."""
        if not self._task.cancelling():  # a second cancel would stop it from being kept
            self._task.cancel()

    def interrupt(self) -> None:
        """Stop the turn where it is, so that it can be resumed; one that is not kept, or has not begun, is cancelled.

        Its last event is a TurnFailed with an InterruptedTurnError.
        """
        if self._turn is not None and not self._task.cancelling():
            # Set before the cancellation, which is how ``run`` distinguishes the two.
            self._turn.is_interrupted = True
        self.cancel()

    async def add_events(self, events: Sequence[JournaledEvent], *, forget: int = 0) -> None:
        """Keep events in the journal, in the form in which the turn's listeners get them.

        A program that sends only events that are kept can continue, with the same numbers, after another process has
        resumed the turn; ``FlexChat.events`` returns them.

        Args:
            events: The next ones; their numbers follow those kept before.
            forget: Delete those up to this number.

        Raises:
            LostTurnError: Another process has resumed the turn.
            StorageError: They cannot be kept.
        """
        assert self._journal is not None, "only a turn that is kept keeps events"
        await self._journal.add_events(events, forget=forget)

    def reduce_to(self, end: End) -> TurnHandle:
        """Return a handle that holds this last event of the turn, which has ended, and nothing else of it."""
        return ReplayedTurn(end, is_kept=self.is_kept)

    def when_ended(self, callback: Callable[[TurnHandle], object]) -> None:
        """Call something once the turn has ended."""
        self._task.add_done_callback(lambda _: callback(self))

    def _ended(self, task: asyncio.Task[Turn]) -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        # Dropped here, since a program may keep a handle long after the end of its turn.
        turn, self._turn = self._turn, None
        # A turn cancelled while it waited for its place has reported no end: readers would wait for ever.
        if turn is not None and self.end is None:
            if turn.done is not None and turn.done.status == "done":
                error = None  # it ended while it reported its end
            ended = turn.done if turn.done is not None or error is None else unfinished(turn, error)
            assert ended is not None
            self._log.add(end_event(self.info, ended, error))
        self._log.end()


class ReplayedTurn(TurnHandle):
    """A turn that has ended before. Its events are made from its record: its tool calls, the answer, and the end."""

    def __init__(self, end: End, *, is_kept: bool = False) -> None:
        self.info = end.info
        self._turn = self._journal = None
        self.is_kept = is_kept
        self._log: EventLog[StreamEvent] = EventLog()
        for event in _replayed(end):
            self._log.add(event)
        self._log.end()

    def cancel(self) -> None:
        """Do nothing: it has ended."""

    def when_ended(self, callback: Callable[[TurnHandle], object]) -> None:
        """Call something at once."""
        callback(self)


def _replayed(end: End) -> Iterator[StreamEvent]:
    info, turn = end.info, end.turn
    yield TurnStarted(info=info, user_message=turn.profile.user_message)
    for record in turn.response.tool_calls or ():
        yield from call_events(info, record)
    if turn.content:
        yield TextDelta(0, turn.content)
    yield end
