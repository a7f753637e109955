"""Run tools for as long as the model asks for them. The only tool loop: LangChain's clients use it too."""

from __future__ import annotations

import asyncio
import enum
import functools
import json
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import attrs

from ..config.model import LimitsTable
from ..domain import (
    ChatResult,
    ToolCall,
    ToolCallRecord,
    ToolFinished,
    ToolMessage,
    ToolProgress,
    ToolResult,
    ToolStarted,
)
from ..domain.codec import value_to_dict
from ..domain.messages import CUT_OFF
from ..domain.text import counted
from ..errors import LastRequestError
from ..plugin.call import Call
from ..plugin.foreign import CallSuspended
from ..plugin.hooks import record_of
from ..tools.registry import ToolRegistry
from ..tools.results import READER, for_the_model
from .active import NOT_STARTED, ActiveTurn, CallRound, TurnStopped, end_replay
from .questions import Person

log = logging.getLogger(__name__)

MAX_IDENTICAL_CALLS = 2  # the third is refused; if the model then asks for it again, the loop ends (C16)
_NONE: Mapping[int, str] = {}
_REPEATED = "This exact call was already made twice; use its earlier result instead of asking again"


class NextStep(enum.Enum):
    """What the loop does next."""

    RUN_TOOLS = "run the tools it asks for"
    ASK_AGAIN = "send the same request once more"
    CONTINUE = "let the model continue where it paused"
    FINISH = "answer the user with its text"
    GIVE_UP = "answer the user with what there is, or with an apology"


def next_step(result: ChatResult) -> NextStep:
    """Decide by what the answer contains, not by what the provider calls it.

    Calls win over the finish reason: Gemini sends STOP alongside a call, Ollama "stop". Two reasons win over calls:
    nothing runs from an answer that was filtered or refused. No reason at all counts as "stop" if there is text.

    Source: requirements RG-16, RG-17, RG-25, TC-75, C22, C27; the neutral model, "Finish reasons".
    """
    reason = result.finish_reason
    if reason in ("content_filter", "refusal"):
        return NextStep.GIVE_UP
    if result.tool_calls:
        return NextStep.RUN_TOOLS
    if reason in ("stop", "end_turn") or (not reason and result.content):
        return NextStep.FINISH
    if reason == "malformed_tool_call":
        return NextStep.ASK_AGAIN
    return NextStep.CONTINUE if result.is_paused else NextStep.GIVE_UP


def calls_to_run(result: ChatResult) -> tuple[ToolCall, ...]:
    """Return the calls of an answer; one the output limit may have cut off is marked as not runnable.

    If an answer ends with "length" inside a call, it is uncertain whether the model meant that call, even if its
    arguments can be parsed: servers complete what was cut. A tool that must not run twice must not run on a guess; the
    model gets an error, so it may ask again. Calls followed by anything else are complete.

    Source: requirement RG-25; the same for every provider.
    """
    calls = result.tool_calls
    if result.finish_reason != "length" or not calls or result.message.parts[-1] is not calls[-1]:
        return calls
    last = calls[-1]
    if last.error is not None:
        return calls
    text = last.raw_arguments if last.raw_arguments is not None else json.dumps(dict(last.arguments or {}))
    return (*calls[:-1], attrs.evolve(last, arguments=None, raw_arguments=text, error=CUT_OFF))


def no_answer_reason(finish_reason: str | None) -> str:
    """Return the reason for a missing or partial answer."""
    return _REASONS.get(finish_reason or "", f"the model ended with finish reason {finish_reason!r}")


_REASONS = {
    "length": "the answer was cut off at the token limit (max_tokens of the rule, or the model's own)",
    "content_filter": "the provider's content filter stopped the answer",
    "refusal": "the model refused to answer",
    "malformed_tool_call": "the model ended with a tool call that could not be read",
    "pause": "the model paused and was not asked to continue (tools.max_iterations)",
}


class Dialogue(Protocol):
    """How a model is asked and what it gets back: everything in which one tool loop differs from another."""

    async def ask(self) -> ChatResult:
        """Ask the model and return its answer."""

    def remember(self, result: ChatResult, calls: Sequence[ToolCall], records: Sequence[ToolCallRecord]) -> None:
        """Add an answer to the conversation, followed by the results of its calls, one for each.

        Without calls, the model has paused, and continues from there; or all are for the caller to run.
        """


