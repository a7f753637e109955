"""Tools in a line."""

import pytest
from flexchat.domain import Implementation, ToolDefinition
from flexchat_cli.tool_arguments import signature, summary, type_of


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"type": "array", "items": {"type": "integer"}}, "integer[]"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, '("a" | "b")[]'),
        ({"type": "array"}, "any[]"),
        ({"enum": list("abcdefgh")}, '"a" | "b" | "c" | "d" | "e" | "f" | …'),
        ({"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "string"}]}, "string | number"),
        ({}, "any"),
        (True, "any"),
    ],
)
def test_a_type_is_one_word_where_it_can_be(schema, text):
    assert type_of(schema) == text


def test_a_signature_marks_what_may_be_left_out():
    tool = ToolDefinition(
        name="find",
        description="Find it. Or not.\nMore.",
        parameters={"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
        implementation=Implementation(type="mock"),
    )

    assert signature(tool) == "find(a: string, b?: any)"
    assert summary(tool) == "Find it."
