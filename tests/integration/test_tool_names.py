"""Tools whose names no provider takes: sent under another name, run and reported under their own."""

import json

from flexchat import FlexChat, ToolFinished, ToolStarted
from flexchat_testing.scripted import ScriptedProvider, calls, says

LONG = "acme." + "x" * 70
CONFIG = {
    "llms": {"bot": {"provider": "scripted"}},
    "tools": {
        "registry": [
            {
                "name": name,
                "description": "Get the weather.",
                "parameters": {"type": "object", "properties": {}},
                "implementation": {"type": "mock", "mock_response": {"sky": "clear"}},
            }
            for name in ("weather.get", LONG)
        ]
    },
    "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True, "allowed_tools": ["weather.get", LONG]}}],
}


async def test_a_dotted_tool_is_mapped_and_mapped_back():
    """The model sees weather_get; records, events and the allow-list say weather.get."""
    model = ScriptedProvider([calls(("weather_get", {})), says("Clear.")])
    chat = FlexChat.from_config(CONFIG, providers={"bot": model})

    events = [event async for event in chat.stream("Weather?")]

    sent = [t["function"]["name"] for t in model.requests[0].options.tools]
    assert sent[0] == "weather_get"
    assert len(sent[1]) == 64
    response = events[-1].turn.response
    assert [(r.tool, r.result.result) for r in response.tool_calls] == [("weather.get", {"sky": "clear"})]
    assert [e.call.name for e in events if isinstance(e, ToolStarted)] == ["weather.get"]
    assert [e.record.tool for e in events if isinstance(e, ToolFinished)] == ["weather.get"]


async def test_the_history_keeps_the_name_the_model_used():
    """What goes back to a provider must be a name it takes: call and result alike."""
    model = ScriptedProvider([calls(("weather_get", {})), says("Clear.")])
    chat = FlexChat.from_config(CONFIG, providers={"bot": model})

    response = (await chat.respond("Weather?")).response

    _, asked, answered, _ = response.messages
    assert asked.tool_calls[0].name == answered.name == "weather_get"
    assert json.loads(answered.content)["tool_name"] == "weather_get"


async def test_a_refusal_names_tools_as_the_model_knows_them():
    """What it could call instead is of use only under the names it was told."""
    model = ScriptedProvider([calls(("weather_gt", {})), says("Clear.")])
    chat = FlexChat.from_config(CONFIG, providers={"bot": model})

    response = (await chat.respond("Weather?")).response

    result = response.tool_calls[0].result
    assert result.error == "Tool 'weather_gt' not found"
    assert result.hint.startswith("did you mean 'weather_get'? available tools: weather_get, acme_")


async def test_a_model_that_uses_the_true_name_is_understood():
    """It may have read it in a prompt."""
    model = ScriptedProvider([calls(("weather.get", {})), says("Clear.")])
    chat = FlexChat.from_config(CONFIG, providers={"bot": model})

    assert (await chat.respond("Weather?")).response.tool_calls[0].result.success
