"""One turn, from its message to its end: the six phases, and what is reported and kept however it ends."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import attrs

from .. import errors
from ..domain import (
    ChatRequest,
    ChatResponse,
    PhaseRecord,
    Profile,
    StreamEvent,
    Turn,
    TurnAccepted,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnInfo,
    TurnStarted,
    TurnSuspended,
)
from ..domain.turn import cost_of
from ..events.sink import Feed
from ..plugin.call import TurnPlace, current_traceparent
from ..plugin.foreign import CallSuspended, contained
from ..plugin.hooks import ModelRequest
from .active import ActiveTurn, TurnStopped, end_replay, report_waits
from .answer import answer, first_request, unfinished_response
from .detection import PhaseNotes
from .documents import citations_of
from .engine import TurnEngine
from .journal import Journal, read_row
from .matching import MAX_PASSED_OVER, RuleVerdict, each_verdict
from .recording import Save
from .rounds import cancel_and_wait
from .routing import begin_phase, end_phase, refused_rules
from .template import shows_documents, substitute_variables

log = logging.getLogger(__name__)

End = TurnFinished | TurnFailed | TurnCancelled | TurnSuspended
"""A turn's last event."""

Work = Callable[[ActiveTurn], Coroutine[Any, Any, Any]]
"""Runs a turn."""

_VERDICTS_AT_ONCE = 20  # rules explained before other work gets its turn

SAVE_TIMEOUT_S = 2.5
"""How many seconds a stopped turn waits to be kept; after that the store continues on its own."""

NOTIFY_TIMEOUT_S = 1.0
"""How many seconds the plugins may take when notified that a turn ended early."""


@attrs.frozen(kw_only=True)
class Explanation:
    """Where a message would go, and why; it is not answered.

    Attributes:
        rule: Index of the response rule that would answer, from 0; None if none fits.
        tools: Names of the tools its model would be offered.
        verdicts: One for each rule, with all its failed conditions.
        phases: Phases 1 to 4, and 5 if a rule fits.
    """

    profile: Profile
    rule: int | None
    verdicts: tuple[RuleVerdict, ...]
    phases: tuple[PhaseRecord, ...]
    tools: tuple[str, ...] = ()


async def run_turn(engine: TurnEngine, turn: ActiveTurn) -> Turn:
    """Run a turn to its end, and return it.

    Turns of one conversation run one after another; waiting for earlier ones does not count against a turn's time.

    Raises:
        NoMatchingRuleError, UnknownLLMError, TurnTimeoutError, RequestRefusedError, ProviderError,
        ResponseFormatError, StorageError: It failed. The error's ``turn`` holds what existed by then, as does the
        CancelledError's if the turn is stopped.
    """
    conversation, recorder = turn.info.conversation, engine.recorder
    if conversation is None or recorder is None:
        return await _run_phases(engine, turn, None)
    # A turn inside one of its own conversation would wait for the outer one, which waits for it.
    for outer in turn.outer.enclosing() if turn.outer is not None else ():
        same = (outer.info.conversation, outer.info.tenant) == (conversation, turn.info.tenant)
        if same and outer.parts is turn.parts:
            text = f"a turn in conversation {conversation} was started inside one that still runs in it"
            raise errors.NestedTurnError(text)

    async def make_room(id: str) -> None:
        new_message, journal = engine.questions.new_message, turn.journal
        if new_message != "end" and journal is not None:
            row = await read_row(journal.store, id, tenant=turn.info.tenant)
            if row.state == "suspended":
                raise errors.SuspendedTurnError(id)
        # Another process has resumed it meanwhile, or deleted it with its conversation.
        with contextlib.suppress(errors.TurnNotWaitingError, errors.UnknownTurnError):
            await close_turn(engine, id, tenant=turn.info.tenant, has_slot=True)

    watcher, asked_at = recorder.watcher, time.perf_counter()
    try:
        async with recorder.slot(turn, conversation, make_room) as save:
            turn.waits.append(("turn", (time.perf_counter() - asked_at) * 1000))
            with contextlib.nullcontext() if watcher is None else watcher.running(turn):
                return await _run_phases(engine, turn, save)
    except errors.SuspendedTurnError:
        if engine.questions.new_message != "queue" or turn.journal is None:
            raise
        await accept_turn(turn, turn.journal)
        turn.is_over = True
        turn.done = turn.to_turn(unfinished_response(turn), status="accepted", conversation=conversation)
        await turn.sink.emit_end(TurnSuspended(info=turn.info, turn=turn.done), NOTIFY_TIMEOUT_S)
        return turn.done
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if not turn.is_stopped or turn.done is None or task is None:
            raise
        # Requested in the journal: the program that runs this task has not cancelled it, and goes on.
        task.uncancel()
        return turn.done


