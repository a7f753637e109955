"""Tools and answer formats are sent strictly where that is asked for, or loses nothing."""

import json
from typing import Any

import pytest
from flexchat.plugin import Implementation, ToolDefinition
from flexchat_openai.chat_request import ChatRequestWriter
from flexchat_openai.config import OpenAIConfig
from flexchat_openai.dialects import LOOSE
from flexchat_openai.responses_request import ResponsesRequestWriter
from flexchat_openai.tools import _is_plain, encode_responses_tools, encode_tools, sent_schema
from flexchat_sdk import ChatOptions, ResponseFormat
from flexchat_sdk.dialects.rewrite import rewrite
from hypothesis import given
from hypothesis import strategies as st

TEXT = {"type": "string"}
CLOSED = {"type": "object", "properties": {"a": TEXT}, "required": ["a"], "additionalProperties": False}
OPEN = {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "required": ["a"]}
MAP = {"type": "object", "properties": {"m": {"type": "object", "additionalProperties": TEXT}}, "required": ["m"]}


def tool(parameters: dict[str, Any], strict: bool | None) -> ToolDefinition:
    implementation = Implementation(type="mock")
    return ToolDefinition(
        name="f", description="d", parameters=parameters, implementation=implementation, strict=strict
    )


@pytest.mark.parametrize(
    ("schema", "asked", "strict"),
    [
        (CLOSED, None, True),
        (CLOSED, True, True),
        (CLOSED, False, False),
        (OPEN, None, False),
        (OPEN, True, True),
        (MAP, None, False),
        (MAP, True, False),
        ({**CLOSED, "properties": {"a": OPEN}}, None, False),
        ({**CLOSED, "properties": {"a": {"type": "array", "items": OPEN}}}, None, False),
        ({**CLOSED, "properties": {"a": {"anyOf": [TEXT, CLOSED]}}}, None, True),
        ({"type": "object", "properties": {}}, None, False),
        ({"type": "object", "properties": {}, "additionalProperties": False}, None, True),
    ],
)
def test_strict_is_what_was_asked_for_or_loses_nothing(
    schema: dict[str, Any], asked: bool | None, strict: bool
) -> None:
    """Unasked only for a schema that means the same; what cannot be said strictly is sent as it is."""
    sent, is_strict = sent_schema(schema, asked)

    assert is_strict is strict
    assert strict or sent == schema


def test_an_optional_property_becomes_nullable_where_strict_is_asked_for() -> None:
    """All properties are required then; the model writes null for what it leaves out."""
    sent, _ = sent_schema(OPEN, True)

    assert sorted(sent["required"]) == ["a", "b"]
    assert sent["additionalProperties"] is False
    assert "null" in json.dumps(sent["properties"]["b"])
    assert OPEN["required"] == ["a"]


def test_chat_completions_says_strict_only_where_it_is() -> None:
    """The specified tool format stays what it is for all other tools (TC-31)."""
    plain = {"name": "f", "description": "d", "parameters": OPEN}

    assert encode_tools([tool(OPEN, None)]) == [{"type": "function", "function": plain}]
    assert encode_tools([tool(OPEN, False)]) == [{"type": "function", "function": plain}]
    assert encode_tools([tool(CLOSED, True)])[0]["function"]["strict"] is True
    assert "strict" not in encode_tools([tool(MAP, True)])[0]["function"]


def test_the_responses_api_is_always_told() -> None:
    """Absence means "strict if it fits" there. Tools are flat."""
    assert encode_responses_tools([tool(OPEN, None), tool(CLOSED, None), tool(CLOSED, False)]) == [
        {"type": "function", "name": "f", "description": "d", "parameters": OPEN, "strict": False},
        {"type": "function", "name": "f", "description": "d", "parameters": CLOSED, "strict": True},
        {"type": "function", "name": "f", "description": "d", "parameters": CLOSED, "strict": False},
    ]


@pytest.mark.parametrize(("strict", "expected"), [(None, False), (True, True), (False, False)])
def test_an_answers_format_is_sent_in_both_apis(strict: bool | None, expected: bool) -> None:
    """With its name; nested in Chat Completions, flat in the Responses API."""
    options = ChatOptions(response_format=ResponseFormat(name="n", schema=OPEN, strict=strict))
    chat, responses = (
        json.loads(writer.body((), "m", options, stream=False)[0])
        for writer in (
            ChatRequestWriter("https://h.example", OpenAIConfig()),
            ResponsesRequestWriter("https://h.example", OpenAIConfig()),
        )
    )

    form = responses["text"]["format"]
    assert (form["type"], form["name"], form["strict"]) == ("json_schema", "n", expected)
    assert expected or form["schema"] == OPEN
    assert chat["response_format"] == {"type": "json_schema", "json_schema": {k: form[k] for k in form if k != "type"}}


def test_a_format_that_cannot_be_held_to_is_a_warning() -> None:
    """The schema is sent all the same."""
    options = ChatOptions(response_format=ResponseFormat(schema=MAP, strict=True))

    raw, warnings = ChatRequestWriter("https://h.example", OpenAIConfig()).body((), "m", options, stream=False)

    assert json.loads(raw)["response_format"]["json_schema"]["schema"] == MAP
    assert "strict form" in warnings[0]


def test_any_json_object_has_no_schema() -> None:
    """json_object is one word in both."""
    options = ChatOptions(response_format=ResponseFormat(type="json_object"))

    chat, _ = ChatRequestWriter("https://h.example", OpenAIConfig()).body((), "m", options, stream=False)
    responses, _ = ResponsesRequestWriter("https://h.example", OpenAIConfig()).body((), "m", options, stream=False)

    assert json.loads(chat)["response_format"] == {"type": "json_object"}
    assert json.loads(responses)["text"] == {"format": {"type": "json_object"}}


NAMES = st.sampled_from(["a", "title", "type", "$ref", "properties", "x y", ""])
PLAIN = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "number", "boolean"])},
    optional={
        "description": st.text(max_size=5),
        "enum": st.lists(st.sampled_from(["a", 1, None]), min_size=1, max_size=3, unique_by=repr),
        "default": st.sampled_from(["a", 1, None]),
        "minimum": st.integers(-5, 5),
        "maximum": st.integers(-5, 5),
        "format": st.sampled_from(["date", "odd"]),
    },
)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=4)},
        optional={
            "description": st.text(max_size=5),
            "required": st.lists(NAMES, max_size=3, unique=True),
            "additionalProperties": st.booleans(),
        },
    )


def arrays(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({"type": st.just("array"), "items": inner}, optional={"minItems": st.integers(0, 3)})


ROOTS = objects(PLAIN | arrays(PLAIN) | objects(PLAIN | arrays(PLAIN)))


@given(ROOTS)
def test_what_is_taken_for_plain_needs_no_rewriting(schema: dict[str, Any]) -> None:
    """The short way leads where the long one does."""
    assert _is_plain(schema)
    assert rewrite(schema, LOOSE).schema == schema


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"a": {"type": ["string", "null"]}}},
        {"type": "object", "properties": {"a": {"type": "array"}}},
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "properties": {}, "anyOf": []},
    ],
)
def test_what_may_need_rewriting_is_not_taken_for_plain(schema: dict[str, Any]) -> None:
    """It goes the long way."""
    assert not _is_plain(schema)
