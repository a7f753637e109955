"""Names of arguments that a service refuses are changed on the way out and back, as its dialect has it."""

import json
import re

import pytest
from flexchat.domain import ToolCall
from flexchat.errors import ProviderRequestError
from flexchat.plugin import ToolDefinition
from flexchat_sdk import (
    AnswerParts,
    SchemaDialect,
    lint_tools,
    require_parameters,
    rewrite,
    sent_arguments,
    sent_parameters,
    with_own_names,
)
from hypothesis import given
from hypothesis import strategies as st

ROOT = SchemaDialect(name="acme", property_name="[a-zA-Z0-9_.-]{1,64}", root_names_only=True)
EVERYWHERE = SchemaDialect(name="strange", property_name="[A-Za-z_][A-Za-z0-9_]{0,63}")
ANY = SchemaDialect(name="any")
NAMES = ["$top", "filter[id]", "x" * 65, "é", "a b", "@type", "", "-", "1st]", "\ud800"]


def tool(properties, required=(), name="tool_of_these_tests", **more):
    schema = {"type": "object", "properties": properties, "required": [*required], **more}
    return ToolDefinition.from_dict({"name": name, "description": "F.", "parameters": schema}, lambda given: None)


@pytest.mark.parametrize("dialect", [ROOT, EVERYWHERE], ids=lambda dialect: dialect.name)
@given(name=st.text(max_size=90))
def test_every_name_becomes_a_legal_one(dialect, name):
    """The service's pattern decides which; a legal one stays."""
    sent = dialect.legal_name(name)

    assert re.fullmatch(dialect.property_name, sent)
    assert (sent == name) == bool(re.fullmatch(dialect.property_name, name))


def test_different_names_stay_different():
    assert len({EVERYWHERE.legal_name(name) for name in ("a b", "a-b", "a[b]", "a_b", "a.b")}) == 5


@pytest.mark.parametrize("dialect", [ROOT, EVERYWHERE], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("name", NAMES)
def test_a_changed_name_comes_back(dialect, name):
    schema = sent_parameters("comes_back", {"type": "object", "properties": {name: {}, "b": {}}}, dialect)
    (sent, plain), arguments = schema["properties"], {name: 1, "b": 2}

    assert (sent, plain) == (dialect.legal_name(name), "b")
    assert sent_arguments("comes_back", arguments, dialect) == {sent: 1, "b": 2}
    assert with_own_names(ToolCall.from_object("comes_back", {sent: 1, "b": 2})).arguments == arguments


def test_required_names_and_their_order_follow():
    made = rewrite(
        {
            "type": "object",
            "properties": {"$top": {"type": "integer"}, "q": {}},
            "required": ["$top"],
            "propertyOrdering": ["q", "$top"],
        },
        EVERYWHERE,
        renames=True,
    )

    sent = made.names["$top"]
    assert made.schema["required"] == [sent]
    assert made.schema["propertyOrdering"] == ["q", sent]
    assert [(note.severity, note.pointer) for note in made.notes] == [("info", "/properties/$top")]


NESTED = {"where": {"type": "object", "properties": {"$skip": {"type": "integer"}}, "required": ["$skip"]}}


def test_where_only_the_root_counts_nested_names_stay():
    schema = sent_parameters("root_only", {"type": "object", "properties": {**NESTED, "$skip": {}}}, ROOT)
    where, top = schema["properties"]

    assert [*schema["properties"][where]["properties"]] == ["$skip"]
    assert sent_arguments("root_only", {"where": {"$skip": 1}, "$skip": 2}, ROOT) == {"where": {"$skip": 1}, top: 2}


def test_elsewhere_names_at_every_level_are_changed_and_come_back():
    listed = {"all": {"type": "array", "items": NESTED["where"]}}
    schema = sent_parameters("nested", {"type": "object", "properties": {**NESTED, **listed}}, EVERYWHERE)
    ((sent,), required) = (schema["properties"]["where"][key] for key in ("properties", "required"))
    own = {"where": {"$skip": 1}, "all": [{"$skip": 2}]}

    assert required == [sent] != ["$skip"]
    wire = sent_arguments("nested", own, EVERYWHERE)
    assert wire == {"where": {sent: 1}, "all": [{sent: 2}]}
    assert with_own_names(ToolCall.from_object("nested", wire)).arguments == own


def test_a_service_that_accepts_any_name_gets_the_tools_own():
    """Also where another service of the same chat gets others."""
    schema = {"type": "object", "properties": {"$top": {}}}
    sent_parameters("any_name", schema, ROOT)

    assert sent_parameters("any_name", schema, ANY) == schema
    assert sent_arguments("any_name", {"$top": 1}, ANY) == {"$top": 1}


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_call_that_is_read_has_the_tools_own_names(is_whole):
    """In one piece or in many."""
    (sent,) = sent_parameters("read", {"type": "object", "properties": {"$top": {}}}, ROOT)["properties"]
    parts, text = AnswerParts("acme", "http://here"), json.dumps({sent: 5, "q": "a"})
    if is_whole:
        [*_] = parts.call("read", {sent: 5, "q": "a"})
    else:
        parts.begin_call(0, "read")
        [*_] = [parts.arguments(0, piece) for piece in (text[:4], text[4:])]
    *_, end = parts.end("stop")

    (call,) = end.result.tool_calls
    assert call.arguments == {"$top": 5, "q": "a"}
    assert call.raw_arguments is None


def test_a_name_in_the_schema_of_an_answer_is_an_error():
    """Nothing would change it back."""
    made = rewrite({"type": "object", "properties": {"$top": {}}}, ROOT)

    assert made.schema is None
    assert '"$top" must fit' in made.notes[0].message


def test_lint_reports_the_new_name():
    (finding,) = lint_tools([tool({"$top": {"type": "integer"}})], {"acme": ROOT})

    assert finding.outcome == "rewritten"
    (note,) = finding.notes
    assert note.message == f'the name "$top" is sent as {ROOT.legal_name("$top")}'
    assert finding.sentence is None


def test_a_tool_that_cannot_be_expressed_names_itself_and_the_reason():
    endless = {"a": {"$ref": "#/properties/a"}}
    with pytest.raises(ProviderRequestError, match=r"tool loop cannot be sent to strange: .*leads back") as raised:
        require_parameters(tool(endless, name="loop"), SchemaDialect(name="strange", keywords={"$ref": "write out"}))

    assert (raised.value.kind, raised.value.provider) == ("invalid_schema", "strange")
