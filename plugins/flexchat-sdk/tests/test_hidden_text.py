"""Characters that nobody sees are found, and taken out of descriptions."""

import pytest
from flexchat_sdk.hidden_text import clean_schema, clean_text, find_hidden, find_hidden_places


@pytest.mark.parametrize("char", ["\u200b", "\u202e", "\U000e0041", "\x1b", "\ufeff", "\u2066", "\xad"])
def test_a_character_that_nobody_sees_is_found_and_taken_out(char):
    assert find_hidden(f"a{char}b") == [char]
    assert clean_text(f"a{char}b") == "ab"


@pytest.mark.parametrize("text", ["", "Grüße, 世界", "a\tb\r\nc", "❤\ufe0f", "👩‍💻".replace("\u200d", "")])
def test_ordinary_text_stays(text):
    assert find_hidden(text) == []
    assert clean_text(text) == text


def test_of_a_schema_only_descriptions_are_cleaned():
    schema = {
        "properties": {"a\u200b": {"description": "x\u200by", "enum": ["\u200b"], "items": [{"title": "\u202e"}]}}
    }

    assert clean_schema(schema) == {
        "properties": {"a\u200b": {"description": "xy", "enum": ["\u200b"], "items": [{"title": ""}]}}
    }
    assert [place for place, _ in find_hidden_places(schema, "p")] == [
        "p.properties.a",
        "p.properties.a.description",
        "p.properties.a.enum[0]",
        "p.properties.a.items[0].title",
    ]
