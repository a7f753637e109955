"""The response-generation specification, scenario by scenario, in its order."""

import json
import logging

import pytest
from flexchat import (
    AssistantMessage,
    Document,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UnknownNameError,
    UserMessage,
    tool,
)
from flexchat.config.model import LimitsTable, RuleTools
from flexchat.host import UnknownLLMError
from flexchat.turn.answer import NO_ANSWER, TOO_MANY_CALLS
from flexchat_sdk import TextPart
from flexchat_testing import calls, says

ROME = ("get_weather", {"location": "Rome"})


@pytest.fixture(params=[False, True], ids=["unstreamed", "streamed"])
def answer(request):
    """Ask a generation either way; both give the same response."""

    async def ask(made, **rest):
        if request.param and not rest:
            return (await made.events())[-1]
        return await made.answer(**rest)

    return ask


# Requirement: Standard Response Generation


async def test_build_system_prompt(generation):
    """Scenario: Build system prompt (RG-1, RG-2, C21)."""
    prompt = (
        "T={{topic}} U={{ user_message }} I={{intent}} S={{service}} C={{collection}} Q={{rag_results}} "
        "D={{documents.0.metadata.page.number}} X={{documents.1.title}}\n{{rag_context}}"
    )
    made = generation([says("ok")], rule={"prompt": prompt})
    documents = (Document(text="Body", title="Guide", collection="docs", metadata={"page": {"number": 7}}),)

    await made.answer("Hi {{intent}}", topic="greeting", intent=None, service="kb", documents=documents)

    text = made.model.requests[0].messages[0].content
    assert text.startswith("T=greeting U=Hi {{intent}} I= S=kb C= Q=none D=7 X=\n")
    assert "### Guide (from docs)\n\nBody" in text


async def test_objects_have_no_attributes_in_templates(generation):
    """Variables go into mappings and lists, never into objects (DS-11)."""
    made = generation([says("ok")], rule={"prompt": "<{{documents.__len__}}{{documents.0}}>"})

    await made.answer("x")

    assert made.model.requests[0].messages[0].content == "<>"
    with pytest.raises(UnknownNameError, match=r"topic\.__class__"):
        await generation([says("ok")], rule={"prompt": "{{topic.__class__}}"}).answer("x")


async def test_a_variable_that_does_not_exist_ends_the_turn_before_a_model_is_asked(generation):
    """The error names it; the specification leaves it in the text (C21)."""
    made = generation([says("ok")], rule={"prompt": "X={{no.such}}"})

    with pytest.raises(UnknownNameError, match=r"no\.such"):
        await made.answer("x")

    assert made.model.requests == []


async def test_build_message_array(generation):
    """Scenario: Build message array (RG-3, RG-4, C20, TC-72)."""
    from flexchat.domain.history import read_history

    made = generation([says("ok")], rule={"prompt": "Be brief."})
    entries = [
        {"role": "user", "content": "a", "id": 1},
        {"role": "assistant", "content": "b"},
        {"type": "bot", "text": "c"},
        {"content": "no role"},
    ]

    await made.answer("now", history=read_history(entries))

    assert made.model.requests[0].messages == (
        SystemMessage(content="Be brief."),
        UserMessage(content="a"),
        AssistantMessage(parts=(TextPart(text="b"),)),
        AssistantMessage(parts=(TextPart(text="c"),)),
        UserMessage(content="no role"),
        UserMessage(content="now"),
    )


@pytest.mark.parametrize("temperature", [None, 0, 0.7])
async def test_call_ai_provider(generation, temperature):
    """Scenario: Call AI provider (RG-5, RG-6, C13)."""
    made = generation([says("ok")], rule={"max_tokens": 50, "temperature": temperature})

    await made.answer()

    request = made.model.requests[0]
    assert (request.model, request.options.max_tokens, request.options.temperature) == ("m-1", 50, temperature)
    assert request.options.tools == ()


async def test_return_response(generation, answer):
    """Scenario: Return response (RG-7, C6)."""
    response = await answer(generation([says("Hello!")]))

    assert response.to_dict() == {"content": "Hello!", "service": "bot", "model": "m-1"}


async def test_a_missing_provider_is_named(generation):
    """A rule's LLM that does not exist (TC-71)."""
    made = generation([], rule={"llm": "nobody"})

    with pytest.raises(UnknownLLMError, match=r"^Provider nobody not found \(configured: bot\)$"):
        await made.answer()


