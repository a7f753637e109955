"""The built-in ConversationStore: one SQLite file."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from flexchat.conversations.effect_rows import RESTORED_EFFECT, now_text
from flexchat.conversations.journal_rows import RESTORED_TURN
from flexchat.domain import ConversationHistory, ConversationInfo, ConversationTurn
from flexchat.domain.codec import digests_in
from flexchat.domain.conversation import history_from_json, turn_from_parts, turn_to_parts
from flexchat.domain.journal import MAX_RESUMES, TurnEnd
from flexchat.domain.prices import Cost
from flexchat.domain.text import storable
from flexchat.errors import StorageError, UnknownConversationError

from . import counters as sqlite_counters
from . import ledger as sqlite_ledger
from . import media as media_rows
from . import sums as turn_sums
from .database import Database
from .journal import (
    CHANGE_TABLES,
    EVENT_TABLES,
    KEY_TABLES,
    PENDING_TABLES,
    SqliteJournal,
    delete_turns_of,
    end_writer,
)
from .journal import FORMAT as JOURNAL_FORMATS
from .journal import TABLES as JOURNAL_TABLES
from .questions import TABLES as QUESTION_TABLES

APPLICATION_ID = 0x666C7863  # "flxc"

# Ordered by last_turn rather than by a time: clocks go back, and two turns may share a millisecond.
_TABLES = """
CREATE TABLE conversations (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    title TEXT NOT NULL,
    topic TEXT NOT NULL,
    turns INTEGER NOT NULL,
    started_at TEXT NOT NULL,
    used_at TEXT NOT NULL,
    last_turn INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX conversations_by_use ON conversations (tenant, last_turn);
CREATE TABLE turns (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    conversation TEXT NOT NULL,
    id TEXT NOT NULL,
    turn TEXT NOT NULL,
    folded_text TEXT NOT NULL,
    UNIQUE (tenant, conversation, id),
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, id) ON DELETE CASCADE
        DEFERRABLE INITIALLY DEFERRED
);
"""
# A column in addition to the turn's JSON, for the list of conversations. Turns in old files are all done.
_STATUS = "ALTER TABLE turns ADD COLUMN status TEXT NOT NULL DEFAULT 'done';"
# What all turns cost, in trillionths of a dollar (NULL if none is priced), and how many are not fully priced. Not a
# column of turns: a list of conversations would read all their texts to get at it.
_COST = """
ALTER TABLE conversations ADD COLUMN cost INTEGER;
ALTER TABLE conversations ADD COLUMN unpriced INTEGER NOT NULL DEFAULT 0;
UPDATE conversations SET unpriced = turns;
"""
# What later turns read of a turn, apart from its records. Turns in old files are whole in their column "turn".
_HISTORY = """
ALTER TABLE turns ADD COLUMN history TEXT;
CREATE INDEX turns_by_conversation ON turns (tenant, conversation);
"""
_MIGRATIONS = (
    _TABLES,
    _STATUS,
    sqlite_ledger.TABLES,
    JOURNAL_TABLES,
    EVENT_TABLES,
    KEY_TABLES,
    _COST,
    sqlite_ledger.HANDLE,
    sqlite_ledger.HONOURS_KEY,
    _HISTORY,
    PENDING_TABLES,
    QUESTION_TABLES,
    sqlite_ledger.PENDING,
    CHANGE_TABLES,
    media_rows.TABLES,
    sqlite_counters.TABLES,
    JOURNAL_FORMATS,
    turn_sums.TABLES,
)

# Steps that a FlexChat must know to use the newest schema. Each later one only adds to it, so that the versions before
# and after it can share a file; one that removes or changes something raises this number.
_COMPATIBLE_FROM = 15

_AFTER_RESTORE = f"""
DELETE FROM owners;
UPDATE effects SET state = 'unknown', note = '{RESTORED_EFFECT}' WHERE state IN ('claimed', 'pending');
UPDATE journal_turns SET state = 'running', owner = '', error = '{RESTORED_TURN}',
    fence = max(fence + 1, suspensions + {MAX_RESUMES} + 1) WHERE ended_at = '';
