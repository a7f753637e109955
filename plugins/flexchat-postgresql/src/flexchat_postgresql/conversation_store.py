"""The conversation store "postgresql"."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, LiteralString

from flexchat.store import (
    ConversationHistory,
    ConversationInfo,
    ConversationTurn,
    Cost,
    StorageError,
    TurnEnd,
    UnknownConversationError,
    digests_in,
    effect_rows,
    history_from_json,
    storable,
    turn_from_parts,
    turn_to_parts,
)

from . import media as media_rows
from . import questions as question_rows
from .config import PostgresqlConfig
from .connections import Connection, Connections, Row
from .counters import PostgresqlCounters
from .journal import PostgresqlJournal
from .ledger import PostgresqlLedger, forget_texts
from .owners import Renewer, extend
from .tables import AFTER_RESTORE, COMPATIBLE_FROM, CONVERSATIONS

MAX_KEY_BYTES = 800
"""Bytes of a tenant's name or an id: an entry of an index holds three of them, and some 2,700 bytes."""

_INFO = """
    SELECT id, title, turns, started_at, used_at, topic, (
        SELECT t.status FROM {s}.turns t WHERE t.tenant = c.tenant AND t.conversation = c.id AND t.number = c.turns
    ), cost, unpriced
    FROM {s}.conversations c WHERE tenant = %s"""

# One statement, so that a deletion cannot come in between: the turn of the version, without its text, and all after it;
# every turn if that one is gone.
_NEW_HISTORY: LiteralString = """
    WITH known AS (
        SELECT number FROM {s}.turns
        WHERE tenant = %s AND conversation = %s AND serial = %s AND id = %s
    )
    SELECT serial, id,
        CASE WHEN number = (SELECT number FROM known) THEN NULL ELSE coalesce(history, turn) END
    FROM {s}.turns WHERE tenant = %s AND conversation = %s
    AND number >= coalesce((SELECT number FROM known), 0) ORDER BY number"""
_LOCK: LiteralString = "SELECT turns FROM {s}.conversations WHERE tenant = %s AND id = %s FOR UPDATE"
_BEGIN: LiteralString = """
    INSERT INTO {s}.conversations (tenant, id, title, folded_title, topic, turns, started_at, used_at, used)
    VALUES (%s, %s, %s, %s, '', 0, %s, %s, 0) ON CONFLICT DO NOTHING"""
_ADD: LiteralString = """
    INSERT INTO {s}.turns (tenant, conversation, number, id, folded_text, history, turn, status)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (tenant, conversation, id) DO NOTHING"""
_USE: LiteralString = """
    UPDATE {s}.conversations SET turns = turns + 1, used_at = %s, topic = %s, cost = CASE WHEN %s::bigint IS NULL
        THEN cost ELSE least(coalesce(cost, 0)::numeric + %s::bigint, 9e18)::bigint END, unpriced = unpriced + %s,
        used = nextval(%s::regclass) WHERE tenant = %s AND id = %s"""
_DELETE_EMPTY: LiteralString = "DELETE FROM {s}.conversations WHERE tenant = %s AND id = %s AND turns = 0"


