"""Classification of Anthropic's errors, by the rows of refusals.toml."""

from __future__ import annotations

from flexchat_sdk import Refusals, read_report

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
_THINKING_TEXTS = ("bound to a different conversation", "invalid `signature`", "cannot be modified")

REFUSALS = Refusals(
    provider="anthropic",
    package=__package__,
    status_of=_STATUS_OF,
    key="api_key, or auth_token",
    request_id="request-id",
)


def is_about_thinking(body: object) -> bool:
    """Say whether a refusal is about thinking blocks that were sent back, which may be left out instead."""
    report = read_report(body)
    return report.says("thinking", "the block is bound") and report.says(*_THINKING_TEXTS)
