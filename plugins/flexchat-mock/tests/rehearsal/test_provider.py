"""The rehearsal model answers what README, docs, the page, ``flexchat demo`` and other packages ask of it."""

import json
import re
from pathlib import Path

import pytest
from flexchat import FlexChat
from flexchat.assembly import installed_plugins
from flexchat.plugin import ToolCall
from flexchat_cli.context import zero_config
from flexchat_mock.rehearsal.provider import HONESTY, RehearsalProvider, answer
from flexchat_sdk import (
    AnswerEnd,
    AssistantMessage,
    ChatOptions,
    SystemMessage,
    TextDelta,
    TextPart,
    ToolCallEnd,
    ToolMessage,
    UserMessage,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

PAGES = Path(__file__).parents[3] / "flexchat-web" / "src" / "flexchat_web" / "static" / "js" / "pages"
TEXT = {"type": "string"}


def tool(name, description, required="", **properties):
    schema = {"type": "object", "properties": properties, "required": required.split()}
    return {"name": name, "description": description, "parameters": schema}


SUMS = tool("calculator", "Calculate an arithmetic expression exactly.", "expression", expression=TEXT)
CLOCK = tool("get_current_datetime", "Tell the current date, time and weekday, in a given time zone.", timezone=TEXT)
REPLACE = tool("text_replace", "Replace every occurrence of a piece of text.", "text find",
               text=TEXT, find={**TEXT, "minLength": 1}, replace=TEXT)  # fmt: skip
WEATHER = tool("get_weather", "Get the weather forecast of a city.", "city", city=TEXT, days={"type": "integer"})
PRICE = tool("get_price", "Get the price of a product, in euros.", "product", product=TEXT)
SEARCH = tool("search_documents", "Search the document collections for passages about something", "query",
              query=TEXT, collection=TEXT, max_results={"type": "integer"})  # fmt: skip
DOUBLE = tool("double", "Double a number.", "number", number={"type": "integer"})
STUBBORN = tool("stubborn", "Never ends.")
ALL = (SUMS, CLOCK, REPLACE, WEATHER, PRICE, SEARCH, DOUBLE, STUBBORN)


def sum_of(expression):
    return ("calculator", {"expression": expression})


def time_in(zone):
    return ("get_current_datetime", {"timezone": zone})


def weather_in(city, **more):
    return ("get_weather", {"city": city, **more})


ASKS = [
    # README, flexchat demo, flexchat ask --demo, flexchat init
    ("What is 17% of 230, and what time is it in Tokyo?", [sum_of("17% of 230"), time_in("Asia/Tokyo")]),
    ("What is 17% of 230?", [sum_of("17% of 230")]),
    ("Roll it: what is sqrt(2) * 10?", [sum_of("sqrt(2) * 10")]),
    ("What is the weather in Rome?", [weather_in("Rome")]),
    ("What is the weather in Oslo?", [weather_in("Oslo")]),
    # README of flexchat-langchain, docs/tool-calls.md
    ("How is the weather in Oslo?", [weather_in("Oslo")]),
    ("Ann asks: what is 15% of 45?", [sum_of("15% of 45")]),
    # examples/
    ("What is the weather in Atlantis?", [weather_in("Atlantis")]),
    ("What is the price of the product coffee?", [("get_price", {"product": "coffee"})]),
    ("What is the price of the product bread?", [("get_price", {"product": "bread"})]),
    # sample_cases.toml of flexchat-validation
    ("What is 12.5 * 8?", [sum_of("12.5 * 8")]),
    ("What time is it in Tokyo?", [time_in("Asia/Tokyo")]),
    ("What time is it in Paris, and what is 3 + 4?", [time_in("Europe/Paris"), sum_of("3 + 4")]),
    ("Replace 'cat' by 'dog' in the text 'the cat sat'",
     [("text_replace", {"text": "the cat sat", "find": "cat", "replace": "dog"})]),
    ("Thanks, that was helpful.", []),
    ("Who wrote Hamlet?", []),
    # the pages Chat and Test of flexchat-web, and the pictures of docs/images
    ("What's the weather in Paris?", [weather_in("Paris")]),
    ("Calculate 15% tip on $45", []),
    ("What's 2+2?", [sum_of("2+2")]),
    ("Search for Python decorators in the docs", [("search_documents", {"query": "Python decorators in the docs"})]),
    ("And what is the weather in Paris?", [weather_in("Paris")]),
    ("Compare the weather in Oslo and in Rome.", [weather_in("Oslo"), weather_in("Rome")]),
    ("How much is 17% of 230?", [sum_of("17% of 230")]),
    ("Good morning! How are you?", []),
    ("Thank you, that was all.", []),
    # tests of other packages
    ("hello", []),
    ("fruit salad", []),
    ("What is 6 times 7?", [sum_of("6 * 7")]),
    ("What is 123 * 456?", [sum_of("123 * 456")]),
    ("Please double the number 21", [("double", {"number": 21})]),
    ("Please call stubborn", [("stubborn", {})]),
    # what a newcomer tries next
    ("What time is it?", [("get_current_datetime", {})]),
    ("what is the weather in paris", [weather_in("paris")]),
    ("What is the weather in Rome in 3 days?", [weather_in("Rome", days=3)]),
    ("What is the weather in Paris and Rome, and what is 12.5 * 8?",
     [weather_in("Paris"), weather_in("Rome"), sum_of("12.5 * 8")]),
    ("What is mean([1, 2, 3])?", [sum_of("mean([1, 2, 3])")]),
]  # fmt: skip


def say(message, tools=ALL, *rest, choice="auto"):
    messages = (SystemMessage(content="Be kind."), UserMessage(content=message), *rest)
    return answer(messages, "rehearsal", ChatOptions(tools=tools, tool_choice=choice))


@pytest.mark.parametrize(("question", "calls"), ASKS)
def test_what_is_asked_of_it_calls_the_tool_that_is_meant(question, calls):
    result = say(question)

    assert [(call.name, dict(call.arguments)) for call in result.tool_calls] == calls
    assert result.finish_reason == ("tool_calls" if calls else "stop")


def test_calls_of_one_message_stand_side_by_side():
    """Two requests, one answer with two calls and finish reason tool_calls (C22)."""
    result = say("What is 17% of 230, and what time is it in Tokyo?")

    assert [c.name for c in result.tool_calls] == ["calculator", "get_current_datetime"]
    assert result.finish_reason == "tool_calls"
    assert result.usage is None


def test_where_calling_is_forbidden_nothing_is_called():
    assert say("What is 2 + 2?", choice="none").content == f"No tool may be called now.\n{HONESTY}"


@pytest.mark.parametrize("messages", [(), (SystemMessage(content="x"),), (UserMessage(content=""),)])
def test_nothing_asked_is_answered_too(messages):
    """No user message, or an empty one, is no reason to fail."""
    assert answer(messages, "m", ChatOptions(tools=ALL)).content.endswith(HONESTY)


def test_results_of_an_earlier_turn_are_not_answered_again():
    """Only what follows the last user message counts."""
    call = ToolCall.from_object("clock", {})
    old = (UserMessage(content="time?"), AssistantMessage(parts=(call,)),
           ToolMessage(tool_call_id=call.id, name="clock", content='{"success": true, "result": "12:30"}'))  # fmt: skip

    result = answer((*old, UserMessage(content="What is 2 + 2?")), "m", ChatOptions(tools=ALL))

    assert [c.name for c in result.tool_calls] == ["calculator"]


@pytest.mark.parametrize("message", ["What is 2 + 2, and what time is it?", "Sing a song", ""])
async def test_a_stream_is_the_unstreamed_answer_in_pieces(message):
    """Text word by word, calls in pieces, and the end equals the whole (but for call ids)."""
    provider, options = RehearsalProvider(), ChatOptions(tools=ALL)
    asked = (UserMessage(content=message),)

    whole = await provider.generate_chat(asked, "m", options)
    events = [event async for event in provider.stream_chat(asked, "m", options)]

    assert isinstance(events[-1], AnswerEnd)
    result = events[-1].result
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == (whole.content or "")
    assert [e.call for e in events if isinstance(e, ToolCallEnd)] == [*result.tool_calls]
    assert (result.content, result.finish_reason) == (whole.content, whole.finish_reason)
    assert [(c.name, c.arguments) for c in result.tool_calls] == [(c.name, c.arguments) for c in whole.tool_calls]


async def test_there_is_one_model_and_nothing_to_close():
    """list_models and aclose need no network."""
    provider = RehearsalProvider()

    assert [m.id for m in await provider.list_models()] == ["rehearsal"]
    await provider.aclose()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
SCHEMAS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "number", "array", "object", ["string", "null"]]) | JSON,
        "enum": st.lists(JSON, max_size=3) | JSON,
        "anyOf": st.lists(st.sampled_from([{"type": "string"}, {"type": "null"}, {"type": "integer"}]), max_size=2)
        | JSON,
        "format": JSON,
    },
)
NAMES = st.sampled_from(["text", "query", "city", "date", "expression", "timezone", "count", "to", "x", "ß", "("])
SAYINGS = (
    "what is 17% of|and|,|?|(((|3 +|* 4|Tokyo|New York|'cat'|\"|'|’|https://a.b|a@b.c|A-1|x 5|-5|٣|🙂|İ|\n|\0|text|to"
)
MESSAGES = st.lists(st.sampled_from(SAYINGS.split("|")), max_size=12).map(" ".join) | st.text(max_size=80)