# Requirement: Tool Calling Flow


@pytest.mark.parametrize(
    ("table", "rule_tools", "used"),
    [
        ({}, RuleTools(), True),
        ({"enabled": True}, RuleTools(), True),
        ({"enabled": False}, RuleTools(), False),
        ({}, RuleTools(enabled=False), False),
        ({}, None, False),
        ({"apply_globally": True}, None, True),
        ({"apply_globally": True}, RuleTools(enabled=False), False),
    ],
)
async def test_check_if_tools_enabled(generation, weather, table, rule_tools, used):
    """Scenario: Check if tools enabled (RG-8, C7, DS-15)."""
    made = generation([says("ok")], weather, rule={"tools": rule_tools}, **table)

    response = await made.answer()

    assert bool(made.model.requests[0].options.tools) is used
    assert response.tool_calls == (() if used else None)


async def test_tool_calling_enabled_path(generation, weather, answer):
    """Scenario: Tool calling enabled path (RG-9, DS-16)."""
    with_tools = await answer(generation([says("ok")], weather))
    without = await answer(generation([says("ok")], weather, rule={"tools": None}))

    assert with_tools.to_dict() == {**without.to_dict(), "tool_calls": []}


async def test_get_allowed_tools(generation, make_tool):
    """Scenario: Get allowed tools (RG-10, TC-24, TC-32)."""
    tools = [make_tool(name) for name in ("one", "two", "three")]
    made = generation([says("ok")], *tools, rule={"tools": RuleTools(allowed_tools=("three", "one"))})

    await made.answer()

    names = [t["function"]["name"] for t in made.model.requests[0].options.tools]
    assert names == ["one", "three"]


async def test_convert_tools_to_provider_format(generation, weather):
    """Scenario: Convert tools to provider format (RG-11, TC-33)."""
    made = generation([says("ok")], weather)

    await made.answer()

    assert list(made.model.requests[0].options.tools) == [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "Get the weather",
                "parameters": weather.parameters,
            },
        }
    ]


async def test_no_tools_available(generation, weather, answer, caplog):
    """Scenario: No tools available (RG-12)."""
    made = generation([says("ok")], weather, rule={"tools": RuleTools(allowed_tools=("other",))})

    response = await answer(made)

    assert made.model.requests[0].options.tools == ()
    assert response.tool_calls is None
    assert any(r.levelno == logging.WARNING for r in caplog.records)


# Requirement: Tool Execution Loop (Phase 6b)


async def test_add_tools_to_options(generation, weather, answer):
    """Scenario: Add tools to options (RG-13)."""
    made = generation([calls(ROME), says("Sunny.")], weather)

    await answer(made)

    first, second = made.model.requests
    assert first.options.tools
    assert first.options.tools is second.options.tools  # the same object: encoded once


@pytest.mark.parametrize(("rule_limit", "limit"), [(None, 3), (2, 2), (4, 4)])
async def test_iteration_limit_enforcement(generation, weather, answer, rule_limit, limit):
    """Scenario: Iteration limit enforcement (RG-14, DS-4, TC-24)."""
    replies = [calls(("get_weather", {"location": f"city {n}"})) for n in range(9)]
    made = generation(replies, weather, rule={"tools": RuleTools(max_iterations=rule_limit)}, max_iterations=3)

    response = await answer(made)

    assert len(made.model.requests) == limit
    assert [r.iteration for r in response.tool_calls] == [*range(1, limit + 1)]


async def test_call_llm_with_tools(generation, weather, caplog):
    """Scenario: Call LLM with tools (RG-15, TC-127)."""
    with caplog.at_level(logging.DEBUG):
        await generation([calls(ROME), says("Sunny.")], weather).answer()

    numbers = [r.args[0] for r in caplog.records if r.msg.startswith("iteration")]
    assert numbers == [1, 2]


@pytest.mark.parametrize("reason", ["stop", "end_turn"])
async def test_finish_with_stop_reason(generation, weather, answer, reason):
    """Scenario: Finish with stop reason (RG-16, C6)."""
    response = await answer(generation([calls(ROME), says("Sunny.", finish_reason=reason)], weather))

    assert response.content == "Sunny."
    assert [r.tool for r in response.tool_calls] == ["get_weather"]


