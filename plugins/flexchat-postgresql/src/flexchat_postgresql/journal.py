"""The turn journal in PostgreSQL, beside the conversations: a turn's end and its conversation commit together."""

from __future__ import annotations

import builtins
import json
import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any, LiteralString

import attrs
from flexchat.store import (
    JOURNAL_FORMAT,
    Approval,
    JournaledEvent,
    JournaledTurn,
    JournalEntry,
    LostTurnError,
    PendingQuestion,
    QuestionState,
    Reply,
    StorageError,
    TurnEnd,
    TurnKey,
    TurnNotWaitingError,
    TurnState,
    UnknownTurnError,
    effect_rows,
    journal_rows,
    storable,
)

from . import media as media_rows
from . import questions as question_rows
from .connections import Connection, Connections, Row
from .owners import LIVES, WITH_CLAIM, Renewer, extend, lease
from .sums import PostgresqlTurnSums
from .watching import Notices

_STATE: LiteralString = f"CASE WHEN state = 'running' AND NOT {LIVES} THEN 'interrupted' ELSE state END"
_FIELDS = tuple(field.name for field in attrs.fields(JournaledTurn))
_COLUMNS: LiteralString = (
    f"id, tenant, conversation, {_STATE}, message, owner, fence, began_at, ended_at, error, key, suspensions, "
    "cancelled_by, due_at, priority, format"  # order of _FIELDS
)
_ROWS: LiteralString = (
    # JSON in binary form: the text form escapes each quotation mark.
    "unnest(%(turns)s::text[], %(numbers)s::bigint[], %(kinds)s::text[], %(data)b::text[], %(times)s::text[])"
)
# One statement is one round trip. Turns of a conversation that are accepted get their numbers in the order in which
# others see them: otherwise the second could be acquired before the first is there. Their conversation may not have a
# row that could be locked. A turn whose conversation has been deleted begins without it: the conversation is locked as
# append does, and before any row of the journal.
_BEGIN: LiteralString = f"""
    WITH there AS MATERIALIZED (
        SELECT FROM {{s}}.conversations c JOIN {{s}}.turns t ON t.tenant = c.tenant AND t.conversation = c.id
        WHERE c.tenant = %(tenant)s AND c.id = %(conversation)s AND t.id = %(after)s FOR UPDATE OF c
    ), place AS MATERIALIZED (
        SELECT CASE WHEN %(after)s::text IS NULL OR EXISTS (SELECT FROM there) THEN %(conversation)s ELSE '' END AS its,
        CASE WHEN %(state)s = 'accepted'
            THEN pg_advisory_xact_lock(hashtextextended(%(tenant)s || ' ' || %(conversation)s, 0)) END,
        CASE WHEN %(soon)s THEN set_config('synchronous_commit', 'off', true) END
    ), keyed AS (
        UPDATE {{s}}.turn_keys SET begun = true WHERE tenant = %(tenant)s AND key = %(key)s AND turn = %(id)s
        RETURNING 1
    ), begun AS (
        INSERT INTO {{s}}.journal_turns
        (id, tenant, conversation, state, message, owner, fence, began_at, key, due_at, priority, format)
        SELECT %(id)s, %(tenant)s, its, %(state)s, %(message)s, %(owner)s, %(fence)s, %(began_at)s, %(key)s, %(due_at)s,
        %(priority)s, %(format)s FROM place WHERE %(key)s = '' OR EXISTS (SELECT FROM keyed)
        ON CONFLICT (id) DO NOTHING RETURNING conversation
    ), written AS (
        INSERT INTO {{s}}.journal_entries (turn, number, kind, data, at)
        SELECT entry.* FROM begun, {_ROWS} entry
    )
    SELECT (SELECT conversation FROM begun), %(key)s = '' OR EXISTS (SELECT FROM keyed)"""
# Nothing is added unless the turn is its owner's, and has all earlier steps.
_APPEND: LiteralString = f"""
    WITH held AS MATERIALIZED (
        SELECT set_config('synchronous_commit', 'off', true) FROM {{s}}.journal_turns
        WHERE id = %(id)s AND state = 'running' AND owner = %(owner)s AND fence = %(fence)s
        AND (SELECT max(number) FROM {{s}}.journal_entries WHERE turn = %(id)s) = %(number)s - 1 FOR NO KEY UPDATE
    )
    INSERT INTO {{s}}.journal_entries (turn, number, kind, data, at)
    SELECT entry.* FROM held, {_ROWS} entry"""
