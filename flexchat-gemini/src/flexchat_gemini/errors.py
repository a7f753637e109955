"""What a server's refusal means. Pure: from status, headers and body to a ProviderError.

The order is reason, text, status: Google says "bad request" to a bad key, and "too many requests" to a budget that is
used up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs
from flexchat.http.retry_after import bounded_wait
from flexchat.provider import (
    LONGEST_CODE,
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
)

# The status words of google.rpc.Code, as HTTP statuses; they stand alone in errors in the middle of a stream.
_STATUS = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "INTERNAL": 500,
    "UNKNOWN": 500,
    "DATA_LOSS": 500,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
    "PUP_LIMITED_DISABLED": 403,
    "MISSING_THOUGHT_SIGNATURE": 400,
}
_KEY_REASONS = ("API_KEY_INVALID", "API_KEY_EXPIRED", "CREDENTIALS_MISSING", "ACCESS_TOKEN_EXPIRED")
_KEY_TEXTS = ("api key not valid", "api key expired", "api key not found", "api key was reported as leaked")
_TOO_LONG_TEXTS = ("input token count", "exceeds the maximum number of tokens", "request payload size exceeds")
_QUOTA_TEXTS = ("credits are depleted", "spending cap")
_NO_TOOLS_TEXTS = ("function calling is not enabled", "function calling is unsupported", "tool use is not supported")
_SIGNATURE_TEXTS = ("thought_signature", "thought signature")
_UNKNOWN_SCHEMA = re.compile(r'Unknown name "(?:parameters|response)_?json_?schema"', re.IGNORECASE)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)s")


@attrs.frozen(kw_only=True)
class _Report:
    """What an error body says, as far as it says it."""

    text: str
    word: str = ""
    code: int | None = None
    reasons: tuple[str, ...] = ()
    quotas: tuple[str, ...] = ()
    retry_s: float | None = None
    is_json: bool = True

    def says(self, *phrases: str) -> bool:
        text = self.text.lower()
        return any(phrase in text for phrase in phrases)


def knows_no_json_schema(body: object) -> bool:
    """Say whether a refusal is about parametersJsonSchema or responseJsonSchema, which older services do not know."""
    return _UNKNOWN_SCHEMA.search(_report(body).text) is not None


def is_about_batches(body: object, status: int) -> bool:
    """Say whether a refusal of batchEmbedContents may be one of batches, so that single texts are worth a try."""
    return status == 404 or (status == 400 and _report(body).says("batch", "embedcontent", "one content", "single"))


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
        status: None for an error in the middle of a stream; the body's own code stands in for it.
        headers: Names in lower case.
        mask: Takes keys out of a text.
    """
    report = _report(body)
    if status is None or status < 400:
        status = report.code if report.code is not None and 400 <= report.code <= 599 else _STATUS.get(report.word)
    text = refusal_text(report.text, mask) or "no reason given"
    known: dict[str, Any] = {
        "provider": "gemini",
        "model": model,
        "status": status,
        "code": refusal_text(next(iter(report.reasons), report.word), mask, LONGEST_CODE) or None,
        # There is no such header from Google itself; proxies add one.
        "retry_after_s": report.retry_s or retry_after_s(headers) or None,
    }
    return _classified(report, status, text, host, known)


def _classified(report: _Report, status: int | None, text: str, host: str, known: dict[str, Any]) -> ProviderError:
    if any(reason in _KEY_REASONS for reason in report.reasons) or report.says(*_KEY_TEXTS):
        return ProviderAuthError(f"{host} refuses the key (api_key, or access_token): {text}", **known)
    if status in (None, 400, 413) and (report.says(*_TOO_LONG_TEXTS) or status == 413):
        return ContextLengthError(f"the conversation is too long for the model: {text}", **known)
    if status == 402 or (status == 400 and report.says("billing")):
        return ProviderRateLimitError(f"the budget at {host} is used up: {text}", kind="quota", **known)
    if status == 400 and report.says("location is not supported"):
        return ProviderAuthError(f"{host} does not serve this country: {text}", **known)
    if status == 401:
        return ProviderAuthError(f"{host} refuses the key (api_key, or access_token): {text}", **known)
    if status == 403:
        return ProviderAuthError(f"{host} does not allow this: {text}", **known)
    if status == 429:
        return _rate_limit(report, text, host, known)
    if status == 404:
        return _not_found(report, text, host, known)
    if status in (408, 504):
        return ProviderTimeoutError(f"{host} gave up waiting: {text}", retryable=True, **known)
    if status is None or status >= 499:
        said = f" with status {status}" if status else ""
        return ProviderOverloadedError(f"{host} failed{said}: {text}", **known)
    return ProviderRequestError(f"{host} refused the request: {text}", kind=_kind(report), **known)


def _rate_limit(report: _Report, text: str, host: str, known: dict[str, Any]) -> ProviderError:
    if any("PerDay" in quota for quota in report.quotas):
        return ProviderRateLimitError(f"the day's budget at {host} is used up: {text}", kind="quota", **known)
    if report.says(*_QUOTA_TEXTS):
        return ProviderRateLimitError(f"the budget at {host} is used up: {text}", kind="quota", **known)
    return ProviderRateLimitError(f"{host} is asked too often: {text}", **known)


def _not_found(report: _Report, text: str, host: str, known: dict[str, Any]) -> ProviderError:
    if not report.is_json:
        return ProviderProtocolError(
            f"{host} has no Gemini API here: are base_url, api_version and path right?", **known
        )
    if known["model"] and report.says("model"):
        return ModelNotFoundError(f"{host} has no model {known['model']}: {text}", **known)
    return ProviderRequestError(f"{host} finds nothing here (is base_url right?): {text}", kind="not_found", **known)


def _kind(report: _Report) -> str | None:
    if report.says(*_NO_TOOLS_TEXTS):
        return "unsupported_tools"
    if report.word == "MISSING_THOUGHT_SIGNATURE" or report.says(*_SIGNATURE_TEXTS):
        return "thought_signature"
    return "invalid_schema" if report.says("function_declarations", "response_schema", "json_schema") else None


def _report(body: object) -> _Report:
    """Read a body in any of its forms: error object, that in a list, plain text, what a proxy makes of it."""
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        text = body if isinstance(body, str) else ""
        return _Report(text="a web page" if text.lstrip().startswith("<") else text, is_json=not isinstance(body, str))
    error = body.get("error")
    if not isinstance(error, dict):
        text = next((t for t in (error, body.get("message"), body.get("detail")) if t and isinstance(t, str)), "")
        return _Report(text=text)
    message, code, word = error.get("message"), error.get("code"), error.get("status")
    details = error.get("details")
    items = [item for item in details if isinstance(item, dict)] if isinstance(details, list) else []
    return _Report(
        text=message if isinstance(message, str) else "",
        word=word if isinstance(word, str) else "",
        code=code if type(code) is int else None,
        reasons=tuple(item["reason"] for item in items if isinstance(item.get("reason"), str)),
        quotas=tuple(_quotas(items)),
        retry_s=next((s for item in items if (s := _seconds(item.get("retryDelay"))) is not None), None),
    )


def _quotas(details: list[dict[str, Any]]) -> list[str]:
    found = []
    for item in details:
        violations = item.get("violations")
        for violation in violations if isinstance(violations, list) else ():
            if isinstance(violation, dict) and isinstance(violation.get("quotaId"), str):
                found.append(violation["quotaId"])
    return found


def _seconds(value: object) -> float | None:
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    return bounded_wait(float(match[1])) if match else None