class PostgresqlConversations:
    """Conversations in PostgreSQL; see ConversationStore. Connects on first use.

    Ids and tenants are compared exactly; ids with NUL or an unpaired surrogate are rejected.

    Attributes:
        journal: The steps of the turns; see JournalingStore.
        media: The media of the turns; see KeepingMedia.
        counters: What is reserved and spent; see KeepingCounters.
        connections, renewer: Shared by the store, its journal and its ledger.
    """

    def __init__(self, config: PostgresqlConfig) -> None:
        self.connections = Connections(
            config,
            name="conversations",
            part="conversations",
            steps=CONVERSATIONS,
            error=StorageError,
            compatible_from=COMPATIBLE_FROM,
            after_restore=AFTER_RESTORE,
        )
        self.renewer = Renewer(config, self.connections)
        self.journal = PostgresqlJournal(self.connections, self.renewer)
        self.media = self.journal.media
        self.counters = PostgresqlCounters(self.connections, self.renewer)

    @property
    def database(self) -> Connections:
        """The tables of conversations, effects and the journal; see StoreDatabase."""
        return self.connections

    def ledger(self) -> PostgresqlLedger:
        """Return the ledger of effects in the same database; see KeepingEffects."""
        return PostgresqlLedger(self.connections, self.renewer)

    async def append(
        self, conversation: str, turn: ConversationTurn, *, tenant: str, end: TurnEnd | None = None
    ) -> None:
        """Append a turn, creating the conversation if it does not exist; see JournalingStore.

        Concurrent appends are serialized by a lock on the conversation's row.
        """
        who, which, id = _key("tenant", tenant), _key("conversation", conversation), _key("turn", turn.id)
        now, (cost, gap) = effect_rows.now_text(), turn.cost.summand
        media: dict[str, bytes] = {}
        try:
            encoded = turn_to_parts(turn, media)
        except ValueError as error:
            raise StorageError(f"conversations: {error}") from error

        async def append(connection: Connection) -> bool:
            # First the owner, the conversation, then the journal, as elsewhere: another order would deadlock.
            if end is not None and end.lease_s is not None:
                await extend(connection, end.turn.owner, end.lease_s)
            at = storable(turn.at) or now
            turns = await self._lock(connection, who, which, turn.title, at)
            # The end before the turn: it fails on a lost fence, before a conversation shows a turn run elsewhere.
            is_kept = end is None or await self.journal.end(connection, end, now)
            if is_kept:
                added = (who, which, turns + 1, id, turn.text.casefold(), *encoded, turn.status)
                # No row is inserted if an earlier attempt was committed: its cost must not be added twice.
                if (await connection.execute(_ADD, added)).rowcount:
                    sequence = connection.compose("{s}.conversation_uses").as_string(connection.raw)
                    used = (at, storable(turn.topic), cost, cost, gap, sequence, who, which)
                    await connection.execute(_USE, used)
                    await media_rows.use(connection, who, media, turn=(which, id))
            else:
                await connection.execute(_DELETE_EMPTY, (who, which))
            return is_kept

        is_kept = await self.connections.repeated(append)
        # Only after the commit: until then a retry may have to write the remembered steps again.
        if end is not None:
            self.journal.ended(end.turn)
        if not is_kept:
            raise UnknownConversationError(conversation)

    async def _lock(self, connection: Connection, who: str, which: str, title: str, at: str) -> int:
        """Lock a conversation, which is created if it does not exist, and return how many turns it has."""
        # The row lock serializes appends, so turn numbers have neither gaps nor duplicates.
        while True:
            row = await connection.row(_LOCK, (who, which))
            if row is not None:
                return int(row[0])
            # Another append may create it, and a deletion delete it again, between the two statements.
            values = (who, which, title, title.casefold(), at, at)
            await connection.execute(_BEGIN, values)

    async def turns(self, conversation: str, *, tenant: str, last: int | None = None) -> Sequence[ConversationTurn]:
        """Return the turns, oldest first; only the newest *last* of them if given."""
        who, which = _key("tenant", tenant), _key("conversation", conversation)
        async with self.connections.transaction() as connection:
            query = """
                SELECT history, turn FROM {s}.turns WHERE tenant = %s AND conversation = %s
                ORDER BY number DESC LIMIT %s"""
            limit = None if last is None else max(last, 0)
            rows = await connection.rows(query, (who, which, limit))
            if not rows:
                await self._check_exists(connection, who, which)
            media = await media_rows.load_for(connection, who, [text for row in rows for text in row])
        with _explained(conversation):
            return [turn_from_parts(history, rest, media) for history, rest in reversed(rows)]

    async def history(self, conversation: str, *, tenant: str, after: str | None = None) -> ConversationHistory:
        """List the messages of a conversation's turns for later turns; see HistoryStore."""
        who, which = _key("tenant", tenant), _key("conversation", conversation)
        serial, _, id = (after or "").partition(" ")
        marker = (int(serial) if serial.isdecimal() and len(serial) < 19 else -1, id if id == storable(id) else "")
        values = (who, which, *marker, who, which)

        async def read(connection: Connection) -> builtins.list[Row]:
            rows = await connection.rows(_NEW_HISTORY, values)
            if not rows:
                await self._check_exists(connection, who, which)
            return rows

        rows, media = await self.connections.repeated(read, alone=True), dict[str, bytes]()
        if digests_in(text for *_, text in rows):
            async with self.connections.transaction() as connection:  # with their media, read at one moment
                rows = await read(connection)
                media = await media_rows.load_for(connection, who, [text for *_, text in rows])
        texts = [text for _, _, text in rows if text is not None]
        with _explained(conversation):
            turns = history_from_json(texts, media)
        version = f"{rows[-1][0]} {rows[-1][1]}" if rows else ""
        is_whole = len(texts) == len(rows)
        size = sum(map(len, texts)) + sum(map(len, media.values()))
        return ConversationHistory(turns=turns, version=version, is_whole=is_whole, size=size)

    async def _check_exists(self, connection: Connection, who: str, which: str) -> None:
        there = "SELECT 1 FROM {s}.conversations WHERE tenant = %s AND id = %s"
        if await connection.row(there, (who, which)) is None:
            raise UnknownConversationError(which)

    async def get(self, conversation: str, *, tenant: str) -> ConversationInfo:
        """Return a conversation's title, counts, times and cost; see ConversationStore."""
        key = (_key("tenant", tenant), _key("conversation", conversation))
        async with self.connections.transaction() as connection:
            row = await connection.row(_INFO + " AND id = %s", key)
        if row is None:
            raise UnknownConversationError(conversation)
        return _info(row)

    async def list(
        self, *, tenant: str, search: str | None = None, limit: int = 50, before: str | None = None
    ) -> Sequence[ConversationInfo]:
        """Return conversations, most recently used first.

        Args:
            search: Words or fragments that must all occur in the text of one turn or in the title, ignoring case.
            before: The id of the last conversation of the previous page.

        Raises:
            UnknownConversationError: The conversation *before* does not exist.
        """
        statement = _INFO
        values: list[object] = [_key("tenant", tenant)]
        words = ["%" + _escaped(word) + "%" for word in storable(search or "").casefold().split()]
        if words:
            statement += """ AND (folded_title LIKE ALL(%s) OR EXISTS (
                SELECT FROM {s}.turns t
                WHERE t.tenant = c.tenant AND t.conversation = c.id AND t.folded_text LIKE ALL(%s)
            ))"""
            values += [words, words]
        async with self.connections.transaction() as connection:
            if before is not None:
                query = "SELECT used FROM {s}.conversations WHERE tenant = %s AND id = %s"
                key = (values[0], _key("conversation", before))
                used = await connection.row(query, key)
                if used is None:
                    raise UnknownConversationError(before)
                statement += " AND used < %s"
                values += used
            statement += " ORDER BY used DESC LIMIT %s"
            values.append(max(limit, 0))
            rows = await connection.rows(statement, values)
        return [_info(row) for row in rows]

    async def rename(self, conversation: str, title: str, *, tenant: str) -> None:
        """Replace a conversation's title."""
        renamed = "UPDATE {s}.conversations SET title = %s, folded_title = %s WHERE tenant = %s AND id = %s"
        text = storable(title)
        values = (text, text.casefold(), _key("tenant", tenant), _key("conversation", conversation))
        async with self.connections.transaction(write=True) as connection:
            if not (await connection.execute(renamed, values)).rowcount:
                raise UnknownConversationError(conversation)

    async def delete(self, conversation: str, *, tenant: str) -> None:
        """Delete a conversation with its turns, their steps and the texts of its effects; see ConversationStore."""
        deleted = "DELETE FROM {s}.conversations WHERE tenant = %s AND id = %s"
        key = (_key("tenant", tenant), _key("conversation", conversation))

        async def delete(connection: Connection) -> None:
            # First the conversation, then the journal, as append does: the opposite order would deadlock. Turns that
            # begin in it wait for its row, and find it gone.
            is_there = (await connection.execute(deleted, key)).rowcount
            # Until its first turn ends, a conversation has only that: suspended, accepted or interrupted.
            if not await self.journal.delete_of(connection, *key) and not is_there:
                if connection.is_again:
                    return  # an earlier attempt was committed
                raise UnknownConversationError(conversation)
            await forget_texts(connection, *key)
            await question_rows.delete_of(connection, *key)

        await self.connections.repeated(delete)

    async def aclose(self) -> None:
        """Close all connections."""
        await self.journal.notices.aclose()
        await self.connections.aclose()
        await asyncio.to_thread(self.renewer.close)


def _key(what: str, name: str) -> str:
    if not name or name != storable(name) or len(name.encode()) > MAX_KEY_BYTES:
        raise StorageError(
            f"conversations: {name[:50]!r} cannot name a {what}: a name has 1 to {MAX_KEY_BYTES} bytes, without NUL "
            "and halves of surrogate pairs"
        )
    return name


@contextlib.contextmanager
def _explained(conversation: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise StorageError(f"conversations: a turn of '{conversation}' cannot be read: {error}") from error


def _escaped(word: str) -> str:
    return word.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")


def _info(row: tuple[Any, ...]) -> ConversationInfo:
    names = ("id", "title", "turns", "started_at", "used_at", "topic", "status")
    return ConversationInfo(**dict(zip(names, row, strict=False)), cost=Cost.of_turns(*row[len(names) :]))
