"""The LangChain specification, scenario by scenario, in its order: ChatOllama and ChatAnthropic against a server."""

import json
import logging
import traceback

import pytest
from flexchat import tool
from flexchat.calls.calls import ToolExecutor
from flexchat.calls.manager import ToolManager
from flexchat_langchain.client import AnthropicClient, LangChainClient, OllamaClient
from flexchat_langchain.results import pair_results
from flexchat_sdk import ProviderAuthError, ProviderOverloadedError
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage


@tool
def get_weather(city: str) -> dict:
    """Get the weather of a city."""
    return {"city": city, "degrees": {"Paris": 18, "Rome": 24}[city]}


@tool
def fetch(uri: str) -> list:
    """Read a page by MCP, whose adapters return text and artifacts."""
    return [f"the text of {uri}", [{"type": "image", "data": "AA==", "mimeType": "image/png"}]]


@tool
def broken() -> str:
    """Fail."""
    raise RuntimeError("the network is down")


TOOLS = (get_weather, fetch, broken)


def results_sent(body):
    """The tools' results in a request, in order."""
    told = []
    for message in body["messages"]:
        if message["role"] == "tool":
            told.append(message["content"])
        elif isinstance(message.get("content"), list):
            found = [block for block in message["content"] if block["type"] == "tool_result"]
            told += [b["content"] if isinstance(b["content"], str) else b["content"][0]["text"] for b in found]
    return told


# Requirement: AI Client Integration


async def test_tool_execution_with_langchain_interface(connect, reply, monkeypatch):
    """Scenario: Ollama tool execution with LangChain interface (MODIFIED) (LC-1, LC-2, LC-3, LC-10).

    Calls come from response.tool_calls and run through FlexChat's ToolExecutor, which sees every one of them.
    """
    executed = []
    run = ToolExecutor.run

    def watched(self, call):
        executed.append((call.name, dict(call.arguments)))
        return run(self, call)

    monkeypatch.setattr(ToolExecutor, "run", watched)
    client, _ = connect(TOOLS, reply(calls=[("get_weather", {"city": "Rome"})]), reply("It is 24 degrees."))

    answer = await client.send("How warm is Rome?")

    assert answer.content == "It is 24 degrees."
    assert executed == [("get_weather", {"city": "Rome"})]
    response = answer.messages[1]
    assert [(set(call), call["name"], call["args"]) for call in response.tool_calls] == [
        ({"id", "name", "args", "type"}, "get_weather", {"city": "Rome"})
    ]
    assert [(record.tool, record.result.result) for record in answer.tool_calls] == [
        ("get_weather", {"city": "Rome", "degrees": 24})
    ]


