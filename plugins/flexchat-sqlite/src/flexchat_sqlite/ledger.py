"""The effect ledger, in the conversations' SQLite file."""

from __future__ import annotations

import builtins
import sqlite3
import time
from collections.abc import Iterable, Sequence
from typing import Literal

import attrs
from flexchat.conversations import effect_rows
from flexchat.conversations.effect_rows import mark_if_dead, now_text, seconds_since_boot, time_text
from flexchat.domain import Claim, Effect, EffectCall, EffectState
from flexchat.domain.questions import Approval
from flexchat.domain.text import storable
from flexchat.errors import UnknownEffectError

from .database import Database
from .questions import release_approval, use_approval

# Long columns come last, so that reading many rows need not load them.
TABLES = """
CREATE TABLE effects (
    number INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    conversation TEXT,
    turn TEXT NOT NULL,
    place TEXT NOT NULL,
    tool TEXT NOT NULL,
    digest TEXT NOT NULL,
    state TEXT NOT NULL,
    owner TEXT NOT NULL,
    fence INTEGER NOT NULL,
    claimed_at TEXT NOT NULL,
    ended_at TEXT NOT NULL,
    settled_by TEXT NOT NULL,
    note TEXT NOT NULL,
    arguments TEXT NOT NULL,
    result TEXT
);
CREATE INDEX effects_of_conversations ON effects (tenant, conversation) WHERE conversation IS NOT NULL;
CREATE INDEX effects_not_ended ON effects (tenant, state) WHERE state IN ('claimed', 'unknown');
CREATE INDEX effects_by_end ON effects (ended_at) WHERE ended_at <> '';
CREATE TABLE owners (owner TEXT PRIMARY KEY, renewed REAL NOT NULL, lease REAL NOT NULL) WITHOUT ROWID;
"""
HANDLE = "ALTER TABLE effects ADD COLUMN handle TEXT;"
PENDING = "CREATE INDEX effects_pending ON effects (claimed_at) WHERE state = 'pending';"
HONOURS_KEY = "ALTER TABLE effects ADD COLUMN honours_key INTEGER NOT NULL DEFAULT 0;"

_FIELDS = tuple(field.name for field in attrs.fields(Effect))
_COLUMNS = ", ".join(_FIELDS)
_INSERT = f"INSERT INTO effects ({_COLUMNS}) VALUES ({', '.join('?' * len(_FIELDS))})"
_SELECT = f"SELECT {_COLUMNS} FROM effects WHERE key = ?"
_REMEMBER = (
    "UPDATE effects SET handle = ? WHERE key = ? AND fence = ? AND owner <> '' AND state IN ('claimed', 'unknown')"
)
_FINISH = (
    "UPDATE effects SET state = ?, result = ?, note = ?, ended_at = ? "
    "WHERE key = ? AND fence = ? AND owner <> '' AND state IN ('claimed', 'unknown')"
)
_UPDATE = f"UPDATE effects SET {', '.join(f'{name} = ?' for name in _FIELDS)} WHERE key = ?"
_RENEW = (
    "INSERT INTO owners VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET renewed = excluded.renewed, lease = excluded.lease"
)
_REPORTED_STATE = (
    "CASE WHEN state = 'claimed' AND NOT EXISTS (SELECT 1 FROM owners WHERE owners.owner = effects.owner "
    "AND renewed <= ? AND renewed + lease > ?) THEN 'unknown' ELSE state END"
)
# An unfinished turn may be resumed at any time, and its calls looked up again: their effects must stay.
_OVER = "NOT EXISTS (SELECT 1 FROM journal_turns WHERE journal_turns.id = effects.turn AND ended_at = '')"
_NO_TEXTS = "arguments = '', result = NULL, note = '', handle = NULL"
_DAY_S = 24 * 3600.0


