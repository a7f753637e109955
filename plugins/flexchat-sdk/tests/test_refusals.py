"""A vendor's table, then the ladder of statuses."""

import json

import pytest
from flexchat_sdk import (
    ContextLengthError,
    ModelNotFoundError,
    ProviderAuthError,
    ProviderOverloadedError,
    ProviderProtocolError,
    ProviderRateLimitError,
    ProviderRequestError,
    ProviderTimeoutError,
    Refusals,
    Report,
    Row,
)

PLAIN = Refusals(provider="p")


def error_of(body, status, refusals=PLAIN, model="m", headers=None, path="/chat"):
    return refusals.error(
        body,
        status=status,
        headers=headers or {},
        host="h",
        path=path,
        model=model,
        mask=lambda t: t.replace("KEY", "…"),
    )


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, "no", ProviderAuthError),
        (402, "no", ProviderRateLimitError),
        (403, "no", ProviderAuthError),
        (404, "no", ProviderProtocolError),
        (404, {"error": "no such model"}, ModelNotFoundError),
        (404, {"error": "nothing"}, ProviderRequestError),
        (408, "no", ProviderTimeoutError),
        (413, "no", ContextLengthError),
        (429, "no", ProviderRateLimitError),
        (400, "no", ProviderRequestError),
        (418, "no", ProviderRequestError),
        (503, "no", ProviderOverloadedError),
        (None, "no", ProviderOverloadedError),
        (None, {"error": {"code": 429}}, ProviderRateLimitError),
    ],
)
def test_what_no_row_fits_is_decided_by_its_status(status, body, kind):
    """An error in the middle of a stream has the status that its code says."""
    assert type(error_of(body, status)) is kind


def test_rows_are_tried_in_order_and_speak_for_themselves():
    rows = Refusals(
        provider="p",
        rows=(
            Row("no_model", codes=("gone",)),
            Row("rate", status=(429,), says=("too large",), retryable=False),
            Row("quota", codes=("*_spent",)),
            Row("request", path="/chat", param="x", text="{host}: set {key} ({text})", known={"kind": "k"}),
        ),
        status_of={"busy": 503},
    )

    assert type(error_of({"error": {"code": "gone"}}, 400, rows)) is ModelNotFoundError
    assert type(error_of({"error": {"code": "gone"}}, 400, rows, model=None)) is ProviderRequestError
    assert error_of({"error": "Request too large"}, 429, rows).retryable is False
    assert error_of({"error": {"type": "month_spent"}}, 400, rows).kind == "quota"
    assert error_of({"error": {"type": "busy"}}, None, rows).status == 503
    made = error_of({"error": {"message": "{m} KEY", "param": "x"}}, 400, rows)
    assert (str(made), made.kind, made.param) == ("h: set api_key ({m} …)", "k", "x")


def test_what_is_known_of_an_error():
    headers = {"x-request-id": "r", "retry-after": "7", "x-should-retry": "false"}
    made = error_of({"error": {"message": "m " * 2000, "code": "Busy"}}, 503, headers=headers)

    assert (made.provider, made.model, made.status, made.code) == ("p", "m", 503, "busy")
    assert (made.request_id, made.retry_after_s, made.retryable) == ("r", 7, False)
    assert len(str(made)) < 600


@pytest.mark.parametrize(
    "body", [None, 5, [], [[]], {"error": []}, {"error": {"message": {"a": 1}, "code": []}}, "<p>"]
)
def test_any_body_is_an_error_in_words(body):
    assert str(error_of(json.loads(json.dumps(body)), 400)).startswith("h refused the request: ")


def test_a_row_of_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="kind"):
        Row("unknown")


def test_nobody_is_told_to_wait_for_longer_than_a_year():
    """However long a service says in its own way."""
    refusals = Refusals(provider="p", read=lambda body: Report(text="slow", retry_s=float(body)))

    assert error_of("3", 429, refusals).retry_after_s == 3
    assert error_of("1e300", 429, refusals).retry_after_s == 365 * 86_400


def test_codes_and_phrases_match_in_any_case():
    report = Report(text="Slow Down, please", code="e_fast")

    assert report.names("E_FAST")
    assert report.names("E_*")
    assert report.says("slow DOWN")
    assert not report.names("E_SLOW")
