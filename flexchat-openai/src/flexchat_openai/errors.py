"""What a server's refusal means. Pure: from status, headers and body to a ProviderError.

The order is code, type, text, status: services disagree on the status of the same trouble.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs
from flexchat.http.refusal import LONGEST_CODE, shortened
from flexchat.http.retry_after import retry_after_s, should_retry
from flexchat.plugin import (
    ContentFilterError,
    ContextLengthError,
    ModelNotFoundError,
    ProviderAuthError,
    ProviderError,
    ProviderOverloadedError,
    ProviderProtocolError,
    ProviderRateLimitError,
    ProviderRequestError,
    ProviderTimeoutError,
)

_STATUS = re.compile(r"[45][0-9]{2}")
_TOO_LONG_CODES = (
    "context_length_exceeded",
    "exceed_context_size_error",
    "string_above_max_length",
    "tokens_exceeded_error",  # GitHub Models' word is tokens_limit_reached, with status 413
)
_TOO_LONG_TEXTS = (
    "maximum context length",
    "reduce the length of the messages",
    "prompt too long",
    "prompt is too long",
    "exceeds the available context",
    "exceeds the context window",
    "input token count",
    "context_length_exceeded",
    "maximum prompt length",  # xAI
    "exceeded model token limit",  # Moonshot
    "`max_new_tokens` must be <=",  # text-generation-inference, Together
    "input is too long",  # Bedrock
    "greater than the context length",  # LM Studio
    "configured context size",
)
_FILTER_CODES = ("content_filter", "content_policy_violation", "invalid_prompt", "moderation")
_NO_MODEL_CODES = ("model_not_found", "deploymentnotfound", "model_decommissioned", "unknown_model", "invalid_model")
_NO_MODEL_TEXTS = (
    "model not found",
    "model not exist",
    "not a valid model",
)  # with status 400: xAI, DeepSeek, OpenRouter
_QUOTA_CODES = (
    "insufficient_quota",
    "billing_hard_limit_reached",
    "credit_balance_exhausted",
    "organization_usage_limit_exceeded",
)
_QUOTA_TEXTS = ("credit balance is too low", "insufficient balance")
_RATE_CODES = ("rate_limit_exceeded", "rate_limit_error", "ratelimitreached", "too_many_requests", "tokens", "requests")
_KEY_CODES = ("invalid_api_key", "authentication_error", "invalid_authentication", "unauthorized")
_KEY_TEXTS = ("incorrect api key", "invalid api key", "api key not valid", "invalid authentication")
_OVERLOAD_CODES = ("server_error", "server_is_overloaded", "service_unavailable", "overloaded_error", "internal_error")
# Where the text stands in a body without an error table.
_TEXTS = ("error", "message", "detail", "errors", "msg")


@attrs.frozen(kw_only=True)
class _Report:
    """What an error body says, as far as it says it. Codes are in lower case."""

    text: str
    code: str = ""
    type: str = ""
    param: str | None = None
    is_json: bool = True

    def names(self, *codes: str) -> bool:
        return self.code in codes or self.type in codes

    def says(self, *phrases: str) -> bool:
        text = self.text.lower()
        return any(phrase in text for phrase in phrases)


def service_error(
    body: object,
    *,
    status: int | None,
    headers: Mapping[str, str],
    host: str,
    path: str,
    model: str | None,
    mask: Callable[[str], str],
) -> ProviderError:
    """Return the error that a refusal is.

    Args:
        body: JSON data, or text.
        status: None for an error in the middle of a stream; a number in its code stands in for it.
        headers: Names in lower case.
        path: What was asked for, "/chat/completions".
        mask: Takes keys out of a text. A refusal of a key quotes part of it.
    """
    report = _report(body)
    if status is None or status < 400:
        status = int(report.code) if _STATUS.fullmatch(report.code) else None
    text = shortened(report.text, mask) or "no reason given"
    known: dict[str, Any] = {
        "provider": "openai",
        "model": model,
        "status": status,
        "code": shortened(report.code or report.type, mask, LONGEST_CODE) or None,  # gateways put whole sentences there
        "request_id": headers.get("x-request-id"),
        "retry_after_s": retry_after_s(headers) or None,  # 0 is sent by services that mean "some time"
    }
    if report.param:
        report = attrs.evolve(report, param=shortened(report.param, mask, LONGEST_CODE))
    error = _classified(report, status, text, host, path, known)
    wish = should_retry(headers)
    if wish is not None:
        error.retryable = wish
    return error


def _classified(
    report: _Report, status: int | None, text: str, host: str, path: str, known: dict[str, Any]
) -> ProviderError:
    is_request = status in (None, 400, 413, 422)
    if is_request and (report.names(*_TOO_LONG_CODES) or report.says(*_TOO_LONG_TEXTS) or status == 413):
        return ContextLengthError(f"the conversation is too long for the model: {text}", **known)
    if report.names(*_FILTER_CODES) or (status == 403 and report.says("moderation", "flagged")):
        return ContentFilterError(f"{host} refused the prompt: {text}", **known)
    if known["model"] and (report.names(*_NO_MODEL_CODES) or (is_request and report.says(*_NO_MODEL_TEXTS))):
        return ModelNotFoundError(f"{host} has no model {known['model']}: {text}", **known)
    is_spent = report.names(*_QUOTA_CODES) or report.code.endswith("_spend_limit_exceeded")
    if status == 402 or is_spent or report.says(*_QUOTA_TEXTS):
        return ProviderRateLimitError(f"the budget at {host} is used up: {text}", kind="quota", **known)
    if status == 401 or report.names(*_KEY_CODES) or (is_request and report.says(*_KEY_TEXTS)):
        return ProviderAuthError(f"{host} refuses the key (api_key): {text}", **known)
    if status == 403:
        return ProviderAuthError(f"{host} does not allow this: {text}", **known)
    if status == 429 or (status is None and report.names(*_RATE_CODES)):
        error = ProviderRateLimitError(f"{host} is asked too often: {text}", **known)
        error.retryable = not report.says("request too large")  # for the rate that is allowed: waiting changes nothing
        return error
    if status == 404:
        return _not_found(report, text, host, path, known)
    if status == 408:
        return ProviderTimeoutError(f"{host} gave up waiting: {text}", retryable=True, **known)
    if status == 409:
        return ProviderRequestError(f"{host} reports a conflict: {text}", kind="conflict", **known)
    if status is not None and status >= 500:
        return ProviderOverloadedError(f"{host} failed with status {status}: {text}", **known)
    if status is None and (report.names(*_OVERLOAD_CODES) or "invalid" not in report.code + report.type):
        return ProviderOverloadedError(f"{host} failed: {text}", **known)
    if report.says("/v1/responses") and path == "/chat/completions":
        text += ' (set api = "responses" for this LLM in the config)'
        return ProviderRequestError(
            f"{host} refused the request: {text}", param=report.param, kind="needs_responses_api", **known
        )
    if report.param == "include" and report.says("encrypted content"):
        text += " (the model does not reason: set extra_body = { include = [] } for this LLM in the config)"
    return ProviderRequestError(f"{host} refused the request: {text}", param=report.param, **known)


def _not_found(report: _Report, text: str, host: str, path: str, known: dict[str, Any]) -> ProviderError:
    hint = ' api = "chat" asks for Chat Completions instead' if path == "/responses" else ""
    if not report.is_json:
        hint = hint or " It often ends in /v1"
        return ProviderProtocolError(f"{host} has no {path[1:]} here: is base_url right?{hint}", **known)
    if known["model"] and report.says("model"):
        return ModelNotFoundError(f"{host} has no model {known['model']}: {text}", **known)
    return ProviderRequestError(
        f"{host} finds nothing here (is base_url right?{hint}): {text}", kind="not_found", **known
    )


def _report(body: object) -> _Report:
    """Read a body in any of the forms servers use: error table, one of _TEXTS, plain text."""
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        text = body if isinstance(body, str) else ""
        return _Report(text="a web page" if text.lstrip().startswith("<") else text, is_json=not isinstance(body, str))
    error = body.get("error")
    if isinstance(error, dict):
        metadata = error.get("metadata")
        raw = metadata.get("raw") if isinstance(metadata, dict) else None
        text = " ".join(t for t in (_said(error.get("message")), _said(raw)) if t)
        inner = error.get("innererror")
        code = error.get("code") or (inner.get("code") if isinstance(inner, dict) else None)
        return _Report(text=text, code=_word(code), type=_word(error.get("type")), param=_param(error.get("param")))
    text = next((t for key in _TEXTS if (t := _said(body.get(key)))), "")
    return _Report(text=text, code=_word(body.get("code") or body.get("error_code")), type=_word(body.get("type")))


def _said(value: object) -> str:
    """Return a text, or those in a table or a list of them (FastAPI's detail, Cloudflare's errors)."""
    items = value if isinstance(value, list) else [value]
    found = [item.get("message") or item.get("msg") if isinstance(item, dict) else item for item in items]
    return "; ".join([text for text in found if text and isinstance(text, str)])


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _param(value: object) -> str | None:
    return value if isinstance(value, str) else None
