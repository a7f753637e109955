"""What the service's refusals mean."""

from typing import Any

import pytest
from flexchat_anthropic.errors import REFUSALS, is_about_thinking
from flexchat_sdk import ProviderError, ProviderRateLimitError, ProviderRequestError


def error(kind: str, message: str = "m", **rest: Any) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, **rest}


def failed(body: Any, status: int | None, **headers: str) -> ProviderError:
    return REFUSALS.error(
        body,
        status=status,
        headers={k.replace("_", "-"): v for k, v in headers.items()},
        host="h",
        path="/v1/messages",
        model="m-1",
        mask=lambda text: text.replace("KEY", "***"),
    )


@pytest.mark.parametrize(
    ("status", "body", "name", "retryable"),
    [
        (400, error("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"), "ContextLengthError", False),
        (
            400,
            error("invalid_request_error", "input length and `max_tokens` exceed context limit: 1 + 2 > 2"),
            "ContextLengthError",
            False,
        ),
        (400, error("invalid_request_error", "Your credit balance is too low"), "ProviderRateLimitError", False),
        (400, error("invalid_request_error"), "ProviderRequestError", False),
        (
            400,
            error("invalid_request_error", "Output blocked by content filtering policy"),
            "ContentFilterError",
            False,
        ),
        (401, error("authentication_error", "invalid x-api-key"), "ProviderAuthError", False),
        (402, error("billing_error"), "ProviderRateLimitError", False),
        (403, error("permission_error"), "ProviderAuthError", False),
        (404, error("not_found_error", "model: m-1"), "ModelNotFoundError", False),
        (404, error("not_found_error", "Not Found"), "ProviderRequestError", False),
        (404, "<html>", "ProviderProtocolError", False),
        (408, "", "ProviderTimeoutError", True),
        (409, error("conflict_error"), "ProviderRequestError", False),
        (412, error("conflict_error"), "ProviderRequestError", False),
        (413, error("request_too_large"), "ContextLengthError", False),
        (429, error("rate_limit_error"), "ProviderRateLimitError", True),
        (500, error("api_error"), "ProviderOverloadedError", True),
        (503, "upstream connect error", "ProviderOverloadedError", True),
        (504, error("timeout_error"), "ProviderTimeoutError", True),
        (529, error("overloaded_error", "Overloaded"), "ProviderOverloadedError", True),
        # In the middle of a stream the type stands for a status.
        (None, error("overloaded_error"), "ProviderOverloadedError", True),
        (None, error("rate_limit_error"), "ProviderRateLimitError", True),
        (200, error("invalid_request_error"), "ProviderRequestError", False),
        (None, error("invalid_request_error", "prompt is too long"), "ContextLengthError", False),
        (None, error("newest_error"), "ProviderOverloadedError", True),
    ],
)
def test_each_refusal_has_its_class(status: int | None, body: Any, name: str, retryable: bool) -> None:
    """By text, type and status (TC-84)."""
    made = failed(body, status)

    assert (type(made).__name__, made.retryable) == (name, retryable)
    assert (made.provider, made.model) == ("anthropic", "m-1")
    assert not isinstance(made, ProviderRateLimitError) or (made.kind == "rate") is retryable


def test_what_the_service_says_beside_it() -> None:
    """Its type as code, its name for the request, how long to wait, whether to ask again."""
    made = failed(error("overloaded_error", request_id="req_1"), 529, retry_after="7")
    assert (made.code, made.request_id, made.retry_after_s, made.status) == ("overloaded_error", "req_1", 7.0, 529)
    assert failed(error("api_error", request_id="x"), 500, request_id="req_2").request_id == "req_2"
    assert failed(error("api_error"), 500, x_should_retry="false").retryable is False
    assert failed(error("conflict_error"), 409, x_should_retry="true").retryable is True
    assert failed(error("overloaded_error"), None).status == 529


def test_a_schema_that_is_refused_is_named() -> None:
    """As recorded."""
    text = "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false"
    made = failed(error("invalid_request_error", text), 400)
    assert isinstance(made, ProviderRequestError)
    assert made.kind == "invalid_schema"


def test_refused_thinking_is_told_from_other_refusals() -> None:
    """What is bound to another conversation, or has no valid signature, can be left out."""
    for text in (
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages.3.content.0.thinking: The block is bound to a different conversation.",
        "messages.3.content.8: `thinking` or `redacted_thinking` blocks in the latest message cannot be modified.",
    ):
        assert is_about_thinking(error("invalid_request_error", text))
    for other in (
        error("invalid_request_error", "thinking.budget_tokens: too small"),
        "x",
        None,
        error("x", "signature"),
    ):
        assert not is_about_thinking(other)


def test_hostile_bodies_raise_nothing_and_show_no_key() -> None:
    """Any JSON value, a page, text; keys are masked."""
    bodies: tuple[Any, ...] = (
        None,
        1,
        [],
        {},
        {"error": 1},
        {"error": {"message": [], "type": {}}, "request_id": 1},
        "<html>KEY",
    )
    for body in bodies:
        for status in (None, 400, 404, 418, 500):
            made = failed(body, status)
            assert isinstance(made, ProviderError)
            assert str(made)
    quoting = error("KEY", "x-api-key KEY", request_id="KEY")
    assert "KEY" not in f"{failed(quoting, 401)} {vars(failed(quoting, 401))}"
