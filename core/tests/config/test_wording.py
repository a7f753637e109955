"""How places and values are named."""

import datetime

import pytest
from flexchat.config.wording import describe_value, format_path, is_secret_name, quoted
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("place", "spoken"),
    [
        ((), ""),
        (("responses", 1, "tools", "allowed_tools", 0), "responses[1].tools.allowed_tools[0]"),
        (("llms", "my llm", "api_key"), 'llms."my llm".api_key'),
        (("llms", ""), 'llms.""'),
    ],
)
def test_a_place_is_named_as_one_would_write_it(place, spoken):
    assert format_path(place) == spoken


@pytest.mark.parametrize(
    ("value", "spoken"),
    [
        ("yes", 'the text "yes"'),
        (True, "true"),
        (3, "the number 3"),
        (0.5, "the number 0.5"),
        (None, "null"),
        ({}, "a table"),
        ([1], "a list"),
        (10**90, "a number of more than 80 digits"),
        (datetime.date(1979, 5, 27), "a date or time"),
        (object(), "a Python object"),
    ],
)
def test_a_value_is_named_in_words(value, spoken):
    assert describe_value(value) == spoken


@given(st.text(min_size=0))
def test_a_quoted_text_is_one_short_printable_line(text):
    """No control character, line end or half surrogate of a file gets to a terminal."""
    shown = quoted(text)

    assert shown.isprintable()
    assert len(text) <= 80 or "…" in shown


@pytest.mark.parametrize(
    "name", ["api_key", "apiKey", "OPENAI_API_KEY", "token", "access_token", "password", "Secret", "api_keys"]
)
def test_names_of_secrets_are_known(name):
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["max_tokens", "maxTokens", "max_tokens_field", "key", "tokens", "base_url", "monkey"])
def test_names_of_other_things_are_not(name):
    assert not is_secret_name(name)
