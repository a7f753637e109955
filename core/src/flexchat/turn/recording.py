"""Turns of a kept conversation: its earlier messages go into the request, the new ones into the store."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import secrets
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from datetime import UTC, datetime
from typing import Any

import attrs

from ..calls.effects import KEEP_S, LEASE_S, Effects, Lease
from ..domain import (
    ChatRequest,
    ChatResponse,
    ConversationHistory,
    ConversationTurn,
    Effect,
    HistoryTurn,
    Message,
    Profile,
    ToolCallRecord,
    ToolMessage,
    Turn,
    TurnInfo,
    TurnStatus,
)
from ..domain.conversation import result_from_json
from ..domain.journal import JournaledTurn, JournalEntry, TurnEnd
from ..domain.text import storable
from ..errors import ForgottenAnswerError, StorageError, UnknownConversationError, UnknownEffectError
from ..plugin.contracts import ConversationStore, SeparateJournal, TurnJournal
from ..plugin.foreign import contained, error_name
from ..schema.answer_format import answer_format
from ..tools.results import for_the_model
from .active import ActiveTurn
from .journal import Journal, read_media, request_from_json
from .live_questions import LiveQuestions
from .watching import Watcher

log = logging.getLogger(__name__)

KEEP_EVENTS_S = 24 * 3600.0
"""How long the events of a turn can be read again after its end."""


_DAY_S = 24 * 3600.0

MESSAGE_CHARS = 80
"""Of a turn's message, in lists."""

MAX_SIZE = 16 * 1024 * 1024
"""Characters of JSON whose messages stay in memory, where they and their encodings take a few times as much."""

TURN_SIZE = 1024
"""Characters that a turn counts for besides its JSON: the objects of a short one are larger than its text."""

MAX_OUTCOME_CHARS = 8_000
"""Characters of a result that became known after its turn."""


def new_conversation_id() -> str:
    """Return an id for a new conversation: 32 hexadecimal digits that cannot be guessed."""
    return secrets.token_hex(16)


Save = Callable[[Turn], Awaitable[Turn]]
"""Adds a turn to its conversation, however it ended, and returns it as kept. May raise StorageError."""


class _Line(asyncio.Lock):
    """Held by the turn that has the place after a conversation's last one, whose id in this process is ``last``."""

    last: str | None = None


