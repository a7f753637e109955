"""The ledger of effects in PostgreSQL."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Sequence
from typing import Any, Literal, LiteralString

import attrs
from flexchat.store import (
    Approval,
    Claim,
    Effect,
    EffectCall,
    EffectState,
    UnknownEffectError,
    effect_rows,
    storable,
)

from .connections import Connection, Connections
from .owners import LIVES, WITH_CLAIM, Renewer, Watch, extend, lease
from .questions import use

_FIELDS = tuple(field.name for field in attrs.fields(Effect))
_COLUMNS = ", ".join(_FIELDS)
_VALUES = ", ".join(f"%({name})s" for name in _FIELDS)
_INSERT: LiteralString = f"""
    INSERT INTO {{s}}.effects ({_COLUMNS}, token) VALUES ({_VALUES}, %(token)s) ON CONFLICT (key) DO NOTHING"""
_CLAIM: LiteralString = f"WITH made AS ({_INSERT} RETURNING 1), renewed AS ({WITH_CLAIM}) SELECT FROM made"
_UPDATE: LiteralString = f"""
    UPDATE {{s}}.effects SET ({_COLUMNS}, token) = ({_VALUES}, %(token)s) WHERE key = %(key)s"""
_ROW: LiteralString = f"""
    SELECT {_COLUMNS}, token, o.renewals, o.lease_s, o.alive_until <= clock_timestamp()
    FROM {{s}}.effects e LEFT JOIN {{s}}.owners o USING (owner) WHERE key = %s"""
# A separate statement: one that waits for a row lock does not see owners that were committed while it waited.
_LOCK: LiteralString = "SELECT FROM {s}.effects WHERE key = %s FOR UPDATE"
_REMEMBER: LiteralString = """
    UPDATE {s}.effects SET handle = %(handle)s
    WHERE key = %(key)s AND fence = %(fence)s AND owner <> '' AND state IN ('claimed', 'unknown')"""
_FINISH: LiteralString = """
    UPDATE {s}.effects SET state = %(state)s, result = %(result)s, note = %(note)s, ended_at = %(at)s
    WHERE key = %(key)s AND fence = %(fence)s AND owner <> '' AND state IN ('claimed', 'unknown')"""
_RELEASE: LiteralString = """
    WITH released AS (
        UPDATE {s}.effects SET state = %(state)s, owner = '', note = %(note)s, ended_at = %(at)s
        WHERE key = %(key)s AND fence = %(fence)s AND state = 'claimed' AND handle IS NULL
        RETURNING key
    ), freed AS (
        UPDATE {s}.questions SET used_by = '' FROM released WHERE used_by = released.key AND used_by <> ''
    )
    SELECT FROM released"""
# The rule of effect_rows.released: where its conversation was deleted while it ran, it ends.
_WAIT: LiteralString = """
    UPDATE {s}.effects SET
        state = CASE WHEN note <> %(deleted)s THEN %(state)s WHEN handle IS NULL THEN 'failed' ELSE 'unknown' END,
        owner = CASE WHEN note = %(deleted)s AND handle IS NOT NULL THEN %(deleted_owner)s ELSE '' END,
        note = CASE WHEN note <> %(deleted)s THEN %(note)s WHEN handle IS NULL THEN note ELSE %(deleted_job)s END,
        ended_at = CASE WHEN note <> %(deleted)s THEN %(at)s ELSE %(now)s END,
        handle = CASE WHEN note <> %(deleted)s THEN handle END
    WHERE key = %(key)s AND fence = %(fence)s AND state = 'claimed'"""
_IS_WRITTEN: LiteralString = """
    SELECT 1 FROM {s}.effects
    WHERE key = %(key)s AND fence = %(fence)s AND state = %(state)s AND note = %(note)s AND ended_at = %(at)s"""
_FIND: LiteralString = f"""
    SELECT {_COLUMNS}, {LIVES} FROM {{s}}.effects e
    WHERE key >= %(key)s AND key < %(end)s AND tenant = %(tenant)s LIMIT 3"""
_TOLD_STATE: LiteralString = f"CASE WHEN state = 'claimed' AND NOT {LIVES} THEN 'unknown' ELSE state END"
# Effects of an unfinished turn are kept: the turn may be resumed at any time and repeat its calls.
_OVER: LiteralString = "NOT EXISTS (SELECT FROM {s}.journal_turns t WHERE t.id = e.turn AND t.ended_at = '')"
_NO_TEXTS: LiteralString = "arguments = '', result = NULL, note = '', handle = NULL"
_FORGET_TEXTS: LiteralString = f"""
    UPDATE {{s}}.effects e SET {_NO_TEXTS}
    WHERE state IN ('done', 'failed') AND ended_at <> '' AND ended_at < %(texts)s AND {_OVER}
    AND (arguments <> '' OR note <> '' OR result IS NOT NULL OR handle IS NOT NULL)"""
# The tool of a pending effect has changed nothing, and never will once its turn has ended. What became of a job that it
# had started is unknown; an owner keeps the row from counting as released.
_FORGET_PENDING: LiteralString = f"""
    UPDATE {{s}}.effects e SET state = CASE WHEN handle IS NULL THEN 'failed' ELSE 'unknown' END, ended_at = claimed_at,
    owner = CASE WHEN handle IS NULL THEN '' ELSE %(owner)s END
    WHERE state = 'pending' AND claimed_at < %(texts)s AND {_OVER}
    AND (handle IS NULL OR EXISTS (SELECT FROM {{s}}.journal_turns t WHERE t.id = e.turn))"""
_FORGET_ROWS: LiteralString = f"""
    DELETE FROM {{s}}.effects e WHERE state IN ('done', 'failed') AND ended_at <> '' AND ended_at < %(rows)s AND {_OVER}
    AND NOT EXISTS (SELECT FROM {{s}}.conversations c WHERE c.tenant = e.tenant AND c.id = e.conversation)"""
_FORGET_OWNERS: LiteralString = """
    DELETE FROM {s}.owners o WHERE alive_until < clock_timestamp() - make_interval(days => 1)
    AND NOT EXISTS (SELECT FROM {s}.effects e WHERE state = 'claimed' AND e.owner = o.owner)"""
_FORGET_CONVERSATION: LiteralString = f"""
    UPDATE {{s}}.effects SET {_NO_TEXTS}
    WHERE tenant = %s AND conversation = %s AND state NOT IN ('claimed', 'pending')"""
_OPEN_IN: LiteralString = f"""
    SELECT {_COLUMNS} FROM {{s}}.effects
    WHERE tenant = %s AND conversation = %s AND state IN ('claimed', 'pending') FOR UPDATE"""
_FORGET_OPEN: LiteralString = """
    UPDATE {s}.effects SET state = %(state)s, owner = %(owner)s, note = %(note)s, ended_at = %(ended_at)s,
    arguments = '', result = NULL, handle = %(handle)s WHERE key = %(key)s"""
_DAY_S = 24 * 3600.0


class PostgresqlLedger:
    """An EffectLedger in PostgreSQL.

    A write that a server restart interrupts is retried for connect_timeout_s; a retry first checks whether the write
    was committed. Leases are measured by the server's clock; Watch covers a clock that is set.

    Args:
        connections: The connections of the conversation store, which owns and closes them.
    """

    holds_questions = True

    def __init__(self, connections: Connections, renewer: Renewer) -> None:
        self._connections, self._renewer = connections, renewer
        self.database = connections
        self._watch = Watch()

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
        token, now = secrets.token_hex(8), effect_rows.now_text()
        new = effect_rows.claimed_anew(call, None, owner, now)
        values = {**_values(new), "token": token, **lease(owner, lease_s)}

        async def use_approval(connection: Connection, row: Effect) -> Claim:
            by = {"tenant": call.tenant, "by": call.key, "may_repeat": True, "token": token}
            # Last, since its rows are locked after those of effects; without it, nothing is committed.
            if approval is not None and not await use(connection, approval, **by):
                raise _UnapprovedError(row)
            return Claim("yours", row)

        async def claim(connection: Connection) -> Claim | None:
            inserted = await connection.execute(_INSERT, values)
            if inserted.rowcount:
                await extend(connection, owner, lease_s)
                return await use_approval(connection, new)
            await connection.execute(_LOCK, (call.key,))
            stored = await connection.row(_ROW, (call.key,))
            if stored is None:
                return None
            row, (its_token, *its_lease) = _effect(stored), stored[len(_FIELDS) :]
            # The token identifies the attempt that wrote the row. Without it, a claim whose COMMIT was not confirmed
            # would count as another owner's, and the call would end as "unknown" though it never ran.
            if its_token == token and row.state == "claimed":
                return Claim("yours", row)
            renewals, of_s, has_expired = its_lease
            is_dead = renewals is None or self._watch.is_dead(row.owner, renewals, of_s, has_expired=has_expired)
            outcome = effect_rows.outcome_of(row, call, not is_dead, take_over)
            if outcome == "yours":
                row = effect_rows.claimed_anew(call, row, owner, now)
                await connection.execute(_UPDATE, {**_values(row), "token": token})
                await extend(connection, owner, lease_s)
                return await use_approval(connection, row)
            return Claim(outcome, row)

        # Most claims are new, and one statement is one round trip. Everything else needs the row lock of claim, or
        # uses up an approval in the same transaction.
        if approval is None:
            insertion = await self._connections.repeated(
                lambda connection: connection.execute(_CLAIM, values), alone=True
            )
            if insertion.rowcount:
                return Claim("yours", new)
        while True:
            try:
                claimed = await self._connections.repeated(claim)
            except _UnapprovedError as error:
                return Claim("unapproved", error.args[0])
            if claimed is not None:  # Otherwise forget deleted the row between INSERT and SELECT.
                return claimed

    def renew(self, owner: str, lease_s: float) -> None:
        """Renew an owner's lease; see EffectLedger."""
        self._renewer.renew(owner, lease_s)

    async def remember(self, key: str, fence: int, *, handle: str) -> bool:
        """Store the handle of an external job with a claim; see EffectLedger."""
        values = {"handle": handle, "key": key, "fence": fence}
        # Idempotent: a retry updates the same row to the same value.
        updated = await self._connections.repeated(lambda connection: connection.execute(_REMEMBER, values), alone=True)
        return updated.rowcount > 0

    async def finish(
        self, key: str, fence: int, *, state: Literal["done", "failed", "unknown"], result: str | None, note: str = ""
    ) -> bool:
        """Record how a claim ended; see EffectLedger."""
        values = {"state": state, "result": result, "note": storable(note)}
        return await self._end(_FINISH, {**values, "key": key, "fence": fence, "at": effect_rows.now_text()})

    async def release(self, key: str, fence: int, *, note: str, is_pending: bool = False) -> bool:
        """Release a claim whose call has not run, or has changed nothing; see EffectLedger."""
        now = effect_rows.now_text()
        values: dict[str, object] = {"note": storable(note), "key": key, "fence": fence}
        if not is_pending:
            return await self._end(_RELEASE, {**values, "state": "failed", "at": now})
        deleted = {
            "deleted": effect_rows.DELETED,
            "deleted_job": effect_rows.DELETED_JOB,
            "deleted_owner": effect_rows.DELETED_OWNER,
        }
        return await self._end(_WAIT, {**values, **deleted, "state": "pending", "at": "", "now": now})

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
        token, now = secrets.token_hex(8), effect_rows.now_text()

        async def settle(connection: Connection) -> Effect:
            row, lives = await self._find(connection, key, tenant)
            await connection.execute(_LOCK, (row.key,))
            # Read again under the lock: the call may have ended, or another person may have settled it meanwhile.
            row, lives = await self._find(connection, row.key, tenant)
            if connection.is_again and (row.state, row.settled_by, row.ended_at) == (state, storable(by), now):
                return row  # An earlier attempt was committed.
            changed = effect_rows.settled(row, lives, state, storable(by), storable(note), result, now)
            await connection.execute(_UPDATE, {**_values(changed), "token": token})
            return changed

        return await self._connections.repeated(settle)

    async def get(self, key: str, *, tenant: str) -> Effect:
        """Return an effect; see EffectLedger."""
        async with self._connections.transaction() as connection:
            return effect_rows.mark_if_dead(*await self._find(connection, key, tenant))

    async def list(
        self,
        *,
        tenant: str,
        states: Iterable[EffectState] | None = None,
        conversation: str | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> Sequence[Effect]:
        """Return effects, newest first; see EffectLedger."""
        statement = f"SELECT {_COLUMNS}, {LIVES} FROM {{s}}.effects e WHERE tenant = %(tenant)s"
        values: dict[str, object] = {"tenant": tenant, "limit": max(limit, 0)}
        if states is not None:
            # The first condition can use an index; the second treats a claim of a dead owner as unknown.
            statement += f" AND (state = ANY(%(states)s) OR state = 'claimed') AND {_TOLD_STATE} = ANY(%(states)s)"
            values["states"] = [*states]
        if conversation is not None:
            statement += " AND conversation = %(conversation)s"
            values["conversation"] = conversation
        async with self._connections.transaction() as connection:
            if before is not None:
                statement += " AND number < (SELECT number FROM {s}.effects WHERE key = %(before)s)"
                values["before"] = (await self._find(connection, before, tenant))[0].key
            statement += " ORDER BY number DESC LIMIT %(limit)s"
            rows = await connection.rows(statement, values)
        return [effect_rows.mark_if_dead(_effect(row), row[-1]) for row in rows]

    async def forget(self, *, older_than_s: float) -> None:
        """Delete the texts and rows of effects that ended long ago; see EffectLedger."""
        now = time.time()
        values = {"texts": effect_rows.time_text(now - older_than_s), "owner": effect_rows.DELETED_OWNER}
        values["rows"] = effect_rows.time_text(now - max(older_than_s, _DAY_S))

        async def forget(connection: Connection) -> None:
            for statement in (_FORGET_PENDING, _FORGET_TEXTS, _FORGET_ROWS, _FORGET_OWNERS):
                await connection.execute(statement, values)

        await self._connections.repeated(forget)

    async def forget_conversation(self, conversation: str, *, tenant: str) -> None:
        """Delete the texts of a conversation's effects; see EffectLedger."""
        await self._connections.repeated(lambda connection: forget_texts(connection, tenant, conversation))

    async def aclose(self) -> None:
        """Do nothing: the store owns the connections."""

    async def _end(self, statement: LiteralString, values: dict[str, object]) -> bool:
        async def end(connection: Connection) -> bool:
            if (await connection.execute(statement, values)).rowcount:
                return True
            # An earlier attempt may have been committed: then the row holds its values, to the millisecond.
            return connection.is_again and (await connection.execute(_IS_WRITTEN, values)).rowcount > 0

        return await self._connections.repeated(end, alone=True)

    async def _find(self, connection: Connection, key: str, tenant: str) -> tuple[Effect, bool]:
        """Return the effect whose key is *key* or starts with it, and whether its owner is alive.

        Raises:
            UnknownEffectError: No effect of the tenant matches, or several do.
        """
        if not key or key != storable(key):
            raise UnknownEffectError(key)
        values = {"key": key, "end": key + "g", "tenant": tenant}  # keys are hexadecimal
        rows = await connection.rows(_FIND, values)
        if len(rows) != 1:
            raise UnknownEffectError(key, [row[0] for row in rows])
        return _effect(rows[0]), rows[0][-1]


class _UnapprovedError(Exception):
    """Rolls back a claim whose approval cannot be used; has the row that it would have."""


async def forget_texts(connection: Connection, tenant: str, conversation: str) -> None:
    """Delete the texts of a conversation's effects in the caller's transaction."""
    rows = await connection.rows(_OPEN_IN, (tenant, conversation))
    await connection.execute(_FORGET_CONVERSATION, (tenant, conversation))
    for row in map(_effect, rows):
        await connection.execute(_FORGET_OPEN, _values(effect_rows.forgotten(row, effect_rows.now_text())))


def _effect(row: Sequence[Any]) -> Effect:
    return Effect(**dict(zip(_FIELDS, row, strict=False)))


def _values(row: Effect) -> dict[str, object]:
    return {name: getattr(row, name) for name in _FIELDS}
