"""The journal of turns, in the conversations' file: a turn's end and its conversation change in one transaction."""

from __future__ import annotations

import builtins
import json
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import attrs
from flexchat.conversations.effect_rows import now_text, seconds_since_boot, time_text
from flexchat.conversations.journal_rows import check_format, id_range, pick, step_to_row, steps_from_rows
from flexchat.domain.journal import (
    JOURNAL_FORMAT,
    JournaledEvent,
    JournaledTurn,
    JournalEntry,
    TurnEnd,
    TurnKey,
    TurnState,
)
from flexchat.domain.questions import Approval, PendingQuestion, QuestionState, Reply
from flexchat.domain.text import storable
from flexchat.errors import LostTurnError, TurnNotWaitingError, UnknownTurnError

from . import media as media_rows
from . import questions as question_rows
from .database import Database
from .ledger import renew
from .sums import SqliteTurnSums

TABLES = """
CREATE TABLE journal_turns (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    conversation TEXT NOT NULL,
    state TEXT NOT NULL,
    message TEXT NOT NULL,
    owner TEXT NOT NULL,
    fence INTEGER NOT NULL,
    began_at TEXT NOT NULL,
    ended_at TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT ''
);
CREATE INDEX journal_turns_by_conversation ON journal_turns (tenant, conversation);
CREATE INDEX journal_turns_running ON journal_turns (owner) WHERE state = 'running';
CREATE TABLE journal_entries (
    turn TEXT NOT NULL REFERENCES journal_turns (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (turn, number)
) WITHOUT ROWID;
"""

EVENT_TABLES = """
CREATE TABLE journal_events (
    turn TEXT NOT NULL REFERENCES journal_turns (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (turn, number)
) WITHOUT ROWID;
"""

KEY_TABLES = """
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

# Which accepted turn of a conversation is next is kept in a column: thousands may wait behind one that is suspended.
_ITS = "journal_turns WHERE tenant = NEW.tenant AND conversation = NEW.conversation AND state"
_MARK_NEXT = f"""
BEGIN
    UPDATE journal_turns SET is_next = NOT EXISTS (SELECT 1 FROM {_ITS} = 'running')
        AND NOT EXISTS (SELECT 1 FROM {_ITS} = 'suspended')
    WHERE number = (SELECT min(number) FROM {_ITS} = 'accepted');
END;
"""
# Turns that run have an index of their own: it is small, while that of those that wait may be large.
PENDING_TABLES = f"""
ALTER TABLE journal_turns ADD COLUMN suspensions INTEGER NOT NULL DEFAULT 0;
ALTER TABLE journal_turns ADD COLUMN cancelled_by TEXT NOT NULL DEFAULT '';
ALTER TABLE journal_turns ADD COLUMN due_at TEXT NOT NULL DEFAULT '';
ALTER TABLE journal_turns ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE journal_turns ADD COLUMN is_next INTEGER NOT NULL DEFAULT 0;
CREATE INDEX journal_turns_running_in ON journal_turns (tenant, conversation) WHERE state = 'running';
CREATE INDEX journal_turns_resumable ON journal_turns (error) WHERE state = 'running';
CREATE INDEX journal_turns_waiting_in ON journal_turns (tenant, conversation, state)
    WHERE state = 'suspended' OR state = 'accepted';
