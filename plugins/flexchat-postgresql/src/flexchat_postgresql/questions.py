"""The table of questions: statements in transactions of the journal and the ledger."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, LiteralString

import attrs
from flexchat.store import (
    Approval,
    PendingQuestion,
    QuestionState,
    UnknownQuestionError,
    effect_rows,
    journal_rows,
    storable,
)

from .connections import Connection

_IS_LATE: LiteralString = "(state = 'open' AND expires_at <> '' AND expires_at <= %(now)s)"
_STATE: LiteralString = f"CASE WHEN {_IS_LATE} THEN 'expired' ELSE state END"
_COLUMNS: LiteralString = ", ".join(_STATE if name == "state" else name for name in journal_rows.QUESTION_COLUMNS)
_SELECT: LiteralString = f"SELECT {_COLUMNS} FROM {{s}}.questions WHERE tenant = %(tenant)s"
_ADD: LiteralString = (
    f"INSERT INTO {{s}}.questions ({', '.join(journal_rows.QUESTION_COLUMNS)}, send_at) "
    f"VALUES ({', '.join('%s' for _ in journal_rows.QUESTION_COLUMNS)}, %s) ON CONFLICT (id) DO NOTHING"
)
_WITHDRAW: LiteralString = "UPDATE {s}.questions SET state = 'withdrawn' WHERE id = %s AND state = 'open'"
# Without is_accepted, a refusal would approve; without the digest, an answer to any question would.
_USE: LiteralString = """
    UPDATE {s}.questions SET (used_by, token) = (%(by)s, %(token)s)
    WHERE id = %(id)s AND tenant = %(tenant)s AND digest = %(digest)s AND digest <> ''
    AND state = 'replied' AND is_accepted
    AND (used_by = '' OR used_by = %(by)s AND (%(may_repeat)s OR %(token)s = token))"""
LATE: LiteralString = f"SELECT turn FROM {{s}}.questions WHERE {_IS_LATE} ORDER BY expires_at LIMIT 500"
"""Finds the turns of questions whose time has passed."""

EXPIRE: LiteralString = f"""
    UPDATE {{s}}.questions SET state = 'expired' WHERE turn = ANY(%(turns)s) AND {_IS_LATE} RETURNING turn"""

HAS_COMMAND: LiteralString = f"""(cancelled_by <> '' OR EXISTS (
    SELECT FROM {{s}}.questions q
    WHERE q.turn = e.id AND NOT is_recorded AND (state IN ('replied', 'expired') OR {_IS_LATE})
))"""
"""SQL condition: turn e is to be cancelled, or a question of it has a reply, or has expired, without a step for it."""


_CONDITIONS: dict[str, LiteralString] = {
    "conversation": " AND conversation = %(conversation)s",
    "turn": " AND turn = %(turn)s",
    "remembered": " AND remembered <> '' AND (%(remembered)s = '' OR remembered = %(remembered)s)",
}
_UNSENT: LiteralString = (
    f"SELECT {_COLUMNS} FROM {{s}}.questions WHERE state = 'open' AND send_at <= %(now)s AND NOT {_IS_LATE} "
    "ORDER BY send_at, number LIMIT %(limit)s FOR UPDATE SKIP LOCKED"
)
# A reply that was not accepted, or counts within its conversation only, ends with that; others outlive it.
_DELETE: LiteralString = """
    DELETE FROM {s}.questions WHERE tenant = %(tenant)s AND conversation = %(conversation)s
    AND (remembered = '' OR reply NOT LIKE '%%"remember":"%%' OR reply LIKE '%%"remember":"conversation"%%')"""
_IS_WITHOUT_TURN: LiteralString = "NOT EXISTS (SELECT FROM {s}.journal_turns t WHERE t.id = q.turn)"
_FORGET: LiteralString = f"DELETE FROM {{s}}.questions q WHERE remembered = '' AND {_IS_WITHOUT_TURN}"
_REMEMBERED: LiteralString = f"""
    SELECT {_COLUMNS} FROM {{s}}.questions q WHERE remembered <> ''
    AND (tenant = %(tenant)s AND conversation = %(conversation)s
    OR question NOT LIKE '%%"message":""%%' AND {_IS_WITHOUT_TURN})"""


async def add(connection: Connection, questions: Sequence[PendingQuestion], conversation: str) -> None:
    """Add the questions of a turn whose row is locked. Raises StorageError if one is not JSON data."""
    for pending in questions:
        if pending.state == "withdrawn":
            await connection.execute(_WITHDRAW, (pending.id,))
            continue
        row = journal_rows.question_to_row(attrs.evolve(pending, conversation=conversation))
        await connection.execute(_ADD, (*row, pending.asked_at))


async def find(connection: Connection, id: str, tenant: str, now: str) -> PendingQuestion:
    """Return the question whose id is *id* or starts with it.

    Raises:
        UnknownQuestionError: No question of the tenant matches, or several do.
    """
    values = {"tenant": tenant, "now": now, **journal_rows.id_range(id, UnknownQuestionError)}
    rows = await connection.rows(f"{_SELECT} AND id >= %(id)s AND id < %(end)s ORDER BY id LIMIT 2", values)
    return journal_rows.question_from_row(journal_rows.pick(rows, id, UnknownQuestionError))


async def page(
    connection: Connection, tenant: str, states: Sequence[QuestionState] | None, before: str | None, **values: Any
) -> Sequence[PendingQuestion]:
    """Return questions, newest first; see TurnJournal.questions."""
    statement: LiteralString = _SELECT
    values |= {"tenant": tenant, "now": effect_rows.now_text(), "states": [*(states or ())]}
    if states is not None:
        # The first condition is that of an index; the second counts an open question as expired by its time.
        statement += " AND state = 'open'" if [*states] == ["open"] else ""
        statement += f" AND {_STATE} = ANY(%(states)s)"
    for column, condition in _CONDITIONS.items():
        statement += condition if values[column] is not None else ""
    if before is not None:
        statement += " AND number < (SELECT number FROM {s}.questions WHERE id = %(before)s)"
        values["before"] = (await find(connection, before, tenant, values["now"])).id
    rows = await connection.rows(statement + " ORDER BY number DESC LIMIT %(limit)s", values)
    return [journal_rows.question_from_row(row) for row in rows]


async def take_unsent(connection: Connection, limit: int, again_s: float) -> Sequence[PendingQuestion]:
    """Return questions that are due to be sent, and make them due later; see SendingJournal."""
    now = time.time()
    rows = await connection.rows(_UNSENT, {"now": effect_rows.time_text(now), "limit": limit})
    unsent = [journal_rows.question_from_row(row) for row in rows]
    for pending in unsent:
        again_at = journal_rows.due_again_at(pending, now, again_s)
        await connection.execute("UPDATE {s}.questions SET send_at = %s WHERE id = %s", (again_at, pending.id))
    return unsent


async def delete_of(connection: Connection, tenant: str, conversation: str) -> None:
    """Delete the questions of a conversation; a reply that counts beyond it stays, without its texts."""
    await connection.execute(_DELETE, {"tenant": tenant, "conversation": conversation})
    await _forget_texts(connection, tenant, conversation)


async def forget(connection: Connection) -> None:
    """Delete questions without a turn; a remembered reply stays, without its texts."""
    await connection.execute(_FORGET, ())
    await _forget_texts(connection)


async def _forget_texts(connection: Connection, tenant: str = "", conversation: str = "") -> None:
    values = {"tenant": tenant, "conversation": conversation, "now": ""}
    for pending in map(journal_rows.question_from_row, await connection.rows(_REMEMBERED, values)):
        bare_question = attrs.evolve(pending.question, message="", schema=None, url="", call_id="", details={})
        reply = pending.reply and attrs.evolve(pending.reply, content={}, why="")
        row = journal_rows.question_to_row(attrs.evolve(pending, question=bare_question, reply=reply))
        texts = "UPDATE {s}.questions SET conversation = '', question = %s, reply = %s WHERE id = %s"
        await connection.execute(texts, (*row[-2:], pending.id))


async def use(connection: Connection, approval: Approval, **values: Any) -> bool:
    """Use up an approval; see TurnJournal.use_approval."""
    if approval.question != storable(approval.question) or approval.digest != storable(approval.digest):
        return False
    values |= {"id": approval.question, "digest": approval.digest}
    return (await connection.execute(_USE, values)).rowcount > 0
