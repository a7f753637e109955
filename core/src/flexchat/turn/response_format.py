"""Phase 6 when an answer must have a form: ask until it has, and read it."""

from __future__ import annotations

import json
import logging
from typing import Any

from ..domain import ChatOptions, UserMessage
from ..errors import ResponseFormatError
from ..schema.answer_format import AnswerFormat
from .active import ActiveTurn
from .exchange import exchange
from .next_step import NextStep, next_step, no_answer_reason

log = logging.getLogger(__name__)

COMPLAINT = "That answer does not have the required form: {problem}. Write it again, as one JSON object only{schema}."


async def ensure_format(turn: ActiveTurn, answer_format: AnswerFormat, options: ChatOptions) -> None:
    """Ask again, once, if the last answer does not have the form; the request names the fault.

    Where tools ruled out asking for the form so far, it is asked for first, without them. The answers without the form
    are no part of the turn's messages.
    """
    assert turn.target is not None
    while problem := _problem(turn, answer_format):
        assert turn.result is not None
        if turn.requested_format:
            # Once only: ``correction`` is set by the first complaint. An answer that was cut off would be cut off
            # again.
            if turn.correction or next_step(turn.result) is not NextStep.FINISH:
                return
            log.info("the answer does not have its form: %s", problem)
            complaint = COMPLAINT.format(problem=problem, schema=_schema_text(answer_format))
            turn.correction = (turn.result.message, UserMessage(content=complaint))
        # The text before a pause belongs to the answer that is replaced.
        turn.paused_text = ""
        messages = turn.messages + turn.correction
        turn.add_result(
            *await exchange(turn, turn.target, messages, options, answer_format=answer_format, is_answer=True)
        )


def read_answer(turn: ActiveTurn, answer_format: AnswerFormat) -> tuple[str, Any, Any]:
    """Return the last answer: its JSON text, its JSON data, and that data as an instance of its class.

    Raises:
        ResponseFormatError: It does not have the form.
    """
    assert turn.result is not None
    content, finished = turn.answer, next_step(turn.result) is NextStep.FINISH
    try:
        match = answer_format.find(content, is_complete=finished)
        return match.text, match.data, match.parsed
    except ValueError as error:
        why = str(error) if finished else no_answer_reason(turn.result.finish_reason)
        raise ResponseFormatError(why, content) from None


def _schema_text(answer_format: AnswerFormat) -> str:
    """Return the schema for the complaint: not every service passes it to its model."""
    if answer_format.format.schema is None:
        return ""
    return f", which fits this JSON Schema: {json.dumps(answer_format.format.schema, ensure_ascii=False)}"


def _problem(turn: ActiveTurn, answer_format: AnswerFormat) -> str | None:
    assert turn.result is not None
    try:
        answer_format.find(turn.answer, is_complete=next_step(turn.result) is NextStep.FINISH)
    except ValueError as error:
        return str(error)
    return None