class ConversationRecorder:
    """Answers messages as part of a store's conversations.

    Turns of one conversation run one after another: the second waits for the first, and has its messages. Turns that
    other processes add at the same time are kept in the order in which they end, and do not have each other's.

    Args:
        apart: The journal of the turns, if the store has none.
        run_by: Returns the journal's record of the program that runs a turn: its configuration and packages.
        effects: Where effects of earlier turns that were unknown are looked up.

    Attributes:
        unreleased: The turns that were stopped here, and whose release is not written yet: their ids and tenants.
    """

    def __init__(
        self,
        store: ConversationStore,
        apart: SeparateJournal | None = None,
        *,
        lease_s: float = LEASE_S,
        keep_s: float = KEEP_S,
        run_by: Callable[[], Mapping[str, Any]] = dict,
        effects: Effects | None = None,
    ) -> None:
        self.store = store
        self._histories = Histories(store, effects)
        self._make_run_by = run_by
        self._apart = apart
        self._keep_s, self._forget_at = keep_s, 0.0
        self.journal: TurnJournal | None = apart or getattr(store, "journal", None)
        self._lease = None if self.journal is None else Lease(self.journal.renew, lease_s)
        self.watcher: Watcher | None = None
        self.unreleased: dict[str, str] = {}
        self._locks: weakref.WeakValueDictionary[tuple[str, str], _Line] = weakref.WeakValueDictionary()

    @functools.cached_property
    def _program(self) -> Mapping[str, Any]:
        return self._make_run_by()

    def watch(self, questions: LiveQuestions) -> None:
        """Watch the journal from now on, for replies to these questions and for requests to cancel turns."""
        questions.journal = self.journal
        if self.journal is not None and self._lease is not None:
            self.watcher = Watcher(self.journal, self._lease, questions)

    def journal_of(self, info: TurnInfo, message: str, key: str | None = None) -> Journal | None:
        """Return the journal of a new turn of a kept conversation; None where the store has none."""
        if self.journal is None or self._lease is None or info.conversation is None:
            return None
        turn = JournaledTurn(
            id=info.id,
            tenant=info.tenant,
            conversation=info.conversation,
            state="running",
            message=" ".join(storable(message[:1000]).split())[:MESSAGE_CHARS],
            owner=self._lease.owner,
            key=key or "",
        )
        journal = Journal(self.journal, self._lease, turn, run_by=self._program)
        journal.info = info
        return journal

    async def _acquire(self, id: str, tenant: str) -> tuple[TurnJournal, JournaledTurn]:
        assert self.journal is not None
        assert self._lease is not None
        owner, lease_s = self._lease.owner, self._lease.seconds
        return self.journal, await self.journal.acquire(id, tenant=tenant, owner=owner, lease_s=lease_s)

    async def acquire(self, id: str, *, tenant: str, steps: Sequence[JournalEntry] = ()) -> tuple[Journal, ChatRequest]:
        """Take up an interrupted turn; return its journal, and the request it began with.

        Args:
            steps: Those it had a moment ago. Only a runner adds some, so they are read again unless this is its first.

        Raises UnknownTurnError, TurnNotWaitingError or StorageError.
        """
        store, turn = await self._acquire(id, tenant)
        try:
            entries = steps if turn.fence == 1 and steps else (await store.read(turn.id, tenant=tenant))[1]
            media = await read_media(store, entries, tenant=tenant)
            request = request_from_json(entries[0].data["request"], media)
        except Exception as error:
            # The turn is ours by now. It is released with the reason, so that no one resumes it unasked.
            await store.release(turn, error=f"its steps cannot be read: {error_name(error)}")
            raise
        return self.open(turn, entries, media), request

    async def release(self, id: str, *, tenant: str) -> None:
        """Release a turn that this process owns, and does not run any more. Raises UnknownTurnError, StorageError."""
        assert self.journal is not None
        assert self._lease is not None
        turn, _ = await self.journal.read(id, tenant=tenant)
        if turn.state == "running" and turn.owner == self._lease.owner:
            await self.journal.release(turn)
        self.unreleased.pop(id, None)

    def open(
        self, turn: JournaledTurn, entries: Sequence[JournalEntry], media: MutableMapping[str, bytes] | None = None
    ) -> Journal:
        """Return the journal of a turn with these steps, and their media."""
        assert self.journal is not None
        assert self._lease is not None
        return Journal(self.journal, self._lease, turn, entries, run_by=self._program, media=media)

    async def read_ended(self, row: JournaledTurn, request: ChatRequest) -> Turn:
        """Return a turn that has ended, from its conversation, as the caller of this request got it.

        Raises ForgottenAnswerError or StorageError.
        """
        if row.conversation:  # else it was deleted while the turn ran
            with contextlib.suppress(UnknownConversationError), contained():
                for record in await self.store.turns(row.conversation, tenant=row.tenant):
                    if record.id == row.id:
                        return turn_from_conversation(record, request)
        raise ForgottenAnswerError(row.id)

    async def abandon(self, turn: JournaledTurn, why: str) -> None:
        """Leave an interrupted turn to a person: it no longer counts as one that can continue. Raises as acquire."""
        store, acquired = await self._acquire(turn.id, turn.tenant)
        await store.release(acquired, error=why)

    def close(self) -> None:
        """Renew the lease no more."""
        if self._lease is not None:
            self._lease.end()
        if self.watcher is not None:
            self.watcher.close()

    @contextlib.asynccontextmanager
    async def slot(
        self, turn: ActiveTurn, conversation: str, make_room: Callable[[str], Awaitable[None]]
    ) -> AsyncIterator[Save]:
        """Hold the place after the conversation's last turn; in this process, no other turn has it meanwhile.

        The turn's request gets the conversation's earlier messages; what is yielded adds the turn to it.

        Args:
            turn: Its request's history, if any, follows the conversation's; its topic takes precedence.
            make_room: Ends an interrupted or suspended turn of the conversation, given its id: a new turn does not run
                before it. What it raises is raised here.

        Raises:
            StorageError: The history cannot be read.
            UnknownConversationError: It was deleted while this turn waited for an earlier one.
        """
        request, journal, tenant = turn.request, turn.journal, turn.info.tenant
        turns: Sequence[ConversationTurn | HistoryTurn] = ()

        async def save(done: Turn) -> Turn:
            record = conversation_turn(done)
            append: Any = functools.partial(self.store.append, conversation, record, tenant=tenant)

            async def append_alone() -> bool:
                """Append in a store that keeps no journal, which does not see whether it was deleted meanwhile."""
                if turns and not await self._has_turns(conversation, tenant):
                    return False
                await append()
                return True

            is_kept = True

            async def end(ending: TurnEnd) -> None:
                nonlocal is_kept
                if self._apart is None:
                    try:
                        await append(end=ending)
                    except UnknownConversationError:
                        is_kept = False
                    return
                is_kept = await append_alone()
                # A process killed between the two leaves the turn interrupted, and its resumption appends it
                # again, which changes nothing. Ended first, a turn that is never appended would count as done.
                await self._apart.end(ending)

            with contained():
                if journal is None:
                    is_kept = await append_alone()
                else:
                    await journal.end(done.status, done.error, end)
            line.last = done.id
            if not is_kept:
                log.info("the turn %s is not kept: its conversation was deleted while it ran", done.id)
                return done
            return attrs.evolve(done, conversation=conversation)

        # A turn that closes another one holds the place already, and would wait for itself.
        line = self._locks.setdefault((tenant, conversation), _Line())
        has_slot = journal is not None and journal.has_slot
        has_to_wait = line.locked() and not has_slot
        async with contextlib.nullcontext() if has_slot else line:
            # Held from before the first step to after the last: a turn whose owner has no lease counts as interrupted.
            with contextlib.nullcontext() if journal is None or self._lease is None else self._lease.hold():
                # Interrupted turns end first: what they did comes before this message in the conversation. A resumed
                # turn keeps its own place among them.
                for id in () if journal is None or journal.is_resumed else await journal.list_interrupted():
                    await make_room(id)
                earlier = await self._histories.read(conversation, tenant=tenant)
                turns = earlier.turns
                # Deleted while this turn waited for the one that ended last: it must not begin the conversation again.
                if has_to_wait and line.last is not None and all(each.id != line.last for each in turns):
                    raise UnknownConversationError(conversation)
                if turns and (journal is None or not journal.is_resumed):
                    await self._check_owner(turn, conversation)
                if journal is not None:
                    # Turns added while this one was interrupted are left out: the replayed answers did not see them.
                    turns = journal.turns_before(turns)
                    if request.attachments and not journal.is_resumed:
                        await journal.keep_attachments(request)
                    journal.record_start(request, turns)
                messages = earlier.messages if turns is earlier.turns else _messages_of(turns)
                turn.request = _continued(request, turns, messages)
                yield save
            await self._forget()

    async def _forget(self) -> None:
        """Delete the steps of turns that ended long ago: once a day, after a turn."""
        if self.journal is None or time.monotonic() < self._forget_at:
            return
        # Set first: a store that fails is not asked again after every turn.
        self._forget_at = time.monotonic() + _DAY_S
        try:
            await self.journal.forget(older_than_s=self._keep_s, events_older_than_s=min(self._keep_s, KEEP_EVENTS_S))
        except StorageError as error:
            log.warning("the steps of old turns could not be deleted: %s", error)

    async def _check_owner(self, turn: ActiveTurn, conversation: str) -> None:
        """Raise UnknownConversationError if the turn's principal may not read what the conversation has."""
        hooks, principal = turn.parts.hooks, turn.info.principal
        if not hooks.restricts or hooks.refusal(turn.info, "view_others") is None:
            return
        owner = (await self.store.turns(conversation, tenant=turn.info.tenant))[0].principal
        if owner is None or principal is None or owner.name != principal.name:
            raise UnknownConversationError(conversation)

    async def continued(self, turn: ActiveTurn, conversation: str) -> ChatRequest:
        """Return a turn's request with the conversation's earlier messages in its history.

        Raises:
            StorageError: They cannot be read. UnknownConversationError: They are another principal's.
        """
        earlier = await self._histories.read(conversation, tenant=turn.info.tenant)
        if earlier.turns:
            await self._check_owner(turn, conversation)
        return _continued(turn.request, earlier.turns, earlier.messages)

    async def _has_turns(self, conversation: str, tenant: str) -> bool:
        with contextlib.suppress(UnknownConversationError), contained():
            return bool(await self.store.turns(conversation, tenant=tenant, last=1))
        return False


