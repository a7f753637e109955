"""Tool definitions in Anthropic's words."""

import copy
from typing import Any

from flexchat.plugin import Implementation, ToolDefinition
from flexchat_anthropic.tools import encode_tools, offered_tools

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def tool(name: str = "f", parameters: dict[str, Any] | None = None, **rest: Any) -> ToolDefinition:
    return ToolDefinition(
        name=name,
        description="d",
        parameters=CITY if parameters is None else parameters,
        implementation=Implementation(type="mock"),
        **rest,
    )


def test_each_tool_has_its_input_schema() -> None:
    """Name, description, input_schema, as the specification has it (TC-33)."""
    before = copy.deepcopy(CITY)

    assert encode_tools([tool("f"), tool("g")]) == [
        {"name": "f", "description": "d", "input_schema": CITY},
        {"name": "g", "description": "d", "input_schema": CITY},
    ]
    assert before == CITY
    assert encode_tools([tool(parameters={"type": "object"})])[0]["input_schema"] == {
        "type": "object",
        "properties": {},
    }


def test_a_strict_tool_is_closed_everywhere() -> None:
    """Bounds go to the description; what cannot be said strictly is said loosely."""
    schema = {
        "type": "object",
        "properties": {"at": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}},
    }
    (made,) = encode_tools([tool(parameters=schema, strict=True)])

    assert made["strict"] is True
    assert made["input_schema"]["additionalProperties"] is False
    assert made["input_schema"]["properties"]["at"]["additionalProperties"] is False
    assert made["input_schema"]["properties"]["at"]["properties"]["n"] == {
        "type": "integer",
        "description": "(minimum: 1)",
    }
    node = {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}, "additionalProperties": False}
    recursive = {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}, "$defs": {"N": node}}
    (made,) = encode_tools([tool(parameters=recursive, strict=True)])
    assert "strict" not in made


def test_a_union_at_the_root_becomes_one_object() -> None:
    """The service refuses anyOf, oneOf and allOf there."""
    (made,) = encode_tools([tool(parameters={"type": "object", "anyOf": [CITY, {"properties": {"b": {}}}]})])
    assert made["input_schema"]["properties"].keys() == {"city", "b"}
    assert "anyOf" not in made["input_schema"]


def test_other_forms_are_understood() -> None:
    """OpenAI's, and a flat one; all else is a tool of the service's own."""
    flat = {"name": "f", "description": "d", "parameters": CITY}
    expected = {"name": "f", "description": "d", "input_schema": CITY}

    assert offered_tools([flat]).objects == (expected,)
    assert offered_tools([{"type": "function", "function": flat}]).objects == (expected,)
    assert offered_tools([{"type": "function", "function": {"name": "f"}}]).objects == (
        {"name": "f", "input_schema": {"type": "object", "properties": {}}},
    )
    (strict,) = offered_tools([{"type": "function", "function": {**flat, "strict": True}}]).objects
    assert strict["input_schema"]["additionalProperties"] is False
    search = {"type": "web_search_20250305", "name": "web_search"}
    assert offered_tools([search]) == offered_tools([search], only=("f",))
    assert offered_tools([search]).names == ()
    for odd in ({}, {"function": None}, {"function": "x"}, {"name": 1}):
        assert offered_tools([odd]).objects == (odd,)


def test_names_limit_the_functions() -> None:
    """In their order; nothing left is nothing."""
    made = encode_tools([tool("f"), tool("g")])
    assert offered_tools(made, only=("g", "x")).names == ("g",)
    assert offered_tools(made, only=("x",)).objects == ()


def test_strict_is_left_out_where_it_would_be_refused() -> None:
    """By a model that does not take it, and in a request with more than the service compiles: a warning."""
    strict = encode_tools([tool(strict=True)])
    assert offered_tools(strict).objects[0]["strict"] is True
    made = offered_tools(strict, strict=False)
    assert "strict" not in made.objects[0]
    assert len(made.warnings) == 1

    optional = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(25)}}
    unions = {
        "type": "object",
        "properties": {f"p{n}": {"anyOf": [{"type": "string"}, {"type": "null"}]} for n in range(17)},
        "required": [f"p{n}" for n in range(17)],
    }
    loose = encode_tools([tool("loose")])
    for many in (
        [tool(f"t{n}", strict=True) for n in range(21)],
        *([tool("t", p, strict=True)] for p in (optional, unions)),
    ):
        made = offered_tools([*encode_tools(many), *loose])
        assert not any("strict" in each for each in made.objects)
        assert len(made.warnings) == 1
        assert "more than the service compiles" in made.warnings[0]
    assert offered_tools(encode_tools([tool(f"t{n}", strict=True) for n in range(20)])).warnings == ()
