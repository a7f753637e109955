"""Questions that wait for a reply, in the journal's file, and the approvals that calls use up."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence

import attrs
from flexchat.conversations.effect_rows import now_text, time_text
from flexchat.conversations.journal_rows import (
    QUESTION_COLUMNS,
    due_again_at,
    id_range,
    pick,
    question_from_row,
    question_to_row,
    replied,
    reply_to_json,
)
from flexchat.domain.questions import Approval, PendingQuestion, QuestionState, Reply
from flexchat.errors import UnknownQuestionError

MAX_EXPIRED = 500  # in one transaction

# The key of a remembered reply may cover more than its turn, so that such a row outlives the turn, without its texts.
_NO_TEXTS = (
    "question = json_set(json_remove(question, '$.schema', '$.url', '$.call_id', '$.details'), '$.message', ''), "
    "reply = json_remove(reply, '$.content', '$.why')"
)
# Triggers, so that no statement that ends or deletes a turn can leave out its questions.
TABLES = f"""
CREATE TABLE questions (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL, conversation TEXT NOT NULL, turn TEXT NOT NULL, digest TEXT NOT NULL,
    state TEXT NOT NULL, asked_at TEXT NOT NULL, expires_at TEXT NOT NULL,
    replied_by TEXT NOT NULL, replied_at TEXT NOT NULL, used_by TEXT NOT NULL, remembered TEXT NOT NULL,
    question TEXT NOT NULL, reply TEXT, send_at TEXT
);
CREATE INDEX questions_by_tenant ON questions (tenant);
CREATE INDEX questions_by_conversation ON questions (tenant, conversation);
CREATE INDEX questions_by_turn ON questions (turn);
CREATE INDEX questions_open ON questions (tenant) WHERE state = 'open';
CREATE INDEX questions_by_expiry ON questions (expires_at) WHERE state = 'open';
CREATE INDEX questions_unsent ON questions (send_at) WHERE state = 'open' AND send_at IS NOT NULL;
CREATE INDEX questions_remembered ON questions (tenant, remembered) WHERE remembered != '';
CREATE INDEX questions_used ON questions (used_by) WHERE used_by != '';
CREATE TRIGGER questions_of_ended AFTER UPDATE OF ended_at ON journal_turns WHEN NEW.ended_at != ''
BEGIN
    UPDATE questions SET state = 'withdrawn' WHERE turn = NEW.id AND state = 'open';
END;
CREATE TRIGGER questions_of_deleted AFTER DELETE ON journal_turns
BEGIN
    DELETE FROM questions WHERE turn = OLD.id AND remembered = '';
    UPDATE questions SET {_NO_TEXTS} WHERE turn = OLD.id;
