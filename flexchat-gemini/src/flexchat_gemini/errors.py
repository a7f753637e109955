"""Classification of Google's errors.

Reason and text are checked before the status: an invalid key is "bad request", and an exhausted budget is "too many
requests".
"""

from __future__ import annotations

import re
from typing import Any

import attrs
from flexchat_sdk import ProviderError, ProviderRequestError, Refusals, Report, Row, read_report

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
_REQUEST = (400, 422)
_KEY_REASONS = ("API_KEY_INVALID", "API_KEY_EXPIRED", "CREDENTIALS_MISSING", "ACCESS_TOKEN_EXPIRED")
_KEY_TEXTS = ("api key not valid", "api key expired", "api key not found", "api key was reported as leaked")
_TOO_LONG_TEXTS = ("input token count", "exceeds the maximum number of tokens", "request payload size exceeds")
_NO_TOOLS_TEXTS = ("function calling is not enabled", "function calling is unsupported", "tool use is not supported")
_SIGNATURE_TEXTS = ("thought_signature", "thought signature")
_SCHEMA_TEXTS = ("function_declarations", "response_schema", "json_schema")
_UNKNOWN_SCHEMA = re.compile(r'Unknown name "(?:parameters|response)_?json_?schema"', re.IGNORECASE)
_BATCH_TEXTS = ("batch", "embedcontent", "one content", "single")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)s")

_ROWS = (
    Row("key", codes=_KEY_REASONS, says=_KEY_TEXTS),
    Row("too_long", status=(None, 400, 413), says=_TOO_LONG_TEXTS),
    Row("quota", status=(400,), says=("billing",)),
    Row(
        "forbidden",
        status=(400,),
        says=("location is not supported",),
        text="{host} does not serve this country: {text}",
    ),
    Row("quota", status=(429,), codes=("*PerDay*",), text="the day's budget at {host} is used up: {text}"),
    Row("quota", status=(429,), says=("credits are depleted", "spending cap")),
    Row(
        "no_api",
        status=(404,),
        is_json=False,
        text="{host} has no Gemini API here: are base_url, api_version and path right?",
    ),
    Row("overloaded", status=(499,)),
    Row("timeout", status=(504,)),
    Row("request", status=_REQUEST, says=_NO_TOOLS_TEXTS, known={"kind": "unsupported_tools"}),
    Row(
        "request",
        status=_REQUEST,
        codes=("MISSING_THOUGHT_SIGNATURE",),
        says=_SIGNATURE_TEXTS,
        known={"kind": "thought_signature"},
    ),
    Row("request", status=_REQUEST, says=_SCHEMA_TEXTS, known={"kind": "invalid_schema"}),
)


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


REFUSALS = Refusals(provider="gemini", rows=_ROWS, read=_read, status_of=_STATUS, key="api_key, or access_token")
VERTEX_REFUSALS = attrs.evolve(REFUSALS, key="access_token, or api_key")


def knows_no_json_schema(body: object) -> bool:
    """Say whether a refusal is about parametersJsonSchema or responseJsonSchema, which older services do not know."""
    return _UNKNOWN_SCHEMA.search(_read(body).text) is not None


def is_about_batches(error: ProviderError) -> bool:
    """Say whether a refusal of batchEmbedContents may be one of batches, so that single texts are worth a try."""
    message = str(error).partition(": ")[2].lower()
    is_said = isinstance(error, ProviderRequestError) and any(text in message for text in _BATCH_TEXTS)
    return error.status == 404 or (error.status == 400 and is_said)
