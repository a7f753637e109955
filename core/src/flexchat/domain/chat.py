"""One exchange with a model, and the response a user gets."""

# ruff: noqa: RUF009  (key is attrs.field with a description)
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal

import attrs

from .keys import key
from .messages import STORED, AssistantMessage, Message, ToolCall, ToolMessage
from .prices import Cost, Price, Usage, unknown_cost
from .tools import ToolCallRecord


@attrs.frozen(kw_only=True)
class ResponseFormat:
    """The form an answer must have; [responses.response_format] in a configuration.

    Attributes:
        name: 1 to 64 of A-Z a-z 0-9 _ -, for services that require one.
        schema: None for "json_object".
        strict: None: if the schema can be sent unchanged for that.
    """

    type: Literal["json_object", "json_schema"] = key("json_object: any JSON object.", default="json_schema")
    name: str = key("Name of the format, shown to the model.", default="response")
    schema: Mapping[str, Any] | None = key("JSON Schema of the answer; its root is an object.", default=None)
    strict: bool | None = key("Whether the service must enforce the schema.", default=None)


ToolChoice = Literal["auto", "none", "required"]
"""Whether the model may call a tool, must not, or must."""

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


@attrs.frozen(kw_only=True)
class Reasoning:
    """How much a model thinks before it answers; [responses.reasoning] in a configuration."""

    effort: Effort | None = key("In words; none switches it off. Models differ in the words they accept.", default=None)
    budget_tokens: int | None = key("In tokens, where the service counts them.", min=0, default=None)
    summary: bool | None = key("Whether the thoughts, or a summary of them, come with the answer.", default=None)


@attrs.frozen(kw_only=True)
class ChatOptions:
    """Parameters of a request. None means the provider's own default.

    A provider reports what it cannot honour in the result's warnings; it never drops anything silently.

    Attributes:
        max_tokens: Maximum length of the answer, in tokens.
        temperature: 0 is a value, not "unset".
        tools: In the provider's wire format, from ToolRegistry.to_provider_format. The same tuple is
            passed in every request of a turn, so a provider may encode it once and keep the result.
        tool_choice: "none" offers the tools but forbids calling them.
        allowed_tools: Names the choice is limited to, as written in tools; empty means all. "required" with one
            name forces that tool.
        parallel_tool_calls: Whether one answer may contain several calls.
        timeout_s: Seconds left for this exchange; None for no limit but the provider's own.
        extra: Merged into the request body last, unread.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: ToolChoice = "auto"
    allowed_tools: tuple[str, ...] = ()
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    reasoning: Reasoning | None = None
    timeout_s: float | None = None
    extra: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class ChatResult:
    """A model's answer to one request.

    Attributes:
        finish_reason: "stop", "end_turn", "tool_calls", "length", "content_filter", "refusal",
            "malformed_tool_call", "pause", "error", or another word. None if the provider gave none.
            It never decides whether tools run: the calls do.
        raw_finish: The provider's own word.
        model: The model that actually answered, as reported.
        warnings: What the provider package could not honour, one sentence each.
    """

    message: AssistantMessage = attrs.field(metadata={STORED: Message})
    finish_reason: str | None
    raw_finish: str | None = None
    usage: Usage | None = None
    model: str | None = None
    response_id: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def content(self) -> str | None:
        """The text of the answer; None if there is none."""
        return self.message.content

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the answer, in order."""
        return self.message.tool_calls

    @property
    def is_paused(self) -> bool:
        """Whether the model stopped in the middle, and continues with another request."""
        return self.finish_reason == "pause" and not self.tool_calls

    def warned(self, warnings: tuple[str, ...]) -> ChatResult:
        """Return the result with these warnings placed before its own."""
        return attrs.evolve(self, warnings=warnings + self.warnings) if warnings else self


@attrs.frozen(kw_only=True)
class ModelInfo:
    """A model a provider offers.

    Attributes:
        name: For people; None if the service gives only the id.
        capabilities: Any of "chat", "tools", "vision", "audio", "embedding", "reasoning"; empty if the service does
            not report them. A missing one means "no" only if there is any other.
        context_length: Tokens it can read; None if the service does not report it.
        digest: Digest of its weights, to notice a model replaced under the same name; None if the service does not
            report one.
    """

    id: str
    name: str | None = None
    capabilities: frozenset[str] = frozenset()
    context_length: int | None = None
    digest: str | None = None