END;
"""

IS_EXPIRED = "state = 'open' AND expires_at <= :now"
_STATE = f"CASE WHEN {IS_EXPIRED} THEN 'expired' ELSE state END"
_COLUMNS = ", ".join(_STATE if name == "state" else name for name in QUESTION_COLUMNS)
_ADD = (  # it is due to be sent since it was asked
    f"INSERT INTO questions ({', '.join(QUESTION_COLUMNS)}, send_at) "
    f"VALUES ({'?, ' * len(QUESTION_COLUMNS)}?{QUESTION_COLUMNS.index('asked_at') + 1}) ON CONFLICT (id) DO NOTHING"
)
_UNSENT = (
    f"SELECT {_COLUMNS} FROM questions WHERE state = 'open' AND send_at IS NOT NULL AND send_at <= :now "
    "AND expires_at > :now ORDER BY send_at, number LIMIT :limit"
)
_REPLY = (
    "UPDATE questions SET state = 'replied', reply = ?, replied_by = ?, replied_at = ?, remembered = ? WHERE id = ?"
)
_WITHDRAW = "UPDATE questions SET state = 'withdrawn' WHERE id = ? AND state = 'open'"
_USE = (
    "UPDATE questions SET used_by = :by WHERE id = :id AND tenant = :tenant AND digest = :digest AND digest != '' "
    "AND state = 'replied' AND json_extract(reply, '$.action') = 'accept' "
    "AND (used_by = '' OR used_by = :by AND :may_repeat)"
)
_RESUME = "UPDATE journal_turns SET state = 'running' WHERE id = ? AND state = 'suspended'"  # without an owner


def adder(questions: Sequence[PendingQuestion]) -> Callable[[sqlite3.Connection], object]:
    """Prepare adding questions; the function returned does so in the caller's transaction.

    Raises:
        StorageError: A question is not JSON data.
    """
    rows = [question_to_row(each) for each in questions if each.state == "open"]
    withdrawn = [(each.id,) for each in questions if each.state == "withdrawn"]

    def add(database: sqlite3.Connection) -> None:
        database.executemany(_WITHDRAW, withdrawn)
        database.executemany(_ADD, rows)

    return add


def find(database: sqlite3.Connection, id: str, tenant: str) -> PendingQuestion:
    """Find a question by its id or an unambiguous prefix of it.

    Raises:
        UnknownQuestionError: No question of the tenant matches, or several do.
    """
    rows = database.execute(
        f"SELECT {_COLUMNS} FROM questions WHERE +tenant = :tenant AND id >= :id AND id < :end ORDER BY id LIMIT 2",
        {"tenant": tenant, "now": now_text(), **id_range(id, UnknownQuestionError)},
    ).fetchall()
    return question_from_row(pick(rows, id, UnknownQuestionError))


def page(
    database: sqlite3.Connection,
    tenant: str,
    states: Sequence[QuestionState] | None,
    columns: Mapping[str, str | None],
    limit: int,
    before: str | None,
) -> Sequence[PendingQuestion]:
    """Return questions, the newest first; see TurnJournal.questions.

    Args:
        columns: The values of columns, None for any; an empty one of ``remembered`` for any but that.
    """
    conditions = ["tenant = :tenant"]
    values: dict[str, object] = {"tenant": tenant, "limit": max(limit, 0), "now": now_text(), **columns}
    if states is not None:
        conditions.append(f"{_STATE} IN (SELECT value FROM json_each(:states))")
        values["states"] = json.dumps([*states])
        if {*states} == {"open"}:  # few of many, perhaps: with this, their index is used
            conditions.append("state = 'open'")
    table = "questions"
    if columns["remembered"] is not None:
        table = "questions INDEXED BY questions_remembered"
        conditions.append("remembered != ''")
    for column, value in columns.items():
        if value is not None and (value or column != "remembered"):
            conditions.append(f"{column} = :{column}")
    if before is not None:
        conditions.append("number < (SELECT number FROM questions WHERE id = :before)")
        values["before"] = find(database, before, tenant).id
    query = f"SELECT {_COLUMNS} FROM {table} WHERE {' AND '.join(conditions)} ORDER BY number DESC LIMIT :limit"
    return [question_from_row(row) for row in database.execute(query, values)]


def answer(database: sqlite3.Connection, id: str, tenant: str, reply: Reply, by: str) -> PendingQuestion:
    """Record a reply, and let the turn go on if it is suspended; see TurnJournal.answer."""
    pending = replied(find(database, id, tenant), reply, by, now_text())
    text = reply_to_json(reply, pending.id)
    database.execute(_REPLY, (text, pending.replied_by, pending.replied_at, pending.remembered, pending.id))
    database.execute(_RESUME, (pending.turn,))
    return pending


def revoke(database: sqlite3.Connection, id: str, tenant: str) -> PendingQuestion:
    """Make a reply count no more under its key; see TurnJournal.revoke."""
    question = find(database, id, tenant)
    database.execute("UPDATE questions SET remembered = '' WHERE id = ?", (question.id,))
    # It has outlived its turn for that alone.
    has_no_turn = "NOT EXISTS (SELECT 1 FROM journal_turns WHERE journal_turns.id = questions.turn)"
    database.execute(f"DELETE FROM questions WHERE id = ? AND {has_no_turn}", (question.id,))
    return attrs.evolve(question, remembered="")


def use_approval(
    database: sqlite3.Connection, approval: Approval, tenant: str, by: str, *, may_repeat: bool = False
) -> bool:
    """Use up an approval; see TurnJournal.use_approval."""
    values = {"id": approval.question, "digest": approval.digest, "tenant": tenant, "by": by, "may_repeat": may_repeat}
    return database.execute(_USE, values).rowcount > 0


def release_approval(database: sqlite3.Connection, by: str) -> None:
    """Make the approval that a call has used, if any, usable again."""
    database.execute("UPDATE questions SET used_by = '' WHERE used_by = ? AND used_by != ''", (by,))


def expire(database: sqlite3.Connection) -> int:
    """Mark some of the questions whose time has passed as expired, and let their turns go on; return how many."""
    some = f"SELECT number FROM questions WHERE {IS_EXPIRED} LIMIT {MAX_EXPIRED}"
    query = f"UPDATE questions SET state = 'expired' WHERE number IN ({some}) RETURNING turn"
    turns = database.execute(query, {"now": now_text()}).fetchall()
    database.executemany(_RESUME, turns)
    return len(turns)


def take_unsent(database: sqlite3.Connection, limit: int, again_s: float) -> Sequence[PendingQuestion]:
    """Return questions that are due to be sent, and make them due later; see SendingJournal."""
    now = time.time()
    unsent = [
        question_from_row(row) for row in database.execute(_UNSENT, {"now": time_text(now), "limit": max(limit, 0)})
    ]
    for question in unsent:
        again_at = due_again_at(question, now, again_s)
        database.execute("UPDATE questions SET send_at = ? WHERE id = ?", (again_at, question.id))
    return unsent


def mark_sent(database: sqlite3.Connection, id: str, tenant: str) -> None:
    """Record that a question has been sent; see SendingJournal."""
    database.execute("UPDATE questions SET send_at = NULL WHERE id = ? AND tenant = ?", (id, tenant))


def delete_questions_of(database: sqlite3.Connection, tenant: str, conversation: str) -> None:
    """Delete a conversation's questions; a reply that counts beyond it belongs to no conversation any more."""
    whose = "WHERE tenant = ? AND conversation = ?"
    within = "remembered = '' OR coalesce(json_extract(reply, '$.remember'), '') IN ('', 'conversation')"
    database.execute(f"DELETE FROM questions {whose} AND ({within})", (tenant, conversation))
    database.execute(f"UPDATE questions SET conversation = '', {_NO_TEXTS} {whose}", (tenant, conversation))
