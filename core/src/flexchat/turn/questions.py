"""Questions to the person behind a call: asked, kept until there is a reply, checked, recorded and reported."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import time
from collections.abc import Iterator

import attrs

from ..config.model import LimitsTable
from ..conversations.effect_rows import now_text, time_text
from ..domain import QuestionAnswered, QuestionAsked
from ..domain.effects import effect_key
from ..domain.messages import new_call_id
from ..domain.questions import NOBODY, Approval, OnQuestion, PendingQuestion, Question, Reply
from ..errors import ClosedQuestionError, InvalidReplyError, LostTurnError, StorageError, UnknownQuestionError
from ..plugin.call import Call, RunningTurn
from ..plugin.foreign import CallSuspended, contained, run_in_thread
from ..schema.check import load, value_problem
from ..schema.limits import UncheckedError, schema_problems
from .active import ActiveTurn, report_wait
from .journal import Journal
from .live_questions import UNANSWERED, LiveQuestions, reply_in

log = logging.getLogger(__name__)

MAX_QUESTIONS = 16
"""Questions of one call."""

LEAVE_S = 1.0
"""How long ``on_question`` may take to end when its question has a reply."""


async def wait_for_answer(question: Question) -> Reply | None:
    """Wait for ``FlexChat.answer``: as ``on_question``, for servers, whose replies arrive by other ways."""
    await asyncio.get_running_loop().create_future()
    return None  # never: the question has its reply, or its time is up


@attrs.define(eq=False)
class Person:
    """The person behind a call, as its ``asker``.

    Attributes:
        on_question: Asks the person; None if there is none to ask.
        turn: The turn whose call asks, for its journal and its listeners; None for a call of a program.
        waiting: Turn and call whose time stands still meanwhile.
    """

    on_question: OnQuestion | None
    limits: LimitsTable
    live: LiveQuestions
    turn: ActiveTurn | None
    waiting: tuple[RunningTurn | None, Call | None]

    async def __call__(self, call: Call, question: Question) -> Reply:
        """Ask, or return the reply that the turn's journal has; what is wrong with it is its ``why``.

        Raises:
            CallSuspended: The question is kept, and the call runs again once it has a reply.
            StorageError, LostTurnError: Question or reply cannot be recorded. All other failures are in the reply.
        """
        try:
            return await self._recall_or_ask(call, question)
        except (LostTurnError, StorageError) as error:
            # Not an outcome of the tool: stored as its failure, it would keep whoever goes on with the turn, and may
            # have the reply, from running the call.
            error.nothing_done = call.can_wait  # type: ignore[union-attr]  # neither has a field for it
            call.interrupt(error)
            raise

    async def _recall_or_ask(self, call: Call, question: Question) -> Reply:
        question = attrs.evolve(question, tool=call.name, call_id=call.id)
        turn, row = self.turn, None
        if question.digest:
            call.approval = None
        if turn is not None and turn.journal is not None:
            question, row, recorded = await _recall(turn, turn.journal, call, question)
            if recorded is not None:
                return recorded
        expires_s = self.live.expires_s
        if expires_s and question.expires_s is not None:
            expires_s = question.expires_s
        journal = turn.journal if turn is not None and expires_s > 0 else None
        if self.on_question is None and journal is None:
            return Reply(action="decline", why=NOBODY)
        call.questions += 1
        if call.questions > MAX_QUESTIONS:
            return Reply(action="cancel", why=f"one call may ask {MAX_QUESTIONS} questions")
        if question.schema is not None and (problems := schema_problems(question.schema)):
            log.warning("a question of %s cannot be asked: its schema: %s", call.name, problems[0])
            return Reply(action="cancel", why=f"it could not be asked: its schema cannot be used: {problems[0]}")
        asked_before = row is not None
        if journal is None:
            row = None
        elif row is None and turn is not None:
            row = PendingQuestion(
                question=question,
                tenant=turn.info.tenant,
                conversation=journal.turn.conversation,
                turn=turn.info.id,
                asked_at=now_text(),
                expires_at=time_text(time.time() + expires_s),
            )
        # Reported, and so recorded, before it is asked: a resumed turn recalls it under the same id.
        if turn is not None:
            await _report_question(turn, call, question, None if asked_before else row)
        return await self._ask(call, question, row)

    async def _ask(self, call: Call, question: Question, row: PendingQuestion | None) -> Reply:
        """Ask a person who is there now; suspend the call if there is no reply, and the question is kept."""
        turn, reply, is_left_open = self.turn, UNANSWERED, False
        can_wait = row is not None and turn is not None and turn.outer is None and call.can_wait
        try:
            asked_at = time.perf_counter()
            decision = await self._reply(call, question) if self.on_question is not None or not can_wait else None
            if turn is not None:
                await report_wait(turn, "person", asked_at)
            if can_wait and (decision is None or decision.action == "cancel" or decision.why == NOBODY):
                assert turn is not None
                assert row is not None
                turn.pending[question.id], is_left_open = row, True
                raise call.suspend(question.id)
            assert decision is not None
            reply = decision if row is None else await self._record(row, decision)
        except asyncio.CancelledError as error:
            if can_wait:
                error.nothing_done = True  # type: ignore[attr-defined]  # the tool has changed nothing yet
            raise
        # Also when cancelled: a form that a listener has opened must be closed.
        finally:
            if turn is not None and not is_left_open:
                await _report_reply(turn, call, question, reply)
        if row is not None and question.digest and reply.action == "accept":
            call.approval = Approval(question.id, question.digest)
        return reply

    async def _record(self, row: PendingQuestion, reply: Reply) -> Reply:
        """Record the reply to a kept question, and return it; or another one that was first."""
        journal = self.live.journal
        assert journal is not None
        try:
            await journal.answer(row.id, tenant=row.tenant, reply=reply, by=reply.by)
        except ClosedQuestionError:
            return reply_in(await journal.question(row.id, tenant=row.tenant)) or reply
        return reply

    def _refusal(self, call: Call) -> str | None:
        return None if self.live.refusal_of is None else self.live.refusal_of(call.turn, "approve")

    async def _reply(self, call: Call, question: Question) -> Reply:
        """Wait for the reply of ``on_question`` or of ``FlexChat.answer``, whichever is first."""
        limit_s = self.limits.question_timeout_ms / 1000
        deadline, asking = asyncio.timeout(limit_s), None
        with _pause_clocks(*self.waiting), call.waiting(), self.live.add(call.turn.tenant, question) as answered:
            try:
                with contained():
                    async with deadline:
                        reply = (self.on_question or wait_for_answer)(question)
                        if inspect.isawaitable(reply):
                            asking = asyncio.ensure_future(reply)
                            await asyncio.wait((asking, answered), return_when=asyncio.FIRST_COMPLETED)
                            reply = answered.result() if answered.done() else asking.result()
                        # FlexChat.answer has checked who replies; here it is the turn's own principal.
                        if question.digest and not answered.done() and (why := self._refusal(call)):
                            return Reply(action="decline", why=why)
            except TimeoutError as error:
                # A TimeoutError of on_question's own is its failure, not the limit.
                if not deadline.expired():
                    return _failed(question, error)
                return Reply(action="cancel", why=f"there was no reply within {limit_s:g} s")
            except Exception as error:  # noqa: BLE001  on_question is the caller's, and may raise anything
                if self.turn is None and isinstance(error.__cause__, CallSuspended) and call.can_wait:
                    raise call.suspend(question.id) from None
                return _failed(question, error)
            finally:
                if asking is not None and not asking.done():
                    asking.cancel()
                    # Whoever asks may have a form to close; one that does not end is left behind.
                    await asyncio.wait((asking,), timeout=LEAVE_S)
        if reply is None:
            return Reply(action="decline", why=NOBODY)
        await run_in_thread(load)  # imports take long, and would hold up every other turn
        wrong = reply_problem(question, reply)
        if wrong:
            log.warning("the reply to a question of %s cannot be used: %s", question.tool, wrong)
            return Reply(action="cancel", why=f"the reply could not be used: {wrong}")
        return reply if reply.action == "accept" else attrs.evolve(reply, content={})


async def _recall(
    turn: ActiveTurn, journal: Journal, call: Call, question: Question
) -> tuple[Question, PendingQuestion | None, Reply | None]:
    """Return a question under the id it had in an earlier run of its call, with its row and its reply, if any."""
    key = effect_key(turn.info.tenant, turn.info.conversation, turn.info.id, call.path)
    while (earlier := journal.recall_question(call, question)) is not None:
        question, reply = attrs.evolve(question, id=earlier[0]), earlier[1]
        row = None
        if reply is None or question.digest:
            # Without its row it was asked live: it is asked again, or has its reply in the journal.
            with contextlib.suppress(UnknownQuestionError):
                row = await journal.store.question(question.id, tenant=turn.info.tenant)
        if reply is None and row is not None and (reply := reply_in(row)) is not None:
            await _report_reply(turn, call, question, reply)
        if reply is None:
            return question, row, None
        if question.digest and reply.action == "accept" and row is not None:
            # Used by an earlier run of this call, which may have done what was approved: a person decides anew.
            if row.used_by not in ("", key):
                question = attrs.evolve(question, id=new_call_id())
                continue
            call.approval = Approval(question.id, question.digest)
        return question, row, reply
    return question, None, None


async def answer(live: LiveQuestions, id: str, reply: Reply, *, tenant: str, by: str) -> PendingQuestion | None:
    """Record the reply to an open question; return the question if it is kept, None if it was only asked live.

    Raises:
        UnknownQuestionError, ClosedQuestionError, InvalidReplyError, StorageError: It is not recorded.
    """
    question, journal, row = live.find(tenant, id), live.journal, None
    try:
        if journal is not None:
            row = await journal.question(id, tenant=tenant)
            question = row.question
    except UnknownQuestionError:
        if question is None:
            raise
    if question is None:
        raise UnknownQuestionError(id)
    await run_in_thread(load)
    if wrong := reply_problem(question, reply):
        raise InvalidReplyError(f"the reply does not answer the question: {wrong}")
    reply = reply if reply.action == "accept" else attrs.evolve(reply, content={})
    if row is not None and journal is not None:
        row = await journal.answer(question.id, tenant=tenant, reply=reply, by=by)
    if not live.answer(tenant, question.id, reply) and row is None:
        raise UnknownQuestionError(id)  # another reply came while this one was checked
    return row


def reply_problem(question: Question, reply: object) -> str:
    """Find the fault that keeps a reply from answering its question; empty if there is none."""
    if not isinstance(reply, Reply):
        return f"it is {type(reply).__name__}, not a Reply"
    if reply.action not in ("accept", "decline", "cancel"):
        return f"its action is {reply.action!r}, not accept, decline or cancel"
    if reply.remember and reply.action != "accept":
        return "only a yes can be remembered"
    if reply.remember and question.digest and isinstance(reply.content, dict) and "arguments" in reply.content:
        return "other arguments are asked about again, and cannot be remembered before that"
    if reply.remember and reply.remember not in question.remember:
        scopes = ", ".join(filter(None, question.remember)) or "none"
        return f"it cannot be remembered for {reply.remember!r} (scopes: {scopes})"
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


async def _report_question(turn: ActiveTurn, call: Call, question: Question, row: PendingQuestion | None) -> None:
    # On disk before the person sees it: the reply to it may arrive after a crash.
    if turn.journal is not None and turn.journal.add_question(call, question, row):
        await turn.journal.flush()
    if turn.sink.has_receiver(QuestionAsked):
        await turn.sink.announce(QuestionAsked(info=turn.info, question=question))  # who shows progress makes room


async def _report_reply(turn: ActiveTurn, call: Call, question: Question, reply: Reply) -> None:
    try:
        if turn.journal is not None and reply is not UNANSWERED:
            turn.journal.add_reply(question.id, reply, iteration=call.iteration, index=call.index)
            await turn.journal.flush()  # before the reply is acted upon: a killed turn must not ask a second time
    finally:
        if turn.sink.has_receiver(QuestionAnswered):
            await turn.sink.emit(QuestionAnswered(info=turn.info, question=question, reply=reply))
