"""A refusal is classified by code, type, text and status, in this order; keys never show."""

import json
from typing import Any

import pytest
from flexchat_openai.errors import REFUSALS
from flexchat_sdk import (
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
from flexchat_sdk.http.secrets import key_mask, refusal_data

Body = dict[str, Any] | list[Any] | str


def error_of(body: Body, status: int | None, headers: dict[str, str] | None = None) -> ProviderError:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return REFUSALS.error(
        refusal_data(raw),
        status=status,
        headers=headers or {},
        host="h.example",
        path="/chat/completions",
        model="m",
        mask=key_mask(["topsecretkey"]),
    )


def openai(message: str = "text", code: Any = None, type: str | None = None, **rest: Any) -> dict[str, Any]:
    return {"error": {"message": message, "code": code, "type": type, "param": None, **rest}}


@pytest.mark.parametrize(
    ("status", "body", "kind", "retryable"),
    [
        (400, openai(code="context_length_exceeded"), ContextLengthError, False),
        (400, openai("This model's maximum context length is 8192 tokens"), ContextLengthError, False),
        (400, openai("the request exceeds the available context size"), ContextLengthError, False),
        (413, "too big", ContextLengthError, False),
        (400, {"error": "Trying to keep the first 5000 tokens when context the overflows."}, ContextLengthError, False),
        (
            400,
            {"message": "The input (5000 tokens) is longer than the model's context length (4096 tokens)."},
            ContextLengthError,
            False,
        ),
        (400, openai("The total length of all messages is too long."), ContextLengthError, False),
        (400, {"message": "Too many input tokens. Max input tokens: 200000"}, ContextLengthError, False),
        (400, openai(code="content_filter", innererror={}), ContentFilterError, False),
        (400, {"error": {"message": "x", "innererror": {"code": "content_filter"}}}, ContentFilterError, False),
        (403, openai("input was flagged by moderation"), ContentFilterError, False),
        (400, openai(code="model_not_found"), ModelNotFoundError, False),
        (404, openai(code="model_not_found"), ModelNotFoundError, False),
        (404, openai("The model `x` does not exist."), ModelNotFoundError, False),
        (404, {"detail": "Not Found"}, ProviderRequestError, False),
        (404, "<html>nothing</html>", ProviderProtocolError, False),
        (404, "404 page not found", ProviderProtocolError, False),
        (401, openai(code="invalid_api_key"), ProviderAuthError, False),
        (401, "", ProviderAuthError, False),
        (401, {"detail": "Invalid API Key"}, ProviderAuthError, False),
        (401, openai(code="401"), ProviderAuthError, False),
        (400, {"code": "invalid-argument", "error": "Incorrect API key provided"}, ProviderAuthError, False),
        (403, openai("country not supported"), ProviderAuthError, False),
        (402, openai("Insufficient balance"), ProviderRateLimitError, False),
        (400, openai("Your credit balance is too low to use the API"), ProviderRateLimitError, False),
        (400, {"object": "error", "message": "Invalid model: x", "type": "invalid_model"}, ModelNotFoundError, False),
        (400, openai("Model Not Exist", code="invalid_request_error"), ModelNotFoundError, False),
        (400, openai("a/b is not a valid model ID", code=400), ModelNotFoundError, False),
        (400, {"code": "invalid-argument", "error": "Model not found: x"}, ModelNotFoundError, False),
        (400, openai("This model's maximum prompt length is 131072"), ContextLengthError, False),
        (400, openai("Your request exceeded model token limit: 8192"), ContextLengthError, False),
        (422, {"error": "`inputs` tokens + `max_new_tokens` must be <= 4096"}, ContextLengthError, False),
        (400, {"message": "Input is too long for requested model."}, ContextLengthError, False),
        (429, {"error_code": "REQUEST_LIMIT_EXCEEDED", "message": "too many"}, ProviderRateLimitError, True),
        (429, openai(code="rate_limit_exceeded", type="tokens"), ProviderRateLimitError, True),
        (429, "Too many requests", ProviderRateLimitError, True),
        (429, openai(code="insufficient_quota"), ProviderRateLimitError, False),
        (429, openai(code="daily_spend_limit_exceeded"), ProviderRateLimitError, False),
        (429, openai("Request too large for m: limit 1, requested 2"), ProviderRateLimitError, False),
        (408, "", ProviderTimeoutError, True),
        (409, openai(), ProviderRequestError, False),
        (422, {"detail": [{"msg": "field required"}]}, ProviderRequestError, False),
        (400, openai(type="invalid_request_error"), ProviderRequestError, False),
        (418, "teapot", ProviderRequestError, False),
        (500, openai(type="server_error"), ProviderOverloadedError, True),
        (502, "<html>Bad gateway</html>", ProviderOverloadedError, True),
        (503, openai(code="server_is_overloaded"), ProviderOverloadedError, True),
        (529, "", ProviderOverloadedError, True),
        (None, openai(code="rate_limit_exceeded"), ProviderRateLimitError, True),
        (None, openai(code=429), ProviderRateLimitError, True),
        (None, openai(code=400), ProviderRequestError, False),
        (None, openai(type="invalid_request_error"), ProviderRequestError, False),
        (None, openai(code="server_error"), ProviderOverloadedError, True),
        (None, openai(), ProviderOverloadedError, True),
        (None, {"error": "upstream died"}, ProviderOverloadedError, True),
        (None, openai("the prompt is too long"), ContextLengthError, False),
        (400, [{"error": {"message": "API key not valid."}}], ProviderAuthError, False),
        (400, {"error": {"code": None, "message": None}}, ProviderRequestError, False),
        (400, {"error": {"code": {"x": 1}, "type": [], "param": {}, "metadata": 1}}, ProviderRequestError, False),
    ],
)  # fmt: skip
def test_each_refusal_has_its_class(status: int | None, body: Body, kind: type[ProviderError], retryable: bool) -> None:
    """Statuses, codes and texts of many services, one a row."""
    error = error_of(body, status)

    assert type(error) is kind
    assert error.retryable is retryable
    assert (error.provider, error.model) == ("openai", "m")


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "the reason"}},
        {"error": {"message": [{"msg": "the reason"}]}},
        {"error": "the reason"},
        {"message": "the reason"},
        {"detail": "the reason"},
        {"detail": {"message": "the reason"}},
        {"detail": [{"loc": ["body"], "msg": "the reason"}]},
        {"success": False, "errors": [{"code": 7003, "message": "the reason"}]},
        {"code": 20015, "msg": "the reason"},
        "the reason",
    ],
)
def test_the_reason_is_found_in_every_form_of_body(body: Body) -> None:
    """OpenAI's, xAI's, FastAPI's, Cloudflare's, a proxy's."""
    assert str(error_of(body, 400)).endswith("refused the request: the reason")