async def rounds(turn: ActiveTurn, dialogue: Dialogue, offered: Sequence[str], limit: int) -> str:
    """Ask the model, and run the tools it asks for, until it answers.

    Args:
        offered: Names of the tools; nothing else runs.
        limit: How many answers may ask for tools; at least 1.

    Returns:
        Why the loop was ended; empty if the model finished on its own.
    """
    limits = CallLimits(turn.tools, turn.parts.limits)
    asked_again = False
    for iteration in range(1, limit + 1):
        try:
            result = await dialogue.ask()
        except LastRequestError as error:
            if not offered:
                raise
            turn.has_last_request = True
            return str(error)
        step = next_step(result)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("iteration %d: %s, then: %s", iteration, result.finish_reason, step.value)
        if step is NextStep.RUN_TOOLS and offered:
            calls = calls_to_run(result)
            records = await run_calls(turn, calls, limits, offered, iteration)
            if turn.caller_calls:
                dialogue.remember(result, [call for call in calls if call.id not in turn.caller_calls], records)
                return ""
            dialogue.remember(result, calls, records)
            if limits.exhausted:
                return limits.exhausted
        elif step is NextStep.CONTINUE and iteration < limit:
            dialogue.remember(result, (), ())
        elif step is NextStep.ASK_AGAIN and offered and not asked_again:
            asked_again = True
            turn.warnings.append("the model wrote a tool call that could not be read; it was asked once more")
        else:
            return ""
    return f"{counted(limit, 'answer')} asked for tools" if offered else ""


class CallLimits:
    """What a model may ask for in one turn: no call too often, and not too many calls.

    Attributes:
        exhausted: Why the loop must end: a call repeated after it was refused, the limit reached. Empty otherwise.
    """

    def __init__(self, registry: ToolRegistry, limits: LimitsTable) -> None:
        self._registry = registry
        self._limits = limits
        self._times_asked: dict[str, int] = {}
        self._refused: set[str] = set()  # repeated calls already refused once
        self._run = 0
        self.exhausted = ""

    def judge(self, calls: Sequence[ToolCall], unfound: Mapping[int, str] = _NONE) -> list[str | None]:
        """Return, for each call of an answer, why it does not run; None if it does.

        Args:
            unfound: Why some cannot, by index; they do not count.
        """
        repeated: list[str] = []
        refusals = [unfound.get(index) or self._refusal(call, index, repeated) for index, call in enumerate(calls)]
        self._refused.update(repeated)
        return refusals

    def _refusal(self, call: ToolCall, index: int, repeated: list[str]) -> str | None:
        signature = _signature(call)
        times = self._times_asked[signature] = self._times_asked.get(signature, 0) + 1
        if times > MAX_IDENTICAL_CALLS and not self._is_repeatable(call):
            log.warning("tool %s: the same call for the %d. time; refused", call.name, times)
            repeated.append(signature)
            if signature in self._refused:
                self.exhausted = f"the model repeated one call of {call.name} after it had been refused"
            return _REPEATED
        if call.error is not None:
            log.error("tool %s: invalid tool arguments: %s", call.name, call.error)
            return f"Invalid tool arguments: {call.error}"
        most = self._limits.tool_calls_per_answer
        if index >= most:
            return f"Not executed: at most {most} calls in one answer; ask for the others in the next"
        if self._run >= self._limits.tool_calls_per_turn:
            most = self._limits.tool_calls_per_turn
            self.exhausted = f"the budget of {most} tool calls was used up"
            return f"Not executed: the budget of {most} tool calls for this message is used up"
        self._run += 1
        return None

    def _is_repeatable(self, call: ToolCall) -> bool:
        tool = self._registry.get(self._registry.name_of(call.name))
        return tool is not None and tool.repeatable


def can_read_on(registry: ToolRegistry, offered: Collection[str]) -> bool:
    """Return whether the model is offered the tool that reads long results; a source's tool of its name is another."""
    tool = registry.get(READER) if READER in offered else None
    return tool is not None and tool.source is None and {"result", "start"} <= {*tool.parameters.get("properties", ())}


def messages_of(
    calls: Sequence[ToolCall], records: Sequence[ToolCallRecord], max_chars: int, *, can_read_on: bool = False
) -> list[ToolMessage]:
    """Return the results for the model, one for each call, under the name by which it was offered the tool.

    With ``can_read_on``, one that is too long explains how the model can read on.
    """
    return [
        ToolMessage(
            tool_call_id=call.id,
            name=call.name,
            content=for_the_model(record.result, max_chars, call.name, call.id if can_read_on else None),
            is_error=not record.result.success,
            media=record.result.media,
            loads=tuple(record.facts.get("loads", ())),
        )
        for call, record in zip(calls, records, strict=True)
    ]


