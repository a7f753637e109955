"""The turns that run in the server, with or without listeners: joined and cancelled by id."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing
from typing import Any

import attrs
from flexchat import ChatRequestError, FlexChatError, StreamEvent, TurnFailed, TurnHandle, UnknownTurnError

from ..guard import incident
from ..operations import Call, Event, Json, Operation, Reply, Stream, Text
from ..problems import ApiError
from ..serving import Serving
from .errors import problem_of
from .events import event_of
from .shapes import TURN, record

KEPT_SECONDS = 60.0
"""How long an ended turn can still be joined."""

MOST_ENDED = 64
"""Most ended turns that can still be joined."""

CLOSING_SECONDS = 5.0
"""How long the server waits for its turns when it shuts down."""


@attrs.define(eq=False)
class ServedTurn:
    """A turn, its tenant, and its number of listeners.

    Attributes:
        mask: Removes its configuration's secrets from texts.
        timer: Ends it if nobody has listened for too long; None while somebody does.
    """

    handle: TurnHandle
    tenant: str
    mask: Callable[[str], str]
    listeners: int = 0
    timer: asyncio.TimerHandle | None = None
    _problem: ApiError | None = None

    def problem(self, error: Exception) -> ApiError:
        """Return the error it failed with as listeners get it: the same for all."""
        if self._problem is None:
            known = isinstance(error, FlexChatError)
            self._problem = problem_of(error, self.mask) if known else incident(error, self.mask)  # type: ignore[arg-type]
        return self._problem

    def told(self, number: int, happened: StreamEvent) -> Event | None:
        """Return an event as listeners get it; None for one they do not get."""
        event = event_of(happened, self.mask)
        if isinstance(happened, TurnFailed):
            problem = self.problem(happened.error)
            later = {"retry_after": int(after)} if (after := problem.headers.get("retry-after")) else {}
            event = Event("error", {**problem.to_dict(), **later})  # it is too late for a header
        return None if event is None else attrs.evolve(event, id=number)


class Turns:
    """The turns of a server. Each holds the configuration it began with.

    A turn nobody has listened to for ``unheard_seconds`` is cancelled. If a tenant leaves more than ``most_unheard``,
    so is the one alone for longest; see Settings.
    """

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._turns: dict[str, ServedTurn] = {}
        self._alone: dict[str, ServedTurn] = {}  # those nobody listens to, in the order they were left
        self._ended: dict[str, asyncio.TimerHandle] = {}  # timers that forget them, in the order they ended
        self._holding: set[asyncio.Task[None]] = set()

    @classmethod
    def of(cls, serving: Serving) -> Turns:
        """Return a server's turns."""
        return serving.kept(cls, lambda: cls(serving))

    def __len__(self) -> int:
        """Return how many can be joined."""
        return len(self._turns)

    async def begin(self, tenant: str, **asked: Any) -> ServedTurn:
        """Begin a turn.

        Raises:
            FlexChatError: As FlexChat.start.
        """
        async with AsyncExitStack() as lending:
            chat = await lending.enter_async_context(self._serving.chat())
            handle = chat.start(**asked, tenant=tenant)
            turn = ServedTurn(handle, tenant, lambda text: self._serving.mask(chat.mask(text)))
            self._turns[handle.id] = turn
            holding = asyncio.create_task(self._hold(turn, lending.pop_all()))
            self._holding.add(holding)
            holding.add_done_callback(self._holding.discard)
        return turn

    def find(self, id: str, tenant: str) -> ServedTurn:
        """Return a turn by its id.

        Raises:
            ApiError: 404: there is none, or it belongs to another tenant.
        """
        turn = self._turns.get(id)
        if turn is None or turn.tenant != tenant:
            raise ApiError(
                404,
                "no such turn is running here; finished turns are in their conversation, if it is kept",
                kind="unknown-turn",
            )
        return turn

    async def listen(self, turn: ServedTurn, after: int = 0) -> AsyncGenerator[tuple[int, StreamEvent], None]:
        """Yield the events of a turn; while somebody reads them, it is not alone."""
        turn.listeners += 1
        self._not_alone(turn)
        try:
            async with aclosing(turn.handle.events(after)) as events:
                async for each in events:
                    yield each
        finally:
            turn.listeners -= 1
            if not turn.listeners and not turn.handle.is_ended:
                self._left_alone(turn)

    async def aclose(self) -> None:
        """Cancel all, and wait for them to end."""
        for turn in self._turns.values():
            self._not_alone(turn)
            turn.handle.cancel()
        for timer in self._ended.values():
            timer.cancel()
        if self._holding:
            await asyncio.wait(self._holding, timeout=CLOSING_SECONDS)

    async def _hold(self, turn: ServedTurn, lending: AsyncExitStack) -> None:
        """Keep a turn's configuration open until the turn has ended, and then the turn for a while."""
        async with lending:
            last = await turn.handle.last()
        if isinstance(last, TurnFailed):
            turn.problem(last.error)
        self._not_alone(turn)
        later = asyncio.get_running_loop().call_later(KEPT_SECONDS, self._forget, turn.handle.id)
        self._ended[turn.handle.id] = later
        if len(self._ended) > MOST_ENDED:
            self._forget(next(iter(self._ended)))

    def _left_alone(self, turn: ServedTurn) -> None:
        settings = self._serving.settings
        self._alone[turn.handle.id] = turn
        turn.timer = asyncio.get_running_loop().call_later(settings.unheard_seconds, self._give_up, turn)
        alone = [each for each in self._alone.values() if each.tenant == turn.tenant]
        if len(alone) > settings.most_unheard:
            self._give_up(alone[0])

    def _give_up(self, turn: ServedTurn) -> None:
        self._not_alone(turn)
        turn.handle.cancel()

    def _not_alone(self, turn: ServedTurn) -> None:
        self._alone.pop(turn.handle.id, None)
        if turn.timer is not None:
            turn.timer.cancel()
            turn.timer = None

    def _forget(self, id: str) -> None:
        self._turns.pop(id, None)
        self._ended.pop(id).cancel()


