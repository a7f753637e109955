"""Questions of tools to the person behind a turn: asked, waited for, checked and reported."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager

import attrs

from ..domain.questions import NOBODY, OnQuestion, Question, Reply
from ..plugin.call import Call
from ..plugin.foreign import contained
from ..plugin.threads import run_in_thread
from ..schema.check import load
from ..schema.limits import UncheckedError, schema_problems
from ..schema.value_problem import value_problem

log = logging.getLogger(__name__)

MAX_QUESTIONS = 16
"""Questions of one call."""

UNANSWERED = Reply(action="cancel", why="the turn ended before there was a reply")
"""The reply to a question that is open when its turn is stopped. A resumed turn asks the question again."""

TellQuestion = Callable[[Call, Question, Reply | None], Awaitable[None]]
"""Reports a question, and then its reply."""

RecallQuestion = Callable[[Call, Question], tuple[Question, Reply | None]]
"""Returns the question as it was asked before the turn was interrupted, and its reply, if it had one by then."""


async def _report_nothing(call: Call, question: Question, reply: Reply | None) -> None:
    pass


def _as_new(call: Call, question: Question) -> tuple[Question, Reply | None]:
    return question, None


@attrs.frozen(kw_only=True)
class QuestionBroker:
    """How the calls of a turn, or a call of a program, ask a person.

    Attributes:
        on_question: Asks the person; None if there is none to ask.
        limit_s: Seconds a reply may take.
        stopped: Returns a context manager in which the turn's time stands still.
        tell: Reports questions and replies.
        recall: Finds what was asked before the turn was interrupted.
    """

    on_question: OnQuestion | None = None
    limit_s: float = 300.0
    stopped: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    tell: TellQuestion = _report_nothing
    recall: RecallQuestion = _as_new

    async def __call__(self, call: Call, question: Question) -> Reply:
        """Return the reply; what is wrong with it, or that there is none, is its ``why``.

        Raises:
            StorageError, LostTurnError: Question or reply cannot be recorded. All other failures are in the reply.
        """
        question, recorded = self.recall(call, attrs.evolve(question, tool=call.name, call_id=call.id))
        if recorded is not None:
            return recorded
        if self.on_question is None:
            return Reply(action="decline", why=NOBODY)
        call.questions += 1
        if call.questions > MAX_QUESTIONS:
            return Reply(action="cancel", why=f"one call may ask {MAX_QUESTIONS} questions")
        if question.schema is not None and (problems := schema_problems(question.schema)):
            log.warning("a question of %s cannot be asked: its schema: %s", call.name, problems[0])
            return Reply(action="cancel", why=f"it could not be asked: its schema cannot be used: {problems[0]}")
        # Reported, and so recorded, before it is asked: a resumed turn recalls it under the same id.
        await self.tell(call, question, None)
        reply = UNANSWERED
        try:
            with self.stopped(), call.waiting():
                reply = await self._reply(self.on_question, question)
        # Also when cancelled: a form that a listener has opened must be closed.
        finally:
            await self.tell(call, question, reply)
        return reply

    async def _reply(self, ask: OnQuestion, question: Question) -> Reply:
        deadline = asyncio.timeout(self.limit_s)
        try:
            with contained():
                async with deadline:
                    answer = ask(question)
                    reply = await answer if inspect.isawaitable(answer) else answer
        except TimeoutError as error:
            # A TimeoutError of on_question's own is its failure, not the limit.
            if not deadline.expired():
                return _failed(question, error)
            return Reply(action="cancel", why=f"there was no reply within {self.limit_s:g} s")
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