@pytest.mark.parametrize("reason", ["tool_calls", "stop", None, "eos"])
async def test_finish_with_tool_calls(generation, weather, answer, reason):
    """Scenario: Finish with tool calls; the calls decide, not the reason (RG-17, C22)."""
    response = await answer(generation([calls(ROME, finish_reason=reason), says("Sunny.")], weather))

    assert [r.tool for r in response.tool_calls] == ["get_weather"]
    assert response.content == "Sunny."


@pytest.mark.parametrize("text", [None, "Let me look."])
async def test_add_assistant_message_with_tool_calls(generation, weather, text):
    """Scenario: Add assistant message with tool calls (RG-18)."""
    made = generation([calls(ROME, text=text), says("Sunny.")], weather)

    await made.answer()

    asked = made.model.requests[1].messages[-2]
    assert (asked.role, asked.content, [c.name for c in asked.tool_calls]) == ("assistant", text, ["get_weather"])


async def test_execute_each_tool_call(generation, make_tool, answer):
    """Scenario: Execute each tool call (RG-19)."""
    tools = [make_tool(n, {"type": "mock", "mock_response": n}) for n in ("one", "two")]
    asked = calls(("two", {"location": "x"}), ("one", {"location": "y"}), ("two", {"location": "z"}))
    made = generation([asked, says("ok")], *tools)

    response = await answer(made)

    assert [(r.tool, r.params["location"], r.result.result) for r in response.tool_calls] == [
        ("two", "x", "two"),
        ("one", "y", "one"),
        ("two", "z", "two"),
    ]
    answers = [m for m in made.model.requests[1].messages if isinstance(m, ToolMessage)]
    assert [m.tool_call_id for m in answers] == [c.id for c in asked.tool_calls]


async def test_parse_tool_arguments(generation, weather):
    """Scenario: Parse tool arguments (RG-20, C5: no text means no arguments)."""
    made = generation([calls(("get_weather", '{"location": "Rome"}'), ("get_weather", "")), says("ok")], weather)

    response = await made.answer()

    assert [dict(r.params) for r in response.tool_calls] == [{"location": "Rome"}, {}]
    assert response.tool_calls[1].result.error == "Invalid parameters: missing 'location'"


async def test_add_tool_result_message(generation, weather):
    """Scenario: Add tool result message (RG-21)."""
    asked = calls(ROME)
    made = generation([asked, says("ok")], weather)

    response = await made.answer()

    message = made.model.requests[1].messages[-1]
    assert (message.role, message.tool_call_id, message.name) == ("tool", asked.tool_calls[0].id, "get_weather")
    assert json.loads(message.content) == response.tool_calls[0].result.to_dict()


async def test_continue_loop_after_tool_execution(generation, weather, answer):
    """Scenario: Continue loop after tool execution (RG-22)."""
    replies = [calls(ROME), calls(("get_weather", {"location": "Oslo"})), says("Both sunny.")]
    made = generation(replies, weather)

    response = await answer(made)

    assert [r.iteration for r in response.tool_calls] == [1, 2]
    assert len(made.model.requests) == 3
    made.model.assert_complete()


async def test_track_tool_calls(generation, weather, answer):
    """Scenario: Track tool calls (RG-23)."""
    response = await answer(generation([calls(ROME), says("ok")], weather))

    [entry] = response.to_dict()["tool_calls"]
    assert set(entry) == {"tool", "params", "result", "iteration"}
    assert entry["params"] == {"location": "Rome"}
    assert entry["result"]["result"] == {"temperature": 22, "condition": "sunny", "humidity": 65}


async def test_max_iterations_reached(generation, weather, answer, caplog):
    """Scenario: Max iterations reached (RG-24, TC-73, TC-109, C26)."""
    replies = [calls(("get_weather", {"location": str(n)})) for n in range(5)]

    response = await answer(generation(replies, weather))

    assert response.to_dict()["max_iterations_reached"] is True
    assert response.content == TOO_MANY_CALLS
    assert TOO_MANY_CALLS.startswith("I reached the maximum number of tool calls")
    assert len(response.tool_calls) == 5
    assert any(r.levelno == logging.WARNING for r in caplog.records)


