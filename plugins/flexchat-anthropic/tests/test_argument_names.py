"""Names of arguments that the service refuses are changed on the way out and back."""

import json

import pytest
from flexchat.plugin import ToolDefinition
from flexchat_anthropic.answer import MessagesAnswer
from flexchat_anthropic.dialects import LOOSE
from flexchat_anthropic.tools import encode_tools

HERE, NAME = "http://here", "tool_of_these_tests"


def tool(properties, required=(), **more):
    schema = {"type": "object", "properties": properties, "required": [*required], **more}
    return ToolDefinition.from_dict({"name": NAME, "description": "F.", "parameters": schema}, lambda given: None)


def legal_key(name):
    return LOOSE.legal_name(name)


def test_names_at_the_root_are_changed_and_nested_ones_are_not():
    nested = {"type": "object", "properties": {"$skip": {"type": "integer"}}}
    (sent,) = encode_tools([tool({"$top": {"type": "integer"}, "x" * 70: nested, "q": {"type": "string"}}, ["$top"])])

    schema = sent["input_schema"]
    top, long, plain = schema["properties"]
    assert (top, long, plain) == (legal_key("$top"), legal_key("x" * 70), "q")
    assert schema["required"] == [top]
    assert list(schema["properties"][long]["properties"]) == ["$skip"]


def test_names_in_branches_of_the_root_are_changed():
    branch = {"type": "object", "properties": {"filter[id]": {"type": "string"}}, "required": ["filter[id]"]}
    (sent,) = encode_tools([tool({}, anyOf=[branch, {"type": "object", "properties": {"b": {"type": "string"}}}])])

    assert set(sent["input_schema"]["properties"]) == {legal_key("filter[id]"), "b"}


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_call_has_the_tools_own_names(is_whole):
    encode_tools([tool({"$top": {}})])
    answer, arguments = MessagesAnswer(HERE), {legal_key("$top"): 5, "q": "a"}
    block = {"type": "tool_use", "id": "toolu_1", "name": NAME, "input": arguments if is_whole else {}}
    if is_whole:
        events = [*answer.whole({"content": [block], "stop_reason": "tool_use"})]
    else:
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        events = [
            *answer.take({"type": "content_block_start", "index": 0, "content_block": block}),
            *answer.take({"type": "content_block_delta", "index": 0, "delta": delta}),
            *answer.take({"type": "content_block_stop", "index": 0}),
            *answer.take({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
            *answer.end(),
        ]

    (call,) = events[-1].result.tool_calls
    assert call.arguments == {"$top": 5, "q": "a"}
