"""Classification of Google's errors, by the rows of refusals.toml."""

from __future__ import annotations

import re
from typing import Any

import attrs
from flexchat_sdk import ProviderError, ProviderRequestError, Refusals, Report, read_report

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
_UNKNOWN_SCHEMA = re.compile(r'Unknown name "(?:parameters|response)_?json_?schema"', re.IGNORECASE)
_BATCH_TEXTS = ("batch", "embedcontent", "one content", "single")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)s")


def _read(body: object) -> Report:
    """Parse a body; Google's details hold the reason, the exhausted quota and the retry delay."""
    report = read_report(body)
    if isinstance(body, list) and body:
        body = body[0]
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return report
    details, word = error.get("details"), error.get("status")
    items = [item for item in details if isinstance(item, dict)] if isinstance(details, list) else []
    word = word if isinstance(word, str) else ""
    reasons = [item["reason"] for item in items if isinstance(item.get("reason"), str)]
    return attrs.evolve(
        report,
        type=word,
        codes=(*reasons, word, *_quotas(items)),
        retry_s=next((s for item in items if (s := _seconds(item.get("retryDelay"))) is not None), None),
    )


def _quotas(details: list[dict[str, Any]]) -> list[str]:
    lists = [item.get("violations") for item in details]
    violations = [violation for item in lists if isinstance(item, list) for violation in item]
    ids = [violation.get("quotaId") for violation in violations if isinstance(violation, dict)]
    return [item for item in ids if isinstance(item, str)]


def _seconds(value: object) -> float | None:
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    return float(match[1]) if match else None


REFUSALS = Refusals(
    provider="gemini", package=__package__, read=_read, status_of=_STATUS, key="api_key, or access_token"
)
VERTEX_REFUSALS = attrs.evolve(REFUSALS, key="access_token, or api_key")


def knows_no_json_schema(body: object) -> bool:
    """Say whether a refusal is about parametersJsonSchema or responseJsonSchema, which older services do not know."""
    return _UNKNOWN_SCHEMA.search(_read(body).text) is not None


def is_about_batches(error: ProviderError) -> bool:
    """Say whether a refusal of batchEmbedContents may be one of batches, so that single texts are worth a try."""
    message = str(error).partition(": ")[2].lower()
    is_said = isinstance(error, ProviderRequestError) and any(text in message for text in _BATCH_TEXTS)
    return error.status == 404 or (error.status == 400 and is_said)
