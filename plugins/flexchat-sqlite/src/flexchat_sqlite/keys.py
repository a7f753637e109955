"""Idempotency keys of callers, in the conversations' file: the turn that each is bound to."""

from __future__ import annotations

import sqlite3

from flexchat.domain.journal import JournaledTurn, TurnKey
from flexchat.errors import LostTurnError

TABLES = """
CREATE TABLE turn_keys (
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    turn TEXT NOT NULL,
    digest TEXT NOT NULL,
    begun INTEGER NOT NULL,
    bound_at TEXT NOT NULL,
    PRIMARY KEY (tenant, key)
) WITHOUT ROWID;
CREATE INDEX turn_keys_by_age ON turn_keys (bound_at);
ALTER TABLE journal_turns ADD COLUMN key TEXT NOT NULL DEFAULT '';
"""


def bind(database: sqlite3.Connection, new: TurnKey, *, free_before: str, instead_of: TurnKey | None) -> TurnKey:
    """Bind an idempotency key inside the caller's transaction; return its binding, new or existing.

    See TurnJournal.bind.

    Args:
        free_before: Bindings older than this ISO 8601 time have expired and are deleted first.
        instead_of: The binding to replace; it is replaced only if it is still the current one.
    """
    database.execute("DELETE FROM turn_keys WHERE bound_at <= ?", (free_before,))
    # Compare and swap: the binding is replaced only while it is the one the caller has seen. Comparing with NULL is
    # never true, so that without instead_of an existing binding always stays.
    seen = (None, None) if instead_of is None else (instead_of.turn, instead_of.begun)
    row = database.execute(
        "INSERT INTO turn_keys VALUES (?, ?, ?, ?, 0, ?) ON CONFLICT DO UPDATE SET turn = excluded.turn, "
        "digest = excluded.digest, begun = 0, bound_at = excluded.bound_at WHERE turn = ? "
        "AND begun = ? RETURNING 1",
        (new.tenant, new.key, new.turn, new.digest, new.bound_at, *seen),
    ).fetchall()
    if row:
        return new
    turn, digest, begun, bound_at = database.execute(
        "SELECT turn, digest, begun, bound_at FROM turn_keys WHERE tenant = ? AND key = ?", (new.tenant, new.key)
    ).fetchone()
    return TurnKey(key=new.key, tenant=new.tenant, turn=turn, digest=digest, begun=bool(begun), bound_at=bound_at)


def begin(database: sqlite3.Connection, turn: JournaledTurn) -> None:
    """Mark a turn's key as begun, inside the transaction that inserts the turn.

    Raises:
        LostTurnError: The key has since been bound to another turn.
    """
    changed = database.execute(
        "UPDATE turn_keys SET begun = 1 WHERE tenant = ? AND key = ? AND turn = ?", (turn.tenant, turn.key, turn.id)
    )
    if not changed.rowcount:
        raise LostTurnError(turn.id)