async def accept_turn(turn: ActiveTurn, journal: Journal, *, due_at: str = "", priority: int = 0) -> None:
    """Keep a turn that begins later, and notify the plugins. Raises StorageError."""
    if turn.parts.hooks.gates_turns:
        await turn.parts.hooks.before_turn(turn.info, turn.request)
    await journal.accept(turn.request, due_at=due_at, priority=priority)
    with in_turn(turn):
        await turn.parts.hooks.tell(TurnAccepted(info=turn.info, due_at=due_at, priority=priority))


async def close_turn(engine: TurnEngine, id: str, *, tenant: str, has_slot: bool = False) -> Turn:
    """End an interrupted turn: its steps go into its conversation, with what is unknown about them.

    With ``has_slot``, the caller holds the slot after the conversation's last turn. Raises as restore_turn, and what
    keeps its end from being written.
    """
    turn = await engine.restore_turn(id, tenant=tenant, is_closed=True)
    assert turn.journal is not None
    turn.journal.has_slot = has_slot
    try:
        return await run_turn(engine, turn)
    except TurnStopped:
        assert turn.done is not None
        return turn.done
    except errors.FlexChatError as error:
        # Its own error, which its record has: only one that keeps it from being closed is the caller's.
        if turn.done is None or not (turn.done.conversation or isinstance(error, errors.InterruptedTurnError)):
            raise
        return turn.done


async def _run_phases(engine: TurnEngine, turn: ActiveTurn, save: Save | None) -> Turn:
    # Restarted here: the wait for the conversation's place is not part of the turn.
    turn.clock.restart()
    turn.phase_began = time.perf_counter()
    with in_turn(turn):
        try:
            async with turn.clock:
                if turn.sink.has_receiver(TurnStarted):
                    await turn.sink.emit(TurnStarted(info=turn.info, user_message=turn.request.user_message))
                if turn.waits and (turn.journal is None or turn.journal.live_sink is None):
                    await report_waits(turn)
                if turn.parts.hooks.gates_turns and not (turn.journal is not None and turn.journal.is_restored):
                    await turn.parts.hooks.before_turn(turn.info, turn.request)
                if turn.request.call is None:
                    await engine.router.route(turn)
                response = await _generate_response(turn)
            # A turn replayed to its end is reported from here: its end is new.
            await end_replay(turn)
            await turn.sink.seam()  # a turn its reader has not seen to the end is not done
            in_prompt = bool(turn.rag.hits) and turn.rule is not None and shows_documents(turn.rule[1].prompt)
            citations = citations_of(response.content, turn.rag, in_prompt, turn.cited)
            turn.done = turn.to_turn(response, citations=citations)
            if save is not None:
                turn.done = await save(turn.done)
        except CallSuspended as error:
            return await _report_suspension(turn, error)
        except asyncio.CancelledError as error:
            # Too late once it is done: then its end is kept, and there is nothing to resume.
            if turn.is_interrupted and turn.done is None and save is not None and turn.journal is not None:
                in_tool = turn.call_round is not None and turn.call_round.in_tool
                await _interrupt(engine, turn, errors.InterruptedTurnError(turn.info.id, waits=True), in_tool=in_tool)
            await _finish_early(turn, error, save)
            raise
        except errors.StorageError as error:
            # Not failed: what could not be written can be once the store is back, and then the turn goes on.
            journal = turn.journal
            if turn.done is None and save is not None and journal and journal.has_begun and not journal.is_closed:
                await _interrupt(
                    engine, turn, errors.InterruptedTurnError(turn.info.id, waits=True, why=error.public_text)
                )
            await _finish_early(turn, error, save)
            raise
        except Exception as error:
            await _finish_early(turn, error, save)
            raise
        try:
            if turn.sink.has_receiver(TurnFinished):
                finished = TurnFinished(info=turn.info, turn=turn.done)
                await turn.sink.emit_end(finished, max(turn.clock.remaining_s(), NOTIFY_TIMEOUT_S))
        except asyncio.CancelledError as error:
            error.turn = turn.done  # type: ignore[attr-defined]  # CancelledError has no field for it
            raise
        return turn.done