async def test_at_the_limit_the_model_may_answer_without_tools(generation, weather, answer):
    """tools.at_limit = "answer" asks once more, with no tools on offer."""
    replies = [calls(("get_weather", {"location": str(n)})) for n in range(5)]
    made = generation([*replies, says("As far as I saw: sunny.")], weather, at_limit="answer")

    response = await answer(made)

    assert (response.content, response.max_iterations_reached) == ("As far as I saw: sunny.", True)
    assert made.model.requests[-1].options.tools == ()


@pytest.mark.parametrize("reason", ["length", "weird", "tool_calls"])
@pytest.mark.parametrize(("text", "content"), [("Half an ans", "Half an ans"), ("", NO_ANSWER)])
async def test_unexpected_finish_reason(generation, weather, answer, reason, text, content):
    """Scenario: Unexpected finish reason (RG-25, TC-74, TC-75)."""
    response = await answer(generation([calls(ROME), says(text, finish_reason=reason)], weather))

    assert response.content == content
    assert len(response.tool_calls) == 1
    assert response.warnings


async def test_no_finish_reason_counts_as_stop_if_there_is_text(generation, weather):
    """A server that gives no reason (C27)."""
    assert (await generation([says("Hi", finish_reason=None)], weather).answer()).warnings == ()
    assert (await generation([says("", finish_reason=None)], weather).answer()).content == NO_ANSWER


# Requirement: Tool Call Tracking


async def test_initialize_tool_calls_array(generation, weather, answer):
    """Scenario: Initialize tool calls array (RG-26)."""
    assert (await answer(generation([says("Hi")], weather))).tool_calls == ()


async def test_record_tool_call_details(generation, weather):
    """Scenario: Record tool call details (RG-27)."""
    [record] = (await generation([calls(ROME), says("ok")], weather).answer()).tool_calls

    assert (record.tool, record.params, record.iteration) == ("get_weather", {"location": "Rome"}, 1)
    assert record.result.success


async def test_include_tool_calls_in_response(generation, make_tool, answer):
    """Scenario: Include tool calls in response (RG-28): in the order of the calls, whoever finishes first."""
    slow = make_tool("slow", {"type": "mock", "mock_response": 1, "delay_ms": 30})
    fast = make_tool("fast", {"type": "mock", "mock_response": 2})
    asked = calls(("slow", {"location": "a"}), ("fast", {"location": "b"}))

    response = await answer(generation([asked, says("ok")], slow, fast))

    assert [r.tool for r in response.tool_calls] == ["slow", "fast"]


async def test_empty_tool_calls(generation, weather, answer):
    """Scenario: Empty tool calls (RG-29)."""
    response = await answer(generation([says("Hi")], weather))

    assert response.to_dict() == {"content": "Hi", "service": "bot", "model": "m-1", "tool_calls": []}


# Requirement: Error Handling in Tool Loop


async def test_tool_execution_returns_error(generation, make_tool, answer):
    """Scenario: Tool execution returns error (RG-30, TC-108)."""
    broken = make_tool(implementation={"type": "mock", "error": "station offline"})
    made = generation([calls(ROME), says("The station is offline.")], broken)

    response = await answer(made)

    message = made.model.requests[1].messages[-1]
    assert json.loads(message.content)["error"] == "station offline"
    assert message.is_error
    assert response.content == "The station is offline."


@pytest.mark.parametrize("raw", ['{"location": "Ro', "[1]", '"Rome"', "{'location': 'Rome'}", '{"a": NaN}'])
async def test_json_parse_error_on_arguments(generation, make_tool, answer, raw, caplog):
    """Scenario: JSON parse error on arguments (RG-31, TC-112, C5): the tool does not run, the others do."""
    ran = []

    @tool(name="get_weather")
    def get_weather(location: str = "") -> str:
        """Get the weather."""
        ran.append(location)
        return "sunny"

    response = await answer(generation([calls(("get_weather", raw), ROME), says("ok")], get_weather))

    first, second = response.tool_calls
    assert first.result.error.startswith("Invalid tool arguments: ")
    assert (ran, second.result.result) == (["Rome"], "sunny")
    assert any(r.levelno == logging.ERROR for r in caplog.records)


async def test_loop_continues_after_tool_error(generation, make_tool, answer):
    """Scenario: Loop continues after tool error (RG-32, DS-5)."""
    flaky = make_tool(implementation={"type": "mock", "sequence": [{"error": "busy"}, {"response": "sunny"}]})
    made = generation([calls(ROME), calls(ROME), says("Sunny.")], flaky)

    response = await answer(made)

    assert [r.result.success for r in response.tool_calls] == [False, True]
    assert response.content == "Sunny."