async def test_tool_call_loop_with_langchain_messages(connect, reply):
    """Scenario: Tool call loop with LangChain messages (MODIFIED) (LC-4, LC-5, LC-6, LC-11)."""
    client, server = connect(
        TOOLS,
        reply("Let me look.", [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"})]),
        reply("18 and 24."),
    )

    answer = await client.send("Paris and Rome?")

    assert [type(message) for message in answer.messages] == [
        HumanMessage,
        AIMessage,
        ToolMessage,
        ToolMessage,
        AIMessage,
    ]
    _, asked, *results, _ = answer.messages
    assert asked.text == "Let me look."
    assert [result.tool_call_id for result in results] == [call["id"] for call in asked.tool_calls]
    assert [json.loads(text)["degrees"] for text in results_sent(server.bodies[1])] == [18, 24]


async def test_tool_result_normalization(connect, reply):
    """Scenario: Tool result normalization (MODIFIED) (LC-7, LC-8, LC-9, C18).

    Objects become JSON text, not Python's repr; of an MCP pair the model reads the text.
    """
    calls = [("get_weather", {"city": "Rome"}), ("fetch", {"uri": "a:b"})]
    client, server = connect(TOOLS, reply(calls=calls), reply("Done."))

    answer = await client.send("Both, please.")

    weather, page = answer.messages[2:4]
    assert weather.content == '{"city": "Rome", "degrees": 24}'
    assert page.content == "the text of a:b"
    assert page.artifact == [{"type": "image", "data": "AA==", "mimeType": "image/png"}]
    assert results_sent(server.bodies[1]) == ['{"city": "Rome", "degrees": 24}', "the text of a:b"]
    assert [m.tool_call_id for m in (weather, page)] == [call["id"] for call in answer.messages[1].tool_calls]


# Requirement: Manual Qwen Tool Call Parsing


async def test_parse_qwen_tool_call_format(connect, reply):
    """Scenario: Parse Qwen tool call format (REMOVED) (LC-10, LC-2): what is written as text runs nothing."""
    written = '<tool_call>{"name": "get_weather", "arguments": {"city": "Rome"}}</tool_call>'
    client, server = connect(TOOLS, reply(written))

    answer = await client.send("Rome?")

    assert answer.content == written
    assert answer.tool_calls == ()
    assert len(server.bodies) == 1


async def test_validate_tool_call_correspondence(connect, reply):
    """Scenario: Validate tool call correspondence (REMOVED) (LC-11): the loop gives each call its one result."""
    calls = [("get_weather", {"city": "Rome"}), ("broken", {}), ("nobody", {}), ("get_weather", {"city": "Rome"})]
    client, _ = connect(TOOLS, reply(calls=calls), reply("Done."))

    _, asked, *results, _ = (await client.send("All at once.")).messages

    assert [result.tool_call_id for result in results] == [call["id"] for call in asked.tool_calls]


# Requirement: LangChain Tool Call Interface


async def test_access_tool_calls_via_response_property(connect, reply):
    """Scenario: Access tool calls via response property (LC-2, LC-12): a plain list, used as it is."""
    client, _ = connect(TOOLS, reply(calls=[("get_weather", {"city": "Rome"})]), reply("Warm."))

    response = (await client.send("Rome?")).messages[1]

    assert type(response.tool_calls) is list
    assert json.loads(json.dumps(response.tool_calls)) == response.tool_calls


async def test_tool_call_structure_matches_langchain_standard(connect, reply):
    """Scenario: Tool call structure matches LangChain standard (LC-3, C17): unique ids, registered names, objects."""
    calls = [("get_weather", {"city": "Rome"}), ("get_weather", {"city": "Rome"})]
    client, _ = connect(TOOLS, reply(calls=calls), reply("Warm."))

    found = (await client.send("Rome?")).messages[1].tool_calls

    assert all(isinstance(call["id"], str) and call["id"] for call in found)
    assert len({call["id"] for call in found}) == 2
    assert {call["name"] for call in found} <= {t.definition.name for t in TOOLS}
    assert all(type(call["args"]) is dict for call in found)


async def test_tool_execution_loop_uses_langchain_messages(connect, reply):
    """Scenario: Tool execution loop uses LangChain messages (LC-4, LC-5): for streamed answers too."""
    client, server = connect(TOOLS, reply("Let me look.", [("get_weather", {"city": "Rome"})]), reply("24 degrees."))

    *events, answer = [event async for event in client.stream("Rome?")]

    _, asked, result, last = answer.messages
    assert (type(asked), type(result), type(last)) == (AIMessage, ToolMessage, AIMessage)
    assert asked.tool_calls[0]["args"] == {"city": "Rome"}
    assert result.tool_call_id == asked.tool_calls[0]["id"]
    assert "".join(event.text for event in events if not isinstance(event, ToolMessage)) == "Let me look.24 degrees."
    assert [event for event in events if isinstance(event, ToolMessage)] == [result]
    assert results_sent(server.bodies[1]) == ['{"city": "Rome", "degrees": 24}']


async def test_multi_turn_tool_calling_with_message_history(connect, reply):
    """Scenario: Multi-turn tool calling with message history (LC-6, LC-13).

    Each turn adds one AIMessage and its ToolMessages, and the next request has all of them.
    """
    client, server = connect(
        TOOLS,
        reply(calls=[("get_weather", {"city": "Paris"})]),
        reply(calls=[("get_weather", {"city": "Rome"}), ("fetch", {"uri": "x"})]),
        reply("All done."),
        reply("You asked for the weather."),
    )

    first = await client.send("Look around.")
    second = await client.send("What did I ask?", history=first.messages)

    assert [message.type for message in first.messages] == ["human", "ai", "tool", "ai", "tool", "tool", "ai"]
    assert [len(results_sent(body)) for body in server.bodies] == [0, 1, 3, 3]
    assert second.messages[: len(first.messages)] == first.messages
    assert second.content == "You asked for the weather."


# Requirement: Tool Execution Error Handling


async def test_tool_execution_failure_with_tool_message(connect, reply):
    """Scenario: Tool execution failure with ToolMessage (LC-14, C18): the model reads it, and may answer with it."""
    client, server = connect(TOOLS, reply(calls=[("broken", {})]), reply("I cannot: the network is down."))

    answer = await client.send("Try.")

    asked, failed, last = answer.messages[1:]
    assert failed.content == "Error: the network is down"
    assert failed.status == "error"
    assert failed.tool_call_id == asked.tool_calls[0]["id"]
    assert results_sent(server.bodies[1]) == ["Error: the network is down"]
    assert last.text == answer.content == "I cannot: the network is down."


async def test_unknown_tool_handling(connect, reply, caplog):
    """Scenario: Unknown tool handling (LC-15, C18): told with the call's id, logged as a warning, and it goes on."""
    client, server = connect(TOOLS, reply(calls=[("get_wether", {"city": "Rome"})]), reply("Sorry."))

    with caplog.at_level(logging.WARNING, logger="flexchat_langchain"):
        answer = await client.send("Rome?")

    asked, unknown, _ = answer.messages[1:]
    assert unknown.content == 'Error: Unknown tool "get_wether"'
    assert (unknown.tool_call_id, unknown.status) == (asked.tool_calls[0]["id"], "error")
    assert [record.levelname for record in caplog.records if "get_wether" in record.getMessage()] == ["WARNING"]
    assert results_sent(server.bodies[1]) == ['Error: Unknown tool "get_wether"']
    assert answer.content == "Sorry."


def test_tool_call_result_mismatch_prevention(caplog):
    """Scenario: Tool call/result mismatch prevention (LC-16, LC-11): placeholders say what is missing, and why."""
    calls = [{"name": name, "args": {}, "id": name} for name in ("a", "b", "c")]
    results = [
        ToolMessage("C", tool_call_id="c"),
        ToolMessage("A", tool_call_id="a"),
        ToolMessage("?", tool_call_id="z"),
        ToolMessage("A again", tool_call_id="a"),
    ]

    paired = pair_results(calls, results, why="the loop was cancelled")

    assert [(message.tool_call_id, message.content, message.status) for message in paired] == [
        ("a", "A", "success"),
        ("b", 'Error: no result for tool "b" (the loop was cancelled)', "error"),
        ("c", "C", "success"),
    ]
    assert len(caplog.records) == 3  # one is missing, one belongs to no call, one is a second one


async def test_a_history_that_was_cut_gets_its_results(connect, reply):
    """Scenario: Tool call/result mismatch prevention (LC-16): in a request, after a crash between call and result."""
    asked = AIMessage(
        content="",
        tool_calls=[{"name": "get_weather", "args": {"city": c}, "id": f"id-{c}"} for c in ("Paris", "Rome")],
    )
    cut = [HumanMessage("Weather?"), asked, ToolMessage("18", tool_call_id="id-Paris")]
    client, server = connect(TOOLS, reply("Only Paris."))

    answer = await client.send("Well?", history=cut)

    assert results_sent(server.bodies[0]) == [
        "18",
        'Error: no result for tool "get_weather" (the conversation broke off)',
    ]
    assert [message.type for message in answer.messages] == ["human", "ai", "tool", "tool", "human", "ai"]


# What the scenarios leave open


async def test_a_loop_without_end_is_ended(connect, reply):
    """max_iterations is as in the core: then the specified sentence, and every call has its result."""
    calls = [reply(calls=[("fetch", {"uri": f"{n}"})]) for n in range(3)]
    client, server = connect(TOOLS, *calls, max_iterations=2)

    answer = await client.send("Go on for ever.")

    assert answer.max_iterations_reached
    assert answer.content == "I reached the maximum number of tool calls. Please try rephrasing your request."
    assert [message.type for message in answer.messages] == ["human", "ai", "tool", "ai", "tool", "ai"]
    assert len(server.bodies) == 2


async def test_arguments_are_checked_by_the_executor(connect, reply):
    """LC-1: arguments that do not fit the schema reach no function; LangChain alone would let them through."""
    client, _ = connect(TOOLS, reply(calls=[("get_weather", {"town": "Rome"})]), reply("I see."))

    answer = await client.send("Rome?")

    assert answer.messages[2].content.startswith("Error: Invalid parameters: missing 'city'")


@pytest.mark.slow
async def test_a_call_that_was_cut_is_not_run(connect, reply):
    """An answer that ends at the output limit may have half of its last call: the model is told, nothing runs."""
    cut = reply(calls=[("fetch", {"uri": "a:b/c"})], finish="max_tokens")
    cut.finish = "max_tokens"
    client, _ = connect(TOOLS, cut, reply("Once more."))

    answer = await client.send("Fetch it.")

    assert answer.messages[2].content.startswith("Error: Invalid tool arguments: the output limit was reached")
    assert answer.messages[2].status == "error"


async def test_tools_are_bound_by_name(connect, reply):
    """Only the tools asked for are offered, and no other runs; a name that is none gets a suggestion."""
    client, server = connect(TOOLS, reply(calls=[("broken", {})]), reply("No."), reply("Nothing."))

    answer = await client.send("Go.", tools=["fetch"])
    await client.send("Go.", tools=[])

    offered = [t.get("name") or t["function"]["name"] for t in server.bodies[0]["tools"]]
    assert offered == ["fetch"]
    assert answer.messages[2].content == 'Error: Unknown tool "broken"'
    assert not server.bodies[2].get("tools")
    with pytest.raises(Exception, match="no tool is called 'fetsch' \\(did you mean 'fetch'\\?\\)"):
        await client.send("Go.", tools=["fetsch"])


async def test_trouble_with_the_service_is_a_provider_error(connect, reply):
    """What the SDKs raise becomes FlexChat's error of the same meaning, and names the class."""
    client, _ = connect(TOOLS, reply("out of order", status=503))
    with pytest.raises(ProviderOverloadedError, match=r"Chat(Ollama|Anthropic): the service failed: .*out of order"):
        await client.send("Hello")


async def test_no_key_is_in_an_error(connect, reply, kind):
    """Services quote the key they refuse."""
    key = "test-key-0815"
    rest = {"client_kwargs": {"headers": {"authorization": key}}} if kind == "ollama" else {}
    client, _ = connect(TOOLS, reply(f"wrong key: {key}", status=401), **rest)
    with pytest.raises(ProviderAuthError) as caught:
        await client.send("Hello")
    assert key not in "".join(traceback.format_exception(caught.value)) + repr(vars(caught.value))


async def test_a_prompt_is_said_first_and_once(connect, reply):
    """The system prompt begins a conversation that has none."""
    client, _ = connect(TOOLS, reply("Hi."), reply("Hi again."), prompt="Be brief.")
    first = await client.send("Hello")
    second = await client.send("Hello", history=first.messages)
    assert [message.type for message in second.messages] == ["system", "human", "ai", "human", "ai"]
    assert first.messages[0] == SystemMessage("Be brief.")


async def test_thoughts_go_back_to_the_model(connect, reply, kind):
    """What a model thought with a signature stands before its call in the next request, unchanged."""
    rest = {"reasoning": True} if kind == "ollama" else {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    rest |= {"max_tokens": 2048} if kind == "anthropic" else {}
    think = reply("", [("fetch", {"uri": "u"})], thought="Let me think.")
    client, server = connect(TOOLS, think, reply("Done."), **rest)

    *_, answer = [event async for event in client.stream("Fetch.")]

    assert answer.content == "Done."
    sent = server.bodies[1]["messages"][1]
    if kind == "ollama":
        assert sent["thinking"] == "Let me think."
    else:
        assert sent["content"][0] == {"type": "thinking", "thinking": "Let me think.", "signature": "sig-1"}


def test_both_clients_are_one():
    """LC-1: neither client has a flow of its own; they differ in how their model is made."""
    own = {name for cls in (AnthropicClient, OllamaClient) for name in vars(cls) if callable(vars(cls)[name])}
    assert own <= {"__init__"}
    assert AnthropicClient.send is OllamaClient.send is LangChainClient.send


def test_a_package_that_is_missing_is_told_with_the_command(monkeypatch):
    """The integrations are extras."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'flexchat-langchain\[ollama\]'"):
        OllamaClient(TOOLS, model="qwen3")
    with pytest.raises(ImportError, match=r"pip install 'flexchat-langchain\[anthropic\]'"):
        AnthropicClient(TOOLS, model="claude-test")


def test_settings_that_do_not_fit_are_told_without_the_key():
    """pydantic's error shows what it was given."""
    key = "sk-secret-0123456789"
    with pytest.raises(ValueError, match="ChatAnthropic does not take these settings") as caught:
        AnthropicClient(TOOLS, model="claude-test", api_key=key, max_tokens=f"many {key}")
    assert key not in "".join(traceback.format_exception(caught.value))


def test_a_manager_is_an_executor_too():
    """A ToolManager, whose executor it is, serves as well as functions and a whole FlexChat."""
    manager = ToolManager()
    manager.add(TOOLS)
    client = OllamaClient(manager, model="qwen3", base_url="http://127.0.0.1:9")
    assert client.tools is manager