@settings(max_examples=examples(150), deadline=None)
@given(MESSAGES, st.lists(st.tuples(NAMES, st.dictionaries(NAMES, SCHEMAS | JSON, max_size=3), JSON), max_size=3), JSON)
def test_any_message_and_any_tools_have_an_honest_answer(message, described, result):
    """Whatever a schema, a message or a result is: calls that are JSON, or a text whose last line says what this is."""
    tools = tuple(
        {"name": name, "description": message, "parameters": {"properties": parts, "required": [*parts][:1] or odd}}
        for name, parts, odd in described
    )
    said = say(message, tools)
    for call in said.tool_calls:
        json.dumps(dict(call.arguments))
    assert said.tool_calls or said.content.endswith(HONESTY)
    content = json.dumps({"success": True, "result": result})
    told = say(message, tools, ToolMessage(tool_call_id="c", name="tool", content=content)).content
    assert told.startswith("tool answered ")
    assert told.endswith(HONESTY)


@pytest.fixture(scope="module")
def plugins():
    return installed_plugins()


async def test_what_a_follow_up_asks_is_what_the_documents_are_searched_for(plugins):
    """No chatter of the model's stands in the query, in a later turn either."""
    documents = [
        {"title": "Hours", "text": "The library opens at nine."},
        {"title": "Fees", "text": "A lost card costs five euros."},
    ]
    tables = {
        "llms": {"trial": {"provider": "rehearsal", "default_model": "rehearsal"}},
        "stores": {
            "guide": {"provider": "memory", "collection": "guide", "documents": documents, "partial_threshold": 1.1}
        },
        "intent": {"llm": "trial", "detection": {"money": "prices and fees"}},
        "responses": [
            {"llm": "trial", "match": {"intent": "money"}},
            {"llm": "trial", "prompt": "{{topic}}\n\n{{rag_context}}"},
        ],
    }
    history = [UserMessage(content="When does it open?"), AssistantMessage(parts=(TextPart(text="At nine."),))]
    async with FlexChat.from_config(tables, plugins=plugins) as chat:
        turn = await chat.respond("What does a lost card cost?", history=history, topic="opening hours")
    topic, search, intent = turn.phases[:3]
    assert topic.outcome == {"topic": "What does a lost card cost?", "status": "new_topic"}
    assert search.input["query"] == "What does a lost card cost?"
    assert search.outcome["result"] != "none"
    assert topic.skipped == "'trial' only stands in for a model and cannot say"
    assert "rehearsal model" not in json.dumps([one.to_dict() for one in (topic, search, intent)])
    assert "five euros" in turn.content


