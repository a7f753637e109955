"""The turns of a server, with or without listeners: joined and cancelled by id, resumed after their process died."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from datetime import UTC, datetime, timedelta
from typing import Any

import flexchat
from flexchat import FlexChat, JournaledEvent, JournaledTurn, TurnHandle
from flexchat.host import current_principal

from ..operations import Call, Event, Json, Operations, Reply, Stream, Text
from ..problems import ApiError
from ..sending import encoded, ended
from ..serving import Serving
from ..shapes import TURN, record
from ..uploads import media_store
from .events import SUSPENDED, last_event, pending_data
from .served import LAST, ServedTurn

log = logging.getLogger(__name__)

ENDED_TTL_S = 60.0
"""How long an ended turn is held in memory. One that is not kept can be joined for as long."""

MAX_ENDED = 64
"""Most ended turns that are held."""

CLOSING_S = 5.0
"""How long the server waits for its turns when it shuts down."""

LOOK_S = 2.0
"""Longest interval between two reads of what another process does with a turn, if its journal reports no change."""

END_GRACE_S = 5.0
"""How long a process has to write a turn's last event; after that, others derive it from the conversation."""

MAX_RESUMED = 4
"""Most turns of dead processes that are run at once."""

INTERRUPTED = Event("interrupted", {"detail": "the server is being stopped; join the turn again once it is back"})
"""How the streams of kept turns end when the server is stopped."""


