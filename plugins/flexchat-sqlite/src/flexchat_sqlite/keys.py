"""The keys of callers, in the conversations' file: which turn each stands for."""

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


def bound(database: sqlite3.Connection, new: TurnKey, *, free_before: str, instead_of: TurnKey | None) -> TurnKey:
    """Bind a key, inside a transaction, and return what it stands for now; see TurnJournal.bind.

    Args:
        free_before: Keys bound before this moment are free: they are deleted.
    """
    database.execute("DELETE FROM turn_keys WHERE bound_at <= ?", (free_before,))
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
    """Note, in the transaction in which a turn begins, that it has.

    Raises:
        LostTurnError: Its key stands for another turn by now.
    """
    changed = database.execute(
        "UPDATE turn_keys SET begun = 1 WHERE tenant = ? AND key = ? AND turn = ?", (turn.tenant, turn.key, turn.id)
    )
    if not changed.rowcount:
        raise LostTurnError(turn.id)
