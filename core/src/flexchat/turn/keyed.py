"""Turns with a key of their caller's: the same key and the same request are the same turn, for a day.

Where the turn is kept, its journal knows the key, and so does every process that uses the store. Otherwise the process
remembers it.
"""

from __future__ import annotations

import asyncio
import itertools
import time
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any

import attrs

from .. import errors
from ..domain import (
    AssistantMessage,
    ChatRequest,
    MediaPart,
    Message,
    StreamEvent,
    ToolCall,
    ToolMessage,
    Turn,
    TurnFailed,
    TurnInfo,
    UserMessage,
)
from ..domain.effects import arguments_digest
from ..domain.journal import MAX_RESUMES, JournaledTurn, TurnKey
from ..events.log import EventLog
from .active import ActiveTurn, outer_turn
from .engine import TurnEngine
from .handle import ReplayedTurn, TurnHandle
from .journal import request_to_json
from .recording import turn_not_begun
from .run import End, end_event

KEEP_S = 24 * 3600.0
"""How long a key stands for its turn."""

MAX_KEYS = 100_000
"""How many keys a process remembers; beyond that, the oldest is free again."""

MAX_ANSWERS = 1_000
"""Of how many turns that are not kept a process remembers the answers; who repeats an older one gets an error."""

MAX_ANSWER_MEDIA_BYTES = 64 * 1024 * 1024
"""Of the media in those answers, besides those of their requests; the newest one is kept however large it is."""

BEGINNING_S = 2.0
"""How long a turn of another process may take between binding its key and beginning."""

_POLL_S = 0.2

_OwnerKey = tuple[str, str]
"""A tenant and its key."""


@attrs.frozen
class JoinedTurn:
    """The turn of a key, and whether an earlier request had started it."""

    handle: TurnHandle
    is_repeat: bool


@attrs.define(eq=False)
class _KeyEntry:
    """The turn of a key in this process.

    Attributes:
        handle: None once the turn has ended.
        end: How it ended; None while it runs, if its journal has it, or if it has been forgotten.
        until: When the key is free again, by the monotonic clock.
        turn: The turn, while it runs; None for one that this process has resumed.
        media_bytes: Of ``end``.
    """

    id: str
    digest: str
    handle: TurnHandle | None
    is_journaled: bool
    until: float
    turn: ActiveTurn | None
    end: End | None = None
    has_side_effects: bool = True
    media_bytes: int = 0


class KeyMemory:
    """The keys of a process's turns. Chats that follow one another in a program share one."""

    def __init__(self, *, max_keys: int = MAX_KEYS, max_answers: int = MAX_ANSWERS) -> None:
        self._max_keys, self._max_answers = max_keys, max_answers
        self._entries: dict[_OwnerKey, _KeyEntry] = {}  # oldest first
        self._answers: dict[_OwnerKey, _KeyEntry] = {}
        self._media_bytes = 0
        self._locks: weakref.WeakValueDictionary[_OwnerKey, asyncio.Lock] = weakref.WeakValueDictionary()

    def lock(self, owner_key: _OwnerKey) -> asyncio.Lock:
        """Return the lock that is held while a key's turn is looked for and started."""
        return self._locks.setdefault(owner_key, asyncio.Lock())

    def find(self, owner_key: _OwnerKey) -> _KeyEntry | None:
        """Return the entry of a key; None if the key is free."""
        entry = self._entries.get(owner_key)
        return entry if entry is not None and entry.until > time.monotonic() else None

    def add(self, owner_key: _OwnerKey, digest: str, handle: TurnHandle, turn: ActiveTurn | None = None) -> None:
        """Remember the turn that a key stands for from now on."""
        now = time.monotonic()
        self._forget(owner_key)
        entry = self._entries[owner_key] = _KeyEntry(handle.id, digest, handle, handle.is_kept, now + KEEP_S, turn)
        for oldest in [*itertools.islice(self._entries, 2)]:  # at least as many as are added
            if len(self._entries) > self._max_keys or self._entries[oldest].until <= now:
                self._forget(oldest)
        handle.when_ended(lambda handle: self._ended(owner_key, entry, handle))

    def _ended(self, owner_key: _OwnerKey, entry: _KeyEntry, handle: TurnHandle) -> None:
        # Not the turn itself, which holds all its messages, for as long as the key.
        turn, end = entry.turn, handle.end
        entry.has_side_effects = turn is None or turn.has_side_effects
        entry.handle = entry.turn = None
        # The journal has the end of a kept turn. A key that stands for a newer turn keeps no older answer.
        if entry.is_journaled or self._entries.get(owner_key) is not entry:
            return
        entry.end = end if turn is None else _without_media(turn.request, end)
        self._answers[owner_key] = entry
        entry.media_bytes = _media_bytes(entry.end)
        self._media_bytes += entry.media_bytes
        while len(self._answers) > self._max_answers or (
            self._media_bytes > MAX_ANSWER_MEDIA_BYTES and len(self._answers) > 1
        ):
            # The key stays, without its answer: a repetition gets an error, and does not run a second time.
            self._forget_answer(next(iter(self._answers)))

    def _forget(self, owner_key: _OwnerKey) -> None:
        self._entries.pop(owner_key, None)
        self._forget_answer(owner_key)

    def _forget_answer(self, owner_key: _OwnerKey) -> None:
        entry = self._answers.pop(owner_key, None)
        if entry is not None:
            entry.end = None
            self._media_bytes -= entry.media_bytes


