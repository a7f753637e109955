"""The scripted model: it returns a test's answers and records its requests. Needs neither pytest nor a network."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import attrs
from flexchat.host import new_call_id
from flexchat.plugin import ChatResult, ToolCall, ToolDefinition
from flexchat_sdk import (
    AssistantMessage,
    ChatEvent,
    ChatOptions,
    ChatProvider,
    ContentFilterError,
    ContextLengthError,
    Message,
    ModelInfo,
    ModelNotFoundError,
    ProviderAuthError,
    ProviderConnectionError,
    ProviderError,
    ProviderOverloadedError,
    ProviderProtocolError,
    ProviderRateLimitError,
    ProviderRequestError,
    ProviderTimeoutError,
    TextPart,
    Usage,
    events_of,
)

Arguments: TypeAlias = Mapping[str, Any] | str | None
"""A call's arguments: an object, or the raw text a model would write (which may be broken)."""

Reply: TypeAlias = "str | ChatResult | BaseException | Callable[[Sequence[Message], ChatOptions], Any]"
"""What answers one request: a text, a result, something to raise, or a function that returns one of these."""


def says(text: str, *, finish_reason: str | None = "stop", **rest: Any) -> ChatResult:
    """Return an answer of text alone. rest goes to ChatResult: usage, model, warnings …"""
    return ChatResult(message=AssistantMessage(parts=(TextPart(text=text),)), finish_reason=finish_reason, **rest)


def calls(
    *pairs: tuple[str, Arguments], text: str | None = None, finish_reason: str | None = "tool_calls", **rest: Any
) -> ChatResult:
    """Return an answer that asks for tools: ``calls(("get_weather", {"city": "Rome"}), ("echo", "{broken"))``.

    Args:
        text: The model's text beside the calls.
    """
    parts = [TextPart(text=text)] if text else []
    tool_calls = [
        ToolCall.from_text(name, arguments) if isinstance(arguments, str) else ToolCall.from_object(name, arguments)
        for name, arguments in pairs
    ]
    return ChatResult(message=AssistantMessage(parts=(*parts, *tool_calls)), finish_reason=finish_reason, **rest)


@attrs.frozen(kw_only=True)
class Request:
    """One request as the scripted model received it."""

    messages: tuple[Message, ...]
    model: str
    options: ChatOptions


