"""Counters in the conversations' SQLite file."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from flexchat.conversations.counter_rows import CounterRow, take_charges
from flexchat.conversations.effect_rows import boot_id, seconds_since_boot
from flexchat.domain.counters import Charge, HourlySum, Refusal, hour_text

from .database import Database
from .ledger import renew

# The clock: the time of the boot as the system's clock has it, and when that was last set forward.
TABLES = """
CREATE TABLE counters (
    key TEXT PRIMARY KEY, used INTEGER NOT NULL, held INTEGER NOT NULL, until INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE counter_reservations (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, labels TEXT NOT NULL, worst TEXT NOT NULL, held TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE counter_waiters (
    number INTEGER NOT NULL, id TEXT NOT NULL, key TEXT NOT NULL, amount INTEGER NOT NULL, until INTEGER NOT NULL,
    owner TEXT NOT NULL, PRIMARY KEY (key, number)
) WITHOUT ROWID;
CREATE INDEX counter_waiters_by_id ON counter_waiters (id);
CREATE INDEX counter_waiters_by_number ON counter_waiters (number);
CREATE TABLE counter_sums (
    hour INTEGER NOT NULL, labels TEXT NOT NULL, name TEXT NOT NULL, value INTEGER NOT NULL,
    PRIMARY KEY (hour, labels, name)
) WITHOUT ROWID;
CREATE TABLE counter_clock (boot TEXT NOT NULL, booted INTEGER NOT NULL, jumped INTEGER NOT NULL);
"""

_ALIVE = (
    "EXISTS (SELECT 1 FROM owners WHERE owners.owner = {}.owner AND renewed <= :boot_s AND :boot_s < renewed + lease)"
)
_AHEAD = (
    "SELECT coalesce(sum(amount), 0) FROM counter_waiters WHERE key = :key AND until > :now AND number < :ticket "
    f"AND {_ALIVE.format('counter_waiters')}"
)
_DEAD = f"SELECT id FROM counter_reservations WHERE NOT {_ALIVE.format('counter_reservations')}"
_STORE = "INSERT INTO counters VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET used = excluded.used, "
_STORE += "held = excluded.held, until = excluded.until"
# Of the period in which it was reserved: later ones ignore it.
_SETTLE = "UPDATE counters SET used = used + ?, held = held - ? WHERE key = ? AND until = ?"
_ADD = "INSERT INTO counter_sums VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET value = value + excluded.value"

_DRIFT_US = 2_000_000  # between two looks at the clock; more is a jump
_FORGET_US = 62 * 86_400_000_000  # after the end of a period: longer than any
_NO_TICKET = 2**62

T = TypeVar("T")


class SqliteCounters:
    """CounterStore in a SQLite file.

    Leases run by the time since boot, as the ledger's, and periods by the system's clock: how far it was set forward
    shows in the time of the boot, which is compared in every transaction.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def reserve(
        self,
        id: str,
        charges: Sequence[Charge],
        *,
        owner: str,
        lease_s: float | None = None,
        labels: Mapping[str, str] | None = None,
        worst: Mapping[str, int] | None = None,
        wait_s: float = 0.0,
    ) -> Refusal | None:
        """Reserve amounts; see CounterStore."""

        def reserve(database: sqlite3.Connection) -> Refusal | None:
            if lease_s is not None:
                renew(database, owner, lease_s)
            if database.execute("SELECT 1 FROM counter_reservations WHERE id = ?", (id,)).fetchone():
                return None
            now, jumped = self._now(database)
            refusal = self._take(database, id, charges, owner, labels, worst, wait_s, now, jumped)
            if refusal is not None and self._expire(database, now):
                refusal = self._take(database, id, charges, owner, labels, worst, wait_s, now, jumped)
            return refusal

        return await self._run(reserve, is_lasting=worst is not None)

    def _take(
        self,
        database: sqlite3.Connection,
        id: str,
        charges: Sequence[Charge],
        owner: str,
        labels: Mapping[str, str] | None,
        worst: Mapping[str, int] | None,
        wait_s: float,
        now: int,
        jumped: int,
    ) -> Refusal | None:
        is_queue = database.execute("SELECT EXISTS (SELECT 1 FROM counter_waiters)").fetchone()[0]
        cursor = database.execute("SELECT min(number) FROM counter_waiters WHERE id = ?", (id,)) if is_queue else None
        ticket = None if cursor is None else cursor.fetchone()[0]
        about = {"now": now, "boot_s": seconds_since_boot(), "ticket": _NO_TICKET if ticket is None else ticket}

        def ahead_of(key: str) -> int:
            return int(database.execute(_AHEAD, {"key": key, **about}).fetchone()[0]) if is_queue else 0

        taken, refusals = take_charges(charges, now, jumped, lambda key: _row(database, key), ahead_of)
        if refusals:
            if wait_s > 0:
                self._queue(database, id, charges, {each.key for each in refusals}, owner, ticket, now, wait_s)
            return refusals[0]
        if ticket is not None:
            database.execute("DELETE FROM counter_waiters WHERE id = ?", (id,))
        database.executemany(_STORE, [(charge.key, row.used, row.held, row.until) for charge, row in taken])
        held = [(charge.key, charge.amount, row.until) for charge, row in taken if not charge.refill_us]
        texts = (_json(labels or {}), _json(worst or {}), json.dumps(held))
        database.execute("INSERT INTO counter_reservations VALUES (?, ?, ?, ?, ?)", (id, owner, *texts))
        return None

    @staticmethod
    def _queue(
        database: sqlite3.Connection,
        id: str,
        charges: Sequence[Charge],
        keys: set[str],
        owner: str,
        ticket: int | None,
        now: int,
        wait_s: float,
    ) -> None:
        if ticket is None:
            ticket = database.execute("SELECT coalesce(max(number), 0) + 1 FROM counter_waiters").fetchone()[0]
        database.execute("DELETE FROM counter_waiters WHERE until < ?", (now,))
        rows = [(ticket, id, each.key, each.amount, now + round(wait_s * 1e6), owner) for each in charges]
        waiting = [row for row in rows if row[2] in keys]
        database.executemany("INSERT OR IGNORE INTO counter_waiters VALUES (?, ?, ?, ?, ?, ?)", waiting)

    async def settle(self, id: str, amounts: Mapping[str, int], *, sums: Mapping[str, int] | None = None) -> bool:
        """Settle a reservation; see CounterStore."""

        def settle(database: sqlite3.Connection) -> bool:
            database.execute("DELETE FROM counter_waiters WHERE id = ?", (id,))
            return _settle(database, id, amounts, sums, time.time_ns() // 1000)

        # What a loss of power leaves of it is the reservation, which takes no less.
        return await self._run(settle, is_lasting=False)

    async def sums(self, *, since_s: float = 0.0) -> Sequence[HourlySum]:
        """List the hourly sums; see CounterStore."""

        def read(database: sqlite3.Connection) -> list[tuple[int, str, str, int]]:
            statement = "SELECT * FROM counter_sums WHERE (hour + 1) * 3600 > ? ORDER BY hour, labels, name"
            return database.execute(statement, (since_s,)).fetchall()

        return hourly_sums(await self._database.read(read))

    async def forget(self) -> None:
        """Delete counters whose period is long over; see CounterStore."""

        def forget(database: sqlite3.Connection) -> None:
            now, _ = self._now(database)
            database.execute(
                "DELETE FROM counters WHERE held = 0 AND (until BETWEEN 1 AND ? OR (used = 0 AND until < ?))",
                (now - _FORGET_US, now),
            )

        await self._database.write(forget)

    def renew(self, owner: str, lease_s: float) -> None:
        """Extend an owner's lease; see CounterStore."""
        self._database.write_blocking(lambda database: renew(database, owner, lease_s))

    async def _run(self, work: Callable[[sqlite3.Connection], T], *, is_lasting: bool) -> T:
        if is_lasting:
            return await self._database.write(work)
        results: list[T] = []
        await self._database.write_soon(lambda database: results.append(work(database)))
        return results[-1]  # it may have run twice

    def _now(self, database: sqlite3.Connection) -> tuple[int, int]:
        """Return the time, and when the clock was last set forward, in microseconds since 1970."""
        now = time.time_ns() // 1000
        booted = now - round(seconds_since_boot() * 1e6)
        row = database.execute("SELECT boot, booted, jumped FROM counter_clock").fetchone()
        if row is not None and row[0] == boot_id() and abs(booted - row[1]) < _DRIFT_US:
            return now, row[2]
        # Of another boot, the time says nothing: only the clock then shows how long the machine was off. A jump in the
        # future is one that was set back.
        has_jumped = row is not None and row[0] == boot_id() and booted > row[1]
        jumped = 0 if row is None else now if has_jumped else min(row[2], now)
        database.execute("DELETE FROM counter_clock")
        database.execute("INSERT INTO counter_clock VALUES (?, ?, ?)", (boot_id(), booted, jumped))
        return now, jumped

    @staticmethod
    def _expire(database: sqlite3.Connection, now: int) -> bool:
        """Settle the reservations of owners without a lease; return whether there were any."""
        ids = [row[0] for row in database.execute(_DEAD, {"boot_s": seconds_since_boot()}).fetchall()]
        for id in ids:
            _settle(database, id, None, None, now)
        return bool(ids)


def hourly_sums(rows: Sequence[tuple[int, str, str, int]]) -> list[HourlySum]:
    """Return hourly sums from rows of hour, labels, name and value, in order."""
    values: dict[tuple[int, str], dict[str, int]] = {}
    for hour, labels, name, value in rows:
        values.setdefault((hour, labels), {})[name] = value
    return [
        HourlySum(hour=hour_text(hour), labels=json.loads(labels), values=v) for (hour, labels), v in values.items()
    ]


def _row(database: sqlite3.Connection, key: str) -> CounterRow:
    row = database.execute("SELECT used, held, until FROM counters WHERE key = ?", (key,)).fetchone()
    return CounterRow() if row is None else CounterRow(*row)


def _settle(
    database: sqlite3.Connection,
    id: str,
    amounts: Mapping[str, int] | None,
    sums: Mapping[str, int] | None,
    now: int,
) -> bool:
    """Settle a reservation at its real amounts; None for one that expires."""
    statement = "DELETE FROM counter_reservations WHERE id = ? RETURNING labels, worst, held"
    rows = database.execute(statement, (id,)).fetchall()
    for labels, worst, held in rows:
        changes = []
        for key, amount, until in json.loads(held):
            real = (amount if until else 0) if amounts is None else amounts.get(key, 0)
            changes.append((real, amount, key, until))
        database.executemany(_SETTLE, changes)
        added = json.loads(worst) if amounts is None else sums or {}
        database.executemany(_ADD, [(now // 3_600_000_000, labels, name, value) for name, value in added.items()])
    return bool(rows)


def _json(values: Mapping[str, object]) -> str:
    return json.dumps(dict(values), sort_keys=True)