_LOCKED: LiteralString = """
    SELECT state, fence, owner, ended_at, conversation,
    (SELECT coalesce(max(number), 0) FROM {s}.journal_entries WHERE turn = id), suspensions
    FROM {s}.journal_turns WHERE id = %s FOR NO KEY UPDATE"""
_ENTRIES: LiteralString = f"""
    INSERT INTO {{s}}.journal_entries (turn, number, kind, data, at)
    SELECT * FROM {_ROWS} ON CONFLICT DO NOTHING"""
_END: LiteralString = """
    WITH withdrawn AS (UPDATE {s}.questions SET state = 'withdrawn' WHERE turn = %(id)s AND state = 'open')
    UPDATE {s}.journal_turns SET state = %(state)s, ended_at = %(at)s, error = %(error)s WHERE id = %(id)s"""
# A turn without a conversation is one whose conversation was deleted while it ran: it ends, and is never resumed.
_THERE: LiteralString = f"(conversation <> '' OR {_STATE} <> 'interrupted')"
_FIND: LiteralString = f"""
    SELECT {_COLUMNS}, token FROM {{s}}.journal_turns e
    WHERE tenant = %(tenant)s AND id >= %(id)s AND id < %(end)s AND {_THERE} ORDER BY id LIMIT 2"""
_READ: LiteralString = f"""
    SELECT f.*, n.number, n.kind, n.data, n.at FROM ({_FIND}) f LEFT JOIN {{s}}.journal_entries n ON n.turn = f.id
    ORDER BY f.id, n.number"""
_READ_EVENTS: LiteralString = f"""
    SELECT f.*, n.number, n.name, n.data
    FROM ({_FIND}) f LEFT JOIN {{s}}.journal_events n ON n.turn = f.id AND n.number > %(after)s
    ORDER BY f.id, n.number"""
# The column is_next holds until a turn that was not accepted begins in the conversation. One look at an index: EXISTS
# would be made a join.
_IS_NEXT: LiteralString = """is_next AND (
    SELECT b.number FROM {s}.journal_turns b WHERE b.tenant = e.tenant AND b.conversation = e.conversation
    AND b.state IN ('running', 'suspended') LIMIT 1
) IS NULL"""
# One statement, and one round trip. It may wait for the lock of another's acquisition, whose owner it does not see as
# alive then: but the fence is another by then.
_TAKE: LiteralString = f"""
    WITH made AS (
        UPDATE {{s}}.journal_turns e
        SET state = 'running', owner = %(owner)s, fence = fence + 1, token = %(token)s, error = ''
        WHERE id = %(id)s AND tenant = %(tenant)s AND conversation <> '' AND format <= %(format)s
        AND (state = 'suspended' OR state = 'accepted' AND ({_IS_NEXT}) OR state = 'running' AND NOT {LIVES})
        AND fence = (SELECT fence FROM {{s}}.journal_turns WHERE id = %(id)s)
        RETURNING {_COLUMNS}
    ), renewed AS ({WITH_CLAIM})
    SELECT * FROM made"""
_SUSPEND: LiteralString = f"""
    UPDATE {{s}}.journal_turns e SET state = 'suspended', owner = '', suspensions = suspensions + 1
    WHERE id = %(id)s AND NOT {question_rows.HAS_COMMAND}"""
_COMMANDED: LiteralString = f"""
    SELECT id FROM {{s}}.journal_turns e
    WHERE state = 'running' AND owner = %(owner)s AND {question_rows.HAS_COMMAND} ORDER BY number"""
# A suspended turn that can go on is one that was released.
_WAKE: LiteralString = "UPDATE {s}.journal_turns SET state = 'running' WHERE id = ANY(%s) AND state = 'suspended'"
_LOCK_TURN: LiteralString = "SELECT FROM {s}.journal_turns WHERE id = ANY(%s) FOR NO KEY UPDATE"
_LOCK_FREE: LiteralString = "SELECT id FROM {s}.journal_turns WHERE id = ANY(%s) FOR NO KEY UPDATE SKIP LOCKED"
_ANSWER: LiteralString = """
    UPDATE {s}.questions SET state = 'replied', reply = %s, replied_by = %s, replied_at = %s, remembered = %s,
    is_accepted = %s WHERE id = %s"""
_RECORDED: LiteralString = "UPDATE {s}.questions SET is_recorded = true WHERE turn = %s AND id = ANY(%s)"
_CANCEL: LiteralString = """
    UPDATE {s}.journal_turns SET cancelled_by = CASE cancelled_by WHEN '' THEN %s ELSE cancelled_by END,
    state = CASE state WHEN 'suspended' THEN 'running' ELSE state END WHERE id = %s AND ended_at = ''"""
