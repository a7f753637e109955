"""A turn while it runs."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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
    Turn,
    TurnInfo,
    Usage,
)
from ..errors import NestedTurnError
from ..events.sink import Sink
from ..plugin.call import Origin
from ..plugin.current import Cited, current_turn
from ..schema.answer_format import AnswerFormat
from .clock import Clock
from .phase_log import PhaseLog

if TYPE_CHECKING:
    from .engine import TurnEngine
    from .rounds import CallRound

DEEPEST = 5
"""Turns inside each other, each begun by a tool of the one around it."""


@attrs.define(kw_only=True)
class Candidates:
    """Who answers: the model that is asked, and those that may take over.

    Attributes:
        model: None for the usual one of the llm.
        fallback: Entries of llms that may take over, in order.
    """

    llm: str
    model: str | None = None
    fallback: list[str] = attrs.field(factory=list)


@attrs.define(kw_only=True, eq=False)
class ActiveTurn:
    """One turn while it runs: made once for each message, and handed to all phases. Nothing else holds state of it.

    Attributes:
        outer: The turn whose tool has begun this one; None for one that somebody has asked for.
        origin: Who asks for its tool calls.
        rule: The chosen one, with its index; None before.
        rag: What phase 2 has found.
        found: What tools have told with ToolContext.cite.
        who: Who is asked for the answer; None before a rule is chosen.
        messages: What the model is sent; the first ``kept`` were there before this turn.
        aside: Said to the model behind the messages, and no part of the turn.
        form: What the answer must be; None for any text.
        asked_for_form: Whether the last request asked for that form.
        paused: What the model said before it paused and went on: the beginning of its answer.
        result: Of the last request for the answer.
        said: The message of that result, as long as it is not among the messages.
        pieces: Of an answer that is being written.
        calling: The calls of ``said`` that are being run; None while none are.
        wrote: Whether a tool has run that must not run twice.
        records: None while no tools are offered.
        done: The turn as it is handed out; None before it has ended.
        is_over: Whether all is told of it, so that no turn can run inside it any more.
    """

    info: TurnInfo
    engine: TurnEngine
    request: ChatRequest
    clock: Clock
    sink: Sink
    outer: ActiveTurn | None = None
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
    aside: tuple[Message, ...] = ()
    asked_for_form: bool = False
    paused: str = ""
    result: ChatResult | None = None
    said: AssistantMessage | None = None
    pieces: list[ChatEvent] = attrs.field(factory=list)
    calling: CallRound | None = None
    wrote: bool = False
    records: list[ToolCallRecord] | None = None
    rounds: list[Round] = attrs.field(factory=list)
    usage: Usage | None = None
    warnings: list[str] = attrs.field(factory=list)
    done: Turn | None = None
    is_over: bool = False

    @property
    def answer(self) -> str:
        """The text of the last answer, with that before its pauses."""
        assert self.result is not None
        return self.paused + (self.result.content or self.result.message.refusal or "")

    def add_answer(self, answers: Sequence[Message] = ()) -> None:
        """Put the last answer among the messages, and behind it those to its calls."""
        assert self.said is not None
        self.messages, self.said = (*self.messages, self.said, *answers), None

    def take(self, result: ChatResult, elapsed_ms: float) -> None:
        """Take what a request for the answer came to."""
        assert self.who is not None
        self.result, self.said = result, result.message
        self.pieces.clear()
        self.warnings.extend(w for w in result.warnings if w not in self.warnings)
        if result.usage is not None:
            self.usage = result.usage if self.usage is None else self.usage + result.usage
        thought = [part.text for part in result.message.parts if type(part) is ReasoningPart]
        self.rounds.append(
            Round(
                llm=self.who.llm,
                model=self.who.model or "",
                elapsed_ms=elapsed_ms,
                finish_reason=result.finish_reason,
                reasoning="".join(thought),
                usage=result.usage,
            )
        )

    def ended(self, response: ChatResponse, **rest: Any) -> Turn:
        """Return the turn as it is handed out."""
        index, rule = self.rule or (None, None)
        return Turn(
            id=self.info.id,
            profile=self.profile,
            rule=index,
            rule_name=rule.name if rule is not None else None,
            response=response,
            phases=tuple(self.log.records),
            elapsed_ms=self.clock.elapsed_ms(),
            **rest,
        )


def outer_turn() -> ActiveTurn | None:
    """Return the turn whose tool is running this code; None outside of turns.

    Raises:
        NestedTurnError: There are too many around this one already.
    """
    outer = current_turn.get()
    if not isinstance(outer, ActiveTurn) or outer.is_over:
        return None
    depth, around = 1, outer.outer
    while around is not None:
        depth, around = depth + 1, around.outer
    if depth >= DEEPEST:
        raise NestedTurnError(f"a tool began a turn inside {depth} others; at most {DEEPEST} may run inside each other")
    return outer


def new_turn_id() -> str:
    """Return 32 hexadecimal digits."""
    return secrets.token_hex(16)
