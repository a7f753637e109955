"""A real model with real tools: only with ./dev test --real, against FLEXCHAT_REAL_MODEL_URL.

Asserts on the calls and on what must be in an answer, never on wording.
"""

import os

import pytest
from flexchat import FlexChat, TextDelta, TurnEnd, tool

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


def chat():
    config = {
        "llms": {"real": {"provider": "openai", "base_url": URL, "api_key": "none"}},
        "tools": {"at_limit": "answer", "registry": [{"name": "calculator"}]},
        "responses": [
            {
                "llm": "real",
                "model": MODEL,
                "temperature": 0,
                "max_tokens": 200,
                "prompt": "You are a helpful assistant. Use the tools.",
                "tools": {"enabled": True, "allowed_tools": ["calculator", "get_weather"]},
            }
        ],
    }
    return FlexChat.from_config(config, tools=[get_weather])


async def ask(message, streamed):
    async with chat() as made:
        if not streamed:
            return await made.respond(message)
        events = [event async for event in made.stream(message)]
        assert isinstance(events[-1], TurnEnd)
        assert "".join(e.text for e in events if isinstance(e, TextDelta)).endswith(events[-1].turn.content)
        return events[-1].turn


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("message", "name", "found"),
    [
        ("What is 1234 * 77? Use the calculator.", "calculator", "95018"),
        ("What is the weather in Lisbon right now?", "get_weather", "19"),
    ],
)
async def test_a_real_model_uses_real_tools(message, name, found, streamed):
    """The right tool is called, its result reaches the answer, and the tokens are counted."""
    turn = await ask(message, streamed)

    assert name in [r.tool for r in turn.response.tool_calls]
    assert any(r.result.success for r in turn.response.tool_calls)
    assert found in turn.content.replace(",", "").replace(" ", "")
    assert turn.response.usage.output_tokens > 0