class ScriptedProvider:
    """A model that returns given answers in order.

    Attributes:
        requests: The requests it has received, oldest first.
    """

    def __init__(self, replies: Iterable[Reply] = (), *, name: str = "scripted", repeat: bool = False) -> None:
        self._replies = tuple(replies)
        self._name = name
        self._repeat = repeat
        self.requests: list[Request] = []

    @property
    def name(self) -> str:
        """The name it was given."""
        return self._name

    def tool_format(self, model: str) -> str:
        """Return "scripted", whatever its name."""
        return "scripted"

    async def generate_chat(self, messages: Sequence[Message], model: str, options: ChatOptions) -> ChatResult:
        """Return the next reply, or raise it.

        Raises:
            ProviderRequestError: There is no reply left.
        """
        self.requests.append(Request(messages=tuple(messages), model=model, options=options))
        turn = len(self.requests) - 1
        if turn >= len(self._replies) and not (self._repeat and self._replies):
            raise ProviderRequestError(self._exhausted(messages), provider=self._name, model=model)
        reply: Any = self._replies[turn % len(self._replies)]
        while not isinstance(reply, str | ChatResult | BaseException):
            reply = reply(messages, options)
            reply = await reply if inspect.isawaitable(reply) else reply
        if isinstance(reply, BaseException):
            raise reply
        result = says(reply) if isinstance(reply, str) else reply
        return _with_new_ids(result) if turn >= len(self._replies) else result

    async def stream_chat(
        self, messages: Sequence[Message], model: str, options: ChatOptions
    ) -> AsyncGenerator[ChatEvent, None]:
        """Yield the next reply word by word."""
        for event in events_of(await self.generate_chat(messages, model, options)):
            yield event

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the one model there is."""
        return (ModelInfo(id="scripted", capabilities=frozenset({"tools"})),)

    async def aclose(self) -> None:
        """Do nothing: the model holds no resources."""

    def assert_complete(self) -> None:
        """Check that every reply was asked for.

        Raises:
            AssertionError: Some were not.
        """
        remaining = len(self._replies) - len(self.requests)
        if remaining > 0:
            raise AssertionError(f"{remaining} of {len(self._replies)} scripted replies were not asked for")

    def _exhausted(self, messages: Sequence[Message]) -> str:
        last = messages[-1] if messages else None
        message = f"{last.role}: {(last.content or '')[:200]!r}" if last is not None else "nothing"
        return (
            f"the script has no reply to request {len(self.requests)}: it has {len(self._replies)}. "
            f"The last message was {message}. Add a reply, or set repeat"
        )


def _with_new_ids(result: ChatResult) -> ChatResult:
    """Copy an answer for a later round: call ids are never used again."""
    parts = [
        attrs.evolve(part, id=new_call_id()) if isinstance(part, ToolCall) else part for part in result.message.parts
    ]
    return attrs.evolve(result, message=attrs.evolve(result.message, parts=tuple(parts)))


@attrs.frozen(kw_only=True)
class ScriptedCall:
    """One entry of a reply's tool_calls. arguments: a table, or the raw text a model would write."""

    name: str
    arguments: Any = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class ScriptedUsage:
    """The usage that a reply reports; see flexchat.Usage."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None


@attrs.frozen(kw_only=True)
class ScriptedReply:
    """One entry of replies: text, tool_calls or both; or an error.

    Attributes:
        finish_reason: None for "tool_calls" where there are calls, else "stop".
        usage: None for a service that does not count.
    """

    text: str | None = None
    tool_calls: tuple[ScriptedCall, ...] = ()
    finish_reason: str | None = None
    usage: ScriptedUsage | None = None
    error: (
        Literal[
            "auth",
            "connection",
            "content_filter",
            "context_length",
            "model_not_found",
            "overloaded",
            "protocol",
            "quota",
            "rate",
            "request",
            "timeout",
        ]
        | None
    ) = None

    def __call__(self, messages: Sequence[Message], options: ChatOptions) -> ChatResult:
        """Return the reply, with call ids of its own.

        Raises:
            ProviderError: The reply is an error.
        """
        if self.error is not None:
            raise _ERRORS[self.error](f"the script says: {self.error} error")
        usage = None if self.usage is None else Usage(**attrs.asdict(self.usage))
        if not self.tool_calls:
            return says(self.text or "", finish_reason=self.finish_reason or "stop", usage=usage)
        pairs = [(call.name, call.arguments) for call in self.tool_calls]
        return calls(*pairs, text=self.text, finish_reason=self.finish_reason or "tool_calls", usage=usage)


_ERRORS: dict[str, Callable[[str], ProviderError]] = {
    "auth": lambda text: ProviderAuthError(text, provider="scripted", status=401),
    "connection": lambda text: ProviderConnectionError(text, provider="scripted", retryable=True),
    "content_filter": lambda text: ContentFilterError(text, provider="scripted", status=400),
    "context_length": lambda text: ContextLengthError(text, provider="scripted", status=400),
    "model_not_found": lambda text: ModelNotFoundError(text, provider="scripted", status=404),
    "overloaded": lambda text: ProviderOverloadedError(text, provider="scripted", status=503),
    "protocol": lambda text: ProviderProtocolError(text, provider="scripted"),
    "quota": lambda text: ProviderRateLimitError(text, kind="quota", provider="scripted", status=429),
    "rate": lambda text: ProviderRateLimitError(text, provider="scripted", status=429),
    "request": lambda text: ProviderRequestError(text, provider="scripted", status=400),
    "timeout": lambda text: ProviderTimeoutError(text, provider="scripted", retryable=True),
}


@attrs.frozen(kw_only=True)
class ScriptedConfig:
    """An llms entry with provider = "scripted".

    Attributes:
        replies: What the model answers, one reply a request.
        repeat: Begin again after the last reply, instead of failing.
    """

    replies: tuple[ScriptedReply, ...] = ()
    repeat: bool = False


def create(config: ScriptedConfig) -> ChatProvider:
    """Return the model an llms entry describes."""
    return ScriptedProvider(config.replies, repeat=config.repeat)


def encode_tools(tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
    """Return one ``{"type": "function", "function": {name, description, parameters}}`` per tool, schema unchanged."""
    return [
        {
            "type": "function",
            "function": {"name": t.name, "description": t.description, "parameters": dict(t.parameters)},
        }
        for t in tools
    ]
