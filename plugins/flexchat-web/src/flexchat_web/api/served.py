"""One turn that runs in the server, and the events for its listeners."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import flexchat
from flexchat import (
    FlexChat,
    JournaledEvent,
    LostTurnError,
    QuestionAnswered,
    QuestionAsked,
    StreamEvent,
    TurnHandle,
)
from flexchat.host import EventLog
from flexchat.store import MediaStore

from ..guard import incident
from ..operations import Event
from ..problems import ApiError
from ..sending import encoded
from ..uploads import media_store
from .errors import problem_of
from .events import event_of, media_of, turn_data

log = logging.getLogger(__name__)

LAST = ("turn", "error")
"""Names of the events that end a turn."""

MAX_LOG_CHARACTERS = 32 * 1024 * 1024
"""Of a turn's events, in JSON."""

BATCH_S = 0.05
"""How often, at most, the events of a kept turn are written."""

MAX_BATCH = 500
"""Events that are passed on together."""


def _size(event: JournaledEvent) -> int:
    return len(event.data)


@attrs.define(eq=False)
class ServedTurn:
    """A turn, its tenant and the events for its listeners, numbered from 1 without gaps.

    A stored turn's events are written before they are sent. If this process dies, the process that resumes the turn
    continues with the next number, and all listeners receive the same events.

    Attributes:
        mask: Removes its configuration's secrets from texts.
        log: The events for its listeners.
        listeners: The number of clients that wait for it now.
        readers: The number of those that read its events while it runs, or of a stored turn have done so.
        patience_s: The longest time it continues without a listener, in seconds.
        is_silent: Whether its events are sent elsewhere, in another format.
        timer: Cancels it after that time; None while it has a listener.
        problem: The error it failed with, or None.
        questions: The number of its questions that are open.
        media: The store that keeps its media; None if none does.
    """

    handle: TurnHandle
    tenant: str
    mask: Callable[[str], str]
    log: EventLog[JournaledEvent] = attrs.field(factory=lambda: EventLog(max_characters=MAX_LOG_CHARACTERS, size=_size))
    listeners: int = 0
    readers: int = 0
    patience_s: float = math.inf
    is_silent: bool = False
    timer: asyncio.TimerHandle | None = None
    problem: ApiError | None = None
    questions: int = 0
    media: MediaStore | None = None
    _is_reduced: bool = False
    _is_written: bool = True
    _over: asyncio.Event = attrs.field(factory=asyncio.Event)

    @classmethod
    def resumed(
        cls,
        handle: TurnHandle,
        mask: Callable[[str], str],
        earlier: Sequence[JournaledEvent],
        media: MediaStore | None = None,
    ) -> ServedTurn:
        """Create the turn of a handle that was resumed; *earlier* are the events that listeners already have."""
        log = EventLog(max_characters=MAX_LOG_CHARACTERS, size=_size, first=earlier[0].number if earlier else 1)
        for event in earlier:
            log.add(event)
        return cls(handle, handle.info.tenant, mask, log, media=media)

    @property
    def has_end(self) -> bool:
        """Whether the turn's end can be sent to listeners. If not, the turn is suspended, or goes on elsewhere."""
        last = self.log.last
        return last is not None and last.name in LAST

    @property
    def is_elsewhere(self) -> bool:
        """Whether listeners must look for what follows in the journal: it is suspended, or another process runs it."""
        return self.handle.is_kept and self.log.is_ended and not self.has_end

    @property
    def is_asking(self) -> bool:
        """Whether it waits for a reply that may come at any time: it is suspended if none comes soon."""
        return self.handle.is_kept and self.questions > 0

    def reduce(self) -> None:
        """Drop the turn's messages, and with them its media: of the ended turn, clients get what the log has."""
        end = self.handle.end
        if end is None:
            return
        calls = end.turn.response.tool_calls
        if calls is not None:
            calls = tuple(attrs.evolve(each, result=attrs.evolve(each.result, media=())) for each in calls)
        response = attrs.evolve(end.turn.response, messages=(), tool_calls=calls)
        end = attrs.evolve(end, turn=attrs.evolve(end.turn, response=response))
        if isinstance(end, flexchat.TurnFailed) and self.problem is not None:
            end = attrs.evolve(end, error=self.problem)  # the error itself refers to the messages
        self.handle, self._is_reduced = self.handle.reduce_to(end), True

    def data_of(self, turn: flexchat.Turn) -> Mapping[str, Any]:
        """Return the data for clients of this turn, which has ended."""
        last = self.log.last
        if self._is_reduced and last is not None and last.name == "turn":
            data: Mapping[str, Any] = json.loads(last.data)  # with the media that its messages had
            return data
        return turn_data(turn, is_kept=self.handle.is_kept and self.media is not None)

    @contextlib.contextmanager
    def read(self) -> Iterator[None]:
        """Count one more reader; the pieces of an answer that has begun are passed on to it at once.

        Of a stored turn, a reader who leaves still counts: it may read on in another process.
        """
        self.readers += 1
        self.handle.recheck()
        try:
            yield
        finally:
            if not self.handle.is_kept:
                self.readers -= 1

    async def run(self) -> None:
        """Pass on what happens, until the turn has ended."""
        if self.is_silent:
            await self.handle.last()
            return
        self.handle.when_ended(lambda _: self._over.set())
        number, batch = self.log.number, list[JournaledEvent]()
        try:
            async for at, happened in self.handle.events(waits=lambda: not self.readers):
                self.questions += isinstance(happened, QuestionAsked) - isinstance(happened, QuestionAnswered)
                if self.media is not None:
                    await self._keep(self.media, media_of(happened))
                event = self._event(happened)
                if event is not None:
                    number += 1
                    batch.append(JournaledEvent(number, event.name or "", encoded(event.data).decode()))
                if batch and (at == self.handle.number or len(batch) >= MAX_BATCH):
                    await self._pass_on(batch)
                    batch = []
        except LostTurnError:
            await self.handle.last()
        finally:
            self.log.end()

    async def _keep(self, store: MediaStore, media: Iterable[flexchat.MediaPart]) -> None:
        """Keep media before listeners are sent their digests; the step that has them may be written later."""
        try:
            for part in media:
                await store.add(part.data or b"", tenant=self.tenant)
        except flexchat.StorageError as error:
            log.warning("media of the turn %s could not be written yet: %s", self.handle.id, error)
        except flexchat.MediaQuotaError:
            pass  # the step, which is never refused, keeps them

    async def _pass_on(self, events: Sequence[JournaledEvent]) -> None:
        """Send events to the listeners once they are written.

        Raises:
            LostTurnError: Another process has resumed the turn: events of this process are no longer sent.
        """
        is_kept = self.handle.is_kept and self._is_written
        if is_kept:
            try:
                await self.handle.add_events(events, forget=self.log.forgotten)
            except flexchat.StorageError as error:
                # Listeners of this process still get them; listeners elsewhere see the events written so far.
                self._is_written = False
                log.warning("events of the turn %s could not be written: %s", self.handle.id, error)
        for event in events:
            self.log.add(event)
        if is_kept:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BATCH_S):  # those that come meanwhile are written together
                    await self._over.wait()

    def _event(self, happened: StreamEvent) -> Event | None:
        """Return an event as listeners get it; None for one they do not get."""
        if not isinstance(happened, flexchat.TurnFailed):
            return event_of(happened, self.mask, is_kept=self.media is not None)
        error = happened.error
        if isinstance(error, LostTurnError) or (isinstance(error, flexchat.InterruptedTurnError) and error.waits):
            return None  # it goes on in another process
        is_ours = isinstance(error, flexchat.FlexChatError)
        self.problem = problem_of(error, self.mask) if is_ours else incident(error, self.mask)  # type: ignore[arg-type]
        later = {"retry_after": int(after)} if (after := self.problem.headers.get("retry-after")) else {}
        return Event("error", {**self.problem.to_dict(), **later})  # it is too late for a header


async def keep_events(chat: FlexChat, handle: TurnHandle) -> None:
    """Write the events of a turn that has no listeners in this process, until it has ended."""
    _, earlier = await chat.events(handle.id, tenant=handle.info.tenant)
    turn = ServedTurn.resumed(handle, chat.mask, earlier, media_store(chat))
    with turn.read():  # listeners elsewhere get the pieces of an answer at once
        await turn.run()