def _parts_of(messages: Iterable[Message]) -> Iterator[MediaPart]:
    return (part for each in messages if isinstance(each, UserMessage | ToolMessage) for part in each.media)


def _media_bytes(end: End | None) -> int:
    messages = () if end is None else end.turn.response.messages
    return sum(len(part.data or b"") for part in _parts_of(messages))


def _media_of(request: ChatRequest) -> dict[str, bytes]:
    parts = (*request.attachments, *_parts_of(request.history), *_parts_of(request.continuation))
    return {f"sha256:{part.sha256}": part.data for part in parts if part.data is not None}


def _without_media(request: ChatRequest, end: End | None) -> End | None:
    """Return the end of a turn with digests in place of the request's media: a repetition brings the bytes."""
    media = _media_of(request)

    def reduced(part: MediaPart) -> MediaPart:
        address = f"sha256:{part.sha256}"
        return attrs.evolve(part, data=None, url=address) if address in media else part

    # The error of a failed turn holds its messages as well.
    return end if end is None or not media or isinstance(end, TurnFailed) else _with_parts(end, reduced)


def _with_media(request: ChatRequest, end: End) -> End:
    media = _media_of(request)

    def whole(part: MediaPart) -> MediaPart:
        return attrs.evolve(part, data=media[part.url], url=None) if part.url in media else part

    return _with_parts(end, whole) if media else end


def _with_parts(end: End, change: Callable[[MediaPart], MediaPart]) -> End:
    response = end.turn.response
    messages = tuple(
        attrs.evolve(each, media=tuple(map(change, each.media)))
        if isinstance(each, UserMessage | ToolMessage) and each.media
        else each
        for each in response.messages
    )
    return attrs.evolve(end, turn=attrs.evolve(end.turn, response=attrs.evolve(response, messages=messages)))


