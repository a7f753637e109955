"""Questions of tools to the person behind a call: asked, waited for, checked, recorded and reported."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Iterator

import attrs

from ..config.model import LimitsTable
from ..domain import QuestionAnswered, QuestionAsked
from ..domain.codec import value_to_dict
from ..domain.questions import NOBODY, OnQuestion, Question, Reply
from ..plugin.call import Call, RunningTurn
from ..plugin.foreign import contained, run_in_thread
from ..schema.check import load, value_problem
from ..schema.limits import UncheckedError, schema_problems
from .active import ActiveTurn

log = logging.getLogger(__name__)

MAX_QUESTIONS = 16
"""Questions of one call."""

UNANSWERED = Reply(action="cancel", why="the turn ended before there was a reply")
"""The reply to a question that is open when its turn is stopped. A resumed turn asks the question again."""


async def ask(
    on_question: OnQuestion | None,
    limits: LimitsTable,
    waiting: tuple[RunningTurn | None, Call | None],
    turn: ActiveTurn | None,
    call: Call,
    question: Question,
) -> Reply:
    """Ask a person, or return the reply that the turn's journal has; what is wrong with it is its ``why``.

    Args:
        on_question: Asks the person; None if there is none to ask.
        waiting: Turn and call whose time stands still meanwhile.
        turn: The turn whose call asks, for its journal and its listeners; None for a call of a program.

    Raises:
        StorageError, LostTurnError: Question or reply cannot be recorded. All other failures are in the reply.
    """
    question = attrs.evolve(question, tool=call.name, call_id=call.id)
    if turn is not None and turn.journal is not None:
        question, recorded = turn.journal.recall_question(call, question)
        if recorded is not None:
            return recorded
    if on_question is None:
        return Reply(action="decline", why=NOBODY)
    call.questions += 1
    if call.questions > MAX_QUESTIONS:
        return Reply(action="cancel", why=f"one call may ask {MAX_QUESTIONS} questions")
    if question.schema is not None and (problems := schema_problems(question.schema)):
        log.warning("a question of %s cannot be asked: its schema: %s", call.name, problems[0])
        return Reply(action="cancel", why=f"it could not be asked: its schema cannot be used: {problems[0]}")
    # Reported, and so recorded, before it is asked: a resumed turn recalls it under the same id.
    if turn is not None:
        await _report_question(turn, call, question)
    reply = UNANSWERED
    try:
        with _pause_clocks(*waiting), call.waiting():
            reply = await _reply(on_question, limits.question_timeout_ms / 1000, question)
    # Also when cancelled: a form that a listener has opened must be closed.
    finally:
        if turn is not None:
            await _report_reply(turn, call, question, reply)
    return reply


async def _reply(on_question: OnQuestion, limit_s: float, question: Question) -> Reply:
    deadline = asyncio.timeout(limit_s)
    try:
        with contained():
            async with deadline:
                answer = on_question(question)
                reply = await answer if inspect.isawaitable(answer) else answer
    except TimeoutError as error:
        # A TimeoutError of on_question's own is its failure, not the limit.
        if not deadline.expired():
            return _failed(question, error)
        return Reply(action="cancel", why=f"there was no reply within {limit_s:g} s")
    except Exception as error:  # noqa: BLE001  on_question is the caller's, and may raise anything
        return _failed(question, error)
    if reply is None:
        return Reply(action="decline", why=NOBODY)
    await run_in_thread(load)  # imports take long, and would hold up every other turn
    wrong = reply_problem(question, reply)
    if wrong:
        log.warning("the reply to a question of %s cannot be used: %s", question.tool, wrong)
        return Reply(action="cancel", why=f"the reply could not be used: {wrong}")
    return reply if reply.action == "accept" else attrs.evolve(reply, content={})


def reply_problem(question: Question, reply: object) -> str:
    """Find the fault that keeps a reply from answering its question; empty if there is none."""
    if not isinstance(reply, Reply):
        return f"it is {type(reply).__name__}, not a Reply"
    if reply.action not in ("accept", "decline", "cancel"):
        return f"its action is {reply.action!r}, not accept, decline or cancel"
    if reply.action != "accept" or question.schema is None:
        return ""
    if not isinstance(reply.content, dict):
        return f"its content is {type(reply.content).__name__}, not a dict"
    try:
        return value_problem(reply.content, question.schema) or ""
    except UncheckedError as error:
        return f"it holds {error}"


def _failed(question: Question, error: BaseException) -> Reply:
    log.error("a question of %s could not be asked", question.tool, exc_info=error)
    return Reply(action="cancel", why="it could not be asked")


@contextlib.contextmanager
def _pause_clocks(turn: RunningTurn | None, call: Call | None) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        if call is not None:
            stack.enter_context(call.waiting())
        # All turns around this one wait for the same person, and would time out first.
        for each in turn.enclosing() if isinstance(turn, ActiveTurn) else ():
            stack.enter_context(each.clock.pause())
            if each.outer_call is not None:
                stack.enter_context(each.outer_call.waiting())
        yield


async def _report_question(turn: ActiveTurn, call: Call, question: Question) -> None:
    # On disk before the person sees it: the reply to it may arrive after a crash.
    if turn.journal is not None and turn.journal.add_question(call, question):
        await turn.journal.flush()
    if turn.sink.has_receiver(QuestionAsked):
        await turn.sink.announce(QuestionAsked(info=turn.info, question=question))  # who shows progress makes room


async def _report_reply(turn: ActiveTurn, call: Call, question: Question, reply: Reply) -> None:
    try:
        if turn.journal is not None and reply is not UNANSWERED:
            data = value_to_dict(reply)
            turn.journal.add("reply", iteration=call.iteration, index=call.index, id=question.id, reply=data)
            await turn.journal.flush()  # before the reply is acted upon: a killed turn must not ask a second time
    finally:
        if turn.sink.has_receiver(QuestionAnswered):
            await turn.sink.emit(QuestionAnswered(info=turn.info, question=question, reply=reply))
