"""A turn while it runs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any

import attrs

from ..config.model import ResponseRule
from ..domain import (
    AssistantMessage,
    ChatEvent,
    ChatRequest,
    ChatResponse,
    ChatResult,
    Message,
    Profile,
    RagResults,
    ReasoningPart,
    Round,
    ToolCallRecord,
    ToolMessage,
    Turn,
    TurnInfo,
    TurnResumed,
    Usage,
)
from ..domain.prices import Price
from ..errors import InterruptedTurnError, NestedTurnError
from ..events.sink import Sink
from ..plugin.call import Origin
from ..plugin.current import Cited, EarlierResult, RunningCall, current_turn
from ..schema.answer_format import AnswerFormat
from ..tools.registry import ToolRegistry
from ..tools.results import whole_text
from .call_round import CallRound
from .clock import Clock
from .journal import Journal
from .parts import TurnParts
from .phase_log import PhaseLog

DEEPEST = 5
"""How deep turns may nest; each inner one is started by a tool of the turn around it."""


@attrs.define(kw_only=True)
class Candidates:
    """Who answers: the model asked, and those that may take over.

    Attributes:
        model: None for the llm's default model.
        fallback: Entries of llms that may take over, in order.
    """

    llm: str
    model: str | None = None
    fallback: list[str] = attrs.field(factory=list)

    def round(self, result: ChatResult, elapsed_ms: float, price: Price | None, reasoning: str = "") -> Round:
        """Return the record of an answer of the model that is asked."""
        return Round(
            llm=self.llm,
            model=self.model or "",
            elapsed_ms=elapsed_ms,
            finish_reason=result.finish_reason,
            reasoning=reasoning,
            usage=result.usage,
            price=price,
        )


@attrs.define(kw_only=True, eq=False)
class ActiveTurn:
    """One turn while it runs: made once per message and passed to all phases. Nothing else holds its state.

    Attributes:
        tools: The tools that its calls are looked up in: those offered to its model, fixed when the rule is chosen.
            Before that, and for a turn that is only closed, all of the chat.
        outer: The turn whose tool started this one; None for a turn started from outside.
        parts: What it uses of its chat.
        within: The call of that tool.
        origin: Who requests its tool calls.
        rule: The chosen rule, with its index; None until one is chosen.
        rag: What phase 2 found.
        found: What tools cited with ToolContext.cite.
        who: Who is asked for the answer; None until a rule is chosen.
        messages: What is sent to the model; the first ``kept`` were there before this turn.
        has_media: Whether a result among the messages has media.
        aside: Sent to the model after the messages, but not part of the turn.
        form: What the answer must be; None for any text.
        asked_for_form: Whether the last request asked for that form.
        paused: The text before the model paused and continued: the beginning of its answer.
        result: The result of the last request for the answer.
        said: The message of that result, until ``add_answer`` moves it to the messages.
        pieces: The pieces of an answer still being written.
        calling: The calls of the last answer now running; None if there are none.
        wrote: Whether a tool that must not run twice has run.
        records: None while no tools are offered.
        reads_on: Whether the model can read on in a result that is too long to be shown whole.
        done: The turn in its final form; None until it has ended.
        is_over: Whether all its events have been sent, so that no turn can run inside it any more.
        journal: Where its steps are written; None where conversations are not kept.
        is_interrupted: Whether it was stopped in order to be resumed, here or by another process.
    """

    info: TurnInfo
    parts: TurnParts
    request: ChatRequest
    clock: Clock
    sink: Sink
    tools: ToolRegistry
    outer: ActiveTurn | None = None
    within: RunningCall | None = None
    origin: Origin = "model"
    form: AnswerFormat | None = None
    log: PhaseLog = attrs.field(factory=PhaseLog)
    profile: Profile
    rag: RagResults = attrs.field(factory=RagResults)
    rule: tuple[int, ResponseRule] | None = None
    found: list[Cited] = attrs.field(factory=list)
    who: Candidates | None = None
    messages: tuple[Message, ...] = ()
    kept: int = 0
    has_media: bool = False
    aside: tuple[Message, ...] = ()
    asked_for_form: bool = False
    paused: str = ""
    result: ChatResult | None = None
    said: AssistantMessage | None = None
    pieces: list[ChatEvent] = attrs.field(factory=list)
    calling: CallRound | None = None
    wrote: bool = False
    records: list[ToolCallRecord] | None = None
    reads_on: bool = False
    rounds: list[Round] = attrs.field(factory=list)
    usage: Usage | None = None
    warnings: list[str] = attrs.field(factory=list)
    done: Turn | None = None
    is_over: bool = False
    journal: Journal | None = None
    is_interrupted: bool = False

    @property
    def needs_approval(self) -> bool:
        """Whether a person must approve each call, even of tools that do not require it."""
        rule = self.rule[1].tools if self.rule is not None else None
        return self.request.approve or (rule is not None and rule.approve)

    @property
    def answer(self) -> str:
        """The text of the last answer, including the text before its pauses."""
        assert self.result is not None
        return self.paused + (self.result.content or self.result.message.refusal or "")

    def add_answer(self, answers: Sequence[ToolMessage] = ()) -> None:
        """Add the last answer to the messages, followed by the results of its calls."""
        assert self.said is not None
        self.messages, self.said = (*self.messages, self.said, *answers), None
        for answer in answers:
            self.has_media = self.has_media or bool(answer.media)

    def take(self, result: ChatResult, elapsed_ms: float, price: Price | None) -> None:
        """Take the result of a request for the answer."""
        assert self.who is not None
        self.result, self.said = result, result.message
        # The whole answer replaces its pieces: a turn that ends now must not have the text twice.
        self.pieces.clear()
        for warning in result.warnings:
            if warning not in self.warnings:
                self.warnings.append(warning)
        if result.usage is not None:
            self.usage = result.usage if self.usage is None else self.usage + result.usage
        thought = ""
        for part in result.message.parts:
            if type(part) is ReasoningPart:
                thought += part.text
        self.rounds.append(self.who.round(result, elapsed_ms, price, thought))

    async def earlier_result(self, call_id: str) -> EarlierResult | None:
        """Return the result of a call that the model was shown: of this turn, or of one in the kept history.

        Raises:
            StorageError: The conversation cannot be read.
        """
        found = next((record for record in self.records or () if record.call_id == call_id), None)
        conversation, stored = self.info.conversation, self.parts.stored
        if found is None and conversation is not None and stored is not None and self._was_shown(call_id):
            found = await stored.record(conversation, call_id, tenant=self.info.tenant)
        if found is None:
            return None
        max_chars = self.parts.tools.table.max_result_chars
        return EarlierResult(tool=found.tool, text=whole_text(found.result), max_chars=max_chars)

    def _was_shown(self, call_id: str) -> bool:
        earlier = self.messages[: self.kept]
        return any(isinstance(message, ToolMessage) and message.tool_call_id == call_id for message in earlier)

    def ended(self, response: ChatResponse, **rest: Any) -> Turn:
        """Return the turn in its final form."""
        index, rule = self.rule or (None, None)
        turn = Turn(
            id=self.info.id,
            profile=self.profile,
            rule=index,
            rule_name=rule.name if rule is not None else None,
            response=response,
            phases=tuple(self.log.records),
            elapsed_ms=self.clock.elapsed_ms(),
            **rest,
        )
        # Counted when a turn ends, however it ends: a failed one has cost money as well.
        spent, tenant = self.parts.spent, self.info.tenant
        spent[tenant] = turn.cost if tenant not in spent else spent[tenant] + turn.cost
        return turn


def outer_turn() -> ActiveTurn | None:
    """Return the turn whose tool is running this code; None outside turns.

    Raises:
        NestedTurnError: Too many turns are nested already.
    """
    outer = current_turn.get()
    if not isinstance(outer, ActiveTurn) or outer.is_over:
        return None
    depth, around = 1, outer.outer
    while around is not None:
        depth, around = depth + 1, around.outer
    if depth >= DEEPEST:
        raise NestedTurnError(f"a tool started a turn inside {depth} others; at most {DEEPEST} may be nested")
    return outer


def new_turn_id(outer: ActiveTurn | None = None, place: str = "") -> str:
    """Return 32 hexadecimal digits: random, or, for a turn that a tool starts, the same when the tool runs again.

    With the same id, the effects of such a turn have the same keys, and happen once.

    Args:
        outer: The turn around it.
        place: Of the new turn in that one; empty if it is not known.
    """
    if outer is None or not place:
        return os.urandom(16).hex()
    return hashlib.sha256(f"{outer.info.id} {place}".encode()).hexdigest()[:32]


async def go_on(turn: ActiveTurn) -> None:
    """Start reporting events again: a resumed turn is silent while it replays what its journal has.

    Raises:
        InterruptedTurnError: Nothing new may happen.
    """
    journal = turn.journal
    if journal is None or journal.loud is None:
        return
    # Before the check: the end of a closed turn is reported to the real listeners as well.
    turn.sink, journal.loud = journal.loud, None
    if journal.is_closed:
        raise InterruptedTurnError(turn.info.id)
    # Noted at the first new step, not when the turn is taken: replaying writes nothing.
    journal.resume()
    if turn.sink.wants(TurnResumed):
        standing = journal.standing(turn.info, has_format=turn.form is not None) if turn.sink.is_read else ()
        await turn.sink.begin(TurnResumed(info=turn.info, user_message=turn.request.user_message), standing)