@attrs.frozen(kw_only=True)
class KeyedTurns:
    """Starts the turns of a chat that have keys, each once.

    Args:
        running: Returns a turn that runs in this process.
        variables: The config's: a request is the same whatever they are.
        about: What else makes a request another one, besides itself.
    """

    engine: TurnEngine
    start: Callable[[ActiveTurn, EventLog[StreamEvent]], TurnHandle]
    resume: Callable[..., Awaitable[TurnHandle]]
    running: Callable[[str], TurnHandle | None]
    variables: Mapping[str, Any]
    about: str = ""

    async def join(self, request: ChatRequest, memory: KeyMemory) -> JoinedTurn:
        """Return the turn that a request's key stands for: a new one, or that of an earlier request; see join."""
        assert request.idempotency_key is not None
        joining = _Joining(self, memory, request, request.idempotency_key, self._digest(request), time.monotonic())
        while True:
            # Of two equal requests at once, the second finds the turn that the first has started.
            async with memory.lock(joining.owner_key):
                result = await joining.find_or_start()
            if isinstance(result, JoinedTurn):
                return result
            if joining.waited_s() > self.engine.parts.limits.turn_timeout_ms / 1000:
                raise errors.TurnRunningError(result)
            # Another process owns the turn, and only the store can be asked about it.
            await asyncio.sleep(_POLL_S)

    async def bind(self, request: ChatRequest, turn_id: str) -> str:
        """Bind a request's key to a turn that is about to be accepted; return the turn that the key stands for."""
        digest, replaced = self._digest(request), None
        while True:
            bound = await self.bind_once(request, turn_id, digest, replaced)
            if bound.turn == turn_id or bound.begun:
                return bound.turn
            replaced = bound  # its process has died before it began, or loses the key by this

    async def bind_once(
        self, request: ChatRequest, turn_id: str, digest: str, instead_of: TurnKey | None = None
    ) -> TurnKey:
        """Bind a request's key, and return what it stands for; see TurnJournal.bind.

        Raises:
            KeyReusedError: It stands for another request.
        """
        key = request.idempotency_key
        assert key is not None
        bound = await self.engine.journal.bind(
            key, tenant=request.tenant, turn=turn_id, digest=digest, keep_s=KEEP_S, instead_of=instead_of
        )
        if bound.digest != digest:
            raise errors.KeyReusedError(key)
        return bound

    def _digest(self, request: ChatRequest) -> str:
        # Variables with the config's values do not count: a repetition after a change of the config is the same
        # request.
        own = {name: value for name, value in request.variables.items() if self.variables.get(name) != value}
        history, continuation = _with_same_ids(request.history, request.continuation)
        plain = attrs.evolve(request, idempotency_key=None, variables=own, history=history, continuation=continuation)
        plain = attrs.evolve(plain, traceparent="", tracestate="")  # a repetition has one of its own
        try:
            return arguments_digest(self.about, request_to_json(plain, {}))
        except ValueError as error:
            raise errors.ChatRequestError(f"a request with a key must be JSON data: {error}") from None


