"""Turns with a key of their caller's: the same key and the same request are the same turn, for a day.

Where the turn is kept, its journal knows the key, and so does every process that uses the store. Otherwise the process
remembers it.
"""

from __future__ import annotations

import asyncio
import itertools
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Protocol

import attrs

from ..domain import (
    AssistantMessage,
    ChatRequest,
    Message,
    StreamEvent,
    ToolCall,
    ToolMessage,
    Turn,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnInfo,
)
from ..domain.effects import arguments_digest
from ..domain.journal import JournaledTurn, TurnKey
from ..domain.questions import OnQuestion
from ..errors import (
    ChatRequestError,
    FailedTurnError,
    ForgottenAnswerError,
    KeyReusedError,
    NestedTurnError,
    StuckTurnError,
    TurnNotWaitingError,
    TurnRunningError,
    UnknownConversationError,
    UnknownTurnError,
)
from ..events.log import EventLog
from ..plugin.foreign import contained
from .active import ActiveTurn, outer_turn
from .engine import TurnEngine
from .handle import End, ReplayedTurn, TurnHandle
from .journal import as_written
from .keeping import MAX_RESUMES
from .kept import as_it_was

KEEP_S = 24 * 3600.0
"""How long a key stands for its turn."""

MAX_KEYS = 100_000
"""How many keys a process remembers; beyond that, the oldest is free again."""

MAX_ANSWERS = 1_000
"""Of how many turns that are not kept a process remembers the answers; who repeats an older one gets an error."""

BEGINNING_S = 2.0
"""How long a turn of another process may take between binding its key and beginning."""

_POLL_S = 0.2

_Whose = tuple[str, str]
"""A tenant and its key."""


@attrs.frozen
class JoinedTurn:
    """The turn of a key.

    Attributes:
        is_repeat: Whether an earlier request had started it.
    """

    handle: TurnHandle
    is_repeat: bool


@attrs.define(eq=False)
class _Known:
    """The turn of a key in this process.

    Attributes:
        id: The turn's.
        handle: None once the turn has ended.
        end: How it ended; None while it runs, if its journal has it, or if it has been forgotten.
        is_journaled: Whether the journal has it.
        until: When the key is free again, by the monotonic clock.
        turn: The turn, while it runs; None for one that this process has resumed.
        acted: Whether a tool that changes something may have run.
    """

    id: str
    digest: str
    handle: TurnHandle | None
    is_journaled: bool
    until: float
    turn: ActiveTurn | None
    end: End | None = None
    acted: bool = True


class KeyMemory:
    """The keys of a process's turns. Chats that follow one another in a program share one."""

    def __init__(self, *, most_keys: int = MAX_KEYS, most_answers: int = MAX_ANSWERS) -> None:
        self._most_keys, self._most_answers = most_keys, most_answers
        self._known: dict[_Whose, _Known] = {}  # oldest first
        self._answers: dict[_Whose, _Known] = {}
        self._locks: weakref.WeakValueDictionary[_Whose, asyncio.Lock] = weakref.WeakValueDictionary()

    def lock(self, whose: _Whose) -> asyncio.Lock:
        """Return the lock that is held while a key's turn is looked for and started."""
        return self._locks.setdefault(whose, asyncio.Lock())

    def find(self, whose: _Whose) -> _Known | None:
        """Return the entry of a key; None if the key is free."""
        known = self._known.get(whose)
        return known if known is not None and known.until > time.monotonic() else None

    def add(self, whose: _Whose, digest: str, handle: TurnHandle, turn: ActiveTurn | None = None) -> None:
        """Remember the turn that a key stands for from now on."""
        now = time.monotonic()
        self._forget(whose)
        known = self._known[whose] = _Known(handle.id, digest, handle, handle.is_kept, now + KEEP_S, turn)
        for oldest in [*itertools.islice(self._known, 2)]:  # at least as many as are added
            if len(self._known) > self._most_keys or self._known[oldest].until <= now:
                self._forget(oldest)
        handle.when_ended(lambda handle: self._ended(whose, known, handle))

    def _ended(self, whose: _Whose, known: _Known, handle: TurnHandle) -> None:
        # Not the turn itself, which holds all its messages, for as long as the key.
        known.acted = known.turn is None or known.turn.wrote
        known.handle = known.turn = None
        # The journal has the end of a kept turn. A key that stands for a newer turn keeps no older answer.
        if known.is_journaled or self._known.get(whose) is not known:
            return
        known.end, self._answers[whose] = handle.end, known
        if len(self._answers) > self._most_answers:
            # The key stays, without its answer: a repetition gets an error, and does not run a second time.
            self._answers.pop(next(iter(self._answers))).end = None

    def _forget(self, whose: _Whose) -> None:
        self._known.pop(whose, None)
        self._answers.pop(whose, None)


