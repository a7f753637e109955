"""Thirteen ways in which a model, a server or a tool goes wrong, through the real adapter, streamed and not; with the
service's API for tools, and with tools in the prompt.

The first question of each test is the same: does the turn end with an answer, and did the model get what it needs?
"""

import json
import threading

import pytest
from flexchat import FlexChat, TurnFinished, tool

PASSWORD = "tr0ub4dor&3"


class Probe:
    """Five tools, what they were called with, and a way to ask."""

    def __init__(self, server, streamed: bool, prompted: bool) -> None:
        self.server, self.streamed, self.prompted = server, streamed, prompted
        self.ran: list = []
        others = threading.Barrier(3)

        @tool
        def get_weather(location: str, days: int = 1) -> str:
            """Get the weather of a city."""
            self.ran.append(("get_weather", location, days))
            return f"sunny in {location}"

        @tool
        def query_database(sql: str) -> str:
            """Query the database."""
            self.ran.append(("query_database", sql))
            raise RuntimeError(f"could not connect to postgresql://app:{PASSWORD}@db/prod")

        @tool
        def slow(name: str) -> str:
            """Wait for two others."""
            others.wait(60)
            self.ran.append(("slow", name))
            return name

        @tool
        def huge() -> str:
            """Return a lot."""
            return "x" * 3_000_000

        self.tools = [get_weather, query_database, slow, huge]

    async def ask(self, *replies):
        self.server.replies = [written(reply) for reply in replies] if self.prompted else list(replies)
        entry = {"provider": "openai", "base_url": self.server.url, "api_key": "test-key"}
        entry |= {"tools": "prompted"} if self.prompted else {}
        rule = {"llm": "bot", "model": "m-1", "tools": {"enabled": True, "max_iterations": 10}}
        chat = FlexChat.from_config({"llms": {"bot": entry}, "responses": [rule]}, tools=self.tools)
        async with chat:
            if not self.streamed:
                return (await chat.respond("Go on.")).response
            events = [event async for event in chat.stream("Go on.")]
            assert isinstance(events[-1], TurnFinished)
            return events[-1].turn.response

    def told(self, request: int = 1) -> list[str]:
        """What the model was told of its tool calls in a request."""
        messages = self.server.requests[request]["messages"]
        if not self.prompted:
            return [m["content"] for m in messages if m["role"] == "tool"]
        assert not [m for m in messages if m["role"] == "tool" or "tool_calls" in m]
        assert "tools" not in self.server.requests[request]
        texts = [m["content"] for m in messages if m["role"] == "user" and m["content"].startswith("Results of the")]
        values = [json.loads(line)["result"] for text in texts for line in text.splitlines()[1:]]
        return [value if isinstance(value, str) else json.dumps(value) for value in values]


def written(reply):
    """Write the calls of a reply into its text, as a model does that is only prompted."""
    functions = [call["function"] for call in reply.get("tool_calls", ())]
    pairs = [(json.dumps(each["name"]), each["arguments"]) for each in functions]
    blocks = [f'```tool_call\n{{"name": {name}, "arguments": {arguments}}}\n```' for name, arguments in pairs]
    rest = {key: value for key, value in reply.items() if key != "tool_calls"}
    return {**rest, "content": "\n".join([reply["content"] or "", *blocks])} if blocks else rest


@pytest.fixture(
    params=[(False, False), (True, False), (False, True), (True, True)],
    ids=["unstreamed", "streamed", "prompted", "prompted streamed"],
)
def probe(request, chat_server):
    return Probe(chat_server, *request.param)


def asks(*calls, **rest):
    return {"content": None, "tool_calls": list(calls), **rest}


DONE = {"content": "Done."}


async def test_fault_01_an_unknown_tool(probe, wire_call):
    """The run survives, and the model is told the nearest and the available names."""
    response = await probe.ask(asks(wire_call("get_wether", {"location": "Rome"})), DONE)

    assert response.content == "Done."
    assert "Tool 'get_wether' not found" in probe.told()[0]
    assert "did you mean 'get_weather'?" in probe.told()[0]


async def test_fault_02_arguments_cut_off_in_the_middle(probe, wire_call):
    """The tool does not run; the model is told precisely why."""
    response = await probe.ask(asks(wire_call("get_weather", '{"location": "Ro')), DONE)

    assert response.content == "Done."
    assert probe.ran == []
    assert "Invalid tool arguments: not valid JSON" in probe.told()[0]
    assert "character" in probe.told()[0]