@attrs.frozen(kw_only=True)
class Embeddings:
    """Texts as vectors.

    Attributes:
        vectors: One for each text, in order, all of the same length.
        model: The model that actually made them, as reported.
        usage: Tokens of all requests together.
        warnings: What the provider package could not honour, one sentence each.
    """

    vectors: tuple[Sequence[float], ...]
    model: str | None = None
    usage: Usage | None = None
    warnings: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Round:
    """One answer of the model within a turn: its model, its time and its cost.

    Attributes:
        llm: Name of the LLM in the config.
        elapsed_ms: Milliseconds from request to answer, without the tools it called.
        reasoning: The model's thinking, if the service shows it.
        usage: Tokens of this answer alone; None if the service did not count them.
        price: Of the model that answered, when it did; None if none was known.
        history: What its request left out of the conversation, as the plugin that chose records it; None for nothing.
    """

    llm: str
    model: str
    elapsed_ms: float
    finish_reason: str | None = None
    reasoning: str = ""
    usage: Usage | None = None
    price: Price | None = None
    history: Mapping[str, Any] | None = None

    @property
    def cost(self) -> Cost:
        """The service's own charge, if it reports one; otherwise computed from the price."""
        if self.usage is not None and self.usage.cost is not None:
            return Cost(amount=self.usage.cost)
        if self.price is None:
            return unknown_cost(f"no price is known for {self.model or 'the model'} of {self.llm}")
        amount = self.price.amount(self.usage)
        missing = () if amount is not None else (f"{self.llm} did not say how many tokens {self.model} read and wrote",)
        return Cost(amount=amount, unpriced=missing)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data."""
        data = {
            **attrs.asdict(self, recurse=False),
            "elapsed_ms": round(self.elapsed_ms, 3),
            "usage": self.usage.to_dict() if self.usage else None,
            "price": self.price.to_dict() if self.price else None,
            "cost": self.cost.to_dict(),
        }
        if self.history is None:
            del data["history"]
        return data


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Parsed = TypeVar("Parsed", default=Any)
else:
    from typing import TypeVar

    Parsed = TypeVar("Parsed")  # the standard library's has a default only from Python 3.13 on


@attrs.frozen(kw_only=True)
class ChatResponse(Generic[Parsed]):
    """The answer of a turn, for the user.

    Attributes:
        llm: Name of the LLM in the config ("chatgpt"), not of its provider type.
        tool_calls: Every call, oldest first; None if the rule does not use tools.
        max_iterations_reached: Whether a limit ended the tool loop, not the model.
        finish_reason: The finish reason of the last exchange.
        messages: Everything this turn adds to the history, from the user's message on. Pass it back as part of the
            next request's history.
        usage: Tokens of all exchanges of this turn together.
        rounds: The model's answers one by one, oldest first.
        warnings: What could not be honoured, what was repaired; one sentence each.
        parsed: If a response_format was requested, the content as JSON data or as an instance of the requested class.
        data: The same as JSON data.
    """

    content: str
    llm: str
    model: str
    tool_calls: tuple[ToolCallRecord, ...] | None = None
    max_iterations_reached: bool = False
    finish_reason: str | None = None
    messages: tuple[Message, ...] = ()
    usage: Usage | None = None
    rounds: tuple[Round, ...] = ()
    warnings: tuple[str, ...] = ()
    parsed: Parsed = None  # type: ignore[assignment]  # without a response_format
    data: Any = None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls of the caller's tools with which the turn ended; the next request brings their results."""
        last = next((each for each in reversed(self.messages) if isinstance(each, AssistantMessage)), None)
        answered = {each.tool_call_id for each in self.messages if isinstance(each, ToolMessage)}
        return () if last is None else tuple(call for call in last.tool_calls if call.id not in answered)

    def to_dict(self) -> dict[str, Any]:
        """Return the specified answer: content, service, model, tool_calls, max_iterations_reached."""
        body: dict[str, Any] = {"content": self.content, "service": self.llm, "model": self.model}
        if self.tool_calls is not None:
            body["tool_calls"] = [record.to_dict() for record in self.tool_calls]
        if self.max_iterations_reached:
            body["max_iterations_reached"] = True
        return body
