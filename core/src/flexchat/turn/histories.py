"""The histories of kept conversations, decoded once per process."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import attrs

from ..domain import ConversationHistory, ConversationTurn, HistoryTurn
from ..errors import UnknownConversationError
from ..plugin.contracts import ConversationStore
from ..plugin.foreign import contained

MAX_SIZE = 16 * 1024 * 1024
"""Characters of JSON whose messages stay in memory, where they and their encodings take a few times as much."""

TURN_SIZE = 1024
"""Characters that a turn counts for besides its JSON: the objects of a short one are larger than its text."""


class Histories:
    """Reads the histories of a store's conversations, and keeps the most recently used ones in memory.

    What is kept is never used without the store: every read asks it for the turns after the version at hand, so turns
    of other processes and deletions are seen.
    """

    def __init__(self, store: ConversationStore, *, max_size: int = MAX_SIZE) -> None:
        self._store = store
        self._max_size = max_size
        self._size = 0
        self._kept: dict[tuple[str, str], ConversationHistory] = {}  # the least recently used comes first

    async def read(self, conversation: str, *, tenant: str) -> Sequence[ConversationTurn | HistoryTurn]:
        """Return a conversation's turns, oldest first; none if there is no such conversation.

        Raises:
            StorageError: They cannot be read.
        """
        key = tenant, conversation
        read = getattr(self._store, "history", None)
        with contextlib.suppress(UnknownConversationError), contained():
            if read is None:
                return await self._store.turns(conversation, tenant=tenant)
            known = self._kept.get(key)
            new: ConversationHistory = await read(conversation, tenant=tenant, after=known and known.version)
            if known is not None and not new.is_whole:
                # Not what is kept by now: another reader may have added the same turns meanwhile.
                new = attrs.evolve(new, turns=known.turns + new.turns, size=known.size + new.size)
            self._keep(key, new)
            return new.turns
        self._forget(key)
        return ()

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


def _size_of(history: ConversationHistory) -> int:
    return history.size + TURN_SIZE * (1 + len(history.turns))