async def _generate_response(turn: ActiveTurn) -> ChatResponse:
    phase = "response generation"
    await begin_phase(turn, phase)
    response = await answer(turn)
    if warnings := turn.phase_warnings:
        response = attrs.evolve(response, warnings=(*warnings, *response.warnings))
    printable = {"llm": response.llm, "model": response.model, "tool_calls": len(response.tool_calls or ())}
    await end_phase(turn, phase, response, printable, PhaseNotes(usage=response.usage))
    return response


class in_turn:
    """A context manager that makes it the turn this code runs in; on exit the turn is over."""

    __slots__ = ("_place", "_traceparent", "_turn")

    def __init__(self, turn: ActiveTurn) -> None:
        self._turn = turn

    def __enter__(self) -> None:
        self._place = TurnPlace(self._turn)
        self._place.enter()
        self._traceparent = current_traceparent.set(self._turn.info.traceparent)
        if (trace := self._turn.trace) is not None:
            _guarded(trace.__enter__)

    def __exit__(self, *error: object) -> None:
        self._turn.is_over = True
        if (trace := self._turn.trace) is not None:
            _guarded(trace.__exit__, *error)
        current_traceparent.reset(self._traceparent)
        self._place.leave()


def _guarded(function: Callable[..., object], *arguments: object) -> None:
    """Call a function of a plugin that traces, which never costs a turn."""
    try:
        with contained():
            function(*arguments)
    except Exception:
        log.exception("a trace failed")


async def read_turn(
    turn: ActiveTurn, feed: Feed, context: contextvars.Context, work: Work
) -> AsyncGenerator[StreamEvent, None]:
    """Run a turn in its own task, and yield what happens. Closing the generator ends the turn and waits for it.

    An async generator rather than an object with ``__anext__``: the event loop closes a forgotten one. The turn, its
    tools and hooks see the variables of ``context``. Raises as the turn.
    """

    async def to_its_end() -> None:
        try:
            await work(turn)
        # Cancellations included: the reader must not wait for a feed that no task will fill.
        except BaseException as error:
            feed.end(error)
            if not isinstance(error, Exception):
                raise
        else:
            feed.end()

    # A task of its own, so that leaving the generator cannot stop the turn in the middle of keeping its end.
    task = asyncio.get_running_loop().create_task(to_its_end(), context=context)
    try:
        while await feed.filled():
            while feed.pending:
                yield feed.take()
    except asyncio.CancelledError as error:
        with contextlib.suppress(asyncio.CancelledError):  # someone cancelled again, and gets this cancellation
            await cancel_and_wait([task])
        error.turn = turn.done  # type: ignore[attr-defined]  # CancelledError has no field for it
        raise
    finally:
        await cancel_and_wait([task])