async def begun(turns: Turns, tenant: str, **asked: Any) -> AsyncGenerator[Event, None]:
    """Begin a turn, and yield its events.

    The first is yielded once there is something to wait for: errors before that are raised, with their own status. If
    the client leaves before that, it does not know the turn, which is cancelled.

    Raises:
        FlexChatError, ApiError: The turn cannot begin, or fails before there is anything to wait for.
    """
    turn, known = await turns.begin(tenant, **asked), False
    quiet: list[Event] = []
    try:
        async with aclosing(turns.listen(turn)) as events:
            async for number, happened in events:
                if not known and isinstance(happened, TurnFailed):
                    raise turn.problem(happened.error) from happened.error
                event = turn.told(number, happened)
                if event is None:
                    continue
                quiet.append(event)
                known = known or not _is_quiet(event)
                if known:
                    for each in quiet:
                        yield each
                    quiet.clear()
    finally:
        if not known:
            turn.handle.cancel()


def _is_quiet(event: Event) -> bool:
    """Return whether the turn waits for nothing yet after this event."""
    return event.name == "turn_started" or (
        event.name == "phase_started" and event.data["phase"] == "response generation"
    )


async def _join(call: Call) -> Reply:
    turns = Turns.of(call.serving)
    turn = turns.find(call.path["id"], call.tenant)
    if turn.handle.is_ended and call.last_event_id >= turn.handle.number:
        return Text(status=204)  # an EventSource that gets it asks no more
    return Stream(_joined(turns, turn, call.last_event_id))


async def _joined(turns: Turns, turn: ServedTurn, after: int) -> AsyncGenerator[Event, None]:
    async with aclosing(turns.listen(turn, after)) as events:
        async for number, happened in events:
            event = turn.told(number, happened)
            if event is not None:
                yield event


async def _cancel(call: Call) -> Reply:
    turns, id = Turns.of(call.serving), call.path["id"]
    try:
        turn = turns.find(id, call.tenant)
    except ApiError as unknown:
        return await _close(call, id, unknown)
    turn.handle.cancel()
    return Json({"turn": (await turn.handle.last()).turn.to_dict()})


async def _close(call: Call, id: str, unknown: ApiError) -> Reply:
    """End an interrupted turn, which is in the journal."""
    async with call.serving.chat() as chat:
        try:
            return Json({"turn": (await chat.close_turn(id, tenant=call.tenant)).to_dict()})
        except (ChatRequestError, UnknownTurnError):
            raise unknown from None


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/turns/{id}/events",
        name="join_turn",
        summary="Follow a turn: all its events, or those after Last-Event-ID.",
        tag="turns",
        handle=_join,
        answers={200: None, 204: None},
        problems=(404, 410),
        streams=True,
        resumes=True,
    ),
    Operation(
        method="POST",
        path="/api/turns/{id}/cancel",
        name="cancel_turn",
        summary="End a turn that runs or was interrupted, and return what there is of it, which is kept.",
        tag="turns",
        handle=_cancel,
        answers={200: record({"turn": TURN})},
        problems=(404, 409, 503),
    ),
)
