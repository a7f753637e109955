"""Arguments from a command line."""

import json

import pytest
from flexchat.domain import Implementation, ToolDefinition
from flexchat_cli.context import UsageError
from flexchat_cli.tool_arguments import read_arguments
from hypothesis import given
from hypothesis import strategies as st


def tool(properties, **rest):
    parameters = {"type": "object", "properties": properties, **rest}
    return ToolDefinition(name="t", description="-", parameters=parameters, implementation=Implementation(type="mock"))


@given(text=st.text())
def test_a_string_stays_what_it_is(text):
    """Whatever is typed for a string arrives unchanged, also what looks like a number or like JSON."""
    assert read_arguments([f"s={text}"], tool({"s": {"type": "string"}})) == {"s": text}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(arguments=st.dictionaries(st.text(min_size=1), VALUES, max_size=4))
def test_one_json_object_is_taken_as_it_is(arguments):
    assert read_arguments([json.dumps(arguments)], tool({})) == arguments


@given(value=VALUES.filter(lambda v: not isinstance(v, str)))
def test_a_value_of_a_declared_type_is_read_as_json(value):
    kinds = {bool: "boolean", int: "integer", float: "number", type(None): "null", list: "array", dict: "object"}
    schema = {"v": {"type": kinds[type(value)]}}

    assert read_arguments([f"v={json.dumps(value)}"], tool(schema)) == {"v": value}


@pytest.mark.parametrize(
    ("schema", "typed", "value"),
    [
        ({"type": "integer"}, "two", "two"),  # left for the tool's check, which says what is wrong
        ({"type": "integer"}, "2.5", 2.5),
        ({"type": ["string", "integer"]}, "2", 2),
        ({"type": ["string", "integer"]}, "2.5", "2.5"),
        ({"type": ["string", "null"]}, "null", None),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "7", "7"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "7", 7),
        ({"anyOf": [{"type": "number"}, {}]}, "7", 7),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({"enum": [1, 2]}, "1", 1),
        ({}, "word", "word"),
        ({}, "[1]", [1]),
        (True, "1", 1),
        ({"$ref": "#/$defs/word"}, "1", "1"),
        ({"$ref": "#/$defs/nowhere"}, "1", 1),
    ],
)
def test_the_schema_decides_between_text_and_json(schema, typed, value):
    made = tool({"v": schema}, **{"$defs": {"word": {"type": "string"}}})

    assert read_arguments([f"v={typed}"], made) == {"v": value}
    assert type(read_arguments([f"v={typed}"], made)["v"]) is type(value)


def test_only_the_first_equals_sign_separates():
    assert read_arguments(["s=a=b"], tool({"s": {"type": "string"}})) == {"s": "a=b"}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["city"], "'city' is not key=value; the tool is t(city?: string"),
        (["=x"], "not key=value"),
        (["ctiy=Rome"], "did you mean 'city'?"),
        (["city=a", "city=b"], "given twice"),
        (["tags=a,b"], 'tags=\'["a", "b"]\''),
        (['{"city": }'], "not a JSON object"),
        (["{}", "city=a"], "not key=value"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_form_that_can(words, text):
    with pytest.raises(UsageError) as caught:
        read_arguments(words, tool({"city": {"type": "string"}, "tags": {"type": "array"}}))

    assert text in str(caught.value)


def test_further_arguments_are_taken_where_the_schema_wants_them():
    assert read_arguments(["x=1"], tool({"a": {}}, additionalProperties=True)) == {"x": 1}
    assert read_arguments(["x=1"], tool({})) == {"x": 1}


@pytest.mark.parametrize("text", ['{"s": "a", "s": "b"}', '{"o": {"s": 1, "s": 1}}'])
def test_a_key_of_an_object_is_given_once(text):
    """Which of two values was meant, nobody knows."""
    with pytest.raises(UsageError, match="'s' is given twice"):
        read_arguments([text], tool({"s": {"type": "string"}}))