class SqliteLedger:
    """EffectLedger in a SQLite file.

    Leases are measured by the time since boot, which all processes of the machine share; the wall clock may jump.
    Owners from before a restart count as dead.

    Args:
        database: A database with TABLES and the tables of the conversations.
        closes: Whether ``aclose`` closes the database.
    """

    def __init__(self, database: Database, *, closes: bool = False) -> None:
        self.database = database
        self._closes = closes
        self.holds_questions = not closes  # else the conversations, and the questions with them, are in another store

    async def claim(
        self,
        call: EffectCall,
        *,
        owner: str,
        lease_s: float,
        take_over: bool = False,
        approval: Approval | None = None,
    ) -> Claim:
        """Claim an effect; see EffectLedger."""
        call = attrs.evolve(call, arguments=storable(call.arguments), place=storable(call.place))

        def claim(database: sqlite3.Connection) -> Claim:
            # The transaction is the only writer from its begin on: no other process can claim the key in between.
            values = database.execute(_SELECT, (call.key,)).fetchone()
            before = None if values is None else _effect(values)
            if before is not None:
                outcome = effect_rows.outcome_of(before, call, _lives(database, before.owner), take_over)
                if outcome != "yours":
                    return Claim(outcome, before)
            # A higher fence: whatever the previous owner still writes to this row from now on is ignored.
            row = effect_rows.claimed_anew(call, before, owner, now_text())
            if approval is not None and not use_approval(database, approval, call.tenant, call.key, may_repeat=True):
                return Claim("unapproved", row)
            if before is None:
                database.execute(_INSERT, _values(row))
            else:
                _write(database, row)
            renew(database, owner, lease_s)
            return Claim("yours", row)

        return await self.database.write(claim)

    def renew(self, owner: str, lease_s: float) -> None:
        """Extend an owner's lease to *lease_s* seconds from now; see EffectLedger."""
        self.database.write_blocking(lambda database: renew(database, owner, lease_s))

    async def remember(self, key: str, fence: int, *, handle: str) -> bool:
        """Store the handle of a call that continues elsewhere, under its claim's fence; see EffectLedger."""
        values = (handle, key, fence)
        return await self.database.write(lambda database: database.execute(_REMEMBER, values).rowcount > 0)

    async def finish(
        self, key: str, fence: int, *, state: Literal["done", "failed", "unknown"], result: str | None, note: str = ""
    ) -> bool:
        """Record how a claim ended; see EffectLedger."""

        values = (state, result, storable(note), now_text(), key, fence)
        return await self.database.write(lambda database: database.execute(_FINISH, values).rowcount > 0)

    async def release(self, key: str, fence: int, *, note: str, is_pending: bool = False) -> bool:
        """Release a claim whose call has changed nothing; see EffectLedger."""

        def release(database: sqlite3.Connection) -> bool:
            values = database.execute(f"{_SELECT} AND fence = ?", (key, fence)).fetchone()
            row = None if values is None else _effect(values)
            row = row and effect_rows.released(row, storable(note), now_text(), is_pending)
            if row is not None:
                _write(database, row)
                if not is_pending:  # else the call goes on under it
                    release_approval(database, key)
            return row is not None

        return await self.database.write(release)

    async def settle(
        self,
        key: str,
        *,
        tenant: str,
        state: Literal["done", "failed"],
        by: str,
        note: str = "",
        result: str | None = None,
    ) -> Effect:
        """Replace "unknown" with a person's verdict; see EffectLedger."""

        def settle(database: sqlite3.Connection) -> Effect:
            row = _find(database, key, tenant)
            lives = _lives(database, row.owner)
            changed = effect_rows.settled(row, lives, state, storable(by), storable(note), result, now_text())
            _write(database, changed)
            return changed

        return await self.database.write(settle)

    async def get(self, key: str, *, tenant: str) -> Effect:
        """Return an effect; see EffectLedger."""

        def read(database: sqlite3.Connection) -> Effect:
            row = _find(database, key, tenant)
            return mark_if_dead(row, _lives(database, row.owner))

        return await self.database.read(read)

    async def list(
        self,
        *,
        tenant: str,
        states: Iterable[EffectState] | None = None,
        conversation: str | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> Sequence[Effect]:
        """Return effects, the newest first; see EffectLedger."""
        conditions: builtins.list[str] = ["tenant = ?"]
        values: builtins.list[object] = [tenant]
        if states is not None:
            requested = [*states]
            marks, now = ", ".join("?" * len(requested)), seconds_since_boot()
            # The first condition can use an index; the second counts a claim whose owner is dead as unknown.
            conditions.append(f"(state IN ({marks}) OR state = 'claimed') AND {_REPORTED_STATE} IN ({marks})")
            values += [*requested, now, now, *requested]
        if conversation is not None:
            conditions.append("conversation = ?")
            values.append(conversation)

        if before is not None:
            conditions.append("number < (SELECT number FROM effects WHERE key = ?)")

        def read(database: sqlite3.Connection) -> Sequence[Effect]:
            last = () if before is None else (_find(database, before, tenant).key,)
            rows = database.execute(
                f"SELECT {_COLUMNS} FROM effects WHERE {' AND '.join(conditions)} ORDER BY number DESC LIMIT ?",
                (*values, *last, max(limit, 0)),
            )
            return [mark_if_dead(each, _lives(database, each.owner)) for each in map(_effect, rows)]

        return await self.database.read(read)

    async def forget(self, *, older_than_s: float) -> None:
        """Delete the texts, then the rows, of effects that ended long ago; see EffectLedger."""

        def forget(database: sqlite3.Connection) -> None:
            # Their turn has ended: they have changed nothing, and never will. What became of a job that one had started
            # is unknown; an owner keeps its row from counting as released.
            database.execute(
                "UPDATE effects SET state = CASE WHEN handle IS NULL THEN 'failed' ELSE 'unknown' END, "
                "owner = CASE WHEN handle IS NULL THEN '' ELSE ? END, ended_at = claimed_at "
                f"WHERE state = 'pending' AND claimed_at < ? AND {_OVER} "
                "AND (handle IS NULL OR EXISTS (SELECT 1 FROM journal_turns WHERE journal_turns.id = effects.turn))",
                (effect_rows.DELETED_OWNER, time_text(time.time() - older_than_s)),
            )
            database.execute(
                f"UPDATE effects SET {_NO_TEXTS} WHERE state IN ('done', 'failed') "
                f"AND ended_at <> '' AND ended_at < ? AND {_OVER} "
                "AND (arguments <> '' OR note <> '' OR result IS NOT NULL OR handle IS NOT NULL)",
                (time_text(time.time() - older_than_s),),
            )
            database.execute(
                f"DELETE FROM effects WHERE state IN ('done', 'failed') AND ended_at <> '' AND ended_at < ? "
                f"AND {_OVER} AND NOT EXISTS (SELECT 1 FROM conversations WHERE conversations.tenant = effects.tenant "
                "AND conversations.id = effects.conversation)",
                (time_text(time.time() - max(older_than_s, _DAY_S)),),
            )
            database.execute(
                "DELETE FROM owners WHERE NOT (renewed <= :now AND :now < renewed + lease) AND NOT EXISTS "
                "(SELECT 1 FROM effects WHERE state = 'claimed' AND effects.owner = owners.owner)",
                {"now": seconds_since_boot()},
            )

        await self.database.write(forget)

    async def forget_conversation(self, conversation: str, *, tenant: str) -> None:
        """Delete the texts of a conversation's effects; see EffectLedger."""
        await self.database.write(lambda database: forget_texts(database, tenant, conversation))

    async def aclose(self) -> None:
        """Close the file if this ledger is its only user."""
        if self._closes:
            await self.database.aclose()


def forget_texts(database: sqlite3.Connection, tenant: str, conversation: str) -> None:
    """Delete the texts of a conversation's effects in the caller's transaction; the rows still prevent repeats."""
    whose, key = "WHERE tenant = ? AND conversation = ?", (tenant, conversation)
    open_states = "state IN ('claimed', 'pending')"
    rows = database.execute(f"SELECT {_COLUMNS} FROM effects {whose} AND {open_states}", key).fetchall()
    database.execute(f"UPDATE effects SET {_NO_TEXTS} {whose} AND NOT {open_states}", key)
    for row in map(_effect, rows):
        _write(database, effect_rows.forgotten(row, now_text()))


def _find(database: sqlite3.Connection, key: str, tenant: str) -> Effect:
    # An empty prefix would match every effect, and an altered one another effect than the one named.
    if not key or key != storable(key):
        raise UnknownEffectError(key)
    rows = database.execute(
        f"SELECT {_COLUMNS} FROM effects WHERE key >= ? AND key < ? AND tenant = ? LIMIT 3",
        (key, key + "g", tenant),  # keys are hexadecimal
    ).fetchall()
    if len(rows) != 1:
        raise UnknownEffectError(key, [row[0] for row in rows])
    return _effect(rows[0])


def _effect(row: tuple[object, ...]) -> Effect:
    return Effect(**dict(zip(_FIELDS, row, strict=True)))  # type: ignore[arg-type]  # the columns have these types


def _values(row: Effect) -> tuple[object, ...]:
    return tuple(getattr(row, name) for name in _FIELDS)


def _write(database: sqlite3.Connection, row: Effect) -> None:
    database.execute(_UPDATE, (*_values(row), row.key))


def renew(database: sqlite3.Connection, owner: str, lease_s: float) -> None:
    """Extend an owner's lease to *lease_s* seconds from now, in the caller's transaction."""
    database.execute(_RENEW, (owner, seconds_since_boot(), lease_s))


def _lives(database: sqlite3.Connection, owner: str) -> bool:
    row = database.execute("SELECT renewed, lease FROM owners WHERE owner = ?", (owner,)).fetchone()
    # A renewal "in the future" is one from before a restart of the machine: its owner is dead.
    return row is not None and row[0] <= seconds_since_boot() < row[0] + row[1]
