"""A real model with real tools: only with ./dev test --real, against FLEXCHAT_REAL_MODEL_URL.

Asserts on the calls and on what must be in an answer, never on wording.
"""

import os

import attrs
import pytest
from flexchat import FlexChat, TextDelta, TurnFinished, tool
from flexchat.assembly import Parts

URL = os.environ.get("FLEXCHAT_REAL_MODEL_URL", "http://127.0.0.1:18080/v1")
MODEL = os.environ.get("FLEXCHAT_REAL_MODEL", "real-model")

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif("FLEXCHAT_TEST_REAL" not in os.environ, reason="needs a real model: ./dev test --real"),
]


@tool
def get_weather(location: str) -> dict:
    """Get the current weather of a city.

    Args:
        location: City name.
    """
    return {"location": location, "temperature_c": 19, "condition": "cloudy"}


def chat(api="chat"):
    config = {
        "llms": {"real": {"provider": "openai", "base_url": URL, "api_key": "none", "api": api}},
        "tools": {"at_limit": "answer", "registry": [{"name": "calculator"}]},
        "responses": [
            {
                "llm": "real",
                "model": MODEL,
                "temperature": 0,
                "max_tokens": 300,
                "prompt": "You are a helpful assistant. Use the tools.",
                "tools": {"enabled": True, "allowed_tools": ["calculator", "get_weather"]},
            }
        ],
    }
    return FlexChat.from_config(config, tools=[get_weather])


async def ask(message, streamed, api="chat", **rest):
    async with chat(api) as made:
        if not streamed:
            return await made.respond(message, **rest)
        events = [event async for event in made.stream(message, **rest)]
        assert isinstance(events[-1], TurnFinished)
        assert "".join(e.text for e in events if isinstance(e, TextDelta)).endswith(events[-1].turn.content)
        return events[-1].turn


@attrs.frozen
class Forecast:
    """What the weather is."""

    city: str
    temperature_c: int


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("message", "name", "found"),
    [
        ("What is 1234 * 77? Use the calculator.", "calculator", "95018"),
        ("What is the weather in Lisbon right now?", "get_weather", "19"),
    ],
)
async def test_a_real_model_uses_real_tools(message, name, found, streamed, api):
    """The right tool is called, its result reaches the answer, and the tokens are counted."""
    turn = await ask(message, streamed, api)

    assert name in [r.tool for r in turn.response.tool_calls]
    assert any(r.result.success for r in turn.response.tool_calls)
    assert found in turn.content.replace(",", "").replace(" ", "")
    assert turn.response.usage.output_tokens > 0


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_real_model_calls_two_tools_in_one_answer(streamed):
    """Parallel calls: both run, both results are read."""
    turn = await ask("What is the weather in Lisbon, and what is 12.5 * 8? Use both tools at once.", streamed)

    assert {r.tool for r in turn.response.tool_calls} >= {"get_weather", "calculator"}
    assert {r.iteration for r in turn.response.tool_calls} == {1}
    assert "100" in turn.content
    assert "19" in turn.content or "cloudy" in turn.content


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_real_model_answers_in_the_form_it_was_asked_for(streamed, api):
    """A class in, an instance out: json_schema at a real server, also where it does not hold its model to it."""
    async with chat(api) as made:
        rule = attrs.evolve(made.config.responses[0], tools=None)
        config = attrs.evolve(made.config, responses=(rule,))
        plain = FlexChat(Parts(config=config, llms=made.llms, tools=made.tools, holds=()))
        message = "In Lisbon it is 19 degrees Celsius. Report it."
        if streamed:
            events = [event async for event in plain.stream(message, response_format=Forecast)]
            turn = events[-1].turn
        else:
            turn = await plain.respond(message, response_format=Forecast)

    assert turn.response.parsed == Forecast("Lisbon", 19)
