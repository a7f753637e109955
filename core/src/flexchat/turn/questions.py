"""Questions of a turn's tools: recorded, and reported like everything else that happens in it."""

from __future__ import annotations

import functools

from ..calls.questions import Asking
from ..domain import QuestionAnswered, QuestionAsked
from ..domain.message_json import value_to_dict
from ..domain.questions import Question, Reply
from ..plugin.call import Call
from .active import ActiveTurn


async def ask(turn: ActiveTurn, call: Call, question: Question) -> Reply:
    """Ask the person behind a turn.

    Raises:
        StorageError, LostTurnError: The question cannot be recorded.
    """
    asking = Asking(
        on_question=turn.request.on_question,
        limit_s=turn.engine.limits.question_timeout_ms / 1000,
        stopped=turn.clock.stopped,
        tell=functools.partial(_tell, turn),
    )
    return await asking(call, question)


async def _tell(turn: ActiveTurn, call: Call, question: Question, reply: Reply | None) -> None:
    journal, sink = turn.journal, turn.sink
    if reply is None:
        if journal is not None:
            written = value_to_dict(question)
            journal.add("question", iteration=call.iteration, index=call.index, question=written)
            await journal.flush()
        if sink.wants(QuestionAsked):
            await sink.begin(QuestionAsked(info=turn.info, question=question))  # who shows progress makes room
        return
    if journal is not None:
        written = value_to_dict(reply)
        journal.add("reply", iteration=call.iteration, index=call.index, id=question.id, reply=written)
    if sink.wants(QuestionAnswered):
        await sink.tell(QuestionAnswered(info=turn.info, question=question, reply=reply))
