"""The status and text of FlexChat's errors over HTTP."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import attrs
import flexchat
import flexchat_sdk as sdk
from flexchat import ConfigError, FlexChatError, ProviderError, ProviderRateLimitError, TurnRunningError, host, store

from ..operations import Call, Event, Operation, Reply, Stream
from ..problems import ApiError

log = logging.getLogger(__name__)

STATUSES: Mapping[type, int] = {
    **dict.fromkeys((host.UnknownNameError, host.UnknownLLMError, flexchat.UnknownToolSourceError), 404),
    **dict.fromkeys((flexchat.UnknownConversationError, store.UnknownCollectionError), 404),
    **dict.fromkeys((flexchat.UnknownEffectError, flexchat.UnknownTurnError, flexchat.UnknownQuestionError), 404),
    **dict.fromkeys((flexchat.ClosedQuestionError, flexchat.UnknownMediaError), 404),
    flexchat.MediaQuotaError: 413,
    **dict.fromkeys((host.ForgottenEventsError, flexchat.ForgottenAnswerError), 410),
    **dict.fromkeys((ConfigError, flexchat.ChatRequestError, store.FilterError, sdk.ContentFilterError), 422),
    **dict.fromkeys((flexchat.ToolClashError, host.ToolDefinitionError, host.UnknownToolFormatError), 422),
    **dict.fromkeys((flexchat.TurnDataError, flexchat.KeyReusedError, flexchat.FailedTurnError), 422),
    flexchat.InvalidReplyError: 422,
    **dict.fromkeys((flexchat.NoMatchingRuleError, flexchat.TurnLimitError), 422),
    **dict.fromkeys((flexchat.ToolChangedError, flexchat.CannotSettleError, flexchat.TurnNotWaitingError), 409),
    **dict.fromkeys((flexchat.StuckTurnError, flexchat.InterruptedTurnError, flexchat.LostTurnError), 409),
    **dict.fromkeys((TurnRunningError, flexchat.NestedTurnError, flexchat.SuspendedTurnError), 409),
    flexchat.RequestRefusedError: 403,
    flexchat.CeilingReachedError: 429,
    sdk.ContextLengthError: 413,
    ProviderRateLimitError: 429,
    **dict.fromkeys((flexchat.ToolError, flexchat.ToolSourceError, flexchat.RetrievalError, ProviderError), 502),
    **dict.fromkeys((sdk.ModelNotFoundError, sdk.ProviderAuthError, sdk.ProviderRequestError), 502),
    **dict.fromkeys((sdk.ProviderConnectionError, sdk.ProviderProtocolError, flexchat.ResponseFormatError), 502),
    **dict.fromkeys((flexchat.StorageError, store.PathError, flexchat.ToolsLockError), 503),
    **dict.fromkeys((flexchat.ChatClosedError, sdk.ProviderOverloadedError), 503),
    **dict.fromkeys((sdk.ProviderTimeoutError, flexchat.TurnTimeoutError), 504),
}
"""Status of each class of errors, and of its subclasses without an entry. 400 is not among them: requests that arrive
here match the document. A model's service is behind a gateway: its faults are 502 to 504, even if it calls our request
wrong."""

_KINDS: Mapping[type, str] = {
    flexchat.ChatRequestError: "request",
    flexchat.ChatClosedError: "closed",
    flexchat.InvalidReplyError: "reply",
    flexchat.TurnDataError: "no-turn",
    ProviderRateLimitError: "rate-limit",
    store.PathError: "storage",
}
"""Kinds of errors that are not named like their class: UnknownTurnError is "unknown-turn"."""

OPENAI_STATUSES: Mapping[type, tuple[int, str]] = {
    flexchat.ChatRequestError: (400, "request"),
    sdk.ContextLengthError: (400, "context_length_exceeded"),
    sdk.ContentFilterError: (400, "content_filter"),
    sdk.ModelNotFoundError: (404, "model_not_found"),
    ProviderRateLimitError: (429, "rate_limit_exceeded"),
    flexchat.CeilingReachedError: (429, "rate_limit_exceeded"),
}
"""Status and code where OpenAI's API has its own. Source: platform.openai.com/docs/guides/error-codes."""


def problem_of(error: FlexChatError, mask: Callable[[str], str], *, openai: bool = False) -> ApiError:
    """Return an error as shown to the client, with secrets masked."""
    cls = _nearest(STATUSES, error)
    status, kind = (500, "flexchat") if cls is None else (STATUSES[cls], _KINDS.get(cls) or _in_kebab_case(cls))
    headers, more = {}, {}
    if isinstance(error, TurnRunningError):
        headers["retry-after"] = "1"
    if isinstance(error, flexchat.CeilingReachedError) and error.retry_after_s is not None:
        headers["retry-after"] = str(max(1, math.ceil(error.retry_after_s)))
    if isinstance(error, ProviderRateLimitError) and error.kind == "quota":
        kind = "quota"
    if isinstance(error, ProviderError):
        if error.retry_after_s is not None and status in (429, 503):
            headers["retry-after"] = str(max(0, math.ceil(error.retry_after_s)))
        if openai and not error.retryable and (status == 429 or status >= 500):
            headers["x-should-retry"] = "false"  # OpenAI's clients ask again otherwise
    if openai and (theirs := _nearest(OPENAI_STATUSES, error)):
        status, code = OPENAI_STATUSES[theirs]
        if isinstance(error, flexchat.CeilingReachedError) and error.retry_after_s is None:
            headers["x-should-retry"], kind = "false", "quota"
        more = {"code": "insufficient_quota" if kind == "quota" else code}
    problems = error.problems if isinstance(error, ConfigError) else ()
    flaws = [attrs.evolve(flaw, text=mask(flaw.text)) for flaw in problems]
    if error.public is not None:
        log.warning("%s", mask(str(error)))  # with the address that the client does not get
    return ApiError(status, mask(error.public_text), kind=kind, flaws=flaws, headers=headers, **more)


def _nearest(table: Mapping[type, Any], error: FlexChatError) -> type | None:
    """Return an error's class, or the nearest of its bases, that is in a table."""
    return next((cls for cls in type(error).__mro__ if cls in table), None)


def _in_kebab_case(cls: type) -> str:
    return re.sub("(?<=[a-z])(?=[A-Z])", "-", cls.__name__.removesuffix("Error")).lower()


def convert_errors(operation: Operation) -> Operation:
    """Wrap an operation so that FlexChat's errors become problems, including those in its streams."""

    async def handle(call: Call) -> Reply:
        def problem(error: FlexChatError) -> ApiError:
            return problem_of(error, call.serving.mask, openai=operation.openai_errors)

        try:
            reply = await operation.handle(call)
        except FlexChatError as error:
            raise problem(error) from error
        if isinstance(reply, Stream):
            return attrs.evolve(reply, events=_convert_stream_errors(reply.events, problem))
        return reply

    return attrs.evolve(operation, handle=handle)


async def _convert_stream_errors(
    events: AsyncGenerator[Event, None], problem: Callable[[FlexChatError], ApiError]
) -> AsyncGenerator[Event, None]:
    try:
        async for event in events:
            yield event
    except FlexChatError as error:
        raise problem(error) from error
    finally:
        await events.aclose()