CREATE INDEX journal_turns_next ON journal_turns (due_at, priority DESC) WHERE state = 'accepted' AND is_next;
CREATE TRIGGER journal_turns_begun AFTER INSERT ON journal_turns {_MARK_NEXT}
CREATE TRIGGER journal_turns_ended AFTER UPDATE OF ended_at ON journal_turns {_MARK_NEXT}
"""

FORMAT = "ALTER TABLE journal_turns ADD COLUMN format INTEGER NOT NULL DEFAULT 1;"

# Turns that changed, the newest of them, so that watchers in other processes need not look at every turn.
CHANGE_TABLES = """
CREATE TABLE journal_changes (number INTEGER PRIMARY KEY, turn TEXT NOT NULL);
CREATE TRIGGER journal_changes_old AFTER INSERT ON journal_changes
BEGIN DELETE FROM journal_changes WHERE number <= NEW.number - 1000; END;
CREATE TRIGGER journal_turns_changed AFTER UPDATE OF state, owner, ended_at, cancelled_by ON journal_turns
BEGIN INSERT INTO journal_changes (turn) VALUES (NEW.id); END;
CREATE TRIGGER questions_asked AFTER INSERT ON questions
BEGIN INSERT INTO journal_changes (turn) VALUES (NEW.turn); END;
CREATE TRIGGER questions_changed AFTER UPDATE OF state ON questions
BEGIN INSERT INTO journal_changes (turn) VALUES (NEW.turn); END;
"""

POLL_S = 0.08
"""Seconds between two looks at whether anything was committed, while a watch is awaited."""

_FIELDS = tuple(field.name for field in attrs.fields(JournaledTurn))
_STATE = (
    "CASE WHEN state = 'running' AND NOT EXISTS (SELECT 1 FROM owners WHERE owners.owner = journal_turns.owner "
    "AND renewed <= :now AND renewed + lease > :now) THEN 'interrupted' ELSE state END"
)
# SQLite has no figures of the tables: left to itself, it prefers an index that gives the order to one that finds few
# rows, and a tenant's turns to those with an id.
_WAITING = (
    "SELECT id, number FROM journal_turns INDEXED BY journal_turns_running_in "
    f"WHERE tenant = :tenant AND conversation = :conversation AND state = 'running' AND {_STATE} = 'interrupted' "
    "AND format <= :format UNION ALL SELECT id, number FROM journal_turns INDEXED BY journal_turns_waiting_in "
    "WHERE tenant = :tenant AND conversation = :conversation AND state = 'suspended' AND format <= :format "
    "ORDER BY number"
)
_COLUMNS = ", ".join(f"{_STATE} AS now_state" if name == "state" else name for name in _FIELDS)
# A turn without a conversation is one whose conversation was deleted while it ran: it ends, and is never resumed.
_INTERRUPTED = (
    f"SELECT {_COLUMNS} FROM journal_turns INDEXED BY journal_turns_resumable "
    "WHERE state = 'running' AND error = '' AND now_state = 'interrupted' AND conversation != '' AND format <= :format "
    "ORDER BY number LIMIT :limit"
)
_FIRST = (
    "SELECT * FROM (SELECT number FROM journal_turns INDEXED BY journal_turns_next "
    "WHERE state = 'accepted' AND is_next AND format <= :format AND {} ORDER BY priority DESC, number LIMIT :limit)"
)
# Those that are due at once are in order in the index; those with a time are few when it comes.
_NEXT = (
    f"SELECT {_COLUMNS} FROM journal_turns WHERE number IN "
    "(" + _FIRST.format("due_at = ''") + " UNION ALL " + _FIRST.format("due_at > '' AND due_at <= :at") + ") "
    "ORDER BY priority DESC, number LIMIT :limit"
)
_BEGIN = (
    "INSERT INTO journal_turns "
    "(id, tenant, conversation, state, message, owner, fence, began_at, key, due_at, priority, format) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
)
_ACQUIRE = (
    "UPDATE journal_turns SET state = 'running', owner = ?, fence = fence + 1, error = '' "
    "WHERE id = ? AND (state != 'accepted' OR is_next)"
)
_HAS_REPLY = (  # one whose state is as required, without a step that records it
    "EXISTS (SELECT 1 FROM questions WHERE questions.turn = journal_turns.id AND ({}) AND NOT EXISTS "
    "(SELECT 1 FROM journal_entries WHERE journal_entries.turn = questions.turn AND kind = 'reply' "
    "AND json_extract(data, '$.id') = questions.id))"
)
_SUSPEND = (
    "UPDATE journal_turns SET state = 'suspended', owner = '', suspensions = suspensions + 1 WHERE id = :id AND "
    "cancelled_by = '' AND NOT "
) + _HAS_REPLY.format(f"state IN ('replied', 'expired') OR {question_rows.IS_EXPIRED}")
_COMMANDS = (
    "SELECT id FROM journal_turns WHERE owner = ? AND state = 'running' AND (cancelled_by != '' OR "
    f"{_HAS_REPLY}) ORDER BY number"
).format("state = 'replied'")
_CANCEL = (
    "UPDATE journal_turns SET cancelled_by = CASE cancelled_by WHEN '' THEN ? ELSE cancelled_by END, "
    "state = CASE state WHEN 'suspended' THEN 'running' ELSE state END WHERE id = ? AND ended_at = ''"
)
_THERE = "(conversation != '' OR now_state != 'interrupted')"
_ENDED = "FROM journal_turns WHERE ended_at != '' AND ended_at < ?"
_CHANGES = "SELECT number, turn FROM journal_changes WHERE number >= ? ORDER BY number"
_ADD = "INSERT INTO journal_entries VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_BIND = (
    "INSERT INTO turn_keys VALUES (?, ?, ?, ?, 0, ?) ON CONFLICT DO UPDATE SET turn = excluded.turn, "
    "digest = excluded.digest, begun = 0, bound_at = excluded.bound_at WHERE turn = ? AND begun = ? RETURNING 1"
)


class SqliteJournal:
    """See TurnJournal.

    Args:
        database: Has TABLES, and those of the ledger.
        closes: Whether closing this closes the database.
    """

    def __init__(self, database: Database, *, closes: bool = False) -> None:
        self.database = database
        self._closes = closes
        self.media = media_rows.SqliteMedia(database)
        self.sums = SqliteTurnSums(database)

    async def write(
        self,
        turn: JournaledTurn,
        entries: Sequence[JournalEntry],
        *,
        lease_s: float | None,
        questions: Sequence[PendingQuestion] = (),
    ) -> None:
        """Append steps to a turn; see TurnJournal. They survive the end of the process, but not a power failure.

        An accepted turn survives that as well: nothing that its caller has seen follows later, so as to sync it.
        """
        rows, add_questions = [step_to_row(turn.id, entry) for entry in entries], question_rows.adder(questions)

        def add(database: sqlite3.Connection) -> None:
            is_kept = _begin_or_check(database, turn, entries, lease_s, is_apart=self._closes)
            _add(database, turn, entries, rows)
            if is_kept:
                add_questions(database)

        # Media are not written in the calling thread: they are large.
        is_long = turn.state == "accepted" or any(entry.media for entry in entries)
        await (self.database.write if is_long else self.database.write_soon)(add)

    async def suspend(self, turn: JournaledTurn, entries: Sequence[JournalEntry]) -> bool:
        """Suspend a turn, unless one of its questions has a reply; see TurnJournal."""
        rows = [step_to_row(turn.id, entry) for entry in entries]

        def suspend(database: sqlite3.Connection) -> bool:
            if not _begin_or_check(database, turn, entries, None, is_apart=self._closes):
                raise LostTurnError(turn.id)  # with its conversation its questions were deleted: no reply can follow
            _add(database, turn, entries, rows)
            # One transaction with the look at the replies: one that is recorded later finds the turn suspended.
            return database.execute(_SUSPEND, {"id": turn.id, "now": now_text()}).rowcount > 0

        return await self.database.write(suspend)

    async def bind(
        self, key: str, *, tenant: str, turn: str, digest: str, keep_s: float, instead_of: TurnKey | None = None
    ) -> TurnKey:
        """Bind an idempotency key to a turn; see TurnJournal."""
        new = TurnKey(key=key, tenant=tenant, turn=turn, digest=digest, bound_at=now_text())
        # Compare and swap: the binding is replaced only while it is the one the caller has seen. Comparing with NULL is
        # never true, so that without instead_of an existing binding always stays.
        expected = (None, None) if instead_of is None else (instead_of.turn, instead_of.begun)

        def bind(database: sqlite3.Connection) -> TurnKey:
            database.execute("DELETE FROM turn_keys WHERE bound_at <= ?", (time_text(time.time() - keep_s),))
            values = (tenant, key, turn, digest, new.bound_at, *expected)
            if database.execute(_BIND, values).fetchall():
                return new
            query = "SELECT turn, digest, begun, bound_at FROM turn_keys WHERE tenant = ? AND key = ?"
            bound, its_digest, begun, bound_at = database.execute(query, (tenant, key)).fetchone()
            return attrs.evolve(new, turn=bound, digest=its_digest, begun=bool(begun), bound_at=bound_at)

        return await self.database.write(bind)

    async def acquire(self, id: str, *, tenant: str, owner: str, lease_s: float) -> JournaledTurn:
        """Acquire a turn that can go on; see TurnJournal."""

        def take(database: sqlite3.Connection) -> JournaledTurn:
            turn = _find(database, id, tenant)
            check_format(turn)
            can_go_on = turn.state in ("interrupted", "suspended", "accepted")
            # Check, lease and fence are one transaction: of two processes that resume a turn, one gets it. The fence
            # refuses later writes of the previous owner, which may be alive but was too slow to renew its lease.
            if not can_go_on or not database.execute(_ACQUIRE, (owner, turn.id)).rowcount:
                raise TurnNotWaitingError(turn.id, turn.state)
            renew(database, owner, lease_s)
            return attrs.evolve(turn, owner=owner, fence=turn.fence + 1, state="running", error="")

        return await self.database.write(take)

    async def release(self, turn: JournaledTurn, *, error: str = "") -> None:
        """Release a turn, so that another owner can resume it; see TurnJournal."""

        def release(database: sqlite3.Connection) -> None:
            database.execute(
                "UPDATE journal_turns SET owner = '', error = ?, suspensions = ? "
                "WHERE id = ? AND fence = ? AND state = 'running'",
                (storable(error), turn.suspensions, turn.id, turn.fence),
            )
            database.execute("DELETE FROM journal_turns WHERE id = ? AND owner = '' AND conversation = ''", (turn.id,))

        await self.database.write(release)

    async def list_resumable(self, *, limit: int) -> Sequence[JournaledTurn]:
        """Return the turns of all tenants that can go on; see TurnJournal."""
        values = {"now": seconds_since_boot(), "at": now_text(), "limit": max(limit, 0), "format": JOURNAL_FORMAT}

        def read(database: sqlite3.Connection) -> builtins.list[tuple[Any, ...]]:
            interrupted = database.execute(_INTERRUPTED, values).fetchall()
            return interrupted + database.execute(_NEXT, {**values, "limit": limit - len(interrupted)}).fetchall()

        return [_turn(row) for row in await self.database.read_soon(read)]

    async def answer(self, id: str, *, tenant: str, reply: Reply, by: str) -> PendingQuestion:
        """Record a reply; see TurnJournal."""
        return await self.database.write(lambda database: question_rows.answer(database, id, tenant, reply, by))

    async def question(self, id: str, *, tenant: str) -> PendingQuestion:
        """Return a question; see TurnJournal."""
        return await self.database.read_soon(lambda database: question_rows.find(database, id, tenant))

    async def questions(
        self,
        *,
        tenant: str,
        states: Sequence[QuestionState] | None = None,
        conversation: str | None = None,
        turn: str | None = None,
        remembered: str | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> Sequence[PendingQuestion]:
        """Return questions, the newest first; see TurnJournal."""
        columns = {"conversation": conversation, "turn": turn, "remembered": remembered}
        return await self.database.read(
            lambda database: question_rows.page(database, tenant, states, columns, limit, before)
        )

    async def revoke(self, id: str, *, tenant: str) -> PendingQuestion:
        """Revoke a remembered reply; see TurnJournal."""
        return await self.database.write(lambda database: question_rows.revoke(database, id, tenant))

    async def use_approval(self, approval: Approval, *, tenant: str, by: str, may_repeat: bool = False) -> bool:
        """Use up an approval; see TurnJournal."""
        return await self.database.write(
            lambda database: question_rows.use_approval(database, approval, tenant, by, may_repeat=may_repeat)
        )

    async def expire_questions(self) -> int:
        """Mark questions as expired; see TurnJournal."""
        expired = 0
        # Thousands may expire together; one transaction of all would make other writers wait for seconds.
        while count := await self.database.write(question_rows.expire):
            expired += count
        return expired

    async def take_unsent(self, *, limit: int, again_s: float) -> Sequence[PendingQuestion]:
        """Return questions that are due to be sent; see SendingJournal."""
        return await self.database.write(lambda database: question_rows.take_unsent(database, limit, again_s))

    async def mark_sent(self, id: str, *, tenant: str) -> None:
        """Record that a question has been sent; see SendingJournal."""
        await self.database.write_soon(lambda database: question_rows.mark_sent(database, id, tenant))

    async def request_cancel(self, id: str, *, tenant: str, by: str) -> JournaledTurn:
        """Request that a turn be cancelled; see TurnJournal."""

        def request(database: sqlite3.Connection) -> JournaledTurn:
            turn = _find(database, id, tenant)
            database.execute(_CANCEL, (storable(by) or "unknown", turn.id))  # empty would be no request
            return _find(database, turn.id, tenant)

        return await self.database.write(request)

    async def list_commands(self, owner: str) -> Sequence[str]:
        """Return an owner's turns that others have changed; see TurnJournal."""
        rows = await self.database.read_soon(lambda database: database.execute(_COMMANDS, (owner,)).fetchall())
        return [id for (id,) in rows]

    async def watch(self) -> AsyncGenerator[str, None]:
        """Yield the ids of changed turns; see TurnJournal."""
        version, last = await self.database.version(), -1

        def read(database: sqlite3.Connection) -> builtins.list[tuple[int, str]]:
            return database.execute(_CHANGES, (last,)).fetchall()

        while True:
            rows = await self.database.read_soon(read)
            # Without the last one seen, others may have been deleted since.
            ids = {turn for _, turn in rows[1:]} if rows and rows[0][0] == last else {""}
            last = rows[-1][0] if rows else -1
            for id in ids:
                yield id
            version = await self.database.change(version, poll_s=POLL_S)

    async def add_events(self, turn: JournaledTurn, events: Sequence[JournaledEvent], *, forget: int = 0) -> None:
        """Store events of a turn for replay; see TurnJournal."""
        rows = [(turn.id, event.number, storable(event.name), storable(event.data)) for event in events]

        def add(database: sqlite3.Connection) -> None:
            ours = database.execute("SELECT 1 FROM journal_turns WHERE id = ? AND fence = ?", (turn.id, turn.fence))
            if ours.fetchone() is None:
                raise LostTurnError(turn.id)
            database.executemany("INSERT INTO journal_events VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", rows)
            database.execute("INSERT INTO journal_changes (turn) VALUES (?)", (turn.id,))
            if forget:
                database.execute("DELETE FROM journal_events WHERE turn = ? AND number <= ?", (turn.id, forget))

        await self.database.write_soon(add)

    async def events(self, id: str, *, tenant: str, after: int = 0) -> tuple[JournaledTurn, Sequence[JournaledEvent]]:
        """Return a turn and its events; see TurnJournal."""

        def read(database: sqlite3.Connection) -> tuple[JournaledTurn, builtins.list[JournaledEvent]]:
            turn = _find(database, id, tenant)
            if turn.id != id:
                raise UnknownTurnError(id)
            rows = database.execute(
                "SELECT number, name, data FROM journal_events WHERE turn = ? AND number > ? ORDER BY number",
                (id, after),
            )
            return turn, [JournaledEvent(*row) for row in rows]

        return await self.database.read(read)

    async def read(self, id: str, *, tenant: str) -> tuple[JournaledTurn, Sequence[JournalEntry]]:
        """Return a turn with its steps; see TurnJournal."""

        def read(database: sqlite3.Connection) -> tuple[JournaledTurn, list[tuple[int, str, str, str]]]:
            turn = _find(database, id, tenant)
            rows = database.execute(
                "SELECT number, kind, data, at FROM journal_entries WHERE turn = ? ORDER BY number", (turn.id,)
            )
            return turn, rows.fetchall()

        turn, rows = await self.database.read(read)
        return turn, steps_from_rows(id, rows)

    async def list(
        self,
        *,
        tenant: str,
        states: Sequence[TurnState] | None = None,
        conversation: str | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> Sequence[JournaledTurn]:
        """Return turns, the newest first; see TurnJournal."""
        conditions = ["tenant = :tenant", _THERE]
        values: dict[str, object] = {"tenant": tenant, "limit": max(limit, 0), "now": seconds_since_boot()}
        if states is not None:
            conditions.append("now_state IN (SELECT value FROM json_each(:states))")
            values["states"] = json.dumps([*states])
        if conversation is not None:
            conditions.append("conversation = :conversation")
            values["conversation"] = conversation
        if before is not None:
            conditions.append("number < (SELECT number FROM journal_turns WHERE tenant = :tenant AND id = :before)")

        def read(database: sqlite3.Connection) -> list[JournaledTurn]:
            if before is not None:
                values["before"] = _find(database, before, tenant).id
            rows = database.execute(
                f"SELECT {_COLUMNS} FROM journal_turns WHERE {' AND '.join(conditions)} "
                "ORDER BY number DESC LIMIT :limit",
                values,
            )
            return [_turn(row) for row in rows]

        return await self.database.read(read)

    async def list_interrupted(self, conversation: str, *, tenant: str) -> Sequence[str]:
        """Return the interrupted and suspended turns of a conversation; see TurnJournal."""
        values = {"tenant": tenant, "conversation": conversation, "now": seconds_since_boot(), "format": JOURNAL_FORMAT}
        rows = await self.database.read_soon(lambda database: database.execute(_WAITING, values).fetchall())
        return [id for id, _ in rows]

    def renew(self, owner: str, lease_s: float) -> None:
        """Extend an owner's lease to *lease_s* seconds from now; see TurnJournal."""
        self.database.write_blocking(lambda database: renew(database, owner, lease_s))

    async def end(self, end: TurnEnd) -> None:
        """End a turn whose conversation is in another store, after that store has it.

        Raises:
            StorageError: The end cannot be written.
            LostTurnError: The turn has ended, or another owner has resumed it.
        """
        await self.database.write(end_writer(end, is_apart=self._closes))

    async def forget_conversation(self, conversation: str, *, tenant: str) -> None:
        """Delete the turns of a conversation that was deleted from another store."""
        await self.database.write(lambda database: delete_turns_of(database, tenant, conversation))

    async def aclose(self) -> None:
        """Close the file if this journal is its only user."""
        if self._closes:
            await self.database.aclose()

    async def forget(self, *, older_than_s: float, events_older_than_s: float) -> int:
        """Delete turns that ended long ago; see TurnJournal."""
        until, events_until = (time_text(time.time() - age) for age in (older_than_s, events_older_than_s))

        def forget(database: sqlite3.Connection) -> int:
            database.execute(f"DELETE FROM journal_events WHERE turn IN (SELECT id {_ENDED})", (events_until,))
            database.execute(
                f"DELETE FROM journal_turns WHERE conversation = '' AND {_STATE} = 'interrupted'",
                {"now": seconds_since_boot()},
            )
            media_rows.forget(database)
            discarded = database.execute(f"DELETE {_ENDED} AND conversation = ''", (events_until,)).rowcount
            return discarded + database.execute(f"DELETE {_ENDED}", (until,)).rowcount

        return await self.database.write(forget)


def end_writer(end: TurnEnd, *, is_apart: bool = False) -> Callable[[sqlite3.Connection], bool]:
    """Prepare writing a turn's last steps and its end; the function returned does so in the caller's transaction.

    That function returns False if the turn's conversation was deleted while it ran: then its steps are deleted as well.

    Args:
        is_apart: Whether the conversations are in another store.

    Raises:
        StorageError: A step is not JSON data.
    """
    turn, entries = end.turn, end.entries
    rows = [step_to_row(turn.id, entry) for entry in entries]

    def write(database: sqlite3.Connection) -> bool:
        is_kept = _begin_or_check(database, turn, entries, end.lease_s, is_apart=is_apart)
        if is_kept:
            _add(database, turn, entries, rows)
        else:
            database.execute("DELETE FROM journal_entries WHERE turn = ?", (turn.id,))
            database.execute("DELETE FROM media_uses WHERE journaled = ?", (turn.id,))
            database.execute("UPDATE journal_turns SET message = '' WHERE id = ?", (turn.id,))
        database.execute(
            "UPDATE journal_turns SET state = ?, ended_at = ?, error = ? WHERE id = ?",
            (end.state, now_text(), storable(end.error) if is_kept else "", turn.id),
        )
        return is_kept

    return write


def delete_turns_of(database: sqlite3.Connection, tenant: str, conversation: str) -> int:
    """Delete the turns of a conversation with their steps; one that is running belongs to no conversation any more.

    Returns how many it deleted.
    """
    whose = "WHERE tenant = :tenant AND conversation = :conversation"
    values = {"tenant": tenant, "conversation": conversation, "now": seconds_since_boot()}
    deleted = database.execute(f"DELETE FROM journal_turns {whose} AND {_STATE} != 'running'", values).rowcount
    database.execute(f"UPDATE journal_turns SET conversation = '' {whose}", values)
    question_rows.delete_questions_of(database, tenant, conversation)
    return deleted


def _begin_or_check(
    database: sqlite3.Connection,
    turn: JournaledTurn,
    entries: Sequence[JournalEntry],
    lease_s: float | None,
    *,
    is_apart: bool,
) -> bool:
    """Insert the turn's row, or check that its owner has not lost it.

    Returns:
        Whether its conversation has not been deleted.

    Raises:
        LostTurnError: Another owner has begun or resumed the turn, or it has ended.
    """
    state, owner, fence = "running", turn.owner, turn.fence
    if turn.state == "accepted":
        state, owner, fence = "accepted", "", 0
    elif lease_s is not None:
        renew(database, owner, lease_s)
    if entries and entries[0].number == 1:
        after = entries[0].data.get("after")
        query = "SELECT 1 FROM turns WHERE tenant = ? AND conversation = ? AND id = ?"
        values = (turn.tenant, turn.conversation, after)
        is_kept = is_apart or after is None or database.execute(query, values).fetchone() is not None
        ids = turn.id, turn.tenant, turn.conversation if is_kept else ""
        times = turn.began_at or now_text(), turn.key, turn.due_at, turn.priority, turn.format
        began = database.execute(_BEGIN, (*ids, state, storable(turn.message), owner, fence, *times))
        if turn.key:
            query = "UPDATE turn_keys SET begun = 1 WHERE tenant = ? AND key = ? AND turn = ?"
            if not database.execute(query, (turn.tenant, turn.key, turn.id)).rowcount:
                raise LostTurnError(turn.id)  # the key has since been bound to another turn
        if began.rowcount:
            return is_kept
    # A turn that was there already may be ours, begun by a write whose caller was cancelled.
    query = "SELECT conversation FROM journal_turns WHERE id = ? AND fence = ? AND owner = ? AND state = ?"
    row = database.execute(query, (turn.id, fence, owner, state)).fetchone()
    if row is None:
        raise LostTurnError(turn.id)
    return bool(row[0])


def _add(
    database: sqlite3.Connection, turn: JournaledTurn, entries: Sequence[JournalEntry], rows: Sequence[tuple[Any, ...]]
) -> None:
    database.executemany(_ADD, rows)
    for entry in entries:
        if entry.media:
            media_rows.use(database, turn.tenant, entry.media, journaled=turn.id)


def _find(database: sqlite3.Connection, id: str, tenant: str) -> JournaledTurn:
    """Find a turn by its id or an unambiguous prefix of it.

    Raises:
        UnknownTurnError: No turn of the tenant matches, or several do.
    """
    rows = database.execute(
        f"SELECT {_COLUMNS} FROM journal_turns WHERE +tenant = :tenant AND id >= :id AND id < :end AND {_THERE} "
        "ORDER BY id LIMIT 2",
        {"tenant": tenant, "now": seconds_since_boot(), **id_range(id, UnknownTurnError)},
    ).fetchall()
    return _turn(pick(rows, id, UnknownTurnError))


def _turn(row: tuple[Any, ...]) -> JournaledTurn:
    return JournaledTurn(**dict(zip(_FIELDS, row, strict=True)))
