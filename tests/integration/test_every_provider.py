"""Conversations with tools over real sockets: at each provider, and begun at one and continued at another."""

import itertools
import re

import pytest
from agent_server import DIALECTS, AgentServer
from flexchat import FlexChat, TextDelta, TurnFinished, tool

QUESTION = "What is the weather in Paris and Rome, and what is 12.5 * 8?"


@tool(effect="read", repeatable=True)
def get_weather(city: str) -> dict:
    """Get the weather of a city."""
    return {"city": city, "celsius": {"Paris": 18, "Rome": 24}[city]}


@tool(effect="read", repeatable=True)
def calculator(expression: str) -> float:
    """Calculate."""
    return {"12.5 * 8": 100.0}[expression]


@pytest.fixture
def servers():
    """One server for each dialect."""
    made = {name: AgentServer(name) for name in DIALECTS}
    yield made
    for server in made.values():
        server.close()


def chat(server):
    config = {
        "llms": {"it": server.llm},
        "responses": [{"llm": "it", "prompt": "Be brief.", "tools": {"enabled": True}}],
    }
    return FlexChat.from_config(config, tools=[get_weather, calculator])


def check(turn):
    """Three calls in order, each result in its place; the model read them where it looked for them."""
    records = turn.response.tool_calls
    assert [(r.tool, dict(r.params), r.iteration) for r in records] == [
        ("get_weather", {"city": "Paris"}, 1),
        ("get_weather", {"city": "Rome"}, 2),
        ("calculator", {"expression": "12.5 * 8"}, 2),
    ]
    content = turn.response.content
    assert content.startswith("Found: ")
    paris, rome, product = content.split(" | ")
    assert "18" in paris
    assert "24" in rome
    assert "100" in product
    assert len({r.call_id for r in records}) == 3


def untimed(text):
    """The answer without how long the tools took."""
    return re.sub(r'"execution_time_ms": \d+', "", text)


@pytest.mark.parametrize("name", DIALECTS)
async def test_two_tool_rounds_unstreamed_and_streamed_are_the_same(name, servers):
    """The same tools at every provider (TC-1, TC-105, DS-10); a streamed turn's last event is the unstreamed turn."""
    async with chat(servers[name]) as made:
        turn = await made.respond(QUESTION)
        check(turn)
        servers[name].given.clear()  # another conversation

        events = [event async for event in made.stream(QUESTION)]

    assert isinstance(events[-1], TurnFinished)
    streamed = events[-1].turn
    check(streamed)
    assert untimed(streamed.response.content) == untimed(turn.response.content)
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert text == "Let me look." + streamed.response.content


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [*itertools.permutations(DIALECTS, 2)])
async def test_a_conversation_begun_at_one_provider_continues_at_another_and_comes_back(first, second, servers):
    """Neither sees the other's opaque data; the first gets its own back byte for byte."""
    async with chat(servers[first]) as here, chat(servers[second]) as there:
        one = await here.respond(QUESTION)
        check(one)
        history = one.response.messages
        two = await there.respond(QUESTION, history=history)
        check(two)
        history += two.response.messages
        three = await here.respond(QUESTION, history=history)
        check(three)

    ids = [call.id for m in history for call in getattr(m, "tool_calls", ())]
    assert len(ids) == len(set(ids)) == 6
    assert servers[first].given


async def test_a_service_that_is_down_is_stood_in_for_in_the_middle_of_a_turn(servers):
    """A rule's fallback, over real sockets: the tools' results of the first service are read by the second."""
    first, second = servers["gemini"], servers["chat"]
    config = {
        "llms": {"gemini": first.llm, "openai": second.llm},
        "responses": [{"llm": "gemini", "fallback": ["openai"], "tools": {"enabled": True}}],
    }
    answer = first.answer

    def once(body, streamed):
        if first.requests:
            raise OSError("the connection is closed without an answer")
        return answer(body, streamed)

    first.answer = once
    async with FlexChat.from_config(config, tools=[get_weather, calculator]) as made:
        turn = await made.respond(QUESTION)

    check(turn)
    assert turn.response.llm == "openai"
    assert any("gemini did not answer" in warning for warning in turn.response.warnings)