"""

_MAX_COST = 9 * 10**18  # keeps the sum an integer: beyond 64 bits SQLite would continue with a float

_INFO = (
    "id, title, turns, started_at, used_at, topic, (SELECT status FROM turns WHERE number = conversations.last_turn), "
    "cost, unpriced"
)


class SqliteConversations:
    """ConversationStore in a SQLite file.

    Ids and tenants are compared exactly; NUL and unpaired surrogates in them are refused. A search ignores case, and a
    word also matches inside a longer one.

    Attributes:
        database: The file, with the tables of conversations, effects and the journal.
        journal: The steps of the turns; see JournalingStore.
        media: The media of the turns; see KeepingMedia.
        counters: What is reserved and spent; see KeepingCounters.
    """

    def __init__(self, path: str | Path) -> None:
        self.database = Database(
            path,
            kind="conversations",
            application_id=APPLICATION_ID,
            migrations=_MIGRATIONS,
            prepare=_add_functions,
            compatible_from=_COMPATIBLE_FROM,
            after_restore=_AFTER_RESTORE,
        )
        self.journal = SqliteJournal(self.database)
        self.media = self.journal.media
        self.counters = sqlite_counters.SqliteCounters(self.database)

    @property
    def path(self) -> Path:
        """The file."""
        return self.database.path

    def ledger(self) -> sqlite_ledger.SqliteLedger:
        """Return the ledger of effects in the same file; see KeepingEffects."""
        return sqlite_ledger.SqliteLedger(self.database)

    async def append(
        self, conversation: str, turn: ConversationTurn, *, tenant: str, end: TurnEnd | None = None
    ) -> None:
        """Add a turn at the end; see JournalingStore."""
        # Encoded here, outside the transaction, which holds the write lock.
        key, write_end = _key(tenant, conversation), None if end is None else end_writer(end)
        _key(turn.id)
        media: dict[str, bytes] = {}
        try:
            history, rest = turn_to_parts(turn, media)
        except ValueError as error:
            raise StorageError(f"conversations: {error}") from None
        row = (*key, turn.id, rest, turn.text.casefold(), turn.status, history)
        title, topic, at = turn.title, storable(turn.topic), storable(turn.at) or now_text()

        # One transaction: a kill leaves either an unfinished turn to resume, or a finished one in its conversation.
        # The end first: it checks the fence, so that an owner which lost the turn adds nothing.
        def write(database: sqlite3.Connection) -> bool:
            if write_end is not None and not write_end(database):
                return False
            # No row if the turn is stored already: appending it again, after a lost answer, must not count it twice.
            for (number,) in database.execute(_ADD, row).fetchall():
                database.execute(_COUNT, (*key, title, topic, at, at, number, *turn.cost.summand))
                if media:
                    media_rows.use(database, key[0], media, turn=number)
            return True

        if not await self.database.write(write):
            raise UnknownConversationError(conversation)

    async def turns(self, conversation: str, *, tenant: str, last: int | None = None) -> Sequence[ConversationTurn]:
        """Return a conversation's turns, oldest first; see ConversationStore."""
        key = _key(tenant, conversation)
        limit = -1 if last is None else max(last, 0)

        def read(database: sqlite3.Connection) -> list[tuple[str | None, str]]:
            rows = database.execute(
                "SELECT history, turn FROM turns WHERE tenant = ? AND conversation = ? ORDER BY number DESC LIMIT ?",
                (*key, limit),
            ).fetchall()
            if not rows:
                _find(database, key)  # raises if there is no such conversation
            return rows

        texts, media = await self._with_media(read, key[0])
        with self._explained(conversation):
            return [turn_from_parts(history, rest, media) for history, rest in reversed(texts)]

    async def _with_media(
        self, read: Callable[[sqlite3.Connection], list[Any]], tenant: str
    ) -> tuple[list[Any], dict[str, bytes]]:
        """Return rows of JSON texts with the media that they need, read at one moment."""

        def read_all(database: sqlite3.Connection) -> tuple[list[Any], dict[str, bytes]]:
            rows = read(database)
            return rows, media_rows.load_for(database, tenant, _texts(rows))

        # Most have none, and a change of threads costs more than the read.
        rows = await self.database.read_soon(read)
        return await self.database.read(read_all) if digests_in(_texts(rows)) else (rows, {})

    async def history(self, conversation: str, *, tenant: str, after: str | None = None) -> ConversationHistory:
        """List the messages of a conversation's turns for later turns; see HistoryStore."""
        whose, which = _key(tenant, conversation)
        number, _, id = (after or "").partition(" ")
        values = {"tenant": whose, "conversation": which, "number": number, "id": id}

        def read(database: sqlite3.Connection) -> list[tuple[int, str, str | None]]:
            rows = database.execute(_NEW_HISTORY, values).fetchall()
            if not rows:
                _find(database, (whose, which))  # raises if there is no such conversation
            return rows

        rows, media = await self._with_media(read, whose)  # every turn of a conversation begins with this
        # A number is never given to a second turn of one file; with the id, not even if a copy of the file is put back.
        texts = [text for _, _, text in rows if text is not None]
        with self._explained(conversation):
            turns = history_from_json(texts, media)
        version = f"{rows[-1][0]} {rows[-1][1]}" if rows else ""
        is_whole = len(texts) == len(rows)
        size = sum(map(len, texts)) + sum(map(len, media.values()))
        return ConversationHistory(turns=turns, version=version, is_whole=is_whole, size=size)

    @contextlib.contextmanager
    def _explained(self, conversation: str) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise StorageError(
                f"conversations: '{self.path}' has a turn of '{conversation}' that cannot be read: {error}"
            ) from None

    async def get(self, conversation: str, *, tenant: str) -> ConversationInfo:
        """Return a conversation's title, topic, times and cost; see ConversationStore."""
        key = _key(tenant, conversation)
        return await self.database.read(lambda database: _find(database, key))

    async def list(
        self, *, tenant: str, search: str | None = None, limit: int = 50, before: str | None = None
    ) -> Sequence[ConversationInfo]:
        """Return conversations, most recently used first; see ConversationStore.

        Raises:
            UnknownConversationError: There is no conversation ``before``.
        """
        (tenant_key,) = _key(tenant)
        conditions, values = ["tenant = :tenant"], {"tenant": tenant_key, "limit": max(limit, 0)}
        if before is not None:
            conditions.append("last_turn < (SELECT last_turn FROM conversations WHERE tenant = :tenant AND id = :id)")
            (values["id"],) = _key(before)
        words = storable(search or "").casefold().split()
        if words:
            conditions.append(_HAS_WORDS)
            values["words"] = json.dumps(words)

        def read(database: sqlite3.Connection) -> list[ConversationInfo]:
            if before is not None:
                _find(database, (tenant_key, before))
            rows = database.execute(
                f"SELECT {_INFO} FROM conversations WHERE {' AND '.join(conditions)} "
                "ORDER BY last_turn DESC LIMIT :limit",
                values,
            )
            return [_info(row) for row in rows]

        return await self.database.read(read)

    async def rename(self, conversation: str, title: str, *, tenant: str) -> None:
        """Rename a conversation; see ConversationStore."""
        key = _key(tenant, conversation)

        def rename(database: sqlite3.Connection) -> None:
            values = (storable(title), *key)
            if not database.execute("UPDATE conversations SET title = ? WHERE tenant = ? AND id = ?", values).rowcount:
                raise UnknownConversationError(conversation)

        await self.database.write(rename)

    async def delete(self, conversation: str, *, tenant: str) -> None:
        """Delete a conversation with all its turns, and its effects' texts; see ConversationStore."""
        key = _key(tenant, conversation)

        def delete(database: sqlite3.Connection) -> None:
            is_there = database.execute("DELETE FROM conversations WHERE tenant = ? AND id = ?", key).rowcount
            # Until its first turn ends, a conversation has only that: suspended, accepted or interrupted.
            if not delete_turns_of(database, *key) and not is_there:
                raise UnknownConversationError(conversation)
            sqlite_ledger.forget_texts(database, *key)

        await self.database.write(delete)
        await self.database.empty_log()

    async def aclose(self) -> None:
        """Close the file."""
        await self.database.aclose()


