"""A turn while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from ..calls.manager import ToolManager
from ..config.model import LimitsTable, ResponseRule
from ..domain import (
    AssistantMessage,
    ChatEvent,
    ChatRequest,
    ChatResponse,
    ChatResult,
    Message,
    PhaseRecord,
    Profile,
    RagResults,
    ResponseFormat,
    Round,
    ToolCall,
    ToolCallRecord,
    ToolDefinition,
    ToolMessage,
    ToolResult,
    Turn,
    TurnInfo,
    TurnResumed,
    Usage,
)
from ..domain.events import WaitEnded, WaitReason
from ..domain.masking import Mask
from ..domain.prices import Cost
from ..domain.questions import PendingQuestion
from ..errors import InterruptedTurnError, NestedTurnError, UnknownConversationError
from ..events.sink import Sink
from ..llms.llm import Llms
from ..plugin.call import Call, Cited, EarlierResult, Origin, current_turn
from ..plugin.contracts import ConversationStore
from ..plugin.foreign import CallSuspended, contained
from ..plugin.hooks import Hooks, TurnTrace, record_of
from ..schema.answer_format import AnswerFormat, answer_format
from ..tools.deferral import FoundTools
from ..tools.registry import ToolRegistry
from ..tools.results import json_facts, whole_text
from .clock import Clock
from .journal import Journal
from .live_questions import LiveQuestions

log = logging.getLogger(__name__)

MAX_NESTED_TURNS = 5
"""How deep turns may nest; each inner one is started by a tool of the turn around it."""


NOT_STARTED = "Not executed: the turn ended before the tool was started"
SUSPENDED = "Not executed yet: it waits for the reply to a question"
_INTERRUPTED = "Interrupted: the turn ended while the tool was running, so what it did is unknown"


@attrs.define(eq=False)
class CallRound:
    """The calls of one answer while they run.

    Attributes:
        unfound: What the calls of deferred tools that the request did not have result in, by index.
        calls: One for each requested; None for one that has not started.
        records: The outcome of each; None while it runs.
    """

    requested: Sequence[ToolCall]
    iteration: int
    unfound: Mapping[int, str] = attrs.field(factory=dict)
    calls: list[Call | None] = attrs.field(init=False)
    records: list[ToolCallRecord | None] = attrs.field(init=False)

    @calls.default
    @records.default
    def _nothing_yet(self) -> list[Any]:
        return [None] * len(self.requested)

    @property
    def in_tool(self) -> bool:
        """Whether a tool has started that has no outcome yet."""
        pairs = zip(self.calls, self.records, strict=True)
        return any(record is None and call is not None and call.has_started for call, record in pairs)

    def records_at_end(self, registry: ToolRegistry) -> list[ToolCallRecord]:
        """Return a record for each call of a turn that ends before all of them have a result."""
        return [record or self._interrupted_record(index, registry) for index, record in enumerate(self.records)]

    def suspension_of(self, index: int) -> CallSuspended:
        """Return the suspension of a call that waits for a reply."""
        call = self.calls[index]
        assert call is not None
        assert isinstance(call.interruption, CallSuspended)
        return call.interruption

    def _interrupted_record(self, index: int, registry: ToolRegistry) -> ToolCallRecord:
        requested, call = self.requested[index], self.calls[index]
        name = registry.name_of(requested.name)
        if call is None:
            return record_of(requested, name, ToolResult.failed(name, NOT_STARTED), self.iteration, {})
        # Only a call whose tool was never started may be called not executed: a started one may have acted.
        is_suspended = isinstance(call.interruption, CallSuspended)
        text = SUSPENDED if is_suspended else _INTERRUPTED if call.has_started else NOT_STARTED
        result = ToolResult.failed(name, text)
        facts = json_facts(call.facts, name)
        if call.begun_effect is not None and not is_suspended:
            facts.setdefault("effect", {"key": call.begun_effect.key, "state": "unknown"})
        return record_of(requested, name, result, self.iteration, facts)


class TurnStopped(asyncio.CancelledError):
    """Ends a resumed turn whose cancellation was requested before."""


@attrs.define(kw_only=True)
class ModelTarget:
    """Who answers: the model asked (None for the llm's default), and entries of llms that may take over, in order."""

    llm: str
    model: str | None = None
    fallback: list[str] = attrs.field(factory=list)


@attrs.define(eq=False, kw_only=True)
class TurnParts:
    """The parts shared by all turns of one chat. A turn refers to these and not to its engine, which starts turns.

    Attributes:
        store: Where the conversations are kept; None if none are.
        shrinks_media: Whether images that are too large for a model are made smaller.
        has_ceiling: Whether limits.turn_cost or limits.turn_tokens is set.
        spent: What the models have cost, by tenant.
        questions: Those that calls of this process are waiting for.
    """

    llms: Llms
    tools: ToolManager
    limits: LimitsTable
    hooks: Hooks = attrs.field(factory=Hooks)
    mask: Mask = attrs.field(factory=Mask)
    store: ConversationStore | None = None
    shrinks_media: bool = False
    spent: dict[str, Cost] = attrs.field(factory=dict)
    questions: LiveQuestions = attrs.field(factory=LiveQuestions)
    has_ceiling: bool = attrs.field(init=False)
    _formats: dict[int, tuple[ResponseFormat, AnswerFormat]] = attrs.field(factory=dict, init=False)

    def add_cost(self, tenant: str, cost: Cost) -> None:
        """Add to what a tenant has spent."""
        self.spent[tenant] = cost if tenant not in self.spent else self.spent[tenant] + cost

    @has_ceiling.default
    def _has_ceiling(self) -> bool:
        return self.limits.turn_cost is not None or self.limits.turn_tokens is not None

    def offered_to(self, rule: ResponseRule, offer: ToolRegistry | None = None) -> tuple[str, ...]:
        """Return the names of the tools offered to this rule's model; none means the standard flow (RG-8, RG-12)."""
        names = self.tools.offered_to(rule) if offer is None else offer.names()
        if not names and rule.tools is not None and rule.tools.enabled and self.tools.is_enabled():
            log.warning("no tool is available to this rule; answering without tools")
        return names

    def format_of(self, rule: ResponseRule) -> AnswerFormat | None:
        """Return the form a rule's answers must have; None for any text."""
        table = rule.response_format
        if table is None:
            return None
        entry = self._formats.get(id(table))
        if entry is None:
            entry = self._formats[id(table)] = (table, answer_format(table))
        return entry[1]


@attrs.define(kw_only=True, eq=False)
class ActiveTurn:
    """One turn while it runs: made once per message and passed to all phases. Nothing else holds its state.

    Attributes:
        tools: The tools that its calls are looked up in: those offered to its model, fixed when the rule is chosen.
            Before that, and for a turn that is only closed, all of the chat.
        outer: The turn whose tool, in the call ``outer_call``, started this one; None for a turn started from outside.
        origin: Who requests its tool calls.
        phase_began: When the phase that runs began, by time.perf_counter().
        rule: The chosen rule, with its index; None until one is chosen.
        cited: What tools cited with ToolContext.cite.
        messages: What is sent to the model; the first ``earlier_count`` were there before its first answer.
        begins_with: The messages with which it begins: the user's and what followed it, or results of the caller.
        caller_calls: Ids of the calls of the last answer that the caller runs; then the turn ends with them.
        has_media: Whether a message of a user or a tool may have media.
        correction: Sent to the model after the messages, but not part of the turn.
        requested_format: Whether the last request asked for the form of ``answer_format``.
        paused_text: The text before the model paused and continued: the beginning of its answer.
        result: The result of the last request for the answer.
        unsent_answer: The message of that result, until ``add_answer`` moves it to the messages.
        pieces: The pieces of an answer still being written.
        call_round: The calls of the last answer now running; None if there are none.
        has_side_effects: Whether a tool that must not run twice has run.
        records: None while no tools are offered.
        found: The deferred tools that its conversation has found; None if none are deferred.
        can_read_on: Whether the model can read on in a result that is too long to be shown whole.
        is_at_limit: Whether the tool loop was ended by a limit.
        beside: How many of the rounds are no answers to the user: models that were asked on the way to one.
        has_last_request: Whether a plugin ended it, and left it a request for the answer.
        done: The turn in its final form; None until it has ended.
        is_over: Whether all its events have been sent, so that no turn can run inside it any more.
        journal: Where its steps are written; None where conversations are not kept.
        is_interrupted: Whether it was stopped in order to be resumed, here or by another process.
        is_stopped: Whether its cancellation was requested in the journal.
        pending: Its open questions by id, when it is suspended.
        trace: Entered around it; None without a plugin that traces.
        waits: What it has waited for before its first event, each with its milliseconds.
    """

    info: TurnInfo
    parts: TurnParts
    request: ChatRequest
    clock: Clock
    sink: Sink
    tools: ToolRegistry
    outer: ActiveTurn | None = None
    outer_call: Call | None = None
    origin: Origin = "model"
    answer_format: AnswerFormat | None = None
    phases: list[PhaseRecord] = attrs.field(factory=list)
    phase_began: float = attrs.field(factory=time.perf_counter)
    profile: Profile
    rag: RagResults = attrs.field(factory=RagResults)
    rule: tuple[int, ResponseRule] | None = None
    cited: list[Cited] = attrs.field(factory=list)
    target: ModelTarget | None = None
    messages: tuple[Message, ...] = ()
    earlier_count: int = 0
    begins_with: tuple[Message, ...] = ()
    caller_calls: frozenset[str] = frozenset()
    has_media: bool = False
    correction: tuple[Message, ...] = ()
    requested_format: bool = False
    paused_text: str = ""
    result: ChatResult | None = None
    unsent_answer: AssistantMessage | None = None
    pieces: list[ChatEvent] = attrs.field(factory=list)
    call_round: CallRound | None = None
    has_side_effects: bool = False
    records: list[ToolCallRecord] | None = None
    found: FoundTools | None = None
    can_read_on: bool = False
    is_at_limit: bool = False
    has_last_request: bool = False
    rounds: list[Round] = attrs.field(factory=list)
    beside: int = 0
    usage: Usage | None = None
    warnings: list[str] = attrs.field(factory=list)
    done: Turn | None = None
    is_over: bool = False
    journal: Journal | None = None
    is_interrupted: bool = False
    is_stopped: bool = False
    pending: dict[str, PendingQuestion] = attrs.field(factory=dict)
    trace: TurnTrace | None = None
    waits: list[tuple[WaitReason, float]] = attrs.field(factory=list)

    @property
    def root(self) -> TurnInfo:
        """Info of the turn, or of the outermost one whose tool started it."""
        *_, outermost = self.enclosing()
        return outermost.info

    def enclosing(self) -> Iterator[ActiveTurn]:
        """Yield this turn and those around it, from the inside out."""
        turn: ActiveTurn | None = self
        while turn is not None:
            yield turn
            turn = turn.outer

    @property
    def needs_approval(self) -> bool:
        """Whether a person must approve each call, even of tools that do not require it."""
        rule = self.rule[1].tools if self.rule is not None else None
        return self.request.approve or (rule is not None and rule.approve)

    @property
    def phase_warnings(self) -> tuple[str, ...]:
        """The warnings of the phases so far."""
        return tuple(warning for phase in self.phases for warning in phase.warnings)

    @property
    def answer(self) -> str:
        """The text of the last answer, including the text before its pauses."""
        assert self.result is not None
        return self.paused_text + (self.result.content or self.result.message.refusal or "")

    @property
    def own_messages(self) -> tuple[Message, ...]:
        """What the turn has added to the history so far."""
        return (*self.begins_with, *self.messages[self.earlier_count :])

    def add_answer(self, answers: Sequence[ToolMessage] = ()) -> None:
        """Add the last answer to the messages, followed by the results of its calls."""
        assert self.unsent_answer is not None
        self.messages, self.unsent_answer = (*self.messages, self.unsent_answer, *answers), None
        for answer in answers:
            self.has_media = self.has_media or bool(answer.media)

    def add_result(self, result: ChatResult, round_: Round) -> None:
        """Add the result of a request for the answer, and its record."""
        self.result, self.unsent_answer = result, result.message
        # The whole answer replaces its pieces: a turn that ends now must not have the text twice.
        self.pieces.clear()
        for warning in result.warnings:
            if warning not in self.warnings:
                self.warnings.append(warning)
        if result.usage is not None:
            self.usage = result.usage if self.usage is None else self.usage + result.usage
        self.rounds.append(round_)

    def deferred_tools(self) -> Mapping[str, ToolDefinition]:
        """Return the deferred tools, in order, by the names that the model calls them by."""
        tools = self.tools
        return {tools.wire_name(tool.name): tool for tool in tools.own() if tool.name in tools.deferred}

    async def earlier_result(self, call_id: str) -> EarlierResult | None:
        """Return the result of a call that the model was shown: of this turn, or of one in the kept history.

        Raises StorageError.
        """
        record = next((record for record in self.records or () if record.call_id == call_id), None)
        conversation, store = self.info.conversation, self.parts.store
        if record is None and conversation is not None and store is not None and self._was_shown(call_id):
            with contextlib.suppress(UnknownConversationError), contained():
                turns = await store.turns(conversation, tenant=self.info.tenant)
                records = (record for turn in reversed(turns) for record in turn.tool_calls or ())
                record = next((record for record in records if record.call_id == call_id), None)
        if record is None:
            return None
        max_chars = self.parts.tools.table.max_result_chars
        return EarlierResult(tool=record.tool, text=whole_text(record.result), max_chars=max_chars)

    def _was_shown(self, call_id: str) -> bool:
        earlier = self.messages[: self.earlier_count]
        return any(isinstance(message, ToolMessage) and message.tool_call_id == call_id for message in earlier)

    def to_response(
        self, content: str, messages: tuple[Message, ...], records: Sequence[ToolCallRecord] | None, **rest: Any
    ) -> ChatResponse:
        """Return a response of the turn's model with these messages and records of calls."""
        assert self.target is not None
        return ChatResponse(
            content=content,
            llm=self.target.llm,
            model=self.target.model or "",
            tool_calls=None if records is None else tuple(records),
            messages=messages,
            usage=self.usage,
            rounds=tuple(self.rounds),
            **rest,
        )

    def to_turn(self, response: ChatResponse, **rest: Any) -> Turn:
        """Return the turn in its final form."""
        index, rule = self.rule or (None, None)
        return Turn(
            id=self.info.id,
            profile=self.profile,
            rule=index,
            rule_name=rule.name if rule is not None else None,
            response=response,
            phases=tuple(self.phases),
            elapsed_ms=self.clock.elapsed_ms(),
            traceparent=self.info.traceparent,
            principal=self.info.principal,
            **rest,
        )


def outer_turn() -> ActiveTurn | None:
    """Return the turn whose tool is running this code; None outside turns. Raises NestedTurnError."""
    outer = current_turn.get()
    if not isinstance(outer, ActiveTurn) or outer.is_over:
        return None
    depth = len([*outer.enclosing()])
    if depth >= MAX_NESTED_TURNS:
        raise NestedTurnError(f"a tool started a turn inside {depth} others; at most {MAX_NESTED_TURNS} may be nested")
    return outer


def new_turn_id(outer: ActiveTurn | None = None, place: str = "") -> str:
    """Return 32 hexadecimal digits: random, or, for a turn at a known place of another, always the same.

    A tool that runs again starts the turn with the same id, whose effects have the same keys, and happen once.
    """
    if outer is None or not place:
        return os.urandom(16).hex()
    return hashlib.sha256(f"{outer.info.id} {place}".encode()).hexdigest()[:32]


async def end_replay(turn: ActiveTurn) -> None:
    """Start reporting events again: a resumed turn is silent while it replays what its journal has.

    Raises InterruptedTurnError if nothing new may happen.
    """
    journal = turn.journal
    if journal is None or journal.live_sink is None:
        return
    # Before the check: the end of a closed turn is reported to the real listeners as well.
    turn.sink, journal.live_sink = journal.live_sink, None
    if journal.turn.cancelled_by:
        raise TurnStopped
    if journal.is_closed:
        raise InterruptedTurnError(turn.info.id)
    # Noted at the first new step, not when the turn is taken: replaying writes nothing.
    journal.record_resumption()
    if turn.sink.has_receiver(TurnResumed):
        has_format = turn.answer_format is not None
        replayed = journal.replay_events(turn.info, has_format=has_format) if turn.sink.is_read else ()
        await turn.sink.announce(TurnResumed(info=turn.info, user_message=turn.request.user_message), replayed)
    if turn.waits:
        await report_waits(turn)


async def report_wait(turn: ActiveTurn, reason: WaitReason, since: float) -> None:
    """Report that the turn has waited since then, by time.perf_counter()."""
    turn.waits.append((reason, (time.perf_counter() - since) * 1000))
    await report_waits(turn)


async def report_waits(turn: ActiveTurn) -> None:
    """Report what the turn has waited for so far."""
    waits, turn.waits = turn.waits, []
    for reason, elapsed_ms in waits if turn.parts.hooks.wants(WaitEnded) else ():
        if elapsed_ms >= 1:
            await turn.parts.hooks.tell(WaitEnded(info=turn.info, reason=reason, elapsed_ms=elapsed_ms))