class Turns:
    """The turns of a server. Each holds the configuration with which it began.

    A turn without a listener for ``unheard_seconds`` is cancelled. If a tenant has more than ``most_unheard`` of these,
    the one without a listener for longest is cancelled; see Settings.
    """

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._turns: dict[str, ServedTurn] = {}
        # Those without a listener, in the order in which they lost the last one.
        self._abandoned: dict[str, ServedTurn] = {}
        self._ended: dict[str, asyncio.TimerHandle] = {}  # timers that forget them, in the order they ended
        self._holding: set[asyncio.Task[None]] = set()
        self._resumed: set[ServedTurn] = set()
        self._changed = asyncio.Event()
        self.has_work = asyncio.Event()  # there may be a turn to resume

    def __len__(self) -> int:
        """Count the turns in memory."""
        return len(self._turns)

    async def begin(self, tenant: str, **request: Any) -> ServedTurn:
        """Begin a turn.

        Raises:
            FlexChatError: As FlexChat.start.
            ApiError: 422: the server runs no turns.
        """
        self._refuse_if_accepting()
        async with AsyncExitStack() as lending:
            chat = await lending.enter_async_context(self._serving.chat())
            turn = ServedTurn(chat.start(**request, tenant=tenant), tenant, self._mask(chat), media=media_store(chat))
            self._serve(turn, lending.pop_all())
        return turn

    async def join(
        self,
        tenant: str,
        key: str,
        ask: Callable[[FlexChat], Awaitable[tuple[FlexChat, Mapping[str, Any]]]],
        *,
        is_silent: bool = False,
        patience_s: float = math.inf,
    ) -> tuple[ServedTurn, bool]:
        """Begin the turn of a client's key, or find the one that an earlier request began; return whether it did.

        Args:
            ask: From the current chat to the one to be asked, and what it is asked.
            is_silent, patience_s: See ServedTurn.

        Raises:
            FlexChatError: As FlexChat.join.
            ApiError: 422: the server runs no turns.
        """
        self._refuse_if_accepting()
        async with AsyncExitStack() as lending:
            chat, request = await ask(await lending.enter_async_context(self._serving.chat()))
            joined = await chat.join(**request, tenant=tenant, idempotency_key=key)
            handle = joined.handle
            how: dict[str, Any] = {"is_silent": is_silent, "patience_s": patience_s, "media": media_store(chat)}
            turn = ServedTurn(handle, tenant, self._mask(chat), **how)
            if joined.is_repeat and handle.is_kept and handle.id not in self._turns:
                turn = await self._resumed_turn(chat, handle)
            current = self._turns.get(handle.id)
            if current is not None and (current.handle is handle or not current.is_silent):
                return current, joined.is_repeat
            if not handle.is_ended:
                self._serve(turn, lending.pop_all())
        return turn, joined.is_repeat

    @contextlib.contextmanager
    def listening(self, turn: ServedTurn) -> Iterator[None]:
        """Count a listener of the turn, which keeps it from being cancelled as abandoned."""
        turn.listeners += 1
        self._keep(turn)
        try:
            yield
        finally:
            turn.listeners -= 1
            if not turn.listeners and not turn.handle.is_ended:
                self._abandon_later(turn)

    async def resume_interrupted(self) -> None:
        """Resume the turns that dead processes left: a few at once, the oldest first.

        Raises:
            FlexChatError: They cannot be looked up.
        """
        while sum(not turn.is_asking for turn in self._resumed) < MAX_RESUMED:
            async with AsyncExitStack() as lending:
                chat = await lending.enter_async_context(self._serving.chat())
                if chat.conversations is None or chat.config.tables.get("queue"):
                    return  # nothing is kept, or workers do it
                for handle in await chat.resume_interrupted(most=1):
                    turn = await self._resumed_turn(chat, handle)
                    self._resumed.add(turn)
                    self._serve(turn, lending.pop_all())
                    break
                else:
                    return

    async def resume(self, id: str, tenant: str) -> ServedTurn:
        """Resume an interrupted turn.

        Raises:
            FlexChatError: As FlexChat.start_resumed.
            ApiError: 422: the server runs no turns.
        """
        self._refuse_if_accepting()
        async with AsyncExitStack() as lending:
            chat = await lending.enter_async_context(self._serving.chat())
            turn = await self._resumed_turn(chat, await chat.start_resumed(id, tenant=tenant))
            self._serve(turn, lending.pop_all())
        return turn

    async def run_accepted(self, id: str, tenant: str) -> None:
        """Run an accepted turn here, if it is the next of its conversation; otherwise it begins later, in any process.

        Raises:
            FlexChatError: As FlexChat.start_resumed.
        """
        async with self._serving.chat() as chat:
            is_for_workers = self._serving.settings.accept_only or bool(chat.config.tables.get("queue"))
        if not is_for_workers:
            with contextlib.suppress(flexchat.TurnNotWaitingError):
                await self.resume(id, tenant)
        self.wake()

    async def _resumed_turn(self, chat: FlexChat, handle: TurnHandle) -> ServedTurn:
        try:
            _, earlier = await chat.events(handle.id, tenant=handle.info.tenant)
        except BaseException:
            handle.interrupt()
            raise
        return ServedTurn.resumed(handle, self._mask(chat), earlier, media_store(chat))

    def find(self, id: str, tenant: str) -> ServedTurn | None:
        """Return a turn that is held here; None if there is none, or it belongs to another tenant."""
        turn = self._turns.get(id)
        if turn is None or turn.tenant != tenant or turn.is_silent or turn.is_elsewhere:
            return None
        return turn

    def wake(self) -> None:
        """Make those who follow turns of other processes look again, and look for turns to run."""
        self.has_work.set()
        self._changed.set()  # wakes everyone waiting now
        self._changed.clear()

    async def stored(self, id: str, tenant: str, after: int) -> tuple[JournaledTurn, Sequence[JournaledEvent]]:
        """Return a stored turn of any process, and its events after the given one.

        Raises:
            ApiError: 404: there is none, or it belongs to another tenant.
        """
        async with self._serving.chat() as chat:
            with _unknown_turns():
                return await chat.events(id, tenant=tenant, after=after)

    async def events(
        self, id: str, tenant: str, after: int = 0, *, is_waiting: bool = True
    ) -> AsyncGenerator[Event, None]:
        """Yield the events of a turn of any process, until its last one.

        While it is suspended or accepted, an event without a number reports that, unless it is the latest one.

        Args:
            is_waiting: Whether to go on while it is suspended.

        Raises:
            ApiError: 404: there is no such turn; 409: it waits for a person; 410: it has ended, and its events are no
                longer stored.
            ForgottenEventsError: Some of those events are no longer stored.
        """
        latest: str | None = None
        has_looked = False
        while True:
            turn = self.find(id, tenant)
            if turn is not None:
                async with aclosing(self._listen(turn, after)) as events:
                    async for event in events:
                        yield _event(event)
                        after, latest, has_looked = event.number, event.name, False
                if not turn.is_elsewhere:
                    return
            # The wait begins before the journal is read: what happens in between ends it.
            change = asyncio.create_task(self._change(id))
            try:
                stored, new_events = await self.stored(id, tenant, after if latest else max(after - 1, 0))
                if new_events and new_events[0].number == after:  # the one that the listener has had last
                    latest_event, *new_events = new_events
                    latest = None if latest_event.name == SUSPENDED else latest_event.name
                for event in new_events:
                    if event.number != after + 1:
                        raise _events_gone(stored)
                    yield _event(event)
                    after, latest, has_looked = event.number, event.name, False
                if new_events and new_events[-1].name in LAST:
                    return
                if new_events:
                    continue
                if (last := await self._last(stored, is_followed=latest is not None)) is not None:
                    if last.number > after + 1:
                        continue  # those before it have been stored since they were read
                    if last.number > after:
                        yield _event(last)
                    return
                if stored.state in (SUSPENDED, "accepted") and stored.state != latest:
                    # Its process suspends the turn first, and writes the event that reports that after it.
                    if latest is None or has_looked:
                        latest = stored.state
                        yield await self._state_event(stored)
                    has_looked = True
                if stored.state == latest == SUSPENDED and not is_waiting:
                    return
                await change
            finally:
                await ended(change)

    async def _change(self, id: str) -> None:
        """Wait until a turn may have changed, here or in another process."""
        async with self._serving.chat() as chat:
            changes = (self._changed.wait(), chat.wait_for_change(id, timeout_s=LOOK_S))
            tasks = [asyncio.ensure_future(change) for change in changes]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    await ended(task)

    async def _state_event(self, turn: JournaledTurn) -> Event:
        """Return the event that reports a turn which no process runs at the moment."""
        data: dict[str, Any] = {"id": turn.id, "conversation": turn.conversation}
        if turn.state == SUSPENDED:
            async with self._serving.chat() as chat:
                questions = await chat.pending(tenant=turn.tenant, turn=turn.id)
            data |= {"content": "", "status": SUSPENDED, "pending": [pending_data(each) for each in questions]}
        return Event(turn.state, data)

    async def has_ended(self, id: str, tenant: str, after: int) -> bool:
        """Return whether no event of a turn will follow the given one.

        Raises:
            ApiError: As events.
        """
        turn = self.find(id, tenant)
        if turn is not None:
            return turn.has_end and after >= turn.log.number
        stored, new_events = await self.stored(id, tenant, after)
        last = None if new_events else await self._last(stored)
        return last is not None and after >= last.number

    async def _last(self, turn: JournaledTurn, *, is_followed: bool = False) -> JournaledEvent | None:
        """Return the last event of a turn that no process runs any more; None if events may follow.

        Args:
            is_followed: Whether it had not ended when its listener came: its first events may not be written yet.

        Raises:
            ApiError: 409: it waits for a person; 410: it has ended, and its events are no longer stored.
        """
        if turn.state == "interrupted" and turn.error:
            raise ApiError(409, f"the turn is interrupted, and cannot go on: {turn.error}", kind="stuck-turn")
        if turn.state in ("accepted", "suspended", "running", "interrupted"):
            return None
        async with self._serving.chat() as chat:
            _, events = await chat.events(turn.id, tenant=turn.tenant)
            if events and events[-1].name in LAST:
                return events[-1]
            is_followed = is_followed or bool(events)
            if is_followed and datetime.fromisoformat(turn.ended_at) > datetime.now(UTC) - timedelta(
                seconds=END_GRACE_S
            ):
                return None  # its process may be about to emit it
            turns: Sequence[flexchat.ConversationTurn] = ()
            if chat.conversations is not None and turn.conversation:  # empty: deleted while the turn ran
                turns = await chat.conversations.of(turn.tenant).turns(turn.conversation)
        for each in turns if is_followed else ():
            if each.id == turn.id:
                event = last_event(each, turn.conversation)
                number = events[-1].number + 1 if events else 1
                return JournaledEvent(number, event.name or "", encoded(event.data).decode())
        raise _events_gone(turn)

    async def _listen(self, turn: ServedTurn, after: int) -> AsyncGenerator[JournaledEvent, None]:
        """Yield the events of a turn, counting as its listener meanwhile."""
        with self.listening(turn), turn.read():
            async with aclosing(turn.log.after(after)) as events:
                async for _, event in events:
                    yield event

    async def aclose(self) -> None:
        """End all, and wait for them: those that are kept can be resumed."""
        for turn in self._turns.values():
            self._keep(turn)
            turn.handle.interrupt()
        for timer in self._ended.values():
            timer.cancel()
        if self._holding:
            await asyncio.wait(self._holding, timeout=CLOSING_S)

    async def check_visible(self, id: str, tenant: str) -> None:
        """Raise UnknownTurnError if the current principal may not see a turn, here or in the journal."""
        async with self._serving.chat() as chat:
            if chat.permits("view_others", tenant=tenant):
                return
            if (turn := self.find(id, tenant)) is None:
                await chat.turn(id, tenant=tenant)
                return
        own, viewer = turn.handle.info.principal, current_principal.get()
        if own is None or viewer is None or own.name != viewer.name:
            raise flexchat.UnknownTurnError(id)

    def _refuse_if_accepting(self) -> None:
        if self._serving.settings.accept_only:
            text = "this server runs no turns; POST /chat/api accepts those of kept conversations: name a conversation"
            raise ApiError(422, text, kind="accept-only")

    def _mask(self, chat: FlexChat) -> Callable[[str], str]:
        return lambda text: self._serving.mask(chat.mask(text))

    def _serve(self, turn: ServedTurn, lending: AsyncExitStack) -> None:
        if turn.handle.id in self._ended:
            self._forget(turn.handle.id)
        self._turns[turn.handle.id] = turn
        holding = asyncio.create_task(self._hold(turn, lending))
        self._holding.add(holding)
        holding.add_done_callback(self._holding.discard)
        self._changed.set()
        self._changed.clear()

    async def _hold(self, turn: ServedTurn, lending: AsyncExitStack) -> None:
        """Keep a turn's configuration open until the turn has ended, and then the turn for a while."""
        id = turn.handle.id
        try:
            async with lending:
                await turn.run()
        finally:
            self._keep(turn)
            if turn in self._resumed:
                self._resumed.discard(turn)
                self.has_work.set()
            if self._turns.get(id) is turn:  # otherwise it was suspended, and has been resumed here
                later = asyncio.get_running_loop().call_later(ENDED_TTL_S, self._forget, id)
                self._ended[id] = later
                if turn.is_silent or turn.is_elsewhere:
                    self._forget(id)  # it is not requested any more, or continues in another process
                else:
                    turn.reduce()
                while len(self._ended) > MAX_ENDED:
                    self._forget(next(iter(self._ended)))

    def _abandon_later(self, turn: ServedTurn) -> None:
        settings = self._serving.settings
        self._abandoned[turn.handle.id] = turn
        seconds = min(settings.unheard_seconds, turn.patience_s)
        turn.timer = asyncio.get_running_loop().call_later(seconds, self._cancel_abandoned, turn)
        alone = [each for each in self._abandoned.values() if each.tenant == turn.tenant and not each.is_asking]
        if len(alone) > settings.most_unheard:
            self._cancel_abandoned(alone[0])

    def _cancel_abandoned(self, turn: ServedTurn) -> None:
        self._keep(turn)
        if turn.is_asking:
            self._abandon_later(turn)  # who replies need not listen
        else:
            turn.handle.cancel()

    def _keep(self, turn: ServedTurn) -> None:
        self._abandoned.pop(turn.handle.id, None)
        if turn.timer is not None:
            turn.timer.cancel()
            turn.timer = None

    def _forget(self, id: str) -> None:
        self._turns.pop(id, None)
        self._ended.pop(id).cancel()


