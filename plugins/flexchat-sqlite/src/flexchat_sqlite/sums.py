"""Hourly sums of turns, in the journal's file."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import attrs
from flexchat.conversations.sum_rows import SUMMED_KINDS, add_turns, hour_of, readable_steps, sum_from_row
from flexchat.domain.counters import HourlySum
from flexchat.domain.journal import JournaledTurn, JournalEntry
from flexchat.plugin.contracts import AddTurn

from .database import Database

# The index holds what is in no sum yet, in the order in which turns began.
TABLES = """
ALTER TABLE journal_turns ADD COLUMN is_summed INTEGER NOT NULL DEFAULT 0;
CREATE INDEX journal_turns_unsummed ON journal_turns (number) WHERE ended_at != '' AND is_summed = 0;
CREATE TABLE turn_sums (
    hour INTEGER NOT NULL, tenant TEXT NOT NULL, packed BLOB NOT NULL, PRIMARY KEY (hour, tenant)
) WITHOUT ROWID;
"""

_FIELDS = tuple(field.name for field in attrs.fields(JournaledTurn))
_UNSUMMED = (
    f"SELECT {', '.join(_FIELDS)} FROM journal_turns INDEXED BY journal_turns_unsummed "
    "WHERE ended_at != '' AND is_summed = 0 ORDER BY number LIMIT ?"
)
_STEPS = (
    "SELECT number, kind, data, at FROM journal_entries "
    f"WHERE turn = ? AND kind IN ({', '.join(map(repr, SUMMED_KINDS))}) ORDER BY number"
)
_MARK = "UPDATE journal_turns SET is_summed = 1 WHERE id = ? AND is_summed = 0"
_STORE = "INSERT INTO turn_sums VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET packed = excluded.packed"


class SqliteTurnSums:
    """TurnSums in a SQLite file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, add: AddTurn, *, limit: int = 200) -> int:
        """Add turns that are in no sum yet; see TurnSums."""

        def read(database: sqlite3.Connection) -> list[tuple[JournaledTurn, Sequence[JournalEntry]]]:
            rows = database.execute(_UNSUMMED, (limit,)).fetchall()
            turns = [JournaledTurn(**dict(zip(_FIELDS, row, strict=True))) for row in rows]
            return [(turn, readable_steps(turn.id, database.execute(_STEPS, (turn.id,)))) for turn in turns]

        # Steps are long: they are read before the write lock is taken. Only the process that marks a turn adds it.
        unsummed = await self._database.read(read)

        def write(database: sqlite3.Connection) -> None:
            turns = [each for each in unsummed if database.execute(_MARK, (each[0].id,)).rowcount]
            keys = {(hour_of(turn), turn.tenant) for turn, _ in turns}
            query = "SELECT packed FROM turn_sums WHERE hour = ? AND tenant = ?"
            packed = {key: row[0] for key in keys if (row := database.execute(query, key).fetchone()) is not None}
            database.executemany(_STORE, add_turns(add, turns, packed))

        if unsummed:
            await self._database.write(write)
        return len(unsummed)

    async def read(self, *, tenant: str | None = None, since_s: float = 0.0) -> Sequence[HourlySum]:
        """Return the sums; see TurnSums."""

        def read(database: sqlite3.Connection) -> list[HourlySum]:
            rows = database.execute(
                "SELECT hour, tenant, packed FROM turn_sums "
                "WHERE hour > ? / 3600.0 - 1 AND tenant = coalesce(?, tenant) ORDER BY hour, tenant",
                (since_s, tenant),
            )
            return [sum_from_row(row) for row in rows]

        return await self._database.read(read)
