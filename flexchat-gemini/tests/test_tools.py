"""Tool definitions in Gemini's words, and how they are merged."""

import copy
from typing import Any

from flexchat.plugin import Implementation, ToolDefinition
from flexchat_gemini.tools import encode_tools, encode_tools_as_parameters, offered_tools

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def tool(name: str = "f", parameters: dict[str, Any] | None = None, **rest: Any) -> ToolDefinition:
    return ToolDefinition(
        name=name,
        description="d",
        parameters=CITY if parameters is None else parameters,
        implementation=Implementation(type="mock"),
        **rest,
    )


def test_each_tool_has_its_wrapper() -> None:
    """One functionDeclarations wrapper per tool, with its JSON Schema (TC-34, TC-81, DS-3, C2)."""
    before = copy.deepcopy(CITY)

    assert encode_tools([tool("f"), tool("g")]) == [
        {"functionDeclarations": [{"name": "f", "description": "d", "parametersJsonSchema": CITY}]},
        {"functionDeclarations": [{"name": "g", "description": "d", "parametersJsonSchema": CITY}]},
    ]
    assert before == CITY


def test_the_services_own_schema_has_its_own_field() -> None:
    """parameters, types in upper case."""
    (wrapper,) = encode_tools_as_parameters([tool()])
    (declared,) = wrapper["functionDeclarations"]

    assert set(declared) == {"name", "description", "parameters"}
    assert declared["parameters"]["type"] == "OBJECT"
    assert declared["parameters"]["properties"]["city"]["type"] == "STRING"


def test_no_parameters_are_no_field() -> None:
    """Some models refuse an object without properties. A map, or anything else that says something, stays."""
    for empty in (
        {"type": "object"},
        {"type": "object", "properties": {}, "required": []},
        {"type": "object", "properties": {}, "additionalProperties": False, "title": "T", "$schema": "x"},
    ):
        for encode in (encode_tools, encode_tools_as_parameters):
            assert encode([tool(parameters=empty)]) == [{"functionDeclarations": [{"name": "f", "description": "d"}]}]
    for said in ({"additionalProperties": {"type": "string"}}, {"anyOf": [CITY, CITY]}):
        (wrapper,) = encode_tools([tool(parameters={"type": "object", **said})])
        assert "parametersJsonSchema" in wrapper["functionDeclarations"][0]


def test_a_request_has_one_object_with_all_declarations() -> None:
    """Several objects fail silently on 2.5 models; what is native stands beside it (C2)."""
    made = offered_tools(
        [{"googleSearch": {}}, *encode_tools([tool("f"), tool("g", strict=True)]), {"codeExecution": {}}]
    )

    assert [set(each) for each in made.objects] == [{"googleSearch"}, {"codeExecution"}, {"functionDeclarations"}]
    assert [d["name"] for d in made.objects[-1]["functionDeclarations"]] == ["f", "g"]
    assert (made.names, made.strict) == (("f", "g"), True)


def test_other_forms_are_understood() -> None:
    """OpenAI's form, a flat one, and an object that holds both kinds (C2)."""
    flat = {"name": "f", "description": "d", "parameters": CITY}
    expected = [{"name": "f", "description": "d", "parametersJsonSchema": CITY}]

    assert offered_tools([flat]).objects == ({"functionDeclarations": expected},)
    assert offered_tools([{"type": "function", "function": flat}]).objects == ({"functionDeclarations": expected},)
    assert offered_tools([{"type": "function", "function": {**flat, "strict": True}}]).strict
    mixed = {"codeExecution": {}, "googleSearch": None, "functionDeclarations": expected}
    assert offered_tools([mixed]).objects == ({"codeExecution": {}}, {"functionDeclarations": expected})


def test_names_limit_the_declarations() -> None:
    """Only functions; a tool that is left out does not make the request strict; nothing left is no object."""
    tools = [{"googleSearch": {}}, *encode_tools([tool("f"), tool("g", strict=True)])]

    made = offered_tools(tools, only=("f",))
    assert (made.names, made.strict) == (("f",), False)
    assert offered_tools(tools, only=("x",)).objects == ({"googleSearch": {}},)


def test_json_schema_is_rewritten_for_services_that_do_not_know_it() -> None:
    """Tools that were encoded before the service told."""
    made = offered_tools(encode_tools([tool(), tool("g", {"type": "object"})]), as_parameters=True)

    f, g = made.objects[0]["functionDeclarations"]
    assert f["parameters"]["properties"]["city"]["type"] == "STRING"
    assert g == {"name": "g", "description": "d"}


def test_hostile_tools_raise_nothing() -> None:
    """What is no tool goes out as it came: the service says what is wrong with it."""
    for odd in ({}, {"functionDeclarations": None}, {"functionDeclarations": "x"}, {"functionDeclarations": [1]}):
        assert offered_tools([odd]).names == ()
    assert offered_tools([{"functionDeclarations": [{"parametersJsonSchema": 1}]}], as_parameters=True).names == (
        "None",
    )