async def resume_forever(serving: Serving) -> None:
    """Resume the turns that dead processes left, now and in the future, until cancelled."""
    turns, last_error = serving.shared(Turns), ""
    while True:
        try:
            turns.has_work.clear()
            await turns.resume_interrupted()
        except Exception as error:  # noqa: BLE001  the next attempt may succeed
            if str(error) != last_error:
                last_error = str(error)
                log.warning("interrupted turns cannot be resumed: %s", serving.mask(last_error))
        async with serving.chat() as chat:
            seconds = chat.tools.effects.lease_s / 6
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await turns.has_work.wait()


@contextlib.contextmanager
def _unknown_turns() -> Iterator[None]:
    try:
        yield
    except (flexchat.ChatRequestError, flexchat.UnknownTurnError):
        text = "there is no such turn here; those that have ended are in their conversation, if it is kept"
        raise ApiError(404, text, kind="unknown-turn") from None


def _event(event: JournaledEvent) -> Event:
    return Event(event.name, event.data, event.number)


def _events_gone(turn: JournaledTurn) -> ApiError:
    text = "these events of the turn are no longer kept; " + (
        f"the turn itself is in the conversation {turn.conversation}"
        if turn.conversation
        else "its conversation was deleted while it ran"
    )
    return ApiError(410, text, kind="forgotten-events", conversation=turn.conversation)