async def _report_suspension(turn: ActiveTurn, error: CallSuspended) -> Turn:
    """Report a turn that is suspended in its journal by now, and may run again in any process."""
    response = unfinished_response(turn)
    pending, conversation = tuple(turn.pending.values()), turn.info.conversation
    turn.done = turn.to_turn(response, status="suspended", pending=pending, conversation=conversation)
    await turn.sink.emit_end(TurnSuspended(info=turn.info, turn=turn.done), NOTIFY_TIMEOUT_S)
    return turn.done


async def _finish_early(turn: ActiveTurn, error: BaseException, save: Save | None) -> None:
    """End a turn early: keep what exists of it, attach it to the error, and report it.

    Raises a CancelledError if a failing turn was cancelled meanwhile.
    """
    ended, cancelled = turn.done or unfinished(turn, error), False
    # Keeping has just failed if the turn is done and the error is the store's: a second try would double the wait.
    if save is not None and not (turn.done and isinstance(error, errors.StorageError)):
        ended, cancelled = await _save_shielded(save, ended)
    turn.done = ended
    error.turn = ended  # type: ignore[attr-defined]  # CancelledError has no field for it
    # Cancelled too late: the turn was done, and is kept as such.
    has_finished = isinstance(error, asyncio.CancelledError) and ended.status == "done" and ended.conversation
    event = end_event(turn.info, ended, None if has_finished else error)
    # After the turn is saved: a listener may read the conversation as soon as it gets this event.
    reporting = asyncio.ensure_future(turn.sink.emit_end(event, NOTIFY_TIMEOUT_S))
    cancelled |= await _wait_shielded(reporting, NOTIFY_TIMEOUT_S + 0.5)  # it ends on its own, unless a plugin blocks
    if cancelled and isinstance(error, Exception):
        raise asyncio.CancelledError


def end_event(info: TurnInfo, turn: Turn, error: BaseException | None) -> End:
    """Return the last event of a turn: finished without an error, failed with an Exception, else cancelled."""
    if turn.status in ("suspended", "accepted"):
        return TurnSuspended(info=info, turn=turn)
    if error is None:
        return TurnFinished(info=info, turn=turn)
    if isinstance(error, Exception):
        return TurnFailed(info=info, error=error, turn=turn)
    return TurnCancelled(info=info, turn=turn)


async def _interrupt(
    engine: TurnEngine, turn: ActiveTurn, error: errors.InterruptedTurnError, *, in_tool: bool = False
) -> None:
    """Stop a turn at its current step, release it to be resumed, and raise the error."""
    journal, recorder = turn.journal, engine.recorder
    assert journal is not None
    assert recorder is not None
    recorder.unreleased[turn.info.id] = turn.info.tenant

    # Released instead of kept: a turn that is to be resumed must not get an end in its conversation.
    async def release(stopped: Turn) -> Turn:
        await journal.interrupt(in_tool=in_tool)
        recorder.unreleased.pop(stopped.id, None)
        return stopped

    await _finish_early(turn, error, release)
    raise error from None


def unfinished(turn: ActiveTurn, error: BaseException) -> Turn:
    """Return the part of a turn that existed when it failed or was stopped."""
    response = unfinished_response(turn)
    # The answers have been counted as they arrived; a request that was under way may have cost something as well.
    turn.parts.add_cost(turn.info.tenant, cost_of((), (), "cancelled", None if turn.rule is None else turn.rule[0]))
    if not isinstance(error, Exception):
        return turn.to_turn(response, status="cancelled")
    text = turn.parts.mask(str(error) or type(error).__name__)
    replay = not isinstance(error, errors.ProviderRequestError | errors.ChatRequestError)
    return turn.to_turn(response, status="failed", error=text, replay=replay)