def test_the_kind_of_a_rate_limit_is_told() -> None:
    """Quota needs a person, rate passes."""
    rate, quota = error_of(openai(), 429), error_of(openai(code="insufficient_quota"), 429)

    assert [e.kind for e in (rate, quota) if isinstance(e, ProviderRateLimitError)] == ["rate", "quota"]


def test_headers_are_read() -> None:
    """How long to wait, whether to ask again at all, and the name to quote to support."""
    error = error_of(openai(), 429, {"retry-after": "7", "x-should-retry": "false", "x-request-id": "r"})
    conflict = error_of(openai(), 409, {"x-should-retry": "true", "retry-after": "0"})

    assert (error.retry_after_s, error.retryable, error.request_id) == (7.0, False, "r")
    assert (conflict.retryable, conflict.retry_after_s) == (True, None)


def test_a_key_is_never_shown() -> None:
    """A 401 quotes the key, or part of it."""
    error = error_of(openai("Incorrect API key provided: topsecretkey or sk-ab*****wxyz.", "invalid_api_key"), 401)

    for piece in ("topsecret", "sk-", "wxyz"):
        assert piece not in str(error)
    assert "api_key" in str(error)


def test_what_the_upstream_said_is_passed_on_but_not_without_end() -> None:
    """OpenRouter hides the reason in metadata.raw; pages are cut."""
    error = error_of(openai("Provider returned error", 400, metadata={"raw": "bad tool\nschema"}), 400)

    assert "Provider returned error bad tool schema" in str(error)
    assert len(str(error_of("x" * 10_000, 500))) < 700


def test_tools_that_need_the_other_api_say_so() -> None:
    """The error has a kind and says what can be done."""
    text = "Function tools with reasoning_effort are not supported for m in /v1/chat/completions. Use /v1/responses"
    error = error_of(openai(text, param="reasoning_effort"), 400)

    assert isinstance(error, ProviderRequestError)
    assert (error.kind, error.param) == ("needs_responses_api", "reasoning_effort")
    assert 'api = "responses"' in str(error)


def test_a_model_that_does_not_reason_names_what_it_refuses() -> None:
    """gpt-4o and its like refuse to include what they do not make; the setting that helps is named."""
    body = openai("Encrypted content is not supported with this model.", param="include")

    assert "include = []" in str(error_of(body, 400))
