"""Questions of a turn's calls: recorded, and reported like everything else that happens in it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

from ..calls.questions import UNANSWERED, QuestionBroker
from ..domain import QuestionAnswered, QuestionAsked
from ..domain.codec import value_to_dict
from ..domain.questions import Question, Reply
from ..plugin.call import Call, RunningTurn
from .active import ActiveTurn


async def ask(turn: ActiveTurn, call: Call, question: Question) -> Reply:
    """Ask the person behind a turn, or return the reply that the turn's journal has.

    Raises:
        StorageError, LostTurnError: Question or reply cannot be recorded.
    """
    broker = QuestionBroker(
        on_question=turn.request.on_question,
        limit_s=turn.parts.limits.question_timeout_ms / 1000,
        stopped=functools.partial(pause_clocks, turn),
        tell=functools.partial(_tell, turn),
        **({} if turn.journal is None else {"recall": turn.journal.recall_question}),
    )
    return await broker(call, question)


@contextlib.contextmanager
def pause_clocks(turn: RunningTurn | None, call: Call | None = None) -> Iterator[None]:
    """Pause the time of a call and a turn, of the turns around it, and of the calls that started them."""
    with contextlib.ExitStack() as stack:
        if call is not None:
            stack.enter_context(call.waiting())
        # All turns around this one wait for the same person, and would time out first.
        while isinstance(turn, ActiveTurn):
            stack.enter_context(turn.clock.pause())
            if turn.outer_call is not None:
                stack.enter_context(turn.outer_call.waiting())
            turn = turn.outer
        yield


async def _tell(turn: ActiveTurn, call: Call, question: Question, reply: Reply | None) -> None:
    journal, sink = turn.journal, turn.sink
    if reply is None:
        # On disk before the person sees it: the reply to it may arrive after a crash.
        if journal is not None and journal.add_question(call, question):
            await journal.flush()
        if sink.has_receiver(QuestionAsked):
            await sink.announce(QuestionAsked(info=turn.info, question=question))  # who shows progress makes room
        return
    try:
        if journal is not None and reply is not UNANSWERED:
            data = value_to_dict(reply)
            journal.add("reply", iteration=call.iteration, index=call.index, id=question.id, reply=data)
            await journal.flush()  # before the reply is acted upon: a killed turn must not ask a second time
    finally:
        if sink.has_receiver(QuestionAnswered):
            await sink.emit(QuestionAnswered(info=turn.info, question=question, reply=reply))