class _Resume(Protocol):
    def __call__(
        self, id: str, *, tenant: str, context: Any, on_question: OnQuestion | None
    ) -> Awaitable[TurnHandle]: ...


class KeyedTurns:
    """Starts the turns of a chat that have keys, each once.

    Args:
        start: Starts a turn.
        resume: Takes up an interrupted one.
        running: Returns a turn that runs in this process.
        variables: The config's: a request is the same whatever they are.
        about: What else makes a request another one, besides itself.
    """

    def __init__(
        self,
        engine: TurnEngine,
        *,
        start: Callable[[ActiveTurn, EventLog[StreamEvent]], TurnHandle],
        resume: _Resume,
        running: Callable[[str], TurnHandle | None],
        variables: Mapping[str, Any],
        about: str = "",
    ) -> None:
        self._engine = engine
        self._start, self._resume, self._running = start, resume, running
        self._variables, self._about = variables, about

    async def join(self, request: ChatRequest, memory: KeyMemory) -> JoinedTurn:
        """Return the turn that a request's key stands for: a new one, or that of an earlier request.

        Raises: See FlexChat.join.
        """
        assert request.idempotency_key is not None
        whose, began = (request.tenant, request.idempotency_key), time.monotonic()
        joining = _Joining(self._engine, request, self._digest(request), memory, self._resume, self._running)
        while True:
            # Of two equal requests at once, the second finds the turn that the first has started.
            async with memory.lock(whose):
                joining.waited_s = time.monotonic() - began
                known = memory.find(whose)
                found: JoinedTurn | str | None = None if known is None else joining.known(known)
                if found is None:
                    log: EventLog[StreamEvent] = EventLog()
                    turn = self._engine.begin(request, log=log)
                    # Bound before the turn starts: a process killed between the two leaves a key without a turn, which
                    # is free again, and never a turn without its key.
                    found = None if turn.journal is None else await joining.bound(turn)
                if found is None:
                    handle = self._start(turn, log)
                    memory.add(whose, joining.digest, handle, turn)
                    return JoinedTurn(handle, is_repeat=False)
            if isinstance(found, JoinedTurn):
                return found
            if joining.waited_s > self._engine.parts.limits.turn_timeout_ms / 1000:
                raise TurnRunningError(found)
            # Another process owns the turn, and only the store can be asked about it.
            await asyncio.sleep(_POLL_S)

    def _digest(self, request: ChatRequest) -> str:
        # Variables with the config's values do not count: a repetition after a change of the config is the same
        # request.
        own = {name: value for name, value in request.variables.items() if self._variables.get(name) != value}
        history, continuation = _with_same_ids(request.history, request.continuation)
        plain = attrs.evolve(request, idempotency_key=None, variables=own, history=history, continuation=continuation)
        try:
            return arguments_digest(self._about, as_written(plain))
        except ValueError as error:
            raise ChatRequestError(f"a request with a key must be JSON data: {error}") from None


