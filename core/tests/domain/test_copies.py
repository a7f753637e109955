"""Who hands over a table and changes it afterwards changes nothing of what was made of it."""

import attrs
from flexchat import ChatRequest, FlexChat
from flexchat.config.document import document_of
from flexchat.config.model import ResponseRule, RuleTools
from flexchat.domain import Implementation, ResponseFormat, ToolCall, ToolDefinition
from flexchat.domain.copies import copied, with_own_tables
from flexchat.schema.answer_format import answer_format
from flexchat.tools.registry import ToolRegistry
from flexchat_testing.scripted import ScriptedProvider
from hypothesis import given
from hypothesis import strategies as st

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


@attrs.frozen
class Settings:
    """Settings as a plugin's class has them."""

    table: dict
    call: object
    items: tuple = ()


def spoilt(value):
    """Change every table and list there is, in place."""
    for item in [*(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())]:
        spoilt(item)
    if isinstance(value, dict):
        value["spoilt"] = True
    elif isinstance(value, list):
        value.append("spoilt")


@given(JSON)
def test_a_copy_is_equal_and_shares_nothing(value):
    before, copies = copied(value), (copied(value), with_own_tables(value), with_own_tables(Settings({"x": value}, 1)))

    spoilt(value)

    assert copies == (before, before, Settings({"x": before}, 1))


def test_a_records_tables_are_its_own_and_what_is_no_data_stays():
    inner, function, items = Settings({"a": [1]}, None), print, ({"b": 1},)
    record = Settings({"deep": inner}, function, items)

    own = with_own_tables(record)
    inner.table["a"].append(2)
    items[0]["b"] = 2

    assert own == Settings({"deep": Settings({"a": [1]}, None)}, function, ({"b": 1},))
    assert own.call is function


@given(st.sampled_from([{"mock_response": {"a": [1]}}, Settings({"a": [1]}, print)]))
def test_a_registered_tools_settings_are_its_own(settings):
    """As a mapping, and as an instance of the type's class."""
    settings = with_own_tables(settings)
    tool = ToolDefinition(
        name="t", description="T", parameters=SCHEMA, implementation=Implementation(type="mock", settings=settings)
    )
    registry = ToolRegistry()
    registry.register(tool)
    before = with_own_tables(registry.get("t").implementation.settings)

    spoilt(settings if isinstance(settings, dict) else settings.table)

    assert registry.get("t").implementation.settings == before


def test_a_calls_arguments_are_its_own():
    """Who made it may go on changing his tables."""
    given = {"a": {"b": [1]}}
    call = ToolCall.from_object("t", given)

    spoilt(given)

    assert call.arguments == {"a": {"b": [1]}}


def test_arguments_nested_beyond_all_measure_are_explained():
    call = ToolCall.from_text("t", '{"a":' * 50_000 + "1" + "}" * 50_000)
    assert call.arguments is None
    assert "too deeply" in call.error


@given(st.sampled_from(["mapping", "format", "openai"]))
def test_the_form_of_an_answer_is_its_own(kind):
    schema = copied(SCHEMA)
    wanted = {
        "mapping": schema,
        "format": ResponseFormat(schema=schema),
        "openai": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
    }[kind]
    form = answer_format(wanted)

    spoilt(schema)

    assert form.format.schema == SCHEMA


async def test_a_turn_keeps_the_variables_it_began_with():
    """Given beside the message, and in a ChatRequest."""
    variables = {"company": {"name": "Acme"}}
    model = ScriptedProvider(["a", "b"])
    rule = {"llm": "bot", "model": "m", "prompt": "{{company.name}}"}
    config = {"llms": {"bot": {"provider": "scripted"}}, "responses": [rule]}
    async with FlexChat.from_config(config, providers={"bot": model}) as chat:
        turns = [
            chat.stream("hi", variables=variables),
            chat.stream(ChatRequest(user_message="hi", variables=variables)),
        ]
        variables["company"]["name"] = "Other"
        for turn in turns:
            async for _ in turn:
                pass

    assert [request.messages[0].content for request in model.requests] == ["Acme", "Acme"]


async def test_a_chat_is_as_its_configuration_was():
    """From a mapping and from a document; a rule to be tried, too."""
    config = {
        "llms": {"bot": {"provider": "scripted", "default_model": "m"}},
        "responses": [{"llm": "bot", "extra_body": {"a": [1]}}, {"llm": "bot"}],
        "variables": {"company": {"name": "Acme"}},
    }
    document, extra = document_of(config), {"a": [1]}
    chats = [FlexChat.from_config(each, providers={"bot": ScriptedProvider([])}) for each in (config, document)]
    tried = chats[0].with_rule(ResponseRule(llm="bot", extra_body=extra, tools=RuleTools()))

    for each in (config, document.data, extra):
        spoilt(each)

    for chat in chats:
        assert (chat.config.variables, chat.config.responses[0].extra_body) == (
            {"company": {"name": "Acme"}},
            {"a": [1]},
        )
        await chat.aclose()
    assert tried.config.responses[0].extra_body == {"a": [1]}
