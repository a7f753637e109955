"""Hourly sums of turns, in the journal's database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

import attrs
from flexchat.store import AddTurn, HourlySum, JournaledTurn, sum_rows

from .connections import Connection, Connections

# The index holds what is in no sum yet, in the order in which turns began.
TABLES: LiteralString = """
    ALTER TABLE {s}.journal_turns ADD COLUMN is_summed boolean NOT NULL DEFAULT false;
    CREATE INDEX journal_turns_unsummed ON {s}.journal_turns (number) WHERE ended_at <> '' AND NOT is_summed;
    CREATE TABLE {s}.turn_sums (
        hour bigint NOT NULL, tenant text COLLATE "C" NOT NULL, packed bytea NOT NULL, PRIMARY KEY (hour, tenant)
    )
    """

_FIELDS = tuple(field.name for field in attrs.fields(JournaledTurn))
# Turns that are being deleted are not waited for. One process adds at a time: sums have no order in which to be locked.
_UNSUMMED: LiteralString = """
    SELECT id, tenant, conversation, state, message, owner, fence, began_at, ended_at, error, key, suspensions,
    cancelled_by, due_at, priority, format FROM {s}.journal_turns
    WHERE ended_at <> '' AND NOT is_summed ORDER BY number LIMIT %s FOR NO KEY UPDATE SKIP LOCKED"""
_ALONE: LiteralString = "SELECT pg_advisory_xact_lock('{s}.turn_sums'::regclass::bigint)"
_STEPS: LiteralString = """
    SELECT turn, number, kind, data, at FROM {s}.journal_entries
    WHERE turn = ANY(%s) AND kind = ANY(%s) ORDER BY turn, number"""
_MARK: LiteralString = "UPDATE {s}.journal_turns SET is_summed = true WHERE id = ANY(%s)"
_SUMS: LiteralString = """
    SELECT s.hour, s.tenant, s.packed FROM {s}.turn_sums s
    JOIN unnest(%s::bigint[], %s::text[]) k (hour, tenant) ON s.hour = k.hour AND s.tenant = k.tenant"""
_STORE: LiteralString = """
    INSERT INTO {s}.turn_sums SELECT * FROM unnest(%s::bigint[], %s::text[], %s::bytea[])
    ON CONFLICT (hour, tenant) DO UPDATE SET packed = excluded.packed"""
_READ: LiteralString = """
    SELECT hour, tenant, packed FROM {s}.turn_sums
    WHERE hour > %s / 3600.0 - 1 AND (%s::text IS NULL OR tenant = %s) ORDER BY hour, tenant"""


class PostgresqlTurnSums:
    """TurnSums in PostgreSQL."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def add(self, add: AddTurn, *, limit: int = 200) -> int:
        """Add turns that are in no sum yet; see TurnSums."""

        async def work(connection: Connection) -> int:
            await connection.execute(_ALONE)
            rows = await connection.rows(_UNSUMMED, (limit,))
            turns = [JournaledTurn(**dict(zip(_FIELDS, row, strict=True))) for row in rows]
            if not turns:
                return 0
            ids = [turn.id for turn in turns]
            steps: dict[str, list[Sequence[object]]] = {id: [] for id in ids}
            for id, *step in await connection.rows(_STEPS, (ids, [*sum_rows.SUMMED_KINDS])):
                steps[id].append(step)
            keys = {(sum_rows.hour_of(turn), turn.tenant) for turn in turns}
            stored = await connection.rows(_SUMS, [*map(list, zip(*keys, strict=True))])
            packed = {(hour, tenant): bytes(data) for hour, tenant, data in stored}
            read = ((turn, sum_rows.readable_steps(turn.id, steps[turn.id])) for turn in turns)
            new = sum_rows.add_turns(add, read, packed)
            await connection.execute(_STORE, [*map(list, zip(*new, strict=True))])
            await connection.execute(_MARK, (ids,))
            return len(turns)

        return await self._connections.repeated(work)

    async def read(self, *, tenant: str | None = None, since_s: float = 0.0) -> Sequence[HourlySum]:
        """Return the sums; see TurnSums."""
        rows = await self._connections.repeated(
            lambda connection: connection.rows(_READ, (since_s, tenant, tenant)), alone=True
        )
        return [sum_rows.sum_from_row((hour, tenant, data)) for hour, tenant, data in rows]
