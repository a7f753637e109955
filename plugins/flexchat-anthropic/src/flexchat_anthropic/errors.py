"""What a server's refusal means. Pure: from status, headers and body to a ProviderError.

The order is text, type, status: an empty account is status 400 here, and a type stands alone in the middle of a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
from flexchat.provider import (
    LONGEST_CODE,
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
    refusal_text,
    retry_after_s,
    should_retry,
)

_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_TOO_LONG_TEXTS = ("prompt is too long", "exceed context limit", "exceeds the context window", "maximum context length")
_FILTER_TEXTS = ("content filtering policy",)
_QUOTA_TEXTS = ("credit balance is too low", "specified api usage limits")
_THINKING_TEXTS = ("bound to a different conversation", "invalid `signature`", "cannot be modified")


@attrs.frozen(kw_only=True)
class _Report:
    """What an error body says, as far as it says it."""

    text: str
    type: str = ""
    request_id: str = ""
    is_json: bool = True

    def says(self, *phrases: str) -> bool:
        text = self.text.lower()
        return any(phrase in text for phrase in phrases)


def is_about_thinking(body: object) -> bool:
    """Say whether a refusal is about thinking blocks that were sent back, which may be left out instead."""
    report = _report(body)
    return report.says("thinking", "the block is bound") and report.says(*_THINKING_TEXTS)


def service_error(
    body: object,
    *,
    status: int | None,
    headers: Mapping[str, str],
    host: str,
    model: str | None,
    mask: Callable[[str], str],
) -> ProviderError:
    """Return the error that a refusal is.

    Args:
        body: JSON data, or text.
        status: None for an error in the middle of a stream; that of its type stands in for it.
        headers: Names in lower case.
        mask: Takes keys out of a text.
    """
    report = _report(body)
    if status is None or status < 400:
        status = _STATUS.get(report.type)
    text = refusal_text(report.text, mask) or "no reason given"
    known: dict[str, Any] = {
        "provider": "anthropic",
        "model": model,
        "status": status,
        "code": refusal_text(report.type, mask, LONGEST_CODE) or None,
        "request_id": headers.get("request-id") or refusal_text(report.request_id, mask, LONGEST_CODE) or None,
        "retry_after_s": retry_after_s(headers) or None,
    }
    error = _classified(report, status, text, host, known)
    wish = should_retry(headers)
    if wish is not None:
        error.retryable = wish
    return error


def _classified(report: _Report, status: int | None, text: str, host: str, known: dict[str, Any]) -> ProviderError:
    if status == 413 or (status in (None, 400) and report.says(*_TOO_LONG_TEXTS)):
        return ContextLengthError(f"the conversation is too long for the model: {text}", **known)
    if status == 402 or (status in (None, 400, 403, 429) and report.says(*_QUOTA_TEXTS)):
        return ProviderRateLimitError(f"the budget at {host} is used up: {text}", kind="quota", **known)
    if status in (None, 400) and report.says(*_FILTER_TEXTS):
        return ContentFilterError(f"{host} refused the prompt, or what the model made of it: {text}", **known)
    if status == 401:
        return ProviderAuthError(f"{host} refuses the key (api_key, or auth_token): {text}", **known)
    if status == 403:
        return ProviderAuthError(f"{host} does not allow this: {text}", **known)
    if status == 404:
        return _not_found(report, text, host, known)
    if status == 429:
        return ProviderRateLimitError(f"{host} is asked too often: {text}", **known)
    if status in (408, 504):
        return ProviderTimeoutError(f"{host} gave up waiting: {text}", retryable=True, **known)
    if status in (409, 412):
        return ProviderRequestError(f"{host} reports a conflict: {text}", kind="conflict", **known)
    if status is None or status >= 500:
        said = f" with status {status}" if status else ""
        return ProviderOverloadedError(f"{host} failed{said}: {text}", **known)
    return ProviderRequestError(f"{host} refused the request: {text}", kind=_kind(report), **known)


def _not_found(report: _Report, text: str, host: str, known: dict[str, Any]) -> ProviderError:
    if not report.is_json:
        return ProviderProtocolError(
            f"{host} has no Messages API here: is base_url right? It ends before /v1/messages", **known
        )
    if known["model"] and report.says("model"):
        return ModelNotFoundError(f"{host} has no model {known['model']}: {text}", **known)
    return ProviderRequestError(f"{host} finds nothing here (is base_url right?): {text}", kind="not_found", **known)


def _kind(report: _Report) -> str | None:
    if report.says("input_schema", "output_config.format.schema", "schema is too complex", "compiled grammar"):
        return "invalid_schema"
    return None


def _report(body: object) -> _Report:
    """Read a body in any of its forms: error object, plain text, what a proxy makes of it."""
    if not isinstance(body, dict):
        text = body if isinstance(body, str) else ""
        return _Report(text="a web page" if text.lstrip().startswith("<") else text, is_json=not isinstance(body, str))
    error, request_id = body.get("error"), body.get("request_id")
    if not isinstance(error, dict):
        text = next((t for t in (error, body.get("message"), body.get("detail")) if t and isinstance(t, str)), "")
        return _Report(text=text)
    message, kind = error.get("message"), error.get("type")
    return _Report(
        text=message if isinstance(message, str) else "",
        type=kind if isinstance(kind, str) else "",
        request_id=request_id if isinstance(request_id, str) else "",
    )
