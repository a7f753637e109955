"""A request, questions of tools to the person behind it, and the turn that answers it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, Literal

import attrs

from ..errors import TurnDataError
from .chat import ChatResponse, Effort, Parsed, Reasoning, ResponseFormat, Round
from .codec import message_to_dict, restore_media, value_from_dict, value_to_dict
from .messages import STORED, MediaPart, Message
from .prices import Cost, Usage
from .questions import OnQuestion, PendingQuestion
from .retrieval import Citation, Profile
from .tools import ToolCallRecord, ToolDefinition

DEFAULT_TENANT = "default"
"""The default tenant."""

TurnStatus = Literal["done", "cancelled", "failed", "suspended", "accepted"]
"""How a turn ended: with its answer, because it was stopped, or with an error. "suspended": it has not ended, and goes
on once one of its questions has a reply. "accepted": it has not begun."""


def _role_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names as a tuple, so that a list can be passed; a text is one name, not its letters."""
    roles = (names,) if isinstance(names, str) else tuple(names)
    if not all(isinstance(name, str) and name for name in roles):
        raise TypeError(f"roles are names, got {roles!r:.80}")
    return roles


@attrs.frozen
class Principal:
    """The identity behind a turn, as an entrance of the operator's has established it.

    Attributes:
        name: Of the user or program, unique within its tenant: "ann", "deploy-bot".
        roles: Names of tables in the config's ``roles``.
    """

    name: str = attrs.field(
        validator=attrs.validators.and_(attrs.validators.instance_of(str), attrs.validators.min_len(1))
    )
    roles: tuple[str, ...] = attrs.field(default=(), converter=_role_names)


@attrs.frozen(kw_only=True)
class TurnInfo:
    """The identity of a turn.

    Attributes:
        id: 32 hexadecimal digits, the same in everything reported about the turn; empty outside turns.
        conversation: The kept conversation it belongs to; None if it is not kept.
        tenant: Whose conversation it is.
        parent: For a turn started by a tool, the id of the turn that called the tool.
        traceparent: The W3C trace context in which it runs, or first ran; empty outside turns.
        tracestate: What its caller's tracing systems add to that context; empty for nothing.
        principal: On whose behalf it runs; None if its caller named none.
    """

    id: str = ""
    conversation: str | None = None
    tenant: str = DEFAULT_TENANT
    parent: str | None = None
    traceparent: str = attrs.field(default="", eq=False)
    tracestate: str = attrs.field(default="", eq=False)
    principal: Principal | None = None


@attrs.frozen(kw_only=True)
class CollectionChoice:
    """A collection of a document store in the config; all of its collections if none is named."""

    store: str
    collection: str | None = None


@attrs.frozen(kw_only=True)
class RequestedCall:
    """A call of a tool that a turn makes in place of asking a model.

    Attributes:
        origin: Who requests it, for gates and records: an Origin of flexchat.plugin.
    """

    name: str
    arguments: Mapping[str, Any]
    origin: str = "program"