async def test_fault_03_a_missing_argument(probe, wire_call):
    """The argument is named."""
    await probe.ask(asks(wire_call("get_weather", {"days": 2})), DONE)

    assert probe.ran == []
    assert "Invalid parameters: missing 'location'" in json.loads(probe.told()[0])["error"]


async def test_fault_04_a_number_written_as_text(probe, wire_call):
    """It is read without loss, and the record says so."""
    response = await probe.ask(asks(wire_call("get_weather", {"location": "Rome", "days": "2"})), DONE)

    assert probe.ran == [("get_weather", "Rome", 2)]
    assert response.tool_calls[0].result.notes


async def test_fault_05_a_word_for_a_number(probe, wire_call):
    """It is stopped before the tool, with the path and what was got."""
    await probe.ask(asks(wire_call("get_weather", {"location": "Rome", "days": "two"})), DONE)

    assert probe.ran == []
    assert "days must be an integer" in probe.told()[0]
    assert "two" in probe.told()[0]


async def test_fault_06_a_tool_raises_with_a_secret_in_its_text(probe, wire_call):
    """The run survives, the model gets a useful message, and the password goes nowhere (TC-7)."""
    response = await probe.ask(asks(wire_call("query_database", {"sql": "select 1"})), DONE)

    assert response.content == "Done."
    assert "could not connect" in probe.told()[0]
    assert PASSWORD not in json.dumps(probe.server.requests) + repr(response)


async def test_fault_07_three_slow_calls_run_side_by_side(probe, wire_call):
    """Blocking tools too; the results come in the order of the calls (TC-133)."""
    asked = asks(*[wire_call("slow", {"name": n}, f"call_{n}") for n in "abc"])

    response = await probe.ask(asked, DONE)

    assert [r.result.result for r in response.tool_calls] == ["a", "b", "c"]
    assert [json.loads(t)["result"] for t in probe.told()] == ["a", "b", "c"]


async def test_fault_08_a_result_of_three_megabytes(probe, wire_call):
    """The model is shown head and tail around a marker; the record keeps all of it."""
    response = await probe.ask(asks(wire_call("huge", {})), DONE)

    assert len(probe.told()[0]) < 20_000
    assert "left out" in probe.told()[0]
    assert len(response.tool_calls[0].result.result) == 3_000_000


async def test_fault_09_two_calls_with_empty_ids(probe, wire_call):
    """Both run, and each answer finds its call."""
    asked = asks(wire_call("get_weather", {"location": "Rome"}, ""), wire_call("get_weather", {"location": "Oslo"}, ""))

    response = await probe.ask(asked, DONE)

    assert [r.result.result for r in response.tool_calls] == ["sunny in Rome", "sunny in Oslo"]
    messages = probe.server.requests[1]["messages"]
    if probe.prompted:
        assert [json.loads(text)["result"] for text in probe.told()] == ["sunny in Rome", "sunny in Oslo"]
        return
    sent = [c["id"] for m in messages for c in m.get("tool_calls") or ()]
    assert len(set(sent)) == 2
    assert all(sent)
    assert [m["tool_call_id"] for m in messages if m["role"] == "tool"] == sent


async def test_fault_10_stop_beside_a_call(probe, wire_call):
    """The call runs."""
    response = await probe.ask(asks(wire_call("get_weather", {"location": "Rome"}), finish_reason="stop"), DONE)

    assert [r.tool for r in response.tool_calls] == ["get_weather"]
    assert response.content == "Done."


async def test_fault_11_tool_calls_with_an_empty_list(probe):
    """It is an answer."""
    response = await probe.ask({"content": "Hello.", "tool_calls": [], "finish_reason": "tool_calls"})

    assert response.content == "Hello."
    assert response.tool_calls == ()


async def test_fault_12_an_argument_nobody_asked_for(probe, wire_call):
    """It is ignored."""
    await probe.ask(asks(wire_call("get_weather", {"location": "Rome", "mood": "good"})), DONE)

    assert probe.ran == [("get_weather", "Rome", 1)]


async def test_fault_13_the_same_call_for_ever(probe, wire_call):
    """It runs twice, is refused once, and then the loop ends."""
    response = await probe.ask(asks(wire_call("get_weather", {"location": "Rome"})))

    assert probe.ran == [("get_weather", "Rome", 1)] * 2
    assert len(probe.server.requests) == 4
    assert response.max_iterations_reached
    assert "already made" in probe.told(3)[-1]