async def begun(
    turns: Turns, tenant: str, joined: ServedTurn | None = None, **request: Any
) -> AsyncGenerator[Event, None]:
    """Begin a turn, and yield its events.

    The first is yielded once there is something to wait for: errors before that are raised, with their own status. If
    the client leaves before that, it does not know the turn, which is cancelled.

    Args:
        joined: A turn that has begun, and whose client finds it again by its key.

    Raises:
        FlexChatError, ApiError: The turn cannot begin, or fails before there is anything to wait for.
    """
    turn, has_content = joined or await turns.begin(tenant, **request), False
    quiet: list[Event] = []
    try:
        async with aclosing(turns.events(turn.handle.id, tenant, is_waiting=False)) as events:
            async for event in events:
                if not has_content and turn.problem is not None and event.name == "error":
                    raise turn.problem
                quiet.append(event)
                has_content = has_content or not _is_quiet(event)
                if has_content:
                    for each in quiet:
                        yield each
                    quiet.clear()
    finally:
        if not has_content and joined is None:
            turn.handle.cancel()


async def replayed(turn: ServedTurn) -> AsyncGenerator[Event, None]:
    """Yield the events of a turn that has ended before, and is not held any more. They have no numbers to join it at.

    Raises:
        ApiError: It failed.
    """
    await turn.run()
    if turn.problem is not None:
        raise turn.problem
    async for _, event in turn.log.after(0):
        yield Event(event.name, event.data)


