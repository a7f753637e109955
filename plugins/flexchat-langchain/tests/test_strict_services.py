"""The provider over ChatAnthropic and a server as strict as the service: rounds of tools, signed thoughts, ids."""

import re

import pytest
from agent_server import AgentServer
from flexchat import FlexChat, TextDelta, tool
from flexchat_langchain.answers import assistant_message
from flexchat_langchain.messages import as_sent
from langchain_core.messages import AIMessage

QUESTION = "What is the weather in Paris and Rome, and what is 12.5 * 8?"


@tool(effect="read", repeatable=True)
def get_weather(city: str) -> dict:
    """Get the weather of a city."""
    return {"city": city, "celsius": {"Paris": 18, "Rome": 24}[city]}


@tool(effect="read", repeatable=True)
def calculator(expression: str) -> float:
    """Calculate."""
    return {"12.5 * 8": 100.0}[expression]


class Service(AgentServer):
    """Takes a text for a list of one block, and names its events, as Anthropic does."""

    def answer(self, body, streamed):
        for message in body["messages"]:
            if isinstance(message["content"], str):
                message["content"] = [{"type": "text", "text": message["content"]}]
        kind, content = super().answer(body, streamed)
        return kind, re.sub(rb'data: {"type": "(\w+)"', rb"event: \1\n\g<0>", content) if streamed else content


@pytest.fixture
def serve():
    made = []

    def start(cls, name):
        made.append(cls(name))
        return made[-1]

    yield start
    for server in made:
        server.close()


def chat(llm):
    config = {
        "llms": {"it": {"default_model": "m", "retries": 0, **llm}},
        "responses": [{"llm": "it", "prompt": "Be brief.", "tools": {"enabled": True}}],
    }
    return FlexChat.from_config(config, tools=[get_weather, calculator])


def over_langchain(server):
    settings = {"base_url": server.url, "api_key": "key-0815", "max_tokens": 4096}
    return {"provider": "langchain", "class_path": "langchain_anthropic:ChatAnthropic", "settings": settings}


def check(turn):
    assert [record.iteration for record in turn.response.tool_calls] == [1, 2, 2]
    assert turn.content.startswith("Found: ")
    assert [word in turn.content for word in ("18", "24", "100")] == [True] * 3


async def test_two_rounds_whole_and_streamed(serve):
    """Thoughts come back with their signatures, calls have their results."""
    server = serve(Service, "anthropic")
    async with chat(over_langchain(server)) as made:
        check(await made.respond(QUESTION))
        server.given.clear()
        events = [event async for event in made.stream(QUESTION)]
    check(events[-1].turn)
    said = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert said == "Let me look." + events[-1].turn.content


@pytest.mark.parametrize("other", ["gemini", "chat"])
async def test_a_conversation_moves_to_another_provider_and_back(serve, other):
    """Neither sees the other's opaque data; the first gets its own back; ids that come again are made unique."""
    first, second = serve(Service, "anthropic"), serve(AgentServer, other)
    async with chat(over_langchain(first)) as here, chat(second.llm) as there:
        history = ()
        for made in (here, there, here, there):
            turn = await made.respond(QUESTION, history=history)
            check(turn)
            history += turn.response.messages
    ids = [call.id for message in history for call in getattr(message, "tool_calls", ())]
    assert len(ids) == len(set(ids)) == 12


def test_an_id_that_comes_again_is_replaced_in_its_block_too():
    """Some servers count their ids anew in every answer; Anthropic refuses one twice."""
    answer = AIMessage(
        [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}], tool_calls=[{"name": "f", "args": {}, "id": "c1"}]
    )
    first, second = as_sent([assistant_message(answer, "here"), assistant_message(answer, "here")], "here")
    assert first.content[0]["id"] == first.tool_calls[0]["id"] == "c1"
    assert second.content[0]["id"] == second.tool_calls[0]["id"] != "c1"
