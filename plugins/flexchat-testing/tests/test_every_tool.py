"""The model that calls every tool once."""

import enum
from typing import Literal, TypedDict

import attrs
import pytest
from flexchat import FlexChat, tool
from flexchat.host import value_problem
from flexchat_testing import EveryToolProvider, NoExampleError, ScriptedProvider, calls, example_value
from hypothesis import given
from hypothesis import strategies as st

pytest_plugins = ["flexchat_testing.fixtures"]


class Color(enum.Enum):
    RED = "red"


@attrs.frozen
class Address:
    street: str
    number: int | None


class Tree(TypedDict):
    name: str
    leaves: dict[str, list[int]]


def chat_with(*tools, model=None, **rule):
    rules = [{"llm": "main", "tools": {"enabled": True}, **rule}]
    return FlexChat.from_config({"responses": rules}, tools=tools, providers={"main": model or EveryToolProvider()})


async def test_every_tool_is_called_once_with_arguments_that_fit():
    @tool
    def paint(color: Color, size: Literal["s", "m"], where: Address) -> str:
        """Paint."""
        return f"{color.value} {size} {where.number}"

    @tool
    def plant(tree: Tree, days: list[int]) -> str:
        """Plant."""
        return tree["name"]

    @tool
    def rest() -> str:
        """Rest."""
        return "rested"

    async with chat_with(paint, plant, rest) as chat:
        turn = await chat.respond("Go")

    assert [(call.tool, call.result.success) for call in turn.tool_calls] == [
        ("paint", True),
        ("plant", True),
        ("rest", True),
    ], turn.tool_calls
    assert turn.content == "Called: paint, plant, rest."


async def test_the_next_turn_calls_them_again():
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    async with chat_with(look) as chat:
        first = await chat.respond("Go")
        second = await chat.respond("Go", history=first.response.messages)

    assert len(second.tool_calls) == 1


async def test_a_response_format_is_filled():
    async with chat_with() as chat:
        turn = await chat.respond("Where?", response_format=Address)
    plain = chat_with(response_format={"type": "json_object"})
    async with plain:
        empty = await plain.respond("Anything")

    assert isinstance(turn.response.parsed, Address)
    assert empty.content == "{}"


async def test_a_schema_that_cannot_be_filled_names_the_way_out():
    @tool
    def spell(word: str) -> str:
        """Spell."""
        return word

    definition = attrs.evolve(
        spell.definition,
        parameters={
            "type": "object",
            "properties": {"word": {"type": "string", "pattern": "^q+$"}},
            "required": ["word"],
        },
    )
    async with chat_with(definition) as chat:
        with pytest.raises(Exception, match=r"EveryToolProvider\(arguments=\{'spell'"):
            await chat.respond("Go")
    async with chat_with(definition, model=EveryToolProvider(arguments={"spell": {"word": "qq"}})) as chat:
        turn = await chat.respond("Go")

    assert turn.tool_calls[0].result.result == "qq"


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": ["null", "integer"], "minimum": 3},
        {"type": "integer", "exclusiveMinimum": 4, "multipleOf": 5},
        {"type": "number", "maximum": -2.5},
        {"type": "integer", "exclusiveMaximum": 0},
        {"type": "string", "minLength": 20},
        {"type": "string", "maxLength": 2},
        {"type": "string", "format": "date-time"},
        {"type": "string", "examples": ["x"]},
        {"enum": [None, 1]},
        {"const": {"a": 1}},
        {"type": "array", "items": {"type": "integer"}, "minItems": 3, "uniqueItems": True, "maxItems": 5},
        {"type": "array", "maxItems": 0},
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False, "minItems": 2},
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        {"allOf": [{"properties": {"a": {"type": "integer"}}}, {"required": ["a"]}], "type": "object"},
        {"type": "object", "required": ["free"], "minProperties": 3, "additionalProperties": {"type": "integer"}},
        {
            "type": "object",
            "properties": {"next": {"$ref": "#"}, "value": {"$ref": "#/$defs/v"}},
            "required": ["value"],
            "$defs": {"v": {"type": "boolean"}},
        },
        {"oneOf": [{"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]}, {"type": "null"}]},
    ],
)
def test_values_fit_their_schema(schema):
    assert value_problem(example_value(schema), schema) is None


@given(
    st.recursive(
        st.sampled_from([{"type": kind} for kind in ("string", "integer", "number", "boolean", "null")]),
        lambda inner: (
            st.fixed_dictionaries({"type": st.just("array"), "items": inner, "minItems": st.integers(0, 3)})
            | st.builds(
                lambda properties: {"type": "object", "properties": properties, "required": [*properties]},
                st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=3),
            )
            | st.builds(lambda parts: {"anyOf": parts}, st.lists(inner, min_size=1, max_size=2))
        ),
    )
)
def test_any_plain_schema_is_filled(schema):
    assert value_problem(example_value(schema), schema) is None


def test_a_value_that_does_not_fit_is_never_returned():
    with pytest.raises(NoExampleError, match="does not fit"):
        example_value({"type": "string", "pattern": "^z"})
    with pytest.raises(NoExampleError):
        example_value({"not": {}})


async def test_a_double_needs_no_entry():
    async with chat_with(model=ScriptedProvider(["Hello"])) as chat:
        assert (await chat.respond("Hi")).content == "Hello"


async def test_a_double_takes_the_place_of_a_service_that_is_not_set_up(tmp_path, monkeypatch):
    """Neither its key nor its package is needed, nor are its settings read."""
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    file = tmp_path / "flexchat.toml"
    file.write_text(
        '[llms.main]\nprovider = "acme"\ndefault_model = "m"\napi_key = "${NO_SUCH_KEY}"\n[[responses]]\nllm = "main"\n'
    )
    async with FlexChat.from_config(file, providers={"main": ScriptedProvider(["Hello"])}) as chat:
        assert (await chat.respond("Hi")).content == "Hello"


async def test_the_fixture_replaces_every_model(chat_from_config, recorded_events, tmp_path):
    file = tmp_path / "flexchat.toml"
    file.write_text(
        '[llms.main]\nprovider = "openai"\ndefault_model = "m"\n'
        '[llms.other]\nprovider = "openai"\ndefault_model = "m"\n'
        '[[responses]]\nllm = "main"\n[responses.tools]\nenabled = true\n'
    )

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    async with chat_from_config(file, tools=[pay], main=[calls(("pay", {"amount": 5})), "Done."]) as chat:
        turn = await chat.respond("Pay")
        names = [chat.llms[name].provider.name for name in chat.llms]

    assert (turn.content, turn.tool_calls[0].result.result) == ("Done.", "paid 5")
    assert names == ["scripted", "scripted"]
    assert "tool_finished" in [event.name for event in recorded_events.events]
