"""The schema of a reply: it accepts exactly the arguments that the tool's parameters accept."""

import pytest
from flexchat.host import value_problem, with_stand_in
from flexchat_approvals.questions import schema_of
from flexchat_testing import calls
from hypothesis import given
from hypothesis import strategies as st

PARAMETERS = [
    {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]},
    {
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/Place"}, "$ref": {"type": "string"}, "default": {"type": "integer"}},
        "$defs": {
            "Place": {"type": "object", "properties": {"in": {"$ref": "#/$defs/Place"}, "n": {"enum": [1, "#"]}}}
        },
        "additionalProperties": False,
    },
    {
        "$schema": "http://json-schema.org/draft-07/schema",
        "type": "object",
        "properties": {"more": {"$ref": "#"}, "pair": {"items": [{"type": "integer"}, {"type": "string"}]}},
        "patternProperties": {"^x": {"$ref": "#/properties/pair"}},
        "additionalProperties": False,
    },
    {"type": "object", "properties": {"$defs": {"const": {"$ref": "#"}}}, "anyOf": [{"required": ["$defs"]}, {}]},
]
NAMES = st.sampled_from(["n", "at", "in", "more", "pair", "x1", "$ref", "default", "$defs", "other"])
VALUES = st.recursive(
    st.one_of(st.integers(0, 5), st.sampled_from(["", "a", "#"]), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)


@given(st.sampled_from(PARAMETERS), st.dictionaries(NAMES, VALUES, max_size=3))
def test_edited_arguments_are_checked_as_those_of_a_call(parameters, arguments):
    """Also by references, which lead elsewhere in the schema of the reply."""
    alone = value_problem(arguments, parameters)
    within = value_problem({"arguments": arguments}, schema_of(parameters))

    assert (alone is None) == (within is None), (alone, within)


def test_a_schema_at_its_limit_leaves_the_check_to_the_call():
    parameters = {"type": "object"}
    for _ in range(29):
        parameters = {"type": "object", "properties": {"in": parameters}}

    assert schema_of(parameters)["properties"]["arguments"] in ({"type": "object"}, parameters)
    assert value_problem({"arguments": {}}, schema_of(parameters)) is None


@pytest.mark.parametrize("content", [{}, {"note": "checked"}])
def test_a_yes_needs_no_arguments(content):
    assert value_problem(content, schema_of(PARAMETERS[0])) is None


async def test_a_stand_in_needs_no_approval(open_chat, desk):
    """The tool itself does not run."""
    pay = with_stand_in(lambda params: "paid nothing", desk.tools[0].definition)
    async with open_chat(calls(("pay", {"amount": 5})), approvals=[{}], tools=[pay]) as chat:
        turn = await chat.respond("Go", conversation="c")

    assert turn.tool_calls[0].result.result == "paid nothing"
