"""Tools read from dicts, as others write them."""

import asyncio
import contextlib
import json
import re

import attrs
import pytest
from flexchat import FlexChat, Implementation, ToolDefinition, ToolResult
from flexchat.domain.conversation import result_from_json, result_to_json
from flexchat.errors import ToolDefinitionError
from hypothesis import given
from hypothesis import strategies as st

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NAMED = {"name": "get_weather", "description": "Get the weather"}
MOCK = Implementation(type="mock", settings={"mock_response": 1})


@pytest.mark.parametrize(
    "table",
    [
        {"type": "function", "function": {**NAMED, "parameters": SCHEMA, "strict": True}},  # OpenAI, Chat Completions
        {"type": "function", **NAMED, "parameters": SCHEMA, "strict": True},  # OpenAI, Responses
        {**NAMED, "input_schema": SCHEMA, "strict": True, "cache_control": {"type": "ephemeral"}},  # Anthropic
        {**NAMED, "inputSchema": SCHEMA, "strict": True, "title": "Weather", "_meta": {}},  # MCP
    ],
)
def test_every_form_reads_as_the_same_tool(table):
    tool = ToolDefinition.from_dict(table, MOCK)

    assert tool == ToolDefinition(**NAMED, parameters=SCHEMA, implementation=MOCK, strict=True)


@pytest.mark.parametrize(
    ("hints", "effect"),
    [({"readOnlyHint": True}, "read"), ({"idempotentHint": True}, "idempotent"), ({}, "write"), (None, "write")],
)
def test_the_hints_of_mcp_give_the_effect(hints, effect):
    assert ToolDefinition.from_dict({**NAMED, "inputSchema": SCHEMA, "annotations": hints}, MOCK).effect == effect


def test_the_form_of_a_config_brings_its_implementation():
    table = {**NAMED, "parameters": SCHEMA, "implementation": {"type": "mock", "mock_response": 1}, "exclusive": True}

    tool = ToolDefinition.from_dict(table)

    assert (tool.implementation, tool.exclusive) == (MOCK, True)


@pytest.mark.parametrize("table", [NAMED, {**NAMED, "parameters": None}, {**NAMED, "inputSchema": None}])
def test_a_tool_without_parameters_is_none(table):
    """The specification's text, and behind it what a tool without arguments has (TC-29)."""
    with pytest.raises(
        ToolDefinitionError, match=r"^Tool parameters must be an object schema \('get_weather' has none"
    ):
        ToolDefinition.from_dict(table, MOCK)


@pytest.mark.parametrize("is_async", [True, False])
def test_a_function_runs_it_with_the_checked_arguments(is_async):
    """As one mapping; wrong arguments never reach it."""

    def weather(arguments):
        return f"sun in {arguments['city']}"

    async def weather_later(arguments):
        return weather(arguments)

    tool = ToolDefinition.from_dict({**NAMED, "parameters": SCHEMA}, weather_later if is_async else weather)

    async def run():
        async with FlexChat.from_model("rehearsal/any", tools=[tool]) as chat:
            return await chat.call_tool("get_weather", {"city": "Rome"}), await chat.call_tool("get_weather", {})

    good, bad = asyncio.run(run())
    assert (good.result, bad.success) == ("sun in Rome", False)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({**NAMED}, "Tool get_weather: nothing says how it runs; give from_dict a function for it"),
        ({**NAMED, "implementation": {"mock_response": 1}}, "nothing says how it runs"),
        ({"name": "x", "implementation": {"type": "mock"}}, "Tool must have name and description"),
        ({"name": 5, "description": "x"}, "Tool 5: name must be text, got 5"),
        ({**NAMED, "strict": "yes"}, "strict must be true or false, got 'yes'"),
        ({**NAMED, "effect": "bad"}, "effect must be one of read, idempotent, write, got 'bad'"),
        ([], "A tool must be an object, not list"),
    ],
)
def test_what_is_not_a_tool_is_refused_with_a_sentence(table, told):
    with pytest.raises(ToolDefinitionError) as caught:
        ToolDefinition.from_dict(table)

    assert told in str(caught.value)


VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just({}) | st.just([])
KEYS = ("name", "description", "parameters", "function", "annotations", "effect", "strict", "timeout_ms", "handler")


@given(st.dictionaries(st.sampled_from(KEYS), VALUES))
def test_any_dict_is_a_tool_or_refused(table):
    """Nothing but ToolDefinitionError is raised."""
    with contextlib.suppress(ToolDefinitionError):
        assert ToolDefinition.from_dict(table, MOCK).name


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ({"name": "add", "descripton": "Add."}, "'add' has no description: 'descripton' is not a key of a tool"),
        ({"description": "Add."}, "the one given has no name"),
    ],
)
def test_a_tool_without_a_name_or_description_is_named_with_what_is_there_instead(table, hint):
    """The specification's text, and behind it which tool and which key."""
    with pytest.raises(ToolDefinitionError, match=re.escape(f"Tool must have name and description ({hint})")):
        ToolDefinition.from_dict(table, print)


def test_a_result_may_have_a_hint_beside_it():
    """In the envelope and in its text, also of a result that is encoded already, and in what is kept."""
    result = ToolResult(success=True, tool_name="pay", result={"n": 1}, hint="of 5")
    encoded = attrs.evolve(result, encoded='{"n": 1}')

    assert result.to_dict() == {
        "success": True,
        "result": {"n": 1},
        "hint": "of 5",
        "tool_name": "pay",
        "execution_time_ms": 0,
    }
    assert json.loads(result.to_json()) == json.loads(encoded.to_json()) == result.to_dict()
    assert result_from_json(result_to_json(encoded)) == result