async def _save_shielded(save: Save, turn: Turn) -> tuple[Turn, bool]:
    """Save a turn that ended early, even if the task is cancelled again meanwhile; return it, and whether it was.

    Waits a moment, so that a program about to exit does not exit first.
    """
    saving = asyncio.ensure_future(save(turn))
    # A reference, because the event loop holds tasks only weakly and the wait below may give up first.
    _SAVING.add(saving)
    saving.add_done_callback(_SAVING.discard)
    was_cancelled = await _wait_shielded(saving, SAVE_TIMEOUT_S)
    # A store that is still writing may succeed later. Until it does, the turn is reported as not kept.
    if saving.done() and not saving.cancelled() and saving.exception() is None:
        turn = saving.result()
    else:
        why = saving.exception() if saving.done() and not saving.cancelled() else "the store takes too long"
        log.warning("the turn %s ended early and is not kept: %s", turn.id, why)
    return turn, was_cancelled


async def _wait_shielded(work: asyncio.Future[Any], seconds: float) -> bool:
    """Wait at most this long for work to finish, even if cancelled; return whether it was cancelled."""
    was_cancelled, until = False, time.monotonic() + seconds
    while not work.done() and (left_s := until - time.monotonic()) > 0:
        try:
            await asyncio.wait({work}, timeout=left_s)
        except asyncio.CancelledError:
            # Noted and raised later by the caller: keeping the end matters more than ending at once.
            was_cancelled = True
    return was_cancelled


_SAVING: set[asyncio.Future[Turn]] = set()


async def explain(engine: TurnEngine, request: ChatRequest) -> Explanation:
    """Run the phases up to the choice of a rule, and explain the choice. Raises TurnTimeoutError.

    The plugins are notified of these phases and of the requests to models, under a separate turn id, but not of a turn
    that starts, finishes or fails. A model or store that does not answer becomes a warning of its phase.
    """
    turn = engine.create_turn(request)
    with in_turn(turn):
        async with turn.clock:
            await engine.router.profile(turn)
            verdicts = await _verdicts(engine, turn.profile)
            refused = refused_rules(turn, engine.router.rules)
            fits = (verdict.rule for verdict in verdicts if verdict.fits and verdict.rule not in refused)
            tools: tuple[str, ...] = ()
            fitting = next(fits, None)
            if fitting is not None:
                passed_over = tuple(verdict.failed[0] for verdict in verdicts[: min(fitting, MAX_PASSED_OVER)])
                await engine.router.choose(turn, fitting, passed_over)
                tools = engine.parts.offered_to(engine.router.rules[fitting])
    phases = list(turn.phases)
    if fitting is not None:
        try:
            substitute_variables(engine.router.rules[fitting].prompt, turn.profile, request.variables)
        except errors.UnknownNameError as error:
            warnings = (*phases[-1].warnings, f"the rule's answer would fail: {error}")
            phases[-1] = attrs.evolve(phases[-1], warnings=warnings)
    return Explanation(
        profile=turn.profile,
        rule=fitting,
        verdicts=verdicts,
        phases=tuple(phases),
        tools=tools,
    )


async def preview(engine: TurnEngine, request: ChatRequest) -> ModelRequest:
    """Run the phases up to the choice of a rule, and return the request to the model that would answer.

    The plugins are notified as for explain; no gate is asked, because it may count what is sent. Raises
    NoMatchingRuleError, UnknownLLMError, TurnTimeoutError, StorageError or UnknownConversationError.
    """
    turn = engine.create_turn(request)
    conversation, recorder = turn.info.conversation, engine.recorder
    if conversation is not None and recorder is not None:
        turn.request = await recorder.continued(turn, conversation)
    with in_turn(turn):
        async with turn.clock:
            await engine.router.route(turn)
        return await first_request(turn)


async def _verdicts(engine: TurnEngine, profile: Profile) -> tuple[RuleVerdict, ...]:
    """Return the verdict on each rule, letting other work run meanwhile; concurrent callers take turns."""
    verdicts: list[RuleVerdict] = []
    async with engine.explaining:
        for verdict in each_verdict(profile, engine.router.rules):
            verdicts.append(verdict)
            # Checking thousands of rules takes a while, in which other turns would stand still.
            if len(verdicts) % _VERDICTS_AT_ONCE == 0:
                await asyncio.sleep(0)
    return tuple(verdicts)