_RELEASE: LiteralString = """
    UPDATE {s}.journal_turns SET owner = '', error = %s, suspensions = %s
    WHERE id = %s AND fence = %s AND state = 'running'"""
_WAITING: LiteralString = f"""
    SELECT id FROM {{s}}.journal_turns e WHERE tenant = %s AND conversation = %s
    AND state IN ('running', 'suspended') AND {_STATE} <> 'running' AND format <= %s ORDER BY number"""
_LEFT: LiteralString = f"""
    SELECT {_COLUMNS} FROM {{s}}.journal_turns e WHERE state = 'running' AND error = '' AND NOT {LIVES}
    AND conversation <> '' AND format <= %(format)s ORDER BY number LIMIT %(limit)s"""
_RESUMABLE: LiteralString = f"""
    ({_LEFT}) UNION ALL (
        SELECT {_COLUMNS} FROM {{s}}.journal_turns e WHERE state = 'accepted' AND {_IS_NEXT} AND due_at <= %(now)s
        AND format <= %(format)s ORDER BY priority DESC, number LIMIT %(limit)s
    )"""
_EVENTS: LiteralString = """
    INSERT INTO {s}.journal_events (turn, number, name, data)
    SELECT * FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::text[]) ON CONFLICT DO NOTHING"""
_DELETE: LiteralString = f"""
    DELETE FROM {{s}}.journal_turns e WHERE tenant = %s AND conversation = %s AND {_STATE} <> 'running'"""
_PART: LiteralString = "UPDATE {s}.journal_turns SET conversation = '' WHERE tenant = %s AND conversation = %s"
_DELETE_DEAD: LiteralString = f"""
    DELETE FROM {{s}}.journal_turns e WHERE conversation = '' AND {_STATE} = 'interrupted'"""
_DISCARD: LiteralString = "UPDATE {s}.journal_turns SET message = '' WHERE id = %s"

_FREE: LiteralString = "DELETE FROM {s}.turn_keys WHERE bound_at <= %s"
_BIND: LiteralString = """
    INSERT INTO {s}.turn_keys AS k (tenant, key, turn, digest, bound_at) VALUES (%s, %s, %s, %s, %s)
    ON CONFLICT (tenant, key) DO UPDATE
    SET turn = excluded.turn, digest = excluded.digest, begun = false, bound_at = excluded.bound_at
    WHERE k.turn = %s AND k.begun = %s"""
_BOUND: LiteralString = "SELECT turn, digest, begun, bound_at FROM {s}.turn_keys WHERE tenant = %s AND key = %s"

_LOST_WITHIN_S = 30.0
"""Seconds until an asynchronous commit is on disk: at most three times wal_writer_delay, whose maximum is 10 s."""

_Row = tuple[str, int, str, str, str]


