"""The histories of kept conversations, decoded once per process."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TypeVar

import attrs

from ..calls.effects import Effects
from ..domain import ConversationHistory, ConversationTurn, Effect, HistoryTurn, ToolMessage
from ..domain.conversation import result_from_json
from ..errors import StorageError, UnknownConversationError, UnknownEffectError
from ..plugin.contracts import ConversationStore
from ..plugin.foreign import contained
from ..tools.results import for_the_model

AnyTurn = TypeVar("AnyTurn", ConversationTurn, HistoryTurn)

MAX_SIZE = 16 * 1024 * 1024
"""Characters of JSON whose messages stay in memory, where they and their encodings take a few times as much."""

TURN_SIZE = 1024
"""Characters that a turn counts for besides its JSON: the objects of a short one are larger than its text."""

MAX_OUTCOME_CHARS = 8_000
"""Characters of a result that became known after its turn."""


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
        self._kept: dict[tuple[str, str], ConversationHistory] = {}  # the least recently used comes first

    async def read(self, conversation: str, *, tenant: str) -> Sequence[ConversationTurn | HistoryTurn]:
        """Return a conversation's turns, oldest first; none if there is no such conversation. Raises StorageError."""
        key = tenant, conversation
        read = getattr(self._store, "history", None)
        with contextlib.suppress(UnknownConversationError), contained():
            if read is None:
                return await self._with_outcomes(await self._store.turns(conversation, tenant=tenant), tenant)
            cached = self._kept.get(key)
            new: ConversationHistory = await read(conversation, tenant=tenant, after=cached and cached.version)
            if cached is not None and not new.is_whole:
                # Not what is kept by now: another reader may have added the same turns meanwhile.
                new = attrs.evolve(new, turns=cached.turns + new.turns, size=cached.size + new.size)
            self._keep(key, new)
            return await self._with_outcomes(new.turns, tenant)
        self._forget(key)
        return ()

    async def _with_outcomes(self, turns: Sequence[AnyTurn], tenant: str) -> Sequence[AnyTurn]:
        """Return turns whose results state how an effect ended that was unknown when its turn ended."""
        if self._effects is None or not any(turn.unknown_effects for turn in turns):
            return turns
        return [await self._with_outcome(turn, tenant) if turn.unknown_effects else turn for turn in turns]

    async def _with_outcome(self, turn: AnyTurn, tenant: str) -> AnyTurn:
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

    def _keep(self, key: tuple[str, str], history: ConversationHistory) -> None:
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
    source = f"settled by {effect.settled_by}" if effect.settled_by else "its tool answered late"
    note = f": {effect.note}" if effect.note else ""
    text = f"{message.content}\n\nKnown since then: '{effect.tool}' {verb} ({source}{note})."
    if effect.state == "done" and effect.result is not None:
        text += f" Its result: {for_the_model(result_from_json(effect.result), MAX_OUTCOME_CHARS, message.name)}"
    return attrs.evolve(message, content=text, is_error=effect.state == "failed")


def _size_of(history: ConversationHistory) -> int:
    return history.size + TURN_SIZE * (1 + len(history.turns))
