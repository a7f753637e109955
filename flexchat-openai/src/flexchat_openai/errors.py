"""Maps a server's refusal to an error: OpenAI's and those of servers that speak its API.

The order is code, type, text, status: services use different statuses for the same problem.
"""

from __future__ import annotations

import attrs
from flexchat_sdk import Refusals, Report, Row, message_in, read_report, word_in

_REQUEST = (None, 400, 413, 422)
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
    "context the overflows",  # LM Studio, in these words
    "context overflow",
    "longer than the model's context length",  # SGLang
    "exceeds the model's context length",
    "exceeds the maximum allowed length",  # SGLang
    "exceeds the model's maximum context",
    "total length of all messages is too long",  # Perplexity
    "exceeds the maximum context",
    "larger than the context",
    "context length exceeded",
    "context window exceeded",
    "too many input tokens",
    "input tokens exceed",
    "maximum number of tokens",
    "too large for model with",  # Mistral
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
    "*_spend_limit_exceeded",
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
_INCLUDE = "(the model does not reason: set extra_body = { include = [] } for this LLM in the config)"
_NO_API = "{host} has no {path} here: is base_url right?"
_NO_RESPONSES = ' api = "chat" uses Chat Completions instead'

_ROWS = (
    Row("too_long", status=(413,)),
    Row("too_long", status=_REQUEST, codes=_TOO_LONG_CODES, says=_TOO_LONG_TEXTS),
    Row("filtered", codes=_FILTER_CODES),
    Row("filtered", status=(403,), says=("moderation", "flagged")),
    Row("no_model", codes=_NO_MODEL_CODES),
    Row("no_model", status=_REQUEST, says=_NO_MODEL_TEXTS),
    Row("quota", status=(402,)),
    Row("quota", codes=_QUOTA_CODES, says=_QUOTA_TEXTS),
    Row("key", status=(401,)),
    Row("key", codes=_KEY_CODES),
    Row("key", status=_REQUEST, says=_KEY_TEXTS),
    # Too large for the allowed rate: waiting does not help.
    Row("rate", status=(429,), says=("request too large",), retryable=False),
    Row("rate", status=(None,), codes=_RATE_CODES),
    Row("no_api", status=(404,), is_json=False, path="/responses", text=_NO_API + _NO_RESPONSES),
    Row("no_api", status=(404,), is_json=False, text=_NO_API + " It often ends with /v1"),
    Row("no_model", status=(404,), says=("model",)),
    Row(
        "not_found",
        status=(404,),
        path="/responses",
        text="{host} found nothing at this URL (is base_url right?" + _NO_RESPONSES + "): {text}",
    ),
    Row("overloaded", status=(None,), codes=_OVERLOAD_CODES),
    Row(
        "request",
        status=(None, 400, 422),
        says=("/v1/responses",),
        path="/chat/completions",
        text='{host} refused the request: {text} (set api = "responses" for this LLM in the config)',
        known={"kind": "needs_responses_api"},
    ),
    Row(
        "request",
        status=(None, 400, 422),
        param="include",
        says=("encrypted content",),
        text="{host} refused the request: {text} " + _INCLUDE.replace("{", "{{").replace("}", "}}"),
    ),
    Row("request", status=(None,), codes=("*invalid*",)),
)


def _read(body: object) -> Report:
    """Read a body in any form that servers use; OpenRouter and Azure add details in their own tables."""
    report = read_report(body)
    if isinstance(body, list) and body:
        body = body[0]
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return report
    metadata, inner = error.get("metadata"), error.get("innererror")
    if isinstance(metadata, dict) and (raw := message_in(metadata.get("raw"))):
        report = attrs.evolve(report, text=" ".join(t for t in (report.text, raw) if t))
    if not error.get("code") and isinstance(inner, dict):
        report = attrs.evolve(report, code=word_in(inner.get("code")))
    return report


REFUSALS = Refusals(provider="openai", rows=_ROWS, read=_read)