async def test_every_sample_case_of_the_command_line_is_answered_right(plugins):
    """flexchat validate without a configuration shows what the model can do, not what it cannot."""
    tables = zero_config(plugins)
    async with FlexChat.from_config(tables, plugins=plugins) as chat:
        for case in tables["validation"]["cases"]:
            turn = await chat.respond(case["message"])
            made = turn.response.tool_calls or ()
            assert [call.tool for call in made] == [call["tool"] for call in case.get("calls", ())], case["name"]
            for call, wanted in zip(made, case.get("calls", ()), strict=True):
                assert call.result.success
                assert dict(call.params).items() >= wanted.get("arguments", {}).items(), case["name"]


async def test_what_the_page_suggests_is_answered_by_the_tool_it_is_meant_for(plugins):
    """Each suggestion of the page Chat, with all ready-made tools."""
    weather = {
        "name": "get_weather",
        "description": "Get the weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "implementation": {"type": "mock", "mock_response": "sunny"},
    }
    tables = zero_config(plugins)
    tables["tools"]["registry"].append(weather)
    listed = (PAGES / "chat.js").read_text("utf-8").partition("const EXAMPLES = [")[2].partition("];")[0]
    suggestions = re.findall(r'\["(\w+)", "([^"]+)"\]', listed)
    assert len(suggestions) == 4
    said = {}
    async with FlexChat.from_config(tables, plugins=plugins) as chat:
        for name, text in suggestions:
            (call,) = (await chat.respond(text)).response.tool_calls
            assert (call.tool, call.result.success) == (name, True), text
            said[name] = call.result.result
    assert said["text_replace"]["text"] == "the dog sat"
    assert said["calculator"]["result"] == 39.1
