"""Exceptions of the SDKs, as FlexChat's errors: by their status, else by the names of their classes."""

import http
import json

import anthropic
import httpx
import httpx2
import ollama
import pytest
from flexchat.domain.masking import Mask
from flexchat_langchain.errors import provider_error
from flexchat_sdk import (
    ContentFilterError,
    ContextLengthError,
    ModelNotFoundError,
    ProviderAuthError,
    ProviderConnectionError,
    ProviderOverloadedError,
    ProviderProtocolError,
    ProviderRateLimitError,
    ProviderRequestError,
    ProviderTimeoutError,
)
from hypothesis import given
from hypothesis import strategies as st


def made(error, mask=None):
    return provider_error(error, service="ChatX", model="m", mask=mask or Mask())


def raised(cls_name, text="no", *bases, **attributes):
    """An exception of a package that is not installed here."""
    return type(cls_name, bases or (Exception,), attributes)(text)


@pytest.mark.parametrize(
    ("status", "text", "expected", "retryable"),
    [
        (400, "temperature: range", ProviderRequestError, False),
        (400, "prompt is too long: 9 tokens", ContextLengthError, False),
        (400, "API key not valid. Please pass a valid API key.", ProviderAuthError, False),
        (400, "Your credit balance is too low", ProviderRateLimitError, False),
        (400, "The response was filtered (content_filter)", ContentFilterError, False),
        (401, "no", ProviderAuthError, False),
        (402, "no", ProviderRateLimitError, False),
        (403, "no", ProviderAuthError, False),
        (404, "model 'm' not found", ModelNotFoundError, False),
        (404, "404 page not found", ProviderRequestError, False),
        (408, "no", ProviderTimeoutError, True),
        (413, "no", ContextLengthError, False),
        (429, "slow down", ProviderRateLimitError, True),
        (429, "insufficient_quota", ProviderRateLimitError, False),
        (500, "no", ProviderOverloadedError, True),
        (529, "Overloaded", ProviderOverloadedError, True),
        (302, "no", ProviderProtocolError, False),
    ],
)
def test_a_status_decides(status, text, expected, retryable):
    error = made(ollama.ResponseError(text, status))
    assert (type(error), error.retryable, error.status) == (expected, retryable, status)
    assert "ChatX" in str(error)
    assert error.provider == "langchain"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (raised("DeadlineExceeded", code=(504, "deadline")), ProviderOverloadedError),  # Google's enum: number, text
        (raised("ResourceExhausted", code=http.HTTPStatus.TOO_MANY_REQUESTS), ProviderRateLimitError),
        (raised("Unauthenticated", grpc_status_code="x"), ProviderAuthError),
        (raised("ThrottlingException"), ProviderRateLimitError),
        (raised("ServiceUnavailable"), ProviderOverloadedError),
        (raised("ContextOverflowError"), ContextLengthError),
        (raised("SSLError", "no", ConnectionError), ProviderConnectionError),
        (httpx.ConnectError("refused"), ProviderConnectionError),
        (httpx2.ConnectError("refused"), ProviderConnectionError),
        (httpx2.ReadTimeout("late"), ProviderTimeoutError),
        (httpx.RemoteProtocolError("peer closed"), ProviderProtocolError),
        (TimeoutError(), ProviderTimeoutError),
        (ConnectionResetError("reset"), ProviderConnectionError),
        (anthropic.APIConnectionError(request=httpx2.Request("POST", "http://h")), ProviderConnectionError),
        (anthropic.APITimeoutError(request=httpx2.Request("POST", "http://h")), ProviderTimeoutError),
        (json.JSONDecodeError("no", "x", 0), ProviderProtocolError),
        (ollama.ResponseError("model is too big", -1), ProviderRequestError),
        (TypeError("unexpected keyword"), ProviderRequestError),
        (raised("Odd", code=True), ProviderRequestError),
        (raised("Odd", status_code="429"), ProviderRequestError),
    ],
)
def test_without_a_status_the_class_decides(error, expected):
    assert type(made(error)) is expected


def test_a_service_tells_when_to_ask_again_and_which_request_it_was():
    headers = {"Retry-After": "7", "Request-Id": "req_1"}
    response = httpx2.Response(429, headers=headers, request=httpx2.Request("POST", "http://h"))
    error = made(anthropic.RateLimitError("slow", response=response, body=None))
    assert (error.retry_after_s, error.request_id, error.status) == (7, "req_1", 429)


@given(st.text(max_size=60), st.integers(0, 700) | st.none())
def test_no_key_is_in_any_error(text, status):
    """Whatever a service says, the key is masked, and the text is a sentence of readable length."""
    key = "sk-secret-0123456789"
    error = raised("Strange", f"{text} {key} " * 40, status_code=status)
    seen = made(error, Mask([key]))
    assert key not in str(seen) + repr(vars(seen))
    assert len(str(seen)) < 1000


def test_an_exception_that_cannot_be_shown_is_shown_by_its_class():
    class BrokenError(Exception):
        def __str__(self):
            raise ValueError("no")

    assert "BrokenError" in str(made(BrokenError()))
    assert "<html" not in str(made(Exception("<html>Sign in</html>")))


def test_a_key_that_is_missing_is_said_to_be_missing():
    """ChatAnthropic without one sends an empty token, which its HTTP library calls a connection that failed."""
    error = anthropic.APIConnectionError(request=httpx2.Request("POST", "http://h"))
    error.__cause__ = httpx2.LocalProtocolError("Illegal header value b'Bearer '")
    assert isinstance(made(error), ProviderAuthError)
    error.__cause__ = httpx2.ConnectError("refused")
    assert isinstance(made(error), ProviderConnectionError)


def test_the_text_is_the_services_own():
    """SDKs write the body as Python has it into theirs."""
    body = {"type": "error", "error": {"type": "not_found_error", "message": "model: m"}}
    error = raised("NotFoundError", f"Error code: 404 - {body}", status_code=404, body=body)
    assert str(made(error)) == "ChatX: the service has no model m: model: m"
    for odd in (None, "x", {"error": "gone"}, {"error": {"message": 3}}, [], 7):
        assert str(made(raised("E", "the text", status_code=400, body=odd))).endswith(("the text", "gone"))
