"""The status and text of FlexChat's errors over HTTP."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Callable, Mapping

import attrs
import flexchat
import flexchat_sdk as sdk
from flexchat import ConfigError, FlexChatError, ProviderError, ProviderRateLimitError, TurnRunningError, host, store

from ..operations import Call, Event, Operation, Reply, Stream
from ..problems import ApiError

log = logging.getLogger(__name__)

_Table = Mapping[type, tuple[int, str]]

STATUSES: _Table = {
    host.UnknownNameError: (404, "unknown-name"),
    flexchat.ChatRequestError: (422, "request"),
    host.ForgottenEventsError: (410, "forgotten-events"),
    store.FilterError: (422, "filter"),
    flexchat.ToolClashError: (422, "tool-clash"),
    host.ToolDefinitionError: (422, "tool-definition"),
    flexchat.ToolError: (502, "tool"),
    flexchat.UnknownToolSourceError: (404, "unknown-tool-source"),
    flexchat.ToolSourceError: (502, "tool-source"),
    flexchat.ToolChangedError: (409, "tool-changed"),
    flexchat.ToolsLockError: (503, "tools-lock"),
    flexchat.UnknownConversationError: (404, "unknown-conversation"),
    store.UnknownCollectionError: (404, "unknown-collection"),
    flexchat.UnknownEffectError: (404, "unknown-effect"),
    flexchat.CannotSettleError: (409, "cannot-settle"),
    flexchat.UnknownTurnError: (404, "unknown-turn"),
    flexchat.TurnNotWaitingError: (409, "turn-not-waiting"),
    flexchat.StuckTurnError: (409, "stuck-turn"),
    flexchat.ChatClosedError: (503, "closed"),
    flexchat.TurnDataError: (422, "no-turn"),
    flexchat.InterruptedTurnError: (409, "interrupted-turn"),
    flexchat.LostTurnError: (409, "lost-turn"),
    flexchat.KeyReusedError: (422, "key-reused"),
    TurnRunningError: (409, "turn-running"),
    flexchat.FailedTurnError: (422, "failed-turn"),
    flexchat.ForgottenAnswerError: (410, "forgotten-answer"),
    flexchat.NoMatchingRuleError: (422, "no-matching-rule"),
    host.UnknownLLMError: (404, "unknown-llm"),
    host.UnknownToolFormatError: (422, "unknown-tool-format"),
    ConfigError: (422, "config"),
    sdk.ContentFilterError: (422, "content-filter"),
    sdk.ContextLengthError: (413, "context-length"),
    ProviderRateLimitError: (429, "rate-limit"),
    sdk.ProviderOverloadedError: (503, "provider-overloaded"),
    sdk.ProviderTimeoutError: (504, "provider-timeout"),
    flexchat.TurnTimeoutError: (504, "turn-timeout"),
    flexchat.TurnLimitError: (422, "turn-limit"),
    flexchat.RequestRefusedError: (403, "request-refused"),
    flexchat.NestedTurnError: (409, "nested-turn"),
    sdk.ModelNotFoundError: (502, "model-not-found"),
    sdk.ProviderAuthError: (502, "provider-auth"),
    sdk.ProviderRequestError: (502, "provider-request"),
    sdk.ProviderConnectionError: (502, "provider-connection"),
    sdk.ProviderProtocolError: (502, "provider-protocol"),
    ProviderError: (502, "provider"),
    flexchat.ResponseFormatError: (502, "response-format"),
    flexchat.RetrievalError: (502, "retrieval"),
    flexchat.StorageError: (503, "storage"),
    store.PathError: (503, "storage"),
}
"""Status and kind of each class of errors, and of its subclasses without an entry. 400 is not among them: requests that
arrive here match the document. A model's service is behind a gateway: its faults are 502 to 504, even if it calls our
request wrong."""

OPENAI_STATUSES: _Table = {
    flexchat.ChatRequestError: (400, "request"),
    sdk.ContextLengthError: (400, "context_length_exceeded"),
    sdk.ContentFilterError: (400, "content_filter"),
    sdk.ModelNotFoundError: (404, "model_not_found"),
    ProviderRateLimitError: (429, "rate_limit_exceeded"),
}
"""Status and code where OpenAI's API has its own. Source: platform.openai.com/docs/guides/error-codes."""


def problem_of(error: FlexChatError, mask: Callable[[str], str], *, openai: bool = False) -> ApiError:
    """Return an error as shown to the client, with secrets masked."""
    status, kind = _find(STATUSES, error) or (500, "flexchat")
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
    if openai and (theirs := _find(OPENAI_STATUSES, error)):
        status, more = theirs[0], {"code": "insufficient_quota" if kind == "quota" else theirs[1]}
    problems = error.problems if isinstance(error, ConfigError) else ()
    flaws = [attrs.evolve(flaw, text=mask(flaw.text)) for flaw in problems]
    if error.public is not None:
        log.warning("%s", mask(str(error)))  # with the address that the client does not get
    return ApiError(status, mask(error.public_text), kind=kind, flaws=flaws, headers=headers, **more)


def _find(table: _Table, error: FlexChatError) -> tuple[int, str] | None:
    """Return the entry of an error's class, or of the nearest of its bases."""
    return next((table[cls] for cls in type(error).__mro__ if cls in table), None)


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
