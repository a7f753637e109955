"""A mock made of a real tool's answer answers the same, and shows no secret."""

import attrs
from flexchat import Implementation, ToolDefinition
from flexchat.host import Mask, SchemaEngine, limited_work, schema_problems
from flexchat_mock.commands.record import record_mock, shape_of
from hypothesis import given
from hypothesis import strategies as st

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
TOOL = ToolDefinition(
    name="look",
    description="Look.",
    parameters={"type": "object", "properties": {"x": {"type": "integer"}}},
    implementation=Implementation(type="http"),
    effect="read",
)


@given(JSON, JSON)
def test_a_value_fits_its_shape(one, other):
    """Also next to another one, and the shape is a schema."""
    schema = {"type": "object", "properties": {"x": shape_of(one, other)}, "required": ["x"]}
    assert schema_problems(schema) == []
    engine = SchemaEngine(schema)
    for value in (one, other):
        with limited_work():
            assert engine.errors({"x": value}) == []


def test_what_the_tool_promises_is_kept():
    """Unless something is masked: that might not fit."""

    @attrs.frozen
    class Settings:
        output_schema: dict

    promise = {"type": "object", "properties": {"token": {"type": "string", "maxLength": 5}}}
    tool = attrs.evolve(TOOL, implementation=Implementation(type="http", settings=Settings(promise)))

    assert record_mock(tool, {"a": 1}, Mask()).entry["implementation"]["output_schema"] == promise
    secret = record_mock(tool, {"token": "sk-0123456789"}, Mask())
    assert secret.masked == ("$.token",)
    assert secret.entry["implementation"]["output_schema"] != promise


def test_the_shape_names_what_all_items_have():
    shape = shape_of([{"id": 1, "name": "a"}, {"id": 2.5, "tags": ["x", None]}])

    assert shape == {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "id": {"type": "number"},
                "name": {"type": "string"},
                "tags": {"type": "array", "items": {"type": ["null", "string"]}},
            },
            "required": ["id"],
        },
    }


@given(JSON)
def test_the_mock_is_the_tool_with_another_implementation(answer):
    found = record_mock(TOOL, answer, Mask())

    assert found.masked == ()
    assert found.entry["implementation"]["mock_response"] == answer
    assert (found.entry["name"], found.entry["effect"], found.entry["parameters"]) == ("look", "read", TOOL.parameters)


def test_secrets_are_masked_and_named():
    answer = {"items": [{"token": "abc", "text": "it is s3cr3t-value"}], "user": "ann"}

    found = record_mock(TOOL, answer, Mask(["s3cr3t-value"]))

    assert found.masked == ("$.items[0].token", "$.items[0].text")
    assert "s3cr3t" not in str(found.entry)
    assert found.entry["implementation"]["mock_response"]["user"] == "ann"