def _continued(
    request: ChatRequest, turns: Sequence[ConversationTurn | HistoryTurn], messages: tuple[Message, ...]
) -> ChatRequest:
    topic = request.topic if request.topic is not None or not turns else turns[-1].topic or None
    return attrs.evolve(request, history=messages + request.history, topic=topic)


def _messages_of(turns: Sequence[ConversationTurn | HistoryTurn]) -> tuple[Message, ...]:
    return tuple([message for turn in turns if turn.replay for message in turn.messages])


_TURN_FIELDS = (
    *("id", "citations", "status", "error", "replay", "rule", "rule_name", "phases", "elapsed_ms"),
    *("traceparent", "principal"),
)
_RESPONSE_FIELDS = (
    *("messages", "llm", "model", "usage", "rounds", "tool_calls"),
    *("max_iterations_reached", "finish_reason", "warnings"),
)


def conversation_turn(turn: Turn) -> ConversationTurn:
    """Return a turn as its conversation keeps it."""
    response = turn.response
    record = ConversationTurn(
        **_copy(turn, _TURN_FIELDS),
        **_copy(response, _RESPONSE_FIELDS),
        topic=turn.profile.topic,
        intent=turn.profile.intent,
        at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        parsed=response.data,
        unknown_effects=_unknown_effects(response.tool_calls or ()),
    )
    return record if record.last_said == response.content else attrs.evolve(record, shown=response.content)


