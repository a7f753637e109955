"""What the rehearsal model says."""

import datetime as dt
import json

import pytest
from flexchat.plugin import (
    AssistantMessage,
    ChatOptions,
    StreamEnd,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolCallEnd,
    ToolMessage,
    UserMessage,
)
from flexchat_mock.rehearsal.compose_answer import HONESTY
from flexchat_mock.rehearsal.provider import RehearsalProvider, answer

TODAY = dt.date(2026, 11, 20)


def tool(name, description, required=(), **properties):
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TEXT = {"type": "string"}
SUMS = tool("calculator", "Evaluate an arithmetic expression", ["expression"], expression=TEXT)
CLOCK = tool("clock", "Tell the time", timezone=TEXT)
WEATHER = tool("get_weather", "Get the weather", ["city"], city=TEXT)
ALL = (SUMS, CLOCK, WEATHER)


def say(message, tools=ALL, *rest, choice="auto"):
    messages = (SystemMessage(content="Be kind."), UserMessage(content=message), *rest)
    return answer(messages, "rehearsal", ChatOptions(tools=tools, tool_choice=choice), TODAY)


def after(message, *contents, is_error=False):
    """The conversation once the calls for a message have these results."""
    asked = say(message)
    results = [
        ToolMessage(tool_call_id=call.id, name=call.name, content=content, is_error=is_error)
        for call, content in zip(asked.tool_calls, contents, strict=True)
    ]
    return say(message, ALL, asked.message, *results)


def envelope(result):
    return json.dumps({"success": True, "result": result, "tool_name": "x", "execution_time_ms": 1})


def test_calls_of_one_message_stand_side_by_side():
    """Two requests, one answer with two calls and finish reason tool_calls (C22)."""
    result = say("What is 17% of 230, and what time is it in Tokyo?")

    assert [c.name for c in result.tool_calls] == ["calculator", "clock"]
    assert result.finish_reason == "tool_calls"
    assert result.usage is None


def test_an_answer_states_each_result():
    """One sentence a result, then the honest line."""
    result = after("What is 17% of 230, and what time is it in Tokyo?", envelope({"result": 39.1}), envelope("12:30"))

    assert result.finish_reason == "stop"
    assert result.content == (
        'calculator (expression: 17% of 230) answered 39.1.\nclock (timezone: Asia/Tokyo) answered "12:30".\n' + HONESTY
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (envelope({"sky": "clear", "degrees": 21}), "answered sky: clear, degrees: 21."),
        (envelope({"city": "Rome", "degrees": 21}), "answered 21."),
        (envelope({"city": "Rome"}), 'answered "Rome".'),
        (envelope([1, 2]), "answered 2 entries: 1; 2."),
        (envelope([{"a": 1, "b": [1, {"c": None}]}]), "answered (a: 1, b: [1, (c: null)])."),
        (envelope([]), "answered nothing (an empty list)."),
        (envelope(None), "answered null."),
        (envelope(True), "answered true."),
        (envelope(list(range(50))), "50 entries: 0; 1; 2; 3; 4; 5; 6; 7 and 42 more."),
        ("no JSON at all", "answered: no JSON at all"),
        ('{"plain": 1}', "answered 1."),
        ('{"success": false, "error": "no such city"}', "failed: no such city"),
        (envelope("x" * 5000), "x…"),
    ],
)
def test_results_of_every_shape_are_read(content, said):
    """Objects, lists, texts, errors, and what is no JSON."""
    answered = after("weather in Rome", content).content

    assert answered.startswith("get_weather (city: Rome) ")
    assert said in answered


def test_what_no_tool_could_do_is_said_beside_the_results():
    """A request without a tool is not silently dropped."""
    content = after("What is 2 + 2? Sing a song!", envelope(4)).content

    assert "answered 4." in content
    assert 'No tool fits "Sing a song!".' in content


def test_without_a_fitting_tool_the_tools_are_named():
    """A newcomer reads what there is to ask for."""
    assert (
        say("Sing a song").content
        == f'No tool fits "Sing a song".\nTools offered: calculator, clock, get_weather.\n{HONESTY}'
    )


def test_a_missing_argument_is_named():
    """The tool is not called; the answer names the parameter."""
    result = say("What is the weather?")

    assert not result.tool_calls
    assert 'get_weather fits "What is the weather?", but the message does not say: city.' in result.content


def test_without_tools_it_says_what_it_could_read():
    """Derived from the message: how many words, and what was found in them."""
    assert say("Send 5 euros to Anna Smith on 3 May", ()).content == (
        "No tool is offered, so there is nothing to call. The message has 9 words; found in it: "
        f"date or time 2027-05-03; number 5; currency EUR; name Anna Smith.\n{HONESTY}"
    )


def test_where_calling_is_forbidden_it_says_what_would_fit():
    """tool_choice "none": no call, but the one it would have made is told."""
    result = say("What is 2 + 2?", choice="none")

    assert not result.tool_calls
    assert "calculator (expression: 2 + 2) would fit." in result.content


def test_where_a_call_is_required_the_nearest_tool_is_called():
    """tool_choice "required" lowers the bar to any word in common."""
    tools = (tool("list_things", "List what is in the shed"),)

    assert not say("what about my shed", tools).tool_calls
    assert say("what about my shed", tools, choice="required").tool_calls[0].name == "list_things"


@pytest.mark.parametrize("messages", [(), (SystemMessage(content="x"),), (UserMessage(content=""),)])
def test_nothing_asked_is_answered_too(messages):
    """No user message, or an empty one, is no reason to fail."""
    assert answer(messages, "m", ChatOptions(tools=ALL), TODAY).content.endswith(HONESTY)


def test_results_of_an_earlier_turn_are_not_answered_again():
    """Only what follows the last user message counts."""
    call = ToolCall.from_object("clock", {})
    old = (UserMessage(content="time?"), AssistantMessage(parts=(call,)),
           ToolMessage(tool_call_id=call.id, name="clock", content=envelope("12:30")))  # fmt: skip

    result = answer((*old, UserMessage(content="What is 2 + 2?")), "m", ChatOptions(tools=ALL), TODAY)

    assert [c.name for c in result.tool_calls] == ["calculator"]


@pytest.mark.parametrize("message", ["What is 2 + 2, and what time is it?", "Sing a song", ""])
async def test_a_stream_is_the_unstreamed_answer_in_pieces(message):
    """Text word by word, calls in pieces, and the end equals the whole (but for call ids)."""
    provider, options = RehearsalProvider(today=lambda: TODAY), ChatOptions(tools=ALL)
    asked = (UserMessage(content=message),)

    whole = await provider.generate_chat(asked, "m", options)
    events = [event async for event in provider.stream_chat(asked, "m", options)]

    assert isinstance(events[-1], StreamEnd)
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
