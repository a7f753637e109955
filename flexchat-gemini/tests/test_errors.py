"""A refusal means what it says, not what its status says."""

import json
from typing import Any

import pytest
from flexchat.errors import MAX_RETRY_AFTER_S
from flexchat_gemini.errors import REFUSALS, is_about_batches, knows_no_json_schema
from flexchat_sdk import ProviderError
from flexchat_sdk.http.secrets import refusal_data
from hypothesis import given
from hypothesis import strategies as st


def error(body: object, status: int | None = 400, headers: dict[str, str] | None = None) -> Any:
    return REFUSALS.error(
        body,
        status=status,
        headers=headers or {},
        host="h.example",
        path="/v1beta/models/m:generateContent",
        model="m",
        mask=lambda text: text.replace("AIzaSECRET", "***"),
    )


def google(message: str, word: str = "INVALID_ARGUMENT", code: int = 400, *details: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": word, "details": [*details]}}


def quota(*ids: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": each} for each in ids]}


KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
WAIT = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.5s"}


@pytest.mark.parametrize(
    ("status", "body", "kind", "retryable"),
    [
        (400, google("API key not valid.", "INVALID_ARGUMENT", 400, KEY), "ProviderAuthError", False),
        (400, google("API key expired. Please renew"), "ProviderAuthError", False),
        (
            400,
            google("The input token count (9) exceeds the maximum number of tokens allowed (8)."),
            "ContextLengthError",
            False,
        ),
        (400, google("Unable to submit request because the input token count is 9 but"), "ContextLengthError", False),
        (413, "too large", "ContextLengthError", False),
        (400, google("User location is not supported", "FAILED_PRECONDITION"), "ProviderAuthError", False),
        (400, google("Please enable billing on project", "FAILED_PRECONDITION"), "ProviderRateLimitError", False),
        (400, google("Unknown name"), "ProviderRequestError", False),
        (401, google("no", "UNAUTHENTICATED", 401), "ProviderAuthError", False),
        (403, google("no", "PERMISSION_DENIED", 403), "ProviderAuthError", False),
        (404, google("models/m is not found for API version v1", "NOT_FOUND", 404), "ModelNotFoundError", False),
        (404, google("Requested entity was not found.", "NOT_FOUND", 404), "ProviderRequestError", False),
        (404, "<html>not here</html>", "ProviderProtocolError", False),
        (429, google("slow", "RESOURCE_EXHAUSTED", 429, WAIT), "ProviderRateLimitError", True),
        (
            429,
            google("day", "RESOURCE_EXHAUSTED", 429, quota("XPerMinute", "XPerDayY")),
            "ProviderRateLimitError",
            False,
        ),
        (500, google("x", "INTERNAL", 500), "ProviderOverloadedError", True),
        (503, google("The model is overloaded.", "UNAVAILABLE", 503), "ProviderOverloadedError", True),
        (504, google("x", "DEADLINE_EXCEEDED", 504), "ProviderTimeoutError", True),
        (499, google("x", "CANCELLED", 499), "ProviderOverloadedError", True),
        (502, "<html>bad gateway", "ProviderOverloadedError", True),
        (None, google("x", "UNAVAILABLE", 503), "ProviderOverloadedError", True),
        (None, {"error": {"status": "RESOURCE_EXHAUSTED"}}, "ProviderRateLimitError", True),
        (None, {"error": {"status": "INVALID_ARGUMENT", "message": "x"}}, "ProviderRequestError", False),
        (None, {"error": "boom"}, "ProviderOverloadedError", True),
        (None, {"error": {"status": "PUP_LIMITED_DISABLED"}}, "ProviderAuthError", False),
        (None, {"error": {"status": "MISSING_THOUGHT_SIGNATURE"}}, "ProviderRequestError", False),
        (400, [google("API key not valid.", "INVALID_ARGUMENT", 400, KEY)], "ProviderAuthError", False),
        (405, {"message": "method not allowed"}, "ProviderRequestError", False),
    ],
)
def test_each_refusal_has_its_class(status: int | None, body: object, kind: str, retryable: bool) -> None:
    """By reason, then text, then status; whole, in a list, and in the middle of a stream (TC-84)."""
    found = error(body, status)

    assert (type(found).__name__, found.retryable) == (kind, retryable)
    assert (found.provider, found.model) == ("gemini", "m")


def test_a_budget_is_told_from_a_rate() -> None:
    """What resets at midnight is not waited for; a rate's delay comes from the body, a proxy's from the header."""
    rate = error(google("x", "RESOURCE_EXHAUSTED", 429, quota("PerMinute"), WAIT), 429)
    day = error(google("x", "RESOURCE_EXHAUSTED", 429, quota("PerDay")), 429)

    assert (rate.kind, rate.retry_after_s, rate.code) == ("rate", 0.5, "RESOURCE_EXHAUSTED")
    assert day.kind == "quota"
    spent = error(google("Your prepayment credits are depleted.", "RESOURCE_EXHAUSTED", 429), 429)
    assert (spent.retryable, spent.kind) == (False, "quota")  # type: ignore[attr-defined]
    assert error("busy", 429, {"retry-after": "3"}).retry_after_s == 3
    assert (
        error(google("x", "RESOURCE_EXHAUSTED", 429, {"retryDelay": "9" * 400 + "s"}), 429).retry_after_s
        == MAX_RETRY_AFTER_S
    )
    for odd in ("-1s", "1 s", 3, None):
        assert error(google("x", "RESOURCE_EXHAUSTED", 429, {"retryDelay": odd}), 429).retry_after_s is None


def test_request_errors_say_what_kind_they_are() -> None:
    """So that a caller can tell a missing ability from a bug."""
    assert error(google("Function calling is not enabled for models/m")).kind == "unsupported_tools"
    assert (
        error(google("Function call is missing a thought_signature in functionCall parts")).kind == "thought_signature"
    )
    assert error(google("Cannot find field at 'tools[0].function_declarations[0].parameters'")).kind == "invalid_schema"
    assert error(google("other")).kind is None


def test_no_error_shows_a_key() -> None:
    """Nor a long page."""
    found = error(google("the key AIzaSECRET is bad " + "x" * 5000), 403)

    assert "SECRET" not in str(found)
    assert len(str(found)) < 600


def test_services_that_know_no_json_schema_are_recognised() -> None:
    """In both spellings, for parameters and for answers."""
    for name in ("parametersJsonSchema", "parameters_json_schema", "responseJsonSchema"):
        text = f"Invalid JSON payload received. Unknown name \"{name}\" at 'tools[0]': Cannot find field."
        assert knows_no_json_schema(google(text))
        assert knows_no_json_schema([google(text)])
    assert not knows_no_json_schema(google('Unknown name "$schema"'))


def test_refusals_of_batches_are_recognised() -> None:
    """So that texts are sent one by one."""
    assert is_about_batches(error(google("Model does not support batchEmbedContents"), 400))
    assert is_about_batches(error("not found", 404))
    assert not is_about_batches(error(google("API key not valid."), 400))
    assert not is_about_batches(error(google("batch"), 429))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "message", "status", "details", "code", "violations", "quotaId", "reason", "detail"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON | st.text(), st.sampled_from([None, 400, 404, 429, 500]))
def test_any_body_is_an_error_of_ours(body: object, status: int | None) -> None:
    """Whatever a server says."""
    assert isinstance(error(body, status), ProviderError)
    assert knows_no_json_schema(body) in (True, False)


@given(st.binary(max_size=50))
def test_any_bytes_are_a_body(body: bytes) -> None:
    """JSON data where they are JSON, text where not."""
    found = refusal_data(body)

    assert isinstance(found, str) or json.loads(body) == found or found != found  # NaN