async def run_calls(
    turn: ActiveTurn, calls: Sequence[ToolCall], limits: CallLimits, offered: Sequence[str] | None, iteration: int
) -> list[ToolCallRecord]:
    """Give every call exactly one result, except those that the caller runs.

    All are judged before any runs. They run side by side, except exclusive tools, which run alone. If the turn ends,
    everything still running is cancelled and awaited.
    """
    unfound = _NONE if turn.found is None else turn.found.unfound(calls, turn.messages)
    if turn.found is not None:
        names = [turn.tools.name_of(calls[index].name) for index in unfound]
        # The error of an unknown tool names what the request had, and no other deferred tool.
        offered = (*turn.found.in_request(turn.messages), *names)
    round_ = turn.call_round = CallRound(calls, iteration, unfound)
    # Judged as a whole, before the first tool runs: the verdict must not depend on which call is faster.
    refusals = limits.judge(calls, unfound)
    theirs = _of_caller(turn, calls, refusals) if turn.request.caller_tools else ()
    groups = _groups(calls, refusals, turn.tools, theirs)
    for group in groups:
        if turn.journal is not None:
            # The answer and the results so far survive this process before the next tools run: a tool must not act for
            # an answer that a resumed turn would not have.
            await turn.journal.flush()
        if len(group) == 1:  # the usual case needs no task
            await _call(turn, round_, group[0], refusals[group[0]], offered)
        else:
            await _side_by_side([_call(turn, round_, index, refusals[index], offered) for index in group])
    records = [record for record in round_.records if record is not None]
    # The others have run to their end by now: only what waits for a person is left.
    while len(records) + len(theirs) < len(calls):
        waiting = [i for i, record in enumerate(round_.records) if record is None and i not in theirs]
        assert turn.journal is not None
        if await turn.journal.suspend():
            raise round_.suspension_of(waiting[0])
        if await turn.journal.is_cancelled():
            turn.is_stopped = True
            raise TurnStopped
        # A reply came before the turn was released, so nothing else would resume it.
        await turn.journal.record_stale_replies(turn.pending)
        turn.pending.clear()
        for index in waiting:
            turn.journal.recall_again(f"{iteration}.{index}")
        for group in groups:
            if again := [index for index in group if index in waiting]:
                await _side_by_side([_call(turn, round_, index, refusals[index], offered) for index in again])
        records = [record for record in round_.records if record is not None]
    if turn.records is not None:
        turn.records.extend(records)
    turn.caller_calls = frozenset([calls[index].id for index in theirs])
    turn.call_round, turn.paused_text = None, ""
    return records