@attrs.define(eq=False)
class _Joining:
    """One request looking for the turn of its key. Its methods return that turn, or the id of one to wait for; None if
    there is no such turn."""

    engine: TurnEngine
    request: ChatRequest
    digest: str
    memory: KeyMemory
    resume: _Resume
    running: Callable[[str], TurnHandle | None]
    waited_s: float = 0.0

    def known(self, known: _Known) -> JoinedTurn | None:
        """Decide by the entry of this process."""
        self._refuse_other(known.digest)
        if known.handle is not None:
            _refuse_itself(known.id)
            return JoinedTurn(known.handle, is_repeat=True)
        if known.is_journaled:
            return None
        if known.end is None:
            raise ForgottenAnswerError(known.id)
        # A failure without effects is not worth keeping: the repetition gets a new attempt.
        if isinstance(known.end, TurnFailed) and not known.acted and not _has_effect(known.end.turn):
            return None
        return JoinedTurn(ReplayedTurn(known.end), is_repeat=True)

    async def bound(self, turn: ActiveTurn) -> JoinedTurn | str | None:
        """Bind the key to a turn, and look at the one it stands for already, if there is one."""
        assert self.request.idempotency_key is not None
        journal = self.engine.journal
        replaced: TurnKey | None = None
        while True:
            bound = await journal.bind(
                self.request.idempotency_key,
                tenant=self.request.tenant,
                turn=turn.info.id,
                digest=self.digest,
                keep_s=KEEP_S,
                instead_of=replaced,
            )
            if bound.turn == turn.info.id:
                return None
            self._refuse_other(bound.digest)
            found = await self._earlier(bound)
            if found is not None:
                return found
            # Compared by the store when it writes: of two processes that replace a failed turn, one succeeds.
            replaced = bound

    async def _earlier(self, bound: TurnKey) -> JoinedTurn | str | None:
        try:
            found, entries = await self.engine.journal.read(bound.turn, tenant=bound.tenant)
        except UnknownTurnError:
            if bound.begun:
                raise ForgottenAnswerError(bound.turn) from None  # it was deleted with its conversation
            # Bound, but not begun: its process is about to write the first step, or has died before it. After a while
            # the second is certain enough, and replacing it fails if the turn has begun after all.
            return bound.turn if self.waited_s < BEGINNING_S else None
        _refuse_itself(found.id)
        if found.state == "running":
            handle = self.running(found.id)
            return found.id if handle is None else JoinedTurn(handle, is_repeat=True)
        if found.state == "interrupted":
            return await self._resumed(found)
        turn = await self._kept(found)
        # What ran decides, not how the tool is declared by now. Steps that are gone prove nothing.
        wrote = not entries or any(entry.data["wrote"] for entry in entries if entry.kind == "tool")
        if turn.status == "failed" and not wrote and not _has_effect(turn):
            return None
        return JoinedTurn(ReplayedTurn(_end_of(turn, found)), is_repeat=True)

    async def _resumed(self, found: JournaledTurn) -> JoinedTurn | str:
        # A turn whose process ends each time it runs may be the cause of that: a client that repeats its key must not
        # end one process after another.
        if found.fence > MAX_RESUMES:
            why = found.error or f"its process has ended {found.fence} times while it ran"
            raise StuckTurnError(found.id, why, then="resume it by hand (flexchat turns resume), or cancel it")
        try:
            request = self.request
            handle = await self.resume(
                found.id, tenant=found.tenant, context=request.context, on_question=request.on_question
            )
        except (TurnNotWaitingError, UnknownTurnError):
            return found.id  # another process was faster
        assert self.request.idempotency_key is not None
        self.memory.add((found.tenant, self.request.idempotency_key), self.digest, handle)
        return JoinedTurn(handle, is_repeat=True)

    async def _kept(self, found: JournaledTurn) -> Turn:
        assert self.engine.keeper is not None
        if not found.conversation:
            raise ForgottenAnswerError(found.id)  # it was deleted while the turn ran
        try:
            with contained():
                turns = await self.engine.keeper.store.turns(found.conversation, tenant=found.tenant)
        except UnknownConversationError:
            turns = ()
        for kept in turns:
            if kept.id == found.id:
                return as_it_was(kept, self.request)
        raise ForgottenAnswerError(found.id)

    def _refuse_other(self, digest: str) -> None:
        if digest != self.digest:
            assert self.request.idempotency_key is not None
            raise KeyReusedError(self.request.idempotency_key)


def _has_effect(turn: Turn) -> bool:
    """Return whether a call names an effect, as one does whose tool was still running when the turn ended."""
    return any("effect" in record.facts for record in turn.response.tool_calls or ())


def _end_of(turn: Turn, found: JournaledTurn) -> End:
    info = TurnInfo(id=found.id, conversation=found.conversation, tenant=found.tenant)
    if turn.status == "done":
        return TurnFinished(info=info, turn=turn)
    if turn.status == "cancelled":
        return TurnCancelled(info=info, turn=turn)
    error = FailedTurnError(found.id, turn.error)
    error.turn = turn
    return TurnFailed(info=info, error=error, turn=turn)


def _refuse_itself(id: str) -> None:
    around = outer_turn()
    while around is not None:
        if around.info.id == id:
            raise NestedTurnError("a tool asked again, with its key, for the turn that it runs in")
        around = around.outer


def _with_same_ids(*said: tuple[Message, ...]) -> Iterator[tuple[Message, ...]]:
    """Yield messages with ids of calls that are the same each time they are read: reading them makes new ones."""
    calls = [call for messages in said for m in messages if isinstance(m, AssistantMessage) for call in m.tool_calls]
    ids = {call.id: f"call {number}" for number, call in enumerate(calls)}

    def renamed(message: Message) -> Message:
        if isinstance(message, ToolMessage):
            return attrs.evolve(message, tool_call_id=ids.get(message.tool_call_id, message.tool_call_id))
        if isinstance(message, AssistantMessage) and message.tool_calls:
            parts = [attrs.evolve(p, id=ids[p.id]) if isinstance(p, ToolCall) else p for p in message.parts]
            return attrs.evolve(message, parts=tuple(parts))
        return message

    for messages in said:
        yield tuple(map(renamed, messages)) if ids else messages
