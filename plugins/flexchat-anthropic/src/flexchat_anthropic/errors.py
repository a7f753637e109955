"""Classification of Anthropic's errors.

The order is text, type, status: an empty account is status 400 here, and a type stands alone in the middle of a stream.
"""

from __future__ import annotations

from flexchat_sdk import Refusals, Row, read_report

_STATUS_OF = {
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
_QUOTA_TEXTS = ("credit balance is too low", "specified api usage limits")
_SCHEMA_TEXTS = ("input_schema", "output_config.format.schema", "schema is too complex", "compiled grammar")
_THINKING_TEXTS = ("bound to a different conversation", "invalid `signature`", "cannot be modified")

REFUSALS = Refusals(
    provider="anthropic",
    rows=(
        Row("too_long", status=(None, 400), says=_TOO_LONG_TEXTS),
        Row("quota", status=(None, 400, 403, 429), says=_QUOTA_TEXTS),
        Row(
            "filtered",
            status=(None, 400),
            says=("content filtering policy",),
            text="{host} refused the prompt, or what the model made of it: {text}",
        ),
        Row(
            "no_api",
            status=(404,),
            is_json=False,
            text="{host} has no Messages API here: is base_url right? It ends before /v1/messages",
        ),
        Row("conflict", status=(412,)),
        Row("timeout", status=(504,)),
        Row("request", status=(400, 422), says=_SCHEMA_TEXTS, known={"kind": "invalid_schema"}),
    ),
    status_of=_STATUS_OF,
    key="api_key, or auth_token",
    request_id="request-id",
)


def is_about_thinking(body: object) -> bool:
    """Say whether a refusal is about thinking blocks that were sent back, which may be left out instead."""
    report = read_report(body)
    return report.says("thinking", "the block is bound") and report.says(*_THINKING_TEXTS)