def _is_quiet(event: Event) -> bool:
    """Return whether the turn waits for nothing yet after this event."""
    return event.name == "turn_started" or (
        event.name == "phase_started" and json.loads(event.data)["phase"] == "response generation"
    )


operation = Operations("turns")


@operation(
    "GET",
    "/api/turns/{id}/events",
    answers={200: None, 204: None},
    problems=(404, 409, 410, 503),
    streams=True,
    resumes=True,
)
async def join_turn(call: Call) -> Reply:
    """Follow a turn: all its events, or those after Last-Event-ID."""
    turns, id, after = call.serving.shared(Turns), call.path["id"], call.last_event_id
    with _unknown_turns():
        await turns.check_visible(id, call.tenant)
    if await turns.has_ended(id, call.tenant, after):
        return Text(status=204)  # an EventSource that gets it asks no more
    turn = turns.find(id, call.tenant)
    is_kept = turn is None or turn.handle.is_kept
    return Stream(turns.events(id, call.tenant, after), stopped=INTERRUPTED if is_kept else None)


@operation("POST", "/api/turns/{id}/cancel", answer=record({"turn": TURN}), problems=(404, 409, 503))
async def cancel_turn(call: Call) -> Reply:
    """End a turn that has not ended, wherever it runs, and return the part of it that is kept."""
    id, turns = call.path["id"], call.serving.shared(Turns)
    with _unknown_turns():
        await turns.check_visible(id, call.tenant)
    turn = turns.find(id, call.tenant)
    if turn is not None:
        turn.handle.cancel()
        ended_here = (await turn.handle.last()).turn
        # A suspended one has left this process before it could be cancelled.
        if ended_here.status not in ("suspended", "accepted"):
            return Json({"turn": turn.data_of(ended_here)})
    async with call.serving.chat() as chat:
        with _unknown_turns():
            ended_turn = await chat.cancel_turn(id, tenant=call.tenant, by=call.user)
    turns.wake()
    return Json({"turn": ended_turn.to_dict()})


@operation(
    "POST",
    "/api/turns/{id}/resume",
    answers={202: record({"id": str, "conversation": str})},
    problems=(404, 409, 503),
)
async def resume_turn(call: Call) -> Reply:
    """Resume an interrupted turn in this process; follow its events for the outcome."""
    with _unknown_turns():
        await call.serving.shared(Turns).check_visible(call.path["id"], call.tenant)
        turn = await call.serving.shared(Turns).resume(call.path["id"], call.tenant)
    info = turn.handle.info
    return Json({"id": info.id, "conversation": info.conversation}, status=202)