def turn_from_conversation(record: ConversationTurn, request: ChatRequest) -> Turn:
    """Return a kept turn as the caller of the same request got it, except for the profile's documents."""
    parsed = record.parsed
    if parsed is not None and request.response_format is not None:
        parsed = answer_format(request.response_format).read(json.dumps(parsed))
    return Turn(
        **_copy(record, _TURN_FIELDS),
        profile=Profile(topic=record.topic, intent=record.intent, user_message=request.user_message),
        response=ChatResponse(
            **_copy(record, _RESPONSE_FIELDS), content=record.answer, parsed=parsed, data=record.parsed
        ),
        conversation=request.conversation,
    )


def turn_not_begun(row: JournaledTurn, status: TurnStatus) -> Turn:
    """Return an accepted turn as its caller gets it."""
    return Turn(
        id=row.id,
        profile=Profile(topic="", user_message=row.message),
        rule=None,
        response=ChatResponse(content="", llm="", model=""),
        phases=(),
        elapsed_ms=0,
        conversation=row.conversation,
        status=status,
    )


def _copy(source: Turn | ChatResponse | ConversationTurn, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names}


def _unknown_effects(records: Sequence[ToolCallRecord]) -> Mapping[str, str]:
    keys = {}
    for record in records:
        match record.facts.get("effect"):  # a plugin's step may use this name for data of its own
            case {"key": str(key), "state": "unknown"}:
                keys[record.call_id] = key
    return keys


@attrs.frozen
class _Earlier:
    """Turns of a conversation, and the messages that later requests have of them.

    Attributes:
        has_unknown: Whether an effect was unknown when its turn ended.
    """

    turns: Sequence[ConversationTurn | HistoryTurn] = ()
    messages: tuple[Message, ...] = ()
    has_unknown: bool = False
    version: str | None = None
    size: int = 0

    def followed_by(self, new: ConversationHistory) -> _Earlier:
        """Return them with the turns that were added: what was known of them is not worked out again."""
        return _Earlier(
            tuple(self.turns) + new.turns,
            self.messages + _messages_of(new.turns),
            self.has_unknown or any(turn.unknown_effects for turn in new.turns),
            new.version,
            self.size + new.size,
        )