@attrs.frozen
class ChatRequest:
    """A user's message and its context.

    Attributes:
        user_message: At most limits.message_chars characters; empty only if there are attachments.
        attachments: Media of the message, with their data; a caller may pass paths and the like, as to respond.
        history: Earlier messages, oldest first; ``ChatResponse.messages`` of earlier turns, chained.
        topic: The topic of the conversation so far; None at its start.
        collections: Where phase 2 searches; None for all stores of the config, an empty tuple for none.
        continuation: What already followed the user's message: calls whose tools the caller has run, and their
            results. The model continues from there. In a kept conversation, it may begin with the results of the calls
            with which the last turn ended; then the message is that turn's, and is not added again.
        caller_tools: Tools that the caller runs, offered beside the rule's. A turn whose model calls one ends with the
            calls, ``response.calls``.
        variables: Values for prompts in addition to the profile's fields, by name: {{name}}. Overrides the config's.
        conversation: Id of the kept conversation it belongs to; None for none.
        tenant: Whose conversation it is.
        principal: On whose behalf the turn runs, which decides about rules and tools if the config has ``roles``. None
            for no identity: then ``roles`` permit nothing.
        context: Any value of the caller's for tools and policies, as ``context.context``. It is never shown to a
            model and never kept.
        on_question: Passes a tool's question to the person behind the turn, if any; see ToolContext.ask. It
            is never kept.
        idempotency_key: The caller's own, 1 to 255 printable characters: the same key and the same request are the same
            turn. None for a new turn.
        traceparent: The W3C trace context it belongs to; empty for that of the code that asks, or a new one.
        tracestate: What tracing systems add to that traceparent; passed on with it.
        max_tokens, temperature, top_p, stop, seed, reasoning, extra_body: As in a rule, in place of the values of the
            rule that answers; None leaves them.
        tool_choice, parallel_tool_calls, max_iterations: The same, for the rule's tools. tool_choice may also name one
            of the caller's tools, which the model must call.
        approve: Whether a person must approve each call of every tool.
        pin: Whether the message is sent with each later request of its conversation; see UserMessage.
        response_format: The form the answer must have; see FlexChat.respond.
        call: The turn runs this call and asks no model: a call that is kept, waits for replies to its questions, and is
            resumed like any turn. Its message only describes it.
    """

    user_message: str
    attachments: tuple[MediaPart, ...] = attrs.field(default=(), kw_only=True)
    history: tuple[Message, ...] = attrs.field(default=(), kw_only=True)
    topic: str | None = attrs.field(default=None, kw_only=True)
    collections: tuple[CollectionChoice, ...] | None = attrs.field(default=None, kw_only=True)
    continuation: tuple[Message, ...] = attrs.field(default=(), kw_only=True)
    caller_tools: tuple[ToolDefinition, ...] = attrs.field(default=(), kw_only=True)
    variables: Mapping[str, Any] = attrs.field(kw_only=True, factory=dict)
    conversation: str | None = attrs.field(default=None, kw_only=True)
    tenant: str = attrs.field(default=DEFAULT_TENANT, kw_only=True)
    principal: Principal | None = attrs.field(default=None, kw_only=True)
    context: Any = attrs.field(default=None, kw_only=True, metadata={STORED: None})
    on_question: OnQuestion | None = attrs.field(default=None, kw_only=True, metadata={STORED: None})
    idempotency_key: str | None = attrs.field(default=None, kw_only=True)
    traceparent: str = attrs.field(default="", kw_only=True)
    tracestate: str = attrs.field(default="", kw_only=True)
    max_tokens: int | None = attrs.field(default=None, kw_only=True)
    temperature: float | None = attrs.field(default=None, kw_only=True)
    top_p: float | None = attrs.field(default=None, kw_only=True)
    stop: str | Sequence[str] | None = attrs.field(
        default=None, kw_only=True, metadata={STORED: tuple[str, ...] | None}
    )
    seed: int | None = attrs.field(default=None, kw_only=True)
    reasoning: Effort | Reasoning | None = attrs.field(default=None, kw_only=True, metadata={STORED: Reasoning | None})
    extra_body: Mapping[str, Any] | None = attrs.field(default=None, kw_only=True)
    tool_choice: str | None = attrs.field(default=None, kw_only=True)
    parallel_tool_calls: bool | None = attrs.field(default=None, kw_only=True)
    max_iterations: int | None = attrs.field(default=None, kw_only=True)
    approve: bool = attrs.field(default=False, kw_only=True)
    pin: bool = attrs.field(default=False, kw_only=True)
    response_format: Any = attrs.field(default=None, kw_only=True, metadata={STORED: ResponseFormat | None})
    call: RequestedCall | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(kw_only=True)