@attrs.define(eq=False)
class _Joining:
    """One request looking for the turn of its key."""

    turns: KeyedTurns
    memory: KeyMemory
    request: ChatRequest
    key: str
    digest: str
    began: float

    @property
    def owner_key(self) -> _OwnerKey:
        return self.request.tenant, self.key

    def waited_s(self) -> float:
        return time.monotonic() - self.began

    async def find_or_start(self) -> JoinedTurn | str:
        """Return the turn of the key, started now if it has none, or the id of a turn to wait for."""
        entry = self.memory.find(self.owner_key)
        if entry is not None and (joined := self._find_here(entry)) is not None:
            return joined
        event_log: EventLog[StreamEvent] = EventLog()
        turn = self.turns.engine.create_turn(self.request, event_log)
        # Bound before the turn starts: a process killed between the two leaves a key without a turn, which is free
        # again, and never a turn without its key.
        if turn.journal is not None and (earlier := await self._bind(turn.info.id)) is not None:
            return earlier
        handle = self.turns.start(turn, event_log)
        self.memory.add(self.owner_key, self.digest, handle, turn)
        return JoinedTurn(handle, is_repeat=False)

    def _find_here(self, entry: _KeyEntry) -> JoinedTurn | None:
        """Return the turn that this process remembers; None if the journal decides, or a new one is to start."""
        if entry.digest != self.digest:
            raise errors.KeyReusedError(self.key)
        if entry.handle is not None:
            _refuse_itself(entry.id)
            return JoinedTurn(entry.handle, is_repeat=True)
        if entry.is_journaled:
            return None
        if entry.end is None:
            raise errors.ForgottenAnswerError(entry.id)
        # A failure without effects is not worth keeping: the repetition gets a new attempt.
        if isinstance(entry.end, TurnFailed) and not entry.has_side_effects and not _has_effect(entry.end.turn):
            return None
        return JoinedTurn(ReplayedTurn(_with_media(self.request, entry.end)), is_repeat=True)

    async def _bind(self, turn_id: str) -> JoinedTurn | str | None:
        """Bind the key to a turn, or return the one that it stands for already; see find_or_start."""
        replaced: TurnKey | None = None
        while True:
            bound = await self.turns.bind_once(self.request, turn_id, self.digest, replaced)
            if bound.turn == turn_id:
                return None
            result = await self._find_earlier(bound)
            if result is not None:
                return result
            # Compared by the store when it writes: of two processes that replace a failed turn, one succeeds.
            replaced = bound

    async def _find_earlier(self, bound: TurnKey) -> JoinedTurn | str | None:
        try:
            row, entries = await self.turns.engine.journal.read(bound.turn, tenant=bound.tenant)
        except errors.UnknownTurnError:
            if bound.begun:
                raise errors.ForgottenAnswerError(bound.turn) from None  # it was deleted with its conversation
            # Bound, but not begun: its process is about to write the first step, or has died before it. After a while
            # the second is certain enough, and replacing it fails if the turn has begun after all.
            return bound.turn if self.waited_s() < BEGINNING_S else None
        _refuse_itself(row.id)
        if row.state == "running":
            handle = self.turns.running(row.id)
            return row.id if handle is None else JoinedTurn(handle, is_repeat=True)
        if row.state in ("interrupted", "suspended", "accepted"):
            return await self._resume(row)
        assert self.turns.engine.recorder is not None
        turn = await self.turns.engine.recorder.read_ended(row, self.request)
        # What ran decides, not how the tool is declared by now. Steps that are gone prove nothing.
        wrote = not entries or any(entry.data["wrote"] for entry in entries if entry.kind == "tool")
        if turn.status == "failed" and not wrote and not _has_effect(turn):
            return None
        return JoinedTurn(ReplayedTurn(_end_of(turn, row)), is_repeat=True)

    async def _resume(self, row: JournaledTurn) -> JoinedTurn | str:
        # A turn whose process ends each time it runs may be the cause of that: a client that repeats its key must not
        # end one process after another.
        if row.interruptions > MAX_RESUMES:
            why = row.error or f"it was interrupted {row.interruptions} times"
            raise errors.StuckTurnError(row.id, why, then="resume it by hand (flexchat turns resume), or cancel it")
        try:
            handle = await self.turns.resume(
                row.id, tenant=row.tenant, context=self.request.context, on_question=self.request.on_question
            )
        except (errors.TurnNotWaitingError, errors.UnknownTurnError) as error:
            if isinstance(error, errors.TurnNotWaitingError) and error.state == "accepted":
                return JoinedTurn(ReplayedTurn(_end_of(turn_not_begun(row, "accepted"), row)), is_repeat=True)
            return row.id  # another process was faster
        self.memory.add(self.owner_key, self.digest, handle)
        return JoinedTurn(handle, is_repeat=True)


def _has_effect(turn: Turn) -> bool:
    """Return whether a call names an effect, as one does whose tool was still running when the turn ended."""
    return any("effect" in record.facts for record in turn.response.tool_calls or ())


def _end_of(turn: Turn, row: JournaledTurn) -> End:
    error: BaseException | None = None if turn.status == "done" else asyncio.CancelledError()
    if turn.status == "failed":
        error = errors.FailedTurnError(row.id, turn.error)
        error.turn = turn
    return end_event(
        TurnInfo(id=row.id, conversation=row.conversation, tenant=row.tenant, principal=turn.principal), turn, error
    )


def _refuse_itself(id: str) -> None:
    outer = outer_turn()
    if outer is not None and any(turn.info.id == id for turn in outer.enclosing()):
        raise errors.NestedTurnError("a tool asked again, with its key, for the turn that it runs in")


def _with_same_ids(*dialogues: tuple[Message, ...]) -> Iterator[tuple[Message, ...]]:
    """Yield messages with ids of calls that are the same each time they are read: reading them makes new ones."""
    calls = [
        call for messages in dialogues for m in messages if isinstance(m, AssistantMessage) for call in m.tool_calls
    ]
    ids = {call.id: f"call {number}" for number, call in enumerate(calls)}

    def renamed(message: Message) -> Message:
        if isinstance(message, ToolMessage):
            return attrs.evolve(message, tool_call_id=ids.get(message.tool_call_id, message.tool_call_id))
        if isinstance(message, AssistantMessage) and message.tool_calls:
            parts = [attrs.evolve(p, id=ids[p.id]) if isinstance(p, ToolCall) else p for p in message.parts]
            return attrs.evolve(message, parts=tuple(parts))
        return message

    for messages in dialogues:
        yield tuple(map(renamed, messages)) if ids else messages