_ADD = (
    "INSERT INTO turns (tenant, conversation, id, turn, folded_text, status, history) "
    "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING number"
)
_COUNT = (
    "INSERT INTO conversations (tenant, id, title, topic, turns, started_at, used_at, last_turn, cost, unpriced) "
    "VALUES (?, ?, ?, ?, 1, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET turns = turns + 1, topic = excluded.topic, "
    "used_at = excluded.used_at, last_turn = excluded.last_turn, unpriced = unpriced + excluded.unpriced, "
    "cost = CASE WHEN excluded.cost IS NULL THEN cost "
    f"ELSE min(coalesce(cost, 0) + excluded.cost, {_MAX_COST}) END"
)
# One statement, so that a deletion cannot come in between: the turn of the version, without its text, and all after it;
# every turn if that one is gone.
_NEW_HISTORY = """
WITH known AS (
    SELECT number FROM turns
    WHERE number = :number AND id = :id AND tenant = :tenant AND conversation = :conversation
)
SELECT number, id, CASE WHEN number = (SELECT number FROM known) THEN NULL ELSE coalesce(history, turn) END
FROM turns WHERE tenant = :tenant AND conversation = :conversation
AND number >= coalesce((SELECT number FROM known), 0) ORDER BY number
"""

_HAS_WORDS = """(
    NOT EXISTS (SELECT 1 FROM json_each(:words) WHERE instr(casefold(conversations.title), value) = 0)
    OR EXISTS (
        SELECT 1 FROM turns WHERE turns.tenant = :tenant AND turns.conversation = conversations.id
        AND NOT EXISTS (SELECT 1 FROM json_each(:words) WHERE instr(turns.folded_text, value) = 0)
    )
)"""


def _add_functions(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA secure_delete = ON")  # overwrite deleted text in the file
    connection.create_function("casefold", 1, str.casefold, deterministic=True)


def _key(*names: str) -> tuple[str, ...]:
    for name in names:
        if not isinstance(name, str) or not name or name != storable(name):
            raise StorageError(f"conversations: {name!r} cannot be a key: it is empty, or not text a database accepts")
    return names


def _texts(rows: Iterable[tuple[Any, ...]]) -> list[str]:
    return [each for row in rows for each in row if type(each) is str]


def _find(database: sqlite3.Connection, key: tuple[str, ...]) -> ConversationInfo:
    row = database.execute(f"SELECT {_INFO} FROM conversations WHERE tenant = ? AND id = ?", key).fetchone()
    if row is None:
        raise UnknownConversationError(key[1])
    return _info(row)


def _info(row: tuple[Any, ...]) -> ConversationInfo:
    names = ("id", "title", "turns", "started_at", "used_at", "topic", "status")
    return ConversationInfo(**dict(zip(names, row, strict=False)), cost=Cost.of_turns(*row[len(names) :]))