class Histories:
    """Reads the histories of a store's conversations, and keeps the most recently used ones in memory.

    What is kept is never used without the store: every read asks it for the turns after the version at hand, so turns
    of other processes and deletions are seen. An effect that was unknown when its turn ended is looked up each time:
    the result that the model reads ends with what has become known since.
    """

    def __init__(self, store: ConversationStore, effects: Effects | None = None, *, max_size: int = MAX_SIZE) -> None:
        self._store = store
        self._effects = effects
        self._max_size = max_size
        self._size = 0
        self._kept: dict[tuple[str, str], _Earlier] = {}  # the least recently used comes first

    async def read(self, conversation: str, *, tenant: str) -> _Earlier:
        """Return a conversation's turns, oldest first; none if there is no such conversation. Raises StorageError."""
        key = tenant, conversation
        read = getattr(self._store, "history", None)
        with contextlib.suppress(UnknownConversationError), contained():
            if read is None:
                turns = await self._store.turns(conversation, tenant=tenant)
                has_unknown = any(turn.unknown_effects for turn in turns)
                return await self._with_outcomes(_Earlier(turns, _messages_of(turns), has_unknown), tenant)
            cached = self._kept.get(key)
            new: ConversationHistory = await read(conversation, tenant=tenant, after=cached and cached.version)
            # Not what is kept by now: another reader may have added the same turns meanwhile.
            earlier = (_Earlier() if cached is None or new.is_whole else cached).followed_by(new)
            self._keep(key, earlier)
            return await self._with_outcomes(earlier, tenant)
        self._forget(key)
        return _Earlier()

    async def _with_outcomes(self, earlier: _Earlier, tenant: str) -> _Earlier:
        """Return turns whose results state how an effect ended that was unknown when its turn ended."""
        if self._effects is None or not earlier.has_unknown:
            return earlier
        turns = [await self._with_outcome(turn, tenant) if turn.unknown_effects else turn for turn in earlier.turns]
        return attrs.evolve(earlier, turns=turns, messages=_messages_of(turns))

    async def _with_outcome(self, turn: Any, tenant: str) -> Any:
        assert self._effects is not None
        outcomes = {}
        for call_id, key in turn.unknown_effects.items():
            # Without its row the effect stays unknown, as the message states.
            with contextlib.suppress(UnknownEffectError, StorageError):
                outcomes[call_id] = await self._effects.ledger.get(key, tenant=tenant)
        messages = [
            _with_effect(each, outcomes.get(each.tool_call_id)) if isinstance(each, ToolMessage) else each
            for each in turn.messages
        ]
        return attrs.evolve(turn, messages=tuple(messages))

    def _keep(self, key: tuple[str, str], history: _Earlier) -> None:
        self._forget(key)
        self._kept[key] = history
        self._size += _size_of(history)
        # The oldest use goes first, since ``_keep`` puts each history at the end.
        while self._size > self._max_size:
            self._forget(next(iter(self._kept)))

    def _forget(self, key: tuple[str, str]) -> None:
        history = self._kept.pop(key, None)
        if history is not None:
            self._size -= _size_of(history)


def _with_effect(message: ToolMessage, effect: Effect | None) -> ToolMessage:
    if effect is None or effect.state not in ("done", "failed"):
        return message
    verb = "took effect" if effect.state == "done" else "did not take effect"
    # Not "late": the ledger may have had the outcome before the turn ended, if that was cancelled in the meantime.
    source = f"settled by {effect.settled_by}" if effect.settled_by else "reported by its tool"
    note = f": {effect.note}" if effect.note else ""
    text = f"{message.content}\n\nKnown since then: '{effect.tool}' {verb} ({source}{note})."
    if effect.state == "done" and effect.result is not None:
        text += f" Its result: {for_the_model(result_from_json(effect.result), MAX_OUTCOME_CHARS, message.name)}"
    return attrs.evolve(message, content=text, is_error=effect.state == "failed")


def _size_of(history: _Earlier) -> int:
    return history.size + TURN_SIZE * (1 + len(history.turns))