async def _side_by_side(work: Sequence[Any]) -> None:
    """Run coroutines as tasks. No TaskGroup: a call that fails must not cancel its neighbours."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        await asyncio.wait(tasks)
    finally:
        # Also when the turn is cancelled: no tool may run on unseen after its turn.
        await cancel_and_wait(tasks)
    for task in tasks:
        task.result()


def _of_caller(turn: ActiveTurn, calls: Sequence[ToolCall], refusals: Sequence[str | None]) -> tuple[int, ...]:
    """Return the calls, by index, that the caller runs; one that was refused has its result already."""
    tools = [turn.tools.get(turn.tools.name_of(call.name)) for call in calls]
    return tuple(i for i, tool in enumerate(tools) if tool is not None and tool.is_callers and refusals[i] is None)


def _groups(
    calls: Sequence[ToolCall], refusals: Sequence[str | None], registry: ToolRegistry, left_out: Collection[int]
) -> list[list[int]]:
    """Return the calls, by index, in groups that may run side by side, in order."""
    groups: list[list[int]] = []
    shared = False
    if len(calls) == 1:
        return [] if left_out else [[0]]
    for index, call in enumerate(calls):
        if index in left_out:
            continue
        tool = registry.get(registry.name_of(call.name))
        # A refused call runs nothing, so it need not be alone.
        alone = refusals[index] is None and tool is not None and tool.exclusive
        if alone or not shared:
            groups.append([])
        groups[-1].append(index)
        shared = not alone
    return groups


async def _call(
    turn: ActiveTurn, round_: CallRound, index: int, refusal: str | None, offered: Collection[str] | None
) -> None:
    requested, journal = round_.requested[index], turn.journal
    if journal is not None:
        if (entry := journal.calls.get((round_.iteration, index))) is not None:
            # Replayed from the journal: the tool does not run again.
            turn.has_side_effects = turn.has_side_effects or entry["wrote"]
            round_.records[index] = journal.decode(ToolCallRecord, entry["record"])
            return
        if not journal.is_closed:
            await end_replay(turn)
    tools, is_first_run = turn.tools, round_.calls[index] is None
    call = round_.calls[index] = Call(
        name=tools.name_of(requested.name),
        arguments=requested.arguments if requested.arguments is not None else {},
        origin=turn.origin,
        id=requested.id,
        turn=turn.info,
        context=turn.request.context,
        offered=offered,
        offer=tools,
        refusal=refusal,
        seconds_left=turn.clock.remaining_s,
        tell=functools.partial(_report_call, turn, round_, index),
        asker=Person(turn.request.on_question, turn.parts.limits, turn.parts.questions, turn, (turn, None)),
        asked=journal,
        rule=None if turn.rule is None else (turn.rule[0], turn.rule[1].name),
        approve=turn.needs_approval,
        report=functools.partial(_report, turn) if turn.sink.has_receiver(ToolProgress) else None,
        iteration=round_.iteration,
        index=index,
        # The id of a nested turn is made of its place in the outer one, which may have been resumed.
        is_new=is_first_run and turn.outer is None and not (journal is not None and journal.is_resumed),
        notes=[*requested.notes],
        facts={"loads": [tools.name_of(requested.name)]} if index in round_.unfound else {},
    )
    if journal is not None and journal.is_closed:
        # A closed turn starts no tool: the ledger decides whether this call has run, and how it ended. Unless it can
        # be read, the call counts as one that may have run.
        call.has_started = True
        result = await turn.parts.tools.calls.recalled(call) or ToolResult.failed(call.name, NOT_STARTED)
        round_.records[index] = record_of(requested, call.name, result, round_.iteration, call.facts)
        return
    try:
        await turn.parts.tools.calls.run(call)
    except CallSuspended:
        pass  # its record stays empty, and the round sees to it
    finally:
        # Also of a call that the end of the turn breaks off.
        turn.has_side_effects = turn.has_side_effects or call.begun_effect is not None
        call.tell = call.asker = call.asked = call.report = (
            None  # breaks cycles, which otherwise only the garbage collector frees
        )


async def _report_call(turn: ActiveTurn, round_: CallRound, index: int, call: Call, result: ToolResult | None) -> None:
    """Report that a call begins, or its result, which is recorded first; of one that a tool makes as well."""
    requested, journal, sink = round_.requested[index], turn.journal, turn.sink
    recorded_call = requested
    if call.id != requested.id:  # a call made by its tool
        recorded_call = ToolCall(id=call.id, name=call.name, arguments=call.arguments)
    if result is not None:
        # Now, or before the turn was interrupted.
        has_effect = call.begun_effect is not None or "effect" in call.facts
        turn.has_side_effects = turn.has_side_effects or has_effect
        record = record_of(recorded_call, call.name, result, round_.iteration, call.facts)
        # Only the model's own calls have a place in the round; a tool's calls belong to their parent.
        if recorded_call is requested:
            round_.records[index] = record
            if journal is not None:
                data = value_to_dict(record, journal.media)
                journal.add("tool", iteration=round_.iteration, index=index, record=data, wrote=turn.has_side_effects)
        if sink.has_receiver(ToolFinished):
            await sink.emit(ToolFinished(info=turn.info, record=record))
    elif sink.has_receiver(ToolStarted):
        shown_call = recorded_call if recorded_call.name == call.name else attrs.evolve(recorded_call, name=call.name)
        await sink.announce(ToolStarted(info=turn.info, call=shown_call))


async def _report(turn: ActiveTurn, call: Call, progress: float, total: float | None, message: str) -> None:
    event = ToolProgress(
        info=turn.info, call_id=call.id, tool=call.name, progress=progress, total=total, message=message
    )
    await turn.sink.emit(event)


_sorted_json = json.JSONEncoder(sort_keys=True, default=repr).encode


def _signature(call: ToolCall) -> str:
    """Return a text that identifies a call, in any order of its arguments."""
    if call.error is not None:
        return f"{call.name} {call.raw_arguments}"
    try:
        return f"{call.name} {_sorted_json(call.arguments)}"
    except (TypeError, ValueError, RecursionError):  # unsortable keys, or nesting too deep to walk
        return f"{call.name} {call.raw_arguments or call.id}"


async def cancel_and_wait(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until all have ended. If the wait is cancelled, that is passed on to them, and raised."""
    was_cancelled = False
    for task in tasks:
        task.cancel()
    while running := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(running)
        except asyncio.CancelledError:
            # Passed on: a task that ignored the first cancellation gets another. The wait goes on, since a task left
            # behind would act unseen.
            was_cancelled = True
            for task in running:
                task.cancel()
    if was_cancelled:
        raise asyncio.CancelledError
