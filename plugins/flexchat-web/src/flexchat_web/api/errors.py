"""The status and text of FlexChat's errors over HTTP."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Callable

import attrs
from flexchat import (
    CannotSettleError,
    ChatClosedError,
    ChatRequestError,
    ConfigError,
    FailedTurnError,
    FlexChatError,
    ForgottenAnswerError,
    InterruptedTurnError,
    KeyReusedError,
    LostTurnError,
    NestedTurnError,
    NoMatchingRuleError,
    ProviderError,
    RequestRefusedError,
    ResponseFormatError,
    RetrievalError,
    StorageError,
    StuckTurnError,
    ToolChangedError,
    ToolClashError,
    ToolError,
    ToolsLockError,
    ToolSourceError,
    TurnDataError,
    TurnLimitError,
    TurnNotWaitingError,
    TurnRunningError,
    TurnTimeoutError,
    UnknownConversationError,
    UnknownEffectError,
    UnknownToolSourceError,
    UnknownTurnError,
)
from flexchat.host import (
    ForgottenEventsError,
    ToolDefinitionError,
    UnknownLLMError,
    UnknownNameError,
    UnknownToolFormatError,
)
from flexchat.store import FilterError, PathError, UnknownCollectionError
from flexchat_sdk import (
    ContentFilterError,
    ContextLengthError,
    ModelNotFoundError,
    ProviderAuthError,
    ProviderConnectionError,
    ProviderOverloadedError,
    ProviderProtocolError,
    ProviderRateLimitError,
    ProviderRequestError,
    ProviderTimeoutError,
)

from ..operations import Call, Event, Operation, Reply, Stream
from ..problems import ApiError

log = logging.getLogger(__name__)

STATUSES: tuple[tuple[type[FlexChatError], int, str], ...] = (
    (UnknownNameError, 404, "unknown-name"),
    (ChatRequestError, 422, "request"),
    (ForgottenEventsError, 410, "forgotten-events"),
    (FilterError, 422, "filter"),
    (ToolClashError, 422, "tool-clash"),
    (ToolDefinitionError, 422, "tool-definition"),
    (ToolError, 502, "tool"),
    (UnknownToolSourceError, 404, "unknown-tool-source"),
    (ToolSourceError, 502, "tool-source"),
    (ToolChangedError, 409, "tool-changed"),
    (ToolsLockError, 503, "tools-lock"),
    (UnknownConversationError, 404, "unknown-conversation"),
    (UnknownCollectionError, 404, "unknown-collection"),
    (UnknownEffectError, 404, "unknown-effect"),
    (CannotSettleError, 409, "cannot-settle"),
    (UnknownTurnError, 404, "unknown-turn"),
    (TurnNotWaitingError, 409, "turn-not-waiting"),
    (StuckTurnError, 409, "stuck-turn"),
    (ChatClosedError, 503, "closed"),
    (TurnDataError, 422, "no-turn"),
    (InterruptedTurnError, 409, "interrupted-turn"),
    (LostTurnError, 409, "lost-turn"),
    (KeyReusedError, 422, "key-reused"),
    (TurnRunningError, 409, "turn-running"),
    (FailedTurnError, 422, "failed-turn"),
    (ForgottenAnswerError, 410, "forgotten-answer"),
    (NoMatchingRuleError, 422, "no-matching-rule"),
    (UnknownLLMError, 404, "unknown-llm"),
    (UnknownToolFormatError, 422, "unknown-tool-format"),
    (ConfigError, 422, "config"),
    (ContentFilterError, 422, "content-filter"),
    (ContextLengthError, 413, "context-length"),
    (ProviderRateLimitError, 429, "rate-limit"),
    (ProviderOverloadedError, 503, "provider-overloaded"),
    (ProviderTimeoutError, 504, "provider-timeout"),
    (TurnTimeoutError, 504, "turn-timeout"),
    (TurnLimitError, 422, "turn-limit"),
    (RequestRefusedError, 403, "request-refused"),
    (NestedTurnError, 409, "nested-turn"),
    (ModelNotFoundError, 502, "model-not-found"),
    (ProviderAuthError, 502, "provider-auth"),
    (ProviderRequestError, 502, "provider-request"),
    (ProviderConnectionError, 502, "provider-connection"),
    (ProviderProtocolError, 502, "provider-protocol"),
    (ProviderError, 502, "provider"),
    (ResponseFormatError, 502, "response-format"),
    (RetrievalError, 502, "retrieval"),
    (StorageError, 503, "storage"),
    (PathError, 503, "storage"),
)
"""Status and kind of each error; the first class that fits counts. 400 is not among them: requests that arrive here
match the document. A model's service is behind a gateway: its faults are 502 to 504, even if it calls our request
wrong."""

OPENAI_STATUSES: tuple[tuple[type[FlexChatError], int, str], ...] = (
    (ChatRequestError, 400, "request"),
    (ContextLengthError, 400, "context_length_exceeded"),
    (ContentFilterError, 400, "content_filter"),
    (ModelNotFoundError, 404, "model_not_found"),
    (ProviderRateLimitError, 429, "rate_limit_exceeded"),
)
"""Status and code where OpenAI's API has its own. Source: platform.openai.com/docs/guides/error-codes."""


def problem_of(error: FlexChatError, mask: Callable[[str], str], *, openai: bool = False) -> ApiError:
    """Return an error as shown to the client, with secrets masked."""
    status, kind = next(((s, k) for cls, s, k in STATUSES if isinstance(error, cls)), (500, "flexchat"))
    headers, more = {}, {}
    if isinstance(error, TurnRunningError):
        headers["retry-after"] = "1"
    if isinstance(error, ProviderRateLimitError) and error.kind == "quota":
        kind = "quota"
    if isinstance(error, ProviderError):
        if error.retry_after_s is not None and status in (429, 503):
            headers["retry-after"] = str(max(0, math.ceil(error.retry_after_s)))
        if openai and not error.retryable and (status == 429 or status >= 500):
            headers["x-should-retry"] = "false"  # OpenAI's clients ask again otherwise
    if openai:
        for cls, own_status, code in OPENAI_STATUSES:
            if isinstance(error, cls):
                status, more = own_status, {"code": "insufficient_quota" if kind == "quota" else code}
                break
    problems = error.problems if isinstance(error, ConfigError) else ()
    flaws = [attrs.evolve(flaw, text=mask(flaw.text)) for flaw in problems]
    if error.public is not None:
        log.warning("%s", mask(str(error)))  # with the address that the client does not get
    return ApiError(status, mask(error.public_text), kind=kind, flaws=flaws, headers=headers, **more)


def convert_errors(operation: Operation) -> Operation:
    """Wrap an operation so that FlexChat's errors become problems, including those in its streams."""

    async def handle(call: Call) -> Reply:
        def problem(error: FlexChatError) -> ApiError:
            return problem_of(error, call.serving.mask, openai=operation.openai_errors)

        try:
            reply = await operation.handle(call)
        except FlexChatError as error:
            raise problem(error) from error
        return (
            attrs.evolve(reply, events=_convert_stream_errors(reply.events, problem))
            if isinstance(reply, Stream)
            else reply
        )

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
