"""Tools as a server lists them, and as a source gives them."""

import copy

import attrs
import pytest
from flexchat.domain.sourced import SourcedTool
from flexchat_mcp.listing import digest, effect_of, select_tools, to_sourced_tool, unused_patterns
from flexchat_mcp.settings import McpConfig

CONFIG = McpConfig(command="x")
TOOL = {
    "name": "get.weather",
    "title": "Weather",
    "description": "Get the weather.",
    "inputSchema": {"type": "object", "properties": {"city": {"type": "string", "description": "Where."}}},
    "outputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True, "title": "Weather"},
    "_meta": {"version": 3},
}


def test_a_tool_is_plain_json_that_can_be_called():
    tool = to_sourced_tool(TOOL, CONFIG)

    assert SourcedTool.from_dict(tool.to_dict()) == tool
    assert tool.definition("fake", "w_").name == "w_get.weather"
    assert tool.to_dict()["implementation"] == {
        "type": "mcp",
        "tool": "get.weather",
        "hash": digest(TOOL),
        "title": "Weather",
        "output": {"type": "object"},
        "annotations": {"readOnlyHint": True},
    }


@pytest.mark.parametrize(
    ("given", "description"),
    [
        ({"description": ""}, "Weather"),
        ({"description": "", "title": "", "annotations": {}}, "get.weather"),
        ({"description": "\u200b"}, "Weather"),
    ],
)
def test_a_description_is_never_empty(given, description):
    assert to_sourced_tool({**TOOL, **given}, CONFIG).description == description


@pytest.mark.parametrize(
    ("effects", "effect"),
    [
        ({}, "write"),
        ({"get.weather": "read"}, "read"),
        ({"get.*": "idempotent"}, "idempotent"),
        ({"*": "write", "get.weather": "read"}, "read"),
        ({"get.*": "idempotent", "*": "read"}, "idempotent"),
        ({"readOnlyHint": "read"}, "read"),
        ({"idempotentHint": "idempotent"}, "write"),
        ({"get.*": "write", "readOnlyHint": "read"}, "write"),
        ({"set.*": "read"}, "write"),
    ],
)
def test_the_effect_is_what_the_config_says(effects, effect):
    """A hint counts only if the config names it."""
    assert effect_of(TOOL, effects) == effect


@pytest.mark.parametrize(
    "change",
    [
        {"description": "Get the weather. "},
        {"title": "Other"},
        {"annotations": {"readOnlyHint": False}},
        {"inputSchema": {"type": "object", "properties": {"city": {"type": "string", "description": "Whence."}}}},
        {"outputSchema": {"type": "array"}},
        {"description": "Get the weather.\u200b"},
    ],
)
def test_the_hash_notices_every_change(change):
    """Also of what is cleaned away."""
    assert digest({**TOOL, **change}) != digest(TOOL)
    assert to_sourced_tool({**TOOL, **change}, CONFIG).digest != to_sourced_tool(TOOL, CONFIG).digest


def test_the_hash_does_not_follow_order_or_bookkeeping():
    same = dict(reversed(copy.deepcopy(TOOL).items()))
    same["_meta"], same["icons"] = {}, [{"src": "x"}]

    assert digest(same) == digest(TOOL)


def test_include_and_exclude_choose():
    tools = [{**TOOL, "name": name} for name in ("read_a", "read_b", "write_a")]
    config = attrs.evolve(CONFIG, include=("read_*",), exclude=("*_b", "nothing"), effects={"raed_a": "read"})

    assert [tool["name"] for tool in select_tools(tools, config)] == ["read_a"]
    assert [tool["name"] for tool in select_tools(tools, CONFIG)] == ["read_a", "read_b", "write_a"]
    assert unused_patterns(tools, config) == ["nothing", "raed_a"]


def test_a_key_is_only_for_what_writes():
    config = attrs.evolve(CONFIG, idempotency_meta="example.com/key")

    assert to_sourced_tool(TOOL, config).honours_key
    assert not to_sourced_tool(TOOL, attrs.evolve(config, effects={"*": "read"})).honours_key
