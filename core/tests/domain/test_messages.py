"""Tool calls read what a model wrote, and never make up what it did not."""

import json

import pytest
from flexchat.domain import AssistantMessage, TextPart, ToolCall, ToolResult, Usage
from hypothesis import given
from hypothesis import strategies as st

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values))
def test_any_object_survives_as_arguments(arguments):
    """What is written as JSON is read as it was meant."""
    call = ToolCall.from_text("f", json.dumps(arguments))

    assert (call.arguments, call.error) == (arguments, None)


@given(st.text())
def test_any_text_is_arguments_or_an_explained_error(text):
    """Never an exception, never a guess; and what was written is kept (C5)."""
    call = ToolCall.from_text("f", text)

    assert (call.arguments is None) == (call.error is not None)
    assert call.raw_arguments == text


def test_a_text_that_is_not_json_is_told_with_one_place():
    """Python's own words for a text cut in two end with "starting at", as if a place followed."""
    error = ToolCall.from_text("f", '{"city": "Berl').error

    assert error.startswith("not valid JSON (Unterminated string at character 9)")


def test_no_text_means_no_arguments():
    """Empty text is {} (C5)."""
    assert [ToolCall.from_text("f", t).arguments for t in ("", None, "  \n")] == [{}, {}, {}]


def test_deep_and_truncated_arguments_are_refused():
    """Deep nesting does not crash; a call that was cut off does not run even if it parses."""
    assert ToolCall.from_text("f", '{"a":' * 100_000).error
    assert ToolCall.from_text("f", "{}", truncated=True).arguments is None


def test_ids_are_unique_and_legal_everywhere():
    """Over a whole conversation and beyond (C3)."""
    ids = {ToolCall.from_object("f", {}).id for _ in range(1000)}

    assert len(ids) == 1000
    assert all(i.startswith("call_") and len(i) <= 40 and i.replace("-", "_").isidentifier() for i in ids)


def test_a_memo_is_no_part_of_a_messages_value():
    """Two messages are equal whatever a dialect has kept on one of them."""
    one, two = (AssistantMessage(parts=(TextPart(text="x"),)) for _ in range(2))
    one.memo["openai"] = b"bytes"

    assert one == two
    assert "bytes" not in repr(one)


@given(json_values)
def test_a_results_text_is_its_envelope(value):
    """The kept JSON text and the value give the same envelope (TE-19)."""
    plain = ToolResult(success=True, tool_name='odd"name', result=value, execution_time_ms=3)
    kept = ToolResult(success=True, tool_name='odd"name', result=value, execution_time_ms=3, encoded=json.dumps(value))

    assert json.loads(plain.to_json()) == json.loads(kept.to_json()) == plain.to_dict()


def test_usage_adds_up_what_is_known():
    """None is unknown, not zero."""
    total = Usage(input_tokens=1) + Usage(input_tokens=2, output_tokens=3)

    assert total.to_dict() == {"input_tokens": 3, "output_tokens": 3}


@pytest.mark.parametrize(
    ("value", "kind"), [([1], "an array"), ("", "a string"), (0, "a number"), (False, "a boolean")]
)
def test_arguments_that_are_not_an_object_are_explained(value, kind):
    """Also those that are empty: only None means none."""
    call = ToolCall.from_object("t", value)

    assert call.arguments is None
    assert call.error == f"arguments must be a JSON object, got {kind}"
    assert ToolCall.from_object("t", None).arguments == {}


def test_a_name_that_is_given_twice_is_noted():
    """The last value counts, as everywhere; but it is said, however deep it stands."""
    call = ToolCall.from_text("t", '{"a": 1, "b": {"c": 1, "c": 2}, "a": 2}')

    assert call.arguments == {"a": 2, "b": {"c": 2}}
    assert call.notes == tuple(f"'{name}' was given more than once; the last value counts" for name in "ca")
    assert ToolCall.from_text("t", '{"a": 1}').notes == ()


@pytest.mark.parametrize("text", ["", " ", '{"a": ', '{"a": "Ro'])
def test_a_call_that_may_have_been_cut_off_is_refused_and_says_so(text):
    """Its text stays."""
    call = ToolCall.from_text("f", text, id="ours", wire_id="w").if_whole()

    assert (call.arguments, call.raw_arguments, call.id, call.wire_id) == (None, text, "ours", "w")
    assert "may have been cut off" in call.error


@pytest.mark.parametrize("call", [ToolCall.from_text("f", "{}"), ToolCall.from_object("f", {"a": 1})])
def test_a_call_with_whole_arguments_has_not_been_cut_off(call):
    """An empty object that was written is whole."""
    assert call.if_whole() is call


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "12:30"}',
        '{"a": {"x": 1}, "b": {"x": 2}}',
        '{"rows": [{"x": 1}, {"x": 2}], "b" : ":"}',
        '{"a": "{\\"b\\": 1, \\"b\\": 2}"}',
    ],
)
def test_names_of_several_objects_are_not_given_twice(text):
    """Nor those that are part of a text, whatever stands in it."""
    call = ToolCall.from_text("t", text)

    assert call.arguments == json.loads(text)
    assert call.notes == ()


@given(st.recursive(st.integers() | st.text(':"a{', max_size=4), lambda inner: st.lists(st.tuples(
    st.sampled_from("ab:"), inner), max_size=4), max_leaves=12))  # fmt: skip
def test_whatever_is_given_twice_is_noted(written):
    """Wherever it stands, also beside texts that look like names."""
    twice = []

    def as_text(value):
        if not isinstance(value, list):
            return json.dumps(value)
        names = [name for name, _ in value]
        twice.extend(name for name in names if names.count(name) > 1)
        return "{" + ", ".join(f"{json.dumps(name)} : {as_text(inner)}" for name, inner in value) + "}"

    call = ToolCall.from_text("t", as_text([("outer", written)]))

    assert {note[1] for note in call.notes} == set(twice)


def test_an_integer_too_long_to_be_read_is_explained():
    """In words for a model: Python's own name one of its functions."""
    call = ToolCall.from_text("t", '{"a": ' + "9" * 5000 + "}")

    assert call.arguments is None
    assert "more digits than can be read" in call.error
    assert "sys." not in call.error
