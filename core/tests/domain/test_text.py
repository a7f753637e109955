"""Text from outside holds whole characters."""

from flexchat.domain import ReasoningPart, RefusalPart, TextPart, ToolCall
from flexchat.domain.text import counted, scrub, scrub_json
from hypothesis import given
from hypothesis import strategies as st

ANY = st.text(st.characters(codec=None, categories=None) | st.sampled_from("\ud83d\ude00"))


@given(ANY)
def test_scrubbed_text_has_utf8_and_sound_text_stays(text):
    """Halves that stand side by side are one character, others U+FFFD."""
    clean = scrub(text)

    assert clean.encode().decode() == clean
    assert scrub(clean) == clean
    assert (clean == text) == (clean is text)
    assert clean == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def test_texts_anywhere_in_json_are_scrubbed():
    """Keys too; the rest stays what it is."""
    assert scrub_json({"\ud83d": ["\ud83d\ude00", 1, None, True]}) == {"\ufffd": ["😀", 1, None, True]}


def test_what_a_model_says_holds_no_halves():
    """In no part, and not in a call: neither its name nor its arguments, as text, escaped or as an object."""
    for part in (TextPart(text="\ud83d"), ReasoningPart(text="\ud83d"), RefusalPart(text="\ud83d")):
        assert part.text == "\ufffd"
    for call in (
        ToolCall.from_text("f\ud83d", '{"a":"\ud83d"}'),
        ToolCall.from_text("f\ud83d", '{"a":"\\ud83d"}'),
        ToolCall.from_object("f\ud83d", {"a": "\ud83d"}),
    ):
        assert (call.name, call.arguments) == ("f\ufffd", {"a": "\ufffd"})
    assert ToolCall.from_text("f", "\ud83d").raw_arguments == "\ufffd"


def test_an_object_that_is_nested_too_deeply_is_a_call_that_cannot_be_read():
    """Nothing is raised."""
    value = {}
    for _ in range(100_000):
        value = {"a": value}

    call = ToolCall.from_object("f", value)

    assert call.arguments is None
    assert call.error == "the JSON is nested too deeply"


def test_a_count_agrees_with_its_noun():
    assert [counted(n, "tool") for n in (0, 1, 2, 1440)] == ["0 tools", "1 tool", "2 tools", "1,440 tools"]