class PostgresqlJournal:
    """A TurnJournal in PostgreSQL.

    Steps are committed asynchronously, so a server crash may lose the newest ones while the process that wrote them
    keeps running. The process therefore keeps its recent steps in memory and rewrites those that are missing.

    Transactions lock rows in this order: owner, conversation, turn, effect, question. Of several turns, only a deletion
    waits for one while it has others. What changes an open question, or whether a turn may be suspended, holds the lock
    of the turn's row, and reads the rest in a later statement: one that waits for a lock does not see what was
    committed meanwhile. A claim or an acquisition may extend its owner's lease last, as it seldom changes that row;
    should it meet a deletion and an end there, the server rolls one back, which is repeated.
    """

    def __init__(self, connections: Connections, renewer: Renewer) -> None:
        self._connections, self._renewer = connections, renewer
        self.notices = Notices(connections)
        self.media = media_rows.PostgresqlMedia(connections)
        self.sums = PostgresqlTurnSums(connections)
        self._recent: dict[str, builtins.list[tuple[float, _Row]]] = {}

    async def write(
        self,
        turn: JournaledTurn,
        entries: Sequence[JournalEntry],
        *,
        lease_s: float | None,
        questions: Sequence[PendingQuestion] = (),
    ) -> None:
        """Add steps to a turn; see TurnJournal."""
        rows = [journal_rows.step_to_row(turn.id, entry) for entry in entries]
        is_accepted = turn.state == "accepted"

        async def write(connection: Connection) -> None:
            if lease_s is not None and not is_accepted:
                await extend(connection, turn.owner, lease_s)
            conversation = await self._add(connection, turn, rows, after=_after(entries))
            await _use_media(connection, turn, entries)
            if questions:
                if conversation:
                    await question_rows.add(connection, questions, conversation)
                self.notices.send(connection, turn.id)

        async def write_alone(connection: Connection) -> bool:
            if rows[0][1] == 1:
                return await self._begin(connection, turn, rows, _after(entries), soon=not is_accepted) is not None
            values = {"id": turn.id, "owner": turn.owner, "fence": turn.fence, "number": rows[0][1], **_columns(rows)}
            return (await connection.execute(_APPEND, values)).rowcount > 0

        # Most writes are one statement. Without effect, it is for the transaction to find out why.
        is_simple = (
            rows and not questions and (is_accepted or lease_s is None) and all(row[2] != "reply" for row in rows)
        )
        # A step need not be durable before the next one: a crash of the server is repaired from memory, and the
        # turn's end is committed synchronously. A question that someone may have seen must be there for the reply.
        has_media = any(entry.media for entry in entries)  # not remembered in memory
        if not is_simple or has_media or not await self._connections.repeated(write_alone, alone=True):
            is_soon = not questions and not is_accepted and not has_media
            await self._connections.repeated(write, soon=is_soon)
        if not is_accepted:
            self._remember(turn.id, rows)

    async def bind(
        self, key: str, *, tenant: str, turn: str, digest: str, keep_s: float, instead_of: TurnKey | None = None
    ) -> TurnKey:
        """Bind a caller's idempotency key to a turn; see TurnJournal."""
        now = time.time()
        expected = (None, None) if instead_of is None else (instead_of.turn, instead_of.begun)
        new = (tenant, key, turn, digest, effect_rows.time_text(now), *expected)

        async def bind(connection: Connection) -> TurnKey:
            # Expired keys go first: otherwise one that has just expired would still block its reuse.
            await connection.execute(_FREE, (effect_rows.time_text(now - keep_s),))
            await connection.execute(_BIND, new)
            row = await connection.row(_BOUND, (tenant, key))
            if row is None:
                raise StorageError("turns: a key was freed at the same moment: bind it again")
            turn, digest, begun, bound_at = row
            return TurnKey(key=key, tenant=tenant, turn=turn, digest=digest, begun=begun, bound_at=bound_at)

        return await self._connections.repeated(bind)

    async def acquire(self, id: str, *, tenant: str, owner: str, lease_s: float) -> JournaledTurn:
        """Acquire an unfinished turn for *owner*; see TurnJournal."""
        token = secrets.token_hex(8)
        values = {"tenant": tenant, "token": token, "format": JOURNAL_FORMAT, **lease(owner, lease_s)}

        async def take(connection: Connection) -> JournaledTurn:
            rows = await connection.rows(_TAKE, {"id": storable(id), **values})
            if not rows:
                turn, ((its_token,),) = await self._find(connection, id, tenant)
                if its_token == token:
                    return turn  # an earlier attempt was committed
                journal_rows.check_format(turn)
                # Of the beginning of an id; or again, as it may have changed meanwhile.
                rows = await connection.rows(_TAKE, {"id": turn.id, **values})
                if not rows:
                    raise TurnNotWaitingError(turn.id, turn.state)
            return attrs.evolve(_turn(rows[0]), state="running")  # the statement does not see its owner's new lease

        return await self._connections.repeated(take, alone=True)

    async def suspend(self, turn: JournaledTurn, entries: Sequence[JournalEntry]) -> bool:
        """Add steps to a turn and suspend it, unless it can go on at once; see TurnJournal."""
        rows = [journal_rows.step_to_row(turn.id, entry) for entry in entries]
        values = {"id": turn.id, "now": effect_rows.now_text()}

        async def suspend(connection: Connection) -> bool:
            self.notices.send(connection, turn.id)
            row = await connection.row(_LOCKED, (turn.id,)) if connection.is_again else None
            # Only this runner counts a suspension under its fence: an earlier attempt was committed.
            if row is not None and (row[1], row[6]) == (turn.fence, turn.suspensions + 1):
                return True
            if not await self._add(connection, turn, rows, after=_after(entries)):
                raise LostTurnError(turn.id)  # its conversation was deleted, and with it its questions
            await _use_media(connection, turn, entries)
            return (await connection.execute(_SUSPEND, values)).rowcount > 0

        is_suspended = await self._connections.repeated(suspend)
        if is_suspended:
            self._recent.pop(turn.id, None)
        else:
            self._remember(turn.id, rows)
        return is_suspended

    async def answer(self, id: str, *, tenant: str, reply: Reply, by: str) -> PendingQuestion:
        """Record the reply to an open question; see TurnJournal."""
        at, by, text = effect_rows.now_text(), storable(by), journal_rows.reply_to_json(reply, id)

        async def answer(connection: Connection) -> PendingQuestion:
            pending = await question_rows.find(connection, id, tenant, at)
            await connection.execute(_LOCK_TURN, ([pending.turn],))
            pending = await question_rows.find(connection, pending.id, tenant, at)
            self.notices.send(connection, pending.turn, is_command=True)
            # An earlier attempt may have been committed: then the row holds its values, to the millisecond.
            if connection.is_again and (pending.replied_by, pending.replied_at, pending.reply) == (by, at, reply):
                return pending
            pending = journal_rows.replied(pending, reply, by, at)
            values = (text, by, at, pending.remembered, reply.action == "accept", pending.id)
            await connection.execute(_ANSWER, values)
            await connection.execute(_WAKE, ([pending.turn],))
            return pending

        return await self._connections.repeated(answer)

    async def question(self, id: str, *, tenant: str) -> PendingQuestion:
        """Return a question; see TurnJournal."""
        async with self._connections.transaction() as connection:
            return await question_rows.find(connection, id, tenant, effect_rows.now_text())

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
        """Return questions, newest first; see TurnJournal."""
        values = {"conversation": conversation, "turn": turn, "remembered": remembered, "limit": max(limit, 0)}
        async with self._connections.transaction() as connection:
            return await question_rows.page(connection, tenant, states, before, **values)

    async def revoke(self, id: str, *, tenant: str) -> PendingQuestion:
        """Clear the key under which a reply counts again; see TurnJournal."""

        async def revoke(connection: Connection) -> PendingQuestion:
            pending = await question_rows.find(connection, id, tenant, effect_rows.now_text())
            await connection.execute("UPDATE {s}.questions SET remembered = '' WHERE id = %s", (pending.id,))
            return attrs.evolve(pending, remembered="")

        return await self._connections.repeated(revoke)

    async def use_approval(self, approval: Approval, *, tenant: str, by: str, may_repeat: bool = False) -> bool:
        """Use up an approval; see TurnJournal."""
        values = {"tenant": tenant, "by": storable(by), "may_repeat": may_repeat, "token": secrets.token_hex(8)}
        return await self._connections.repeated(
            lambda connection: question_rows.use(connection, approval, **values), alone=True
        )

    async def expire_questions(self) -> int:
        """Mark open questions whose time has passed; see TurnJournal."""
        now, expired = effect_rows.now_text(), 0

        async def expire(connection: Connection) -> tuple[bool, int]:
            turns = [turn for (turn,) in await connection.rows(question_rows.LATE, {"now": now})]
            # Several turns only if none has to be waited for: their order may not be that of a deletion.
            free = [id for (id,) in await connection.rows(_LOCK_FREE, (turns,))] or turns[:1]
            await connection.execute(_LOCK_TURN, (free[:1],))
            marked = await connection.rows(question_rows.EXPIRE, {"turns": free, "now": now})
            await connection.execute(_WAKE, ([turn for (turn,) in marked],))
            for (turn,) in marked:
                self.notices.send(connection, turn, is_command=True)
            return bool(turns), len(marked)

        # In pages: after a long stop there may be as many as were asked, and each locks its turn.
        while True:
            is_more, count = await self._connections.repeated(expire)
            expired += count
            if not is_more:
                return expired

    async def take_unsent(self, *, limit: int, again_s: float) -> Sequence[PendingQuestion]:
        """Return questions that are due to be sent; see SendingJournal."""
        return await self._connections.repeated(
            lambda connection: question_rows.take_unsent(connection, max(limit, 0), again_s)
        )

    async def mark_sent(self, id: str, *, tenant: str) -> None:
        """Record that a question has been sent; see SendingJournal."""
        sent = "UPDATE {s}.questions SET send_at = NULL WHERE id = %s AND tenant = %s"
        await self._connections.repeated(lambda connection: connection.execute(sent, (id, tenant)), alone=True)

    async def request_cancel(self, id: str, *, tenant: str, by: str) -> JournaledTurn:
        """Request that a turn be cancelled; see TurnJournal."""

        async def request(connection: Connection) -> JournaledTurn:
            turn, _ = await self._find(connection, id, tenant)
            await connection.execute(_CANCEL, (storable(by) or "unknown", turn.id))
            self.notices.send(connection, turn.id, is_command=True)
            return (await self._find(connection, turn.id, tenant))[0]

        return await self._connections.repeated(request)

    async def list_commands(self, owner: str) -> Sequence[str]:
        """Return the ids of an owner's turns that it has to act on; see TurnJournal."""
        values = {"owner": owner, "now": effect_rows.now_text()}
        rows = await self._connections.repeated(lambda connection: connection.rows(_COMMANDED, values), alone=True)
        return [id for (id,) in rows]

    def watch(self) -> AsyncGenerator[str, None]:
        """Yield the ids of changed turns; see TurnJournal."""
        return self.notices.watch()

    async def release(self, turn: JournaledTurn, *, error: str = "") -> None:
        """Clear a turn's owner, so that another process can acquire it; see TurnJournal."""

        async def release(connection: Connection) -> None:
            await connection.execute(_RELEASE, (storable(error), turn.suspensions, turn.id, turn.fence))
            self.notices.send(connection, turn.id)
            parted = "DELETE FROM {s}.journal_turns WHERE id = %s AND owner = '' AND conversation = ''"
            await connection.execute(parted, (turn.id,))

        await self._connections.repeated(release)
        self._recent.pop(turn.id, None)

    async def list_resumable(self, *, limit: int) -> Sequence[JournaledTurn]:
        """Return the turns of all tenants that can go on; see TurnJournal."""
        values = {"limit": max(limit, 0), "now": effect_rows.now_text(), "format": JOURNAL_FORMAT}

        rows = await self._connections.repeated(lambda connection: connection.rows(_RESUMABLE, values), alone=True)
        # Each half is in order, but a parallel plan may mix them.
        return sorted(map(_turn, rows), key=lambda turn: turn.state == "accepted")[: max(limit, 0)]

    async def add_events(self, turn: JournaledTurn, events: Sequence[JournaledEvent], *, forget: int = 0) -> None:
        """Store events of a turn; see TurnJournal."""
        rows = [(turn.id, event.number, storable(event.name), storable(event.data)) for event in events]

        async def add(connection: Connection) -> None:
            ours = "SELECT 1 FROM {s}.journal_turns WHERE id = %s AND fence = %s FOR SHARE"
            if await connection.row(ours, (turn.id, turn.fence)) is None:
                # Either another owner has the turn, or a server crash lost its first step. _add distinguishes the two.
                await self._add(connection, turn, ())
            if rows:
                await connection.execute(_EVENTS, tuple(map(list, zip(*rows, strict=True))))
                self.notices.send(connection, turn.id)
            if forget:
                old = "DELETE FROM {s}.journal_events WHERE turn = %s AND number <= %s"
                await connection.execute(old, (turn.id, forget))

        await self._connections.repeated(add, soon=True)

    async def events(self, id: str, *, tenant: str, after: int = 0) -> tuple[JournaledTurn, Sequence[JournaledEvent]]:
        """Return a turn and its events after number *after*; see TurnJournal."""
        turn, rows = await self._connections.repeated(
            lambda connection: self._find(connection, id, tenant, _READ_EVENTS, after=after), alone=True
        )
        if turn.id != id:
            raise UnknownTurnError(id)
        return turn, [JournaledEvent(*row) for _, *row in rows if row[0] is not None]

    async def read(self, id: str, *, tenant: str) -> tuple[JournaledTurn, Sequence[JournalEntry]]:
        """Return a turn with its steps; see TurnJournal."""
        # Repeated across a restart: a turn whose steps cannot be read once it is acquired is left to a person.
        turn, rows = await self._connections.repeated(
            lambda connection: self._find(connection, id, tenant, _READ), alone=True
        )
        return turn, journal_rows.steps_from_rows(id, [row for _, *row in rows if row[0] is not None])

    async def list(
        self,
        *,
        tenant: str,
        states: Sequence[TurnState] | None = None,
        conversation: str | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> Sequence[JournaledTurn]:
        """Return turns, newest first; see TurnJournal."""
        statement: LiteralString = (
            f"SELECT {_COLUMNS} FROM {{s}}.journal_turns e WHERE tenant = %(tenant)s AND {_THERE}"
        )
        values: dict[str, object] = {"tenant": tenant, "limit": max(limit, 0)}
        if states is not None:
            statement += f" AND {_STATE} = ANY(%(states)s)"
            values["states"] = [*states]
        if conversation is not None:
            statement += " AND conversation = %(conversation)s"
            values["conversation"] = conversation
        async with self._connections.transaction() as connection:
            if before is not None:
                statement += " AND number < (SELECT number FROM {s}.journal_turns WHERE id = %(before)s)"
                values["before"] = (await self._find(connection, before, tenant))[0].id
            statement += " ORDER BY number DESC LIMIT %(limit)s"
            return [_turn(row) for row in await connection.rows(statement, values)]

    async def list_interrupted(self, conversation: str, *, tenant: str) -> Sequence[str]:
        """Return the ids of a conversation's interrupted and suspended turns; see TurnJournal."""
        values = (tenant, conversation, JOURNAL_FORMAT)
        rows = await self._connections.repeated(lambda connection: connection.rows(_WAITING, values), alone=True)
        return [id for (id,) in rows]

    def renew(self, owner: str, lease_s: float) -> None:
        """Renew an owner's lease, from now; see TurnJournal."""
        self._renewer.renew(owner, lease_s)

    async def forget(self, *, older_than_s: float, events_older_than_s: float) -> int:
        """Delete turns that ended long ago; see TurnJournal."""
        now = time.time()
        until, events_until = (
            effect_rows.time_text(now - older_than_s),
            effect_rows.time_text(now - events_older_than_s),
        )

        async def forget(connection: Connection) -> int:
            events = """
                DELETE FROM {s}.journal_events
                WHERE turn IN (SELECT id FROM {s}.journal_turns WHERE ended_at <> '' AND ended_at < %s)"""
            await connection.execute(events, (events_until,))
            await connection.execute(_DELETE_DEAD, ())
            old = "DELETE FROM {s}.journal_turns WHERE ended_at <> '' AND ended_at < %s"
            discarded = await connection.execute(f"{old} AND conversation = ''", (events_until,))
            deleted = await connection.execute(old, (until,))
            await question_rows.forget(connection)
            await media_rows.forget(connection)
            return discarded.rowcount + deleted.rowcount

        return await self._connections.repeated(forget)

    async def end(self, connection: Connection, end: TurnEnd, at: str) -> bool:
        """Write the last steps of a turn and its end, in the caller's transaction, which has extended the lease.

        Returns:
            False if the turn's conversation was deleted while it ran: then its steps are deleted as well.

        Raises:
            LostTurnError: The turn has ended, or another owner has acquired it.
            StorageError: A step is not JSON data.
        """
        turn = end.turn
        rows = [journal_rows.step_to_row(turn.id, entry) for entry in end.entries]
        self.notices.send(connection, turn.id)
        if connection.is_again:
            # State, fence and time together identify this attempt: another owner would have a higher fence.
            row = await connection.row(_LOCKED, (turn.id,))
            if row is not None and (row[0], row[1], row[3]) == (end.state, turn.fence, at):
                return bool(row[4])  # an earlier run was committed
        is_kept = bool(await self._add(connection, turn, rows, after=_after(end.entries)))
        await _use_media(connection, turn, end.entries)
        if not is_kept:
            await connection.execute("DELETE FROM {s}.media_uses WHERE journaled = %s", (turn.id,))
            await connection.execute("DELETE FROM {s}.journal_entries WHERE turn = %s", (turn.id,))
            await connection.execute(_DISCARD, (turn.id,))
        error = storable(end.error) if is_kept else ""
        await connection.execute(_END, {"id": turn.id, "state": end.state, "at": at, "error": error})
        return is_kept

    def ended(self, turn: JournaledTurn) -> None:
        """Drop the remembered steps of a turn whose end is committed."""
        self._recent.pop(turn.id, None)

    async def delete_of(self, connection: Connection, tenant: str, conversation: str) -> int:
        """Delete a conversation's turns with their steps; one that is running belongs to no conversation any more.

        Returns how many it deleted.
        """
        deleted = (await connection.execute(_DELETE, (tenant, conversation))).rowcount
        await connection.execute(_PART, (tenant, conversation))
        return deleted

    async def _add(
        self, connection: Connection, turn: JournaledTurn, rows: Sequence[_Row], *, after: str | None = None
    ) -> str:
        """Add steps to a turn this process still owns, or one it accepts, restoring rows that a server crash has lost.

        Args:
            after: The conversation's last turn when this one began; None for a new one.

        Returns:
            Its conversation; empty if that was deleted.

        Raises:
            LostTurnError: The turn has ended, or another owner has acquired it.
            StorageError: A lost step is no longer in memory.
        """
        is_accepted = turn.state == "accepted"
        if is_accepted:
            turn = attrs.evolve(turn, owner="", fence=0)
        first = rows[0][1] if rows else None
        if first == 1 and (conversation := await self._begin(connection, turn, rows, after)) is not None:
            return conversation
        row = await connection.row(_LOCKED, (turn.id,))
        again = [row for _, row in self._recent.get(turn.id, ())]
        # The row is gone though it was committed: restore it, but only with all its steps, from the first one on.
        if row is None and again and again[0][1] == 1:
            await self._begin(connection, turn, again, json.loads(again[0][3]).get("after"))
            row = await connection.row(_LOCKED, (turn.id,))
        if row is not None and is_accepted and row[0] != "accepted" and rows and rows[-1][1] <= row[5]:
            return str(row[4])  # written by an earlier attempt, and acquired since
        if row is None or row[:3] != ("accepted" if is_accepted else "running", turn.fence, turn.owner):
            raise LostTurnError(turn.id)
        last = row[5]
        missing = [*(row for row in again if row[1] > last and (first is None or row[1] < first)), *rows]
        if missing:
            if missing[0][1] > last + 1:
                raise StorageError(f"turns: step {last + 1} of {turn.id} is missing: the database has lost it")
            await connection.execute(_ENTRIES, _columns(missing))
            replies = [storable(f"{json.loads(row[3]).get('id')}") for row in missing if row[2] == "reply"]
            if replies:
                await connection.execute(_RECORDED, (turn.id, replies))
        return str(row[4])

    async def _begin(
        self,
        connection: Connection,
        turn: JournaledTurn,
        rows: Sequence[_Row],
        after: str | None,
        *,
        soon: bool = False,
    ) -> str | None:
        """Insert a turn's row and its first steps, and return its conversation; None if there was one before.

        Args:
            soon: Commit asynchronously.

        Raises:
            LostTurnError: Its key stands for another turn by now; nothing is written.
        """
        is_accepted = turn.state == "accepted"
        values = {
            name: getattr(turn, name)
            for name in ("id", "tenant", "conversation", "key", "due_at", "priority", "format")
        }
        values |= {"after": after, "soon": soon, "message": storable(turn.message)}
        values |= (
            {"state": "accepted", "owner": "", "fence": 0}
            if is_accepted
            else {"state": "running", "owner": turn.owner, "fence": turn.fence}
        )
        values["began_at"] = turn.began_at or effect_rows.now_text()
        row = await connection.row(_BEGIN, {**values, **_columns(rows)})
        if row is None or not row[1]:
            raise LostTurnError(turn.id)
        conversation: str | None = row[0]
        return conversation

    def _remember(self, turn: str, rows: Sequence[_Row]) -> None:
        now = time.monotonic()
        # Turns acquired by other processes never end here, so their steps have to expire.
        if len(self._recent) > 1000:
            self._recent = {id: rows for id, rows in self._recent.items() if rows[-1][0] > now - _LOST_WITHIN_S}
        recent = [(at, row) for at, row in self._recent.get(turn, ()) if at > now - _LOST_WITHIN_S]
        self._recent[turn] = recent + [(now, row) for row in rows]

    async def _find(
        self, connection: Connection, id: str, tenant: str, statement: LiteralString = _FIND, **values: object
    ) -> tuple[JournaledTurn, Sequence[Row]]:
        """Return the turn whose id is *id* or starts with it, and what else the statement has: first its token.

        Raises:
            UnknownTurnError: No turn of the tenant matches, or several do.
        """
        bounds = journal_rows.id_range(id, UnknownTurnError)
        rows = await connection.rows(statement, {"tenant": tenant, **bounds, **values})
        match = journal_rows.pick(rows, id, UnknownTurnError)[0]
        return _turn(rows[0]), [row[len(_FIELDS) :] for row in rows if row[0] == match]


async def _use_media(connection: Connection, turn: JournaledTurn, entries: Sequence[JournalEntry]) -> None:
    for entry in entries:
        if entry.media:
            await media_rows.use(connection, turn.tenant, entry.media, journaled=turn.id)


def _columns(rows: Sequence[_Row]) -> dict[str, object]:
    names = ("turns", "numbers", "kinds", "data", "times")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _after(entries: Sequence[JournalEntry]) -> str | None:
    return entries[0].data.get("after") if entries and entries[0].number == 1 else None


def _turn(row: Sequence[Any]) -> JournaledTurn:
    return JournaledTurn(**dict(zip(_FIELDS, row, strict=False)))
