"""Every refusal has its class; its text says what to do, and holds no key."""

from collections.abc import Callable
from typing import Any

import pytest
from flexchat_ollama.errors import REFUSALS, malformed_call
from flexchat_sdk import (
    ContextLengthError,
    ModelNotFoundError,
    ProviderAuthError,
    ProviderConnectionError,
    ProviderError,
    ProviderOverloadedError,
    ProviderProtocolError,
    ProviderRateLimitError,
    ProviderRequestError,
    ProviderTimeoutError,
)
from flexchat_sdk.http.secrets import refusal_data

KEY = "0123456789abcdef.canary"


def error(status: int | None, body: object, model: str | None = "m", **headers: str) -> ProviderError:
    return REFUSALS.error(
        body,
        status=status,
        headers={name.replace("_", "-"): value for name, value in headers.items()},
        host="http://127.0.0.1:11434",
        path="/api/chat",
        model=model,
        mask=lambda text: text.replace(KEY, "***"),
    )


TABLE: list[tuple[int | None, str, type[ProviderError], bool, str | None]] = [
    (400, "registry.ollama.ai/library/x:1b does not support tools", ProviderRequestError, False, "unsupported_tools"),
    (400, '"m" does not support thinking', ProviderRequestError, False, "unsupported_feature"),
    (400, '"m" does not support chat', ProviderRequestError, False, "unsupported_feature"),
    (400, '"m" does not support generate', ProviderRequestError, False, "unsupported_feature"),
    (400, "m does not support vision", ProviderRequestError, False, "unsupported_feature"),
    (400, "the input length exceeds the context length", ContextLengthError, False, None),
    (400, "request (9 tokens) exceeds the available context size (4 tokens)", ContextLengthError, False, None),
    (400, "prompt too long; exceeded max context length by 7 tokens", ContextLengthError, False, None),
    (500, "input length (9 tokens) exceeds the model's maximum context length (4)", ContextLengthError, False, None),
    (None, "exceeds the available context size", ContextLengthError, False, None),
    (413, "too large", ContextLengthError, False, None),
    (400, "model is required", ProviderRequestError, False, None),
    (400, "json: cannot unmarshal array into Go struct field", ProviderRequestError, False, None),
    (500, 'option "num_ctx" must be of type integer', ProviderRequestError, False, None),
    (None, "Failed to create new sequence: failed to process inputs: image: unknown format\n", ProviderRequestError,
     False, "unsupported_feature"),
    (401, "unauthorized", ProviderAuthError, False, None),
    (None, "unauthorized", ProviderAuthError, False, None),
    (403, "cloud features are disabled", ProviderAuthError, False, None),
    (404, "model 'm' not found", ModelNotFoundError, False, None),
    (404, 'model "m" not found, try pulling it first', ModelNotFoundError, False, None),
    (404, "no such thing", ProviderRequestError, False, "not_found"),
    (408, "slow", ProviderTimeoutError, True, None),
    (429, "too many requests", ProviderRateLimitError, True, "rate"),
    (429, "you have reached your weekly usage limit, upgrade", ProviderRateLimitError, False, "quota"),
    (402, "this model requires a subscription", ProviderRateLimitError, False, "quota"),
    (400, "prompt is too long: 9000 tokens", ContextLengthError, False, None),
    (499, "request canceled", ProviderConnectionError, False, None),
    (500, "model requires more system memory (8 GiB) than is available", ProviderOverloadedError, True, None),
    (500, "llama runner process has terminated: out of memory", ProviderOverloadedError, True, None),
    (None, "an error was encountered while running the model: unexpected EOF", ProviderOverloadedError, True, None),
    (502, "upstream", ProviderOverloadedError, True, None),
    (503, "server busy, please try again.  maximum pending requests exceeded", ProviderOverloadedError, True, None),
]  # fmt: skip


@pytest.mark.parametrize(("status", "text", "kind", "retryable", "narrower"), TABLE)
def test_the_table_of_errors(
    status: int | None, text: str, kind: type[ProviderError], retryable: bool, narrower: str | None
) -> None:
    """Text first, status second; in the middle of a stream there is only the text (TC-84)."""
    found = error(status, {"error": text})

    assert type(found) is kind
    assert (found.retryable, found.status, found.model, found.provider) == (retryable, status, "m", "ollama")
    assert getattr(found, "kind", None) == narrower


@pytest.mark.parametrize(
    ("status", "text", "advice"),
    [
        (404, "model 'm' not found", "`ollama pull m`"),
        (401, "unauthorized", "`ollama signin`"),
        (400, '"m" does not support thinking', "m cannot think: leave out reasoning"),
        (400, "x does not support tools", "m cannot call tools"),
    ],
)
def test_a_text_says_what_to_do(status: int, text: str, advice: str) -> None:
    """In words for the person who reads it."""
    assert advice in str(error(status, {"error": text}))


def test_the_option_that_is_wrong_is_named() -> None:
    """As the parameter."""
    found = error(500, {"error": 'option "stop" must be of type array'})

    assert isinstance(found, ProviderRequestError)
    assert found.param == "stop"


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        5,
        "",
        {},
        {"error": None},
        {"error": 1},
        {"error": {"message": []}},
        "<html>x</html>",
        "404 page not found",
    ],
)
@pytest.mark.parametrize("status", [None, 400, 404, 418, 500])
def test_any_body_makes_an_error_with_a_sentence(status: int | None, body: Any) -> None:
    """A proxy's page and a body of another form are no traceback."""
    text = str(error(status, body))

    assert text
    assert "<html" not in text


def test_a_path_that_is_not_there_means_a_wrong_base_url() -> None:
    """Ollama answers so for /v1/api/chat."""
    found = error(404, refusal_data(b"404 page not found"))

    assert isinstance(found, ProviderProtocolError)
    assert "without /v1" in str(found)


def test_other_forms_of_error_are_read() -> None:
    """An error object, as on /v1; a message; plain text."""
    for body in ({"error": {"message": "boom"}}, {"message": "boom"}, {"StatusCode": 500, "error": "boom"}, "boom"):
        assert "boom" in str(error(500, body))


def test_keys_are_masked_and_pages_are_cut() -> None:
    """Whatever a server quotes."""
    found = error(401, {"error": f"bad key {KEY} " + "x" * 100_000})

    assert KEY not in str(found)
    assert len(str(found)) < 1000


def test_a_long_text_takes_time_in_proportion_to_its_length(cpu_growth: Callable[..., float]) -> None:
    """Whatever status it comes with."""

    def read(size: int) -> None:
        for status in (None, 400, 404, 500):
            error(status, {"error": "x" * size})

    assert cpu_growth(read, 10_000, 100_000) < 30


def test_what_a_service_says_of_asking_again_is_heard() -> None:
    """retry-after and x-should-retry, as gateways send them."""
    assert error(429, {}, retry_after="7").retry_after_s == 7
    assert error(503, {}, x_should_retry="false").retryable is False


@pytest.mark.parametrize(
    "text",
    [
        'llama-server returned invalid tool call arguments for "f": unexpected end of JSON input',
        "error parsing tool call: raw='{', err=unexpected end of JSON input",
        "failed to parse Laguna JSON tool call arguments: x",
        "incomplete GLM tool call: EOF",
        "invalid tool call: no opening parenthesis",
    ],
)
def test_a_call_the_server_could_not_read_is_told_apart(text: str) -> None:
    """It is the model's mistake, and asking again may help."""
    assert malformed_call({"error": text}) == text
    assert malformed_call({"error": "model requires more system memory"}) is None
