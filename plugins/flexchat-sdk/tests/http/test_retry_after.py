"""What a service says about asking again."""

import pytest
from flexchat.errors import MAX_RETRY_AFTER_S
from flexchat_sdk.refusals import retry_after_s, should_retry

NOON = 1_760_011_200.0  # Thu, 09 Oct 2025 12:00:00 GMT


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "44"}, 44.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "9" * 401}, MAX_RETRY_AFTER_S),
        ({"retry-after-ms": "9" * 401, "retry-after": "9"}, MAX_RETRY_AFTER_S),
        ({"retry-after": "99999999999"}, MAX_RETRY_AFTER_S),
        ({"retry-after": "-" + "9" * 401}, 0.0),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, MAX_RETRY_AFTER_S),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
        ({"retry-after": "Thu, 09 Oct 2025 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Thu, 09 Oct 2025 11:00:00 GMT"}, 0.0),
    ],
)
def test_all_forms_of_retry_after_are_read(headers: dict[str, str], seconds: float | None) -> None:
    """Milliseconds win; seconds may be fractions or a date; nonsense is nothing; no wait is longer than a year."""
    assert retry_after_s(headers, now=NOON) == seconds


def test_x_should_retry_is_read() -> None:
    """Only true and false count."""
    said = [should_retry({"x-should-retry": word}) for word in ("true", " False ", "perhaps")]

    assert [*said, should_retry({})] == [True, False, None, None]
