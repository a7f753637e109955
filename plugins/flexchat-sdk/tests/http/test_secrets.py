"""Keys stay out of texts, and broken ones out of requests."""

import pytest
from flexchat_sdk.http.secrets import header_problem, key_mask


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-short.",
        "Incorrect API key provided: topsecretvalue",
        "refused: sk-ab********wxyz",
        "refused: my-key********-end",
        "header was Bearer topsecretvalue",
    ],
)
def test_no_key_or_piece_of_one_is_left(text: str) -> None:
    """The key itself, what looks like one, and a starred one are replaced; the sentence stays."""
    shown = key_mask(["topsecretvalue"])(text)

    assert "***" in shown
    for piece in ("topsecret", "sk-", "wxyz", "my-key", "-end"):
        assert piece not in shown


@pytest.mark.parametrize("value", ["abc\n", "a\rb", "key–dash", "\x00", "日"])
def test_a_header_that_cannot_be_sent_is_explained_without_its_value(value: str) -> None:
    """Line breaks and characters outside Latin-1 are found; the text names the header only."""
    problem = header_problem({"authorization": f"Bearer {value}"})

    assert problem is not None
    assert "'authorization'" in problem
    assert value not in problem


def test_ordinary_headers_can_be_sent() -> None:
    """Latin-1 and tabs are fine; a name with a blank is not."""
    assert header_problem({"x-a": "caf\xe9\tb"}) is None
    assert "header name" in (header_problem({"x a": "b"}) or "")
