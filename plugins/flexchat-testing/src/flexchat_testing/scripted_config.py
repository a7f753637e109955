"""The settings of the provider "scripted" in an llms entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import attrs
from flexchat.plugin import ChatResult
from flexchat_sdk import (
    ChatOptions,
    ChatProvider,
    ContentFilterError,
    ContextLengthError,
    Message,
    ModelNotFoundError,
    ProviderAuthError,
    ProviderConnectionError,
    ProviderError,
    ProviderOverloadedError,
    ProviderProtocolError,
    ProviderRateLimitError,
    ProviderRequestError,
    ProviderTimeoutError,
    Usage,
)

from .scripted import ScriptedProvider, calls, says


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