class PhaseRecord:
    """The record of one of the six phases.

    Attributes:
        phase: "topic detection", "rag collection", "intent detection", "profile building",
            "response matching" or "response generation".
        input: Its input, in printable form.
        outcome: Its result, in printable form.
        elapsed_ms: Milliseconds it took.
        skipped: Why there was nothing to do; empty if it ran.
        warnings: Faults in it, and the measures taken.
        usage: Tokens of the model it called; None if it called none.
        rounds: The answers of the models it called, oldest first; those of phase 6 are ChatResponse.rounds.
    """

    phase: str
    outcome: Any
    elapsed_ms: float
    input: Any = None
    skipped: str = ""
    warnings: tuple[str, ...] = ()
    usage: Usage | None = None
    rounds: tuple[Round, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data, without empty values."""
        details = {
            "input": self.input,
            "outcome": self.outcome,
            "skipped": self.skipped,
            "warnings": list(self.warnings),
            "usage": self.usage.to_dict() if self.usage else None,
            "rounds": [one.to_dict() for one in self.rounds],
        }
        filled = {key: value for key, value in details.items() if value or key == "outcome"}
        return {"phase": self.phase, **filled, "elapsed_ms": round(self.elapsed_ms, 3)}


@attrs.frozen(kw_only=True, repr=False)
class Turn(Generic[Parsed]):
    """A turn that has ended: with its answer or, as an error's ``turn``, before it.

    Attributes:
        id: 32 hexadecimal digits; the same in every plugin event of the turn.
        rule: Index of the response rule that answered, from 0; None if the turn ended before one was chosen.
        response: For a turn that is not done, its parts until then: the text so far, and the calls that ran.
        elapsed_ms: Milliseconds from request to response.
        citations: The passages the model was shown, those in the prompt first.
        conversation: Id of the conversation it was added to; None if it is not kept.
        error: Why it failed; empty if it did not.
        replay: Whether its messages go into the next turn's history. Not if the service refused them (too long,
            filtered): it would refuse them again.
        rule_name: The rule's name in the config; None if it has none.
        is_repeat: Whether it was started by an earlier request with the same key: this one started nothing.
        pending: The open questions of a suspended turn.
        traceparent: The W3C trace context in which it ran, its second field the trace's id.
        principal: On whose behalf it ran; None if its caller named none.
    """

    id: str
    profile: Profile
    rule: int | None
    response: ChatResponse[Parsed]
    phases: tuple[PhaseRecord, ...]
    elapsed_ms: float
    citations: tuple[Citation, ...] = ()
    conversation: str | None = None
    status: TurnStatus = "done"
    error: str = ""
    replay: bool = True
    rule_name: str | None = None
    is_repeat: bool = False
    pending: tuple[PendingQuestion, ...] = ()
    traceparent: str = ""
    principal: Principal | None = None

    @property
    def content(self) -> str:
        """The text for the user."""
        return self.response.content

    @property
    def tool_calls(self) -> tuple[ToolCallRecord, ...]:
        """Every tool call, oldest first; empty if there was none, or the rule has no tools."""
        return self.response.tool_calls or ()

    @property
    def cost(self) -> Cost:
        """Cost of the models it called, in all its phases; tools, and turns that tools started, are not included."""
        return cost_of(self.response.rounds, self.phases, self.status, self.rule)

    @property
    def failed_calls(self) -> tuple[ToolCallRecord, ...]:
        """The tool calls that failed, oldest first: refused, wrong arguments, or an error in the tool."""
        return tuple(record for record in self.tool_calls if not record.result.success)

    @property
    def succeeded(self) -> bool:
        """Whether it has its answer and every tool call succeeded.

        A model may recover from a failed call: then this is False, and yet the answer may be good.
        """
        return self.status == "done" and not self.failed_calls

    def __repr__(self) -> str:
        error = f", error={self.error!r:.80}" if self.error else ""
        calls = f", tool_calls={len(self.tool_calls)}" if self.tool_calls else ""
        beginning = f"{self.content[:60]}…" if len(self.content) > 60 else self.content
        return (
            f"Turn(id={self.id!r}, status={self.status!r}{error}, content={beginning!r}, model={self.response.model!r}"
            f"{calls}, elapsed_ms={self.elapsed_ms:.0f})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the whole turn as JSON data: the answer, how it was reached, and its messages with nothing lost.

        ``parsed`` is the answer as JSON data. Only the services' own usage tables (``raw``) are left out;
        times are in whole microseconds.
        """
        response = self.response
        answer = response.to_dict()
        for entry, record in zip(answer.get("tool_calls", ()), response.tool_calls or (), strict=True):
            entry["call_id"] = record.call_id
        return {
            **answer,
            "id": self.id,
            "status": self.status,
            **({"error": self.error} if self.error else {}),
            "topic": self.profile.topic,
            "intent": self.profile.intent,
            "rule": self.rule,
            "rule_name": self.rule_name,
            "finish_reason": response.finish_reason,
            "usage": response.usage.to_dict() if response.usage else None,
            "cost": self.cost.to_dict(),
            "rounds": [one.to_dict() for one in response.rounds],
            "warnings": list(response.warnings),
            "citations": [citation.to_dict() for citation in self.citations],
            "phases": [record.to_dict() for record in self.phases],
            "elapsed_ms": round(self.elapsed_ms, 3),
            **({"parsed": response.data} if response.parsed is not None or response.data is not None else {}),
            **({"conversation": self.conversation} if self.conversation else {}),
            **({"pending": [each.to_dict() for each in self.pending]} if self.pending else {}),
            **({"principal": value_to_dict(self.principal)} if self.principal is not None else {}),
            "replay": self.replay,
            "is_repeat": self.is_repeat,
            **({"traceparent": self.traceparent} if self.traceparent else {}),
            "profile": value_to_dict(self.profile),
            "messages": [message_to_dict(message) for message in response.messages],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Turn[Any]:
        """Return the turn in data of ``to_dict``; ``response.parsed`` is that of the data.

        Raises:
            TurnDataError: It is not a turn's; the text names the place. Unknown keys are ignored.
        """
        try:
            return _turn_from_dict(restore_media(data))
        except ValueError as error:
            raise TurnDataError(f"this is no turn: {error}") from None


def _turn_from_dict(data: Any) -> Turn[Any]:
    if not isinstance(data, Mapping):
        raise ValueError(f"a JSON object was expected, got {type(data).__name__}")
    profile = data.get("profile", {})
    if isinstance(profile, Mapping):
        profile = {"topic": data.get("topic") or "", "intent": data.get("intent"), **profile}
    calls = data.get("tool_calls")
    response = {
        **data,
        "llm": data.get("service"),
        "data": data.get("parsed"),
        "tool_calls": [*map(_result_with_notes, calls)] if isinstance(calls, list) else calls,
    }
    no_response: Mapping[str, Any] = {"content": "", "llm": "", "model": ""}
    turn: Turn[Any] = value_from_dict(Turn[Any], {**data, "profile": profile, "response": no_response})
    return attrs.evolve(turn, response=value_from_dict(ChatResponse[Any], response))


def _result_with_notes(entry: Any) -> Any:
    """Move a result's notes back into it: ToolCallRecord.to_dict writes them beside it."""
    if isinstance(entry, Mapping) and isinstance(entry.get("result"), Mapping) and "notes" in entry:
        return {**entry, "result": {**entry["result"], "notes": entry["notes"]}}
    return entry


def cost_of(rounds: Sequence[Round], phases: Sequence[PhaseRecord], status: TurnStatus, rule: int | None) -> Cost:
    """Add up the cost of a turn's answers and phases; rule is None if it ended before one was chosen."""
    parts = [one.cost for phase in phases for one in phase.rounds] + [one.cost for one in rounds]
    if status != "done" and rule is not None:
        parts.append(Cost(unpriced=("the turn did not end, and what was under way may have cost something",)))
    return Cost.total(parts)
