"""Rows of turns, of their steps and of questions: what the journals in databases have in common."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import attrs

from ..domain.codec import value_from_dict, value_to_dict
from ..domain.journal import JOURNAL_FORMAT, JournaledTurn, JournalEntry
from ..domain.questions import PendingQuestion, Question, Reply
from ..domain.text import storable
from ..errors import ClosedQuestionError, StorageError
from .effect_rows import time_text

T = TypeVar("T", bound=Sequence[Any])

RESTORED_TURN = "it was under way when this data was backed up: check what it did afterwards before you resume it"
"""The error of a turn that had not ended in a backup."""

MAX_SENDING_PAUSE_S = 3600.0

QUESTION_COLUMNS = (
    *("id", "tenant", "conversation", "turn", "digest", "state", "asked_at", "expires_at"),
    *("replied_by", "replied_at", "used_by", "remembered", "question", "reply"),
)
"""The columns of a table of questions, all of them text; ``reply`` may be NULL."""


def check_format(turn: JournaledTurn) -> None:
    """Raise StorageError for a turn that only a newer FlexChat can resume."""
    if turn.format > JOURNAL_FORMAT:
        raise StorageError(f"the turn {turn.id} was begun by a newer FlexChat: resume it with that one")


def id_range(id: str, error: Callable[[str], Exception]) -> dict[str, str]:
    """Return the bounds of all ids that start with *id*, as ``id`` and ``end``; raise *error* if none can."""
    if not id or id != storable(id):
        raise error(id)
    return {"id": id, "end": id + "\U0010ffff"}


def pick(rows: Sequence[T], id: str, error: Callable[..., Exception]) -> T:
    """Return the row with this id, or the only one whose id starts with it.

    Args:
        rows: The first ones in ``id_range``, by their ids, which come first in them.
        error: Makes what is raised if there is none, or several.
    """
    if not rows or rows[-1][0] != rows[0][0] != id:
        raise error(id, several=bool(rows))
    return rows[0]


def step_to_row(turn: str, entry: JournalEntry) -> tuple[str, int, str, str, str]:
    """Return a step as turn, number, kind, JSON and time. Raises StorageError."""
    try:
        # Document metadata may hold values that JSON lacks, such as dates. They must not fail the turn.
        return turn, entry.number, entry.kind, json.dumps(entry.data, separators=(",", ":"), default=str), entry.at
    except (TypeError, ValueError, RecursionError) as error:
        raise StorageError(f"turns: step {entry.number} of {turn} cannot be written as JSON: {error}") from None


def steps_from_rows(id: str, rows: Iterable[Sequence[Any]]) -> list[JournalEntry]:
    """Return the steps in rows of number, kind, JSON and time. Raises StorageError."""
    try:
        return [JournalEntry(number=n, kind=kind, data=json.loads(data), at=at) for n, kind, data, at in rows]
    except ValueError as error:
        raise StorageError(f"turns: the steps of {id} cannot be read: {error}") from None


def question_to_row(pending: PendingQuestion) -> tuple[str | None, ...]:
    """Return the values of QUESTION_COLUMNS. Raises StorageError if a value is not JSON data."""
    texts = {
        "digest": pending.question.digest,
        "question": _to_json(pending.question, pending.id),
        "reply": None if pending.reply is None else reply_to_json(pending.reply, pending.id),
    }
    return tuple(texts[name] if name in texts else getattr(pending, name) for name in QUESTION_COLUMNS)


def question_from_row(row: Sequence[Any]) -> PendingQuestion:
    """Return the question in the values of QUESTION_COLUMNS. Raises StorageError."""
    values = dict(zip(QUESTION_COLUMNS, row, strict=True))
    id, question, reply = values.pop("id"), values.pop("question"), values.pop("reply")
    del values["digest"]  # it is in the question
    try:
        inner = value_from_dict(Question, json.loads(question))
        replied = None if reply is None else value_from_dict(Reply, json.loads(reply))
    except (TypeError, ValueError, RecursionError) as error:
        raise StorageError(f"turns: the question {id} cannot be read: {error}") from None
    return PendingQuestion(question=inner, reply=replied, **values)


def reply_to_json(reply: Reply, id: str) -> str:
    """Return the reply to a question as the column ``reply`` holds it. Raises StorageError if it is not JSON data."""
    return _to_json(reply, id)


def replied(pending: PendingQuestion, reply: Reply, by: str, at: str) -> PendingQuestion:
    """Return a question with its reply. Raises ClosedQuestionError if it is not open."""
    if pending.state != "open":
        closed_at = pending.replied_at if pending.state == "replied" else pending.expires_at
        raise ClosedQuestionError(pending.id, pending.state, pending.replied_by, closed_at)
    scopes = pending.question.remember if reply.action == "accept" else {}
    remembered = storable(scopes.get(reply.remember, ""))
    return attrs.evolve(
        pending, state="replied", reply=reply, replied_by=storable(by), replied_at=at, remembered=remembered
    )


def due_again_at(pending: PendingQuestion, now: float, again_s: float) -> str:
    """Return when a question that is sent now is due to be sent again."""
    open_s = now - datetime.fromisoformat(pending.asked_at).timestamp()
    return time_text(now + min(max(open_s, again_s), max(MAX_SENDING_PAUSE_S, again_s)))


def _to_json(value: Question | Reply, id: str) -> str:
    try:
        return json.dumps(value_to_dict(value), separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise StorageError(f"turns: the question {id} or its reply is not JSON data: {error}") from None