# Beyond the scenarios: limits of the loop


async def test_the_third_identical_call_is_refused_and_the_fourth_ends_the_loop(generation, answer):
    """Circular calls (TC-111, DS-9, C16); the order of the arguments makes no difference."""
    ran = []

    @tool
    def look(a: int = 0, b: int = 0) -> int:
        """Look."""
        ran.append((a, b))
        return 1

    replies = [calls(("look", args)) for args in ({"a": 1, "b": 2}, {"b": 2, "a": 1}) * 5]
    response = await answer(generation(replies, look, max_iterations=20))

    assert len(ran) == 2
    assert [r.result.success for r in response.tool_calls] == [True, True, False, False]
    assert response.max_iterations_reached


async def test_a_tool_that_polls_may_be_called_again_and_again(generation, make_tool):
    """repeatable tools are exempt (C16)."""
    poll = make_tool(repeatable=True)
    response = await generation([calls(ROME)] * 6 + [says("done")], poll, max_iterations=10).answer()

    assert [r.result.success for r in response.tool_calls] == [True] * 6


async def test_what_was_not_offered_is_refused_at_execution(generation, make_tool, answer, caplog):
    """The allow-list protects (TC-116, C23), and the refusal is logged and names what there is."""
    tools = [make_tool("get_weather"), make_tool("delete_all")]
    rule = {"tools": RuleTools(allowed_tools=("get_weather",))}
    response = await answer(generation([calls(("delete_all", {"location": "x"})), says("ok")], *tools, rule=rule))

    result = response.tool_calls[0].result
    assert (result.error, result.hint) == ("Tool 'delete_all' not found", "available tools: get_weather")
    assert "delete_all" in caplog.text


async def test_budgets_of_calls_are_kept(generation, weather, answer):
    """limits.tool_calls_per_answer and tool_calls_per_turn: every call has its answer, few are run."""
    many = calls(*[("get_weather", {"location": str(n)}) for n in range(6)])
    limits = LimitsTable(tool_calls_per_answer=4, tool_calls_per_turn=5)
    more = calls(*[("get_weather", {"location": f"b{n}"}) for n in range(3)])

    response = await answer(generation([many, more, says("never")], weather, limits=limits))

    assert [r.result.success for r in response.tool_calls] == [True] * 4 + [False] * 2 + [True, False, False]
    assert response.max_iterations_reached


@pytest.mark.parametrize("reason", ["content_filter", "refusal"])
async def test_of_a_filtered_or_refused_answer_nothing_runs(generation, weather, answer, reason):
    """Two reasons win over calls; the history stays well-formed."""
    response = await answer(generation([calls(ROME, text="No.", finish_reason=reason)], weather))

    assert (response.content, response.tool_calls) == ("No.", ())
    assert not any(m.tool_calls for m in response.messages if isinstance(m, AssistantMessage))


async def test_the_messages_of_a_turn_continue_in_the_next(generation, weather):
    """ChatResponse.messages is lossless history, beginning with the user's message."""
    made = generation([calls(ROME), says("Sunny."), says("You asked about Rome.")], weather, rule={"prompt": "P"})
    first = await made.answer("Weather in Rome?")

    await made.answer("What did I ask?", history=first.messages)

    assert [m.role for m in first.messages] == ["user", "assistant", "tool", "assistant"]
    assert made.model.requests[2].messages[1:-1] == first.messages


async def test_a_history_with_a_missing_result_is_repaired_with_a_note(generation, weather):
    """An interrupted turn does not poison the conversation."""
    call = ToolCall.from_object("get_weather", {"location": "Rome"})
    stray = ToolMessage(tool_call_id="call_gone", name="old", content="x")
    history = (UserMessage(content="?"), AssistantMessage(parts=(call,)), UserMessage(content="still there?"), stray)
    made = generation([says("Yes.")], weather)

    response = await made.answer("Hello", history=history)

    sent = made.model.requests[0].messages
    assert [m.role for m in sent] == ["user", "assistant", "tool", "user", "user"]
    assert sent[2].tool_call_id == call.id
    assert len(response.warnings) == 2
