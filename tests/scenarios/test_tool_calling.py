"""The long tool-calling specification and its design document: what the two others do not say scenario by scenario."""

import json
import logging

import pytest
from flexchat import ConfigError, FlexChat, ToolCall, tool
from flexchat.plugin import ToolHandler, hookimpl
from flexchat.plugin.host import PluginHost
from flexchat_testing import ScriptedProvider, calls, says

WEATHER = {
    "name": "get_weather",
    "description": "Get current weather for a location",
    "type": "function",
    "handler": "weather",
    "parameters": {
        "type": "object",
        "properties": {
            "location": {"type": "string", "description": "City name or coordinates"},
            "units": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        },
        "required": ["location"],
    },
    "implementation": {"type": "mock", "mock_response": {"temperature": 22, "condition": "sunny", "humidity": 65}},
}
CALCULATE = {
    "name": "calculate",
    "description": "Perform a calculation",
    "type": "function",
    "handler": "calculator",
    "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
    "implementation": {"type": "builtin", "handler": "math_eval"},
}
SEARCH = {
    "name": "search_documents",
    "description": "Search the documentation",
    "type": "function",
    "handler": "rag_search",
    "parameters": {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "collection": {"type": "string"},
            "max_results": {"type": "integer", "default": 5},
        },
        "required": ["query"],
    },
    "implementation": {"type": "internal", "handler": "rag_query"},
}
STORE = {
    "docs": {
        "provider": "memory",
        "documents": [
            {"title": "Routes", "text": "An OpenShift route exposes a service.", "collection": "ops"},
            {"title": "Pods", "text": "A pod runs containers.", "collection": "ops"},
        ],
    }
}


def configured(replies, registry, *rules, tools_table=(), **more):
    model = ScriptedProvider(replies)
    config = {
        "llms": {"bot": {"provider": "scripted"}},
        "tools": {"registry": registry, **dict(tools_table)},
        "responses": [*rules, {"llm": "bot", "model": "m", "tools": {"enabled": True}}],
        **more,
    }
    return FlexChat.from_config(config, providers={"bot": model}), model


async def test_the_three_sample_tools_load_and_run_as_given():
    """Mock, builtin and internal tools out of a configuration alone (TC-2, TC-3, TC-4, TC-18, TC-19, TC-25, DS-6)."""
    asked = calls(
        ("get_weather", {"location": "Rome"}),
        ("calculate", {"expression": "2+2"}),
        ("search_documents", {"query": "route", "max_results": 1}),
    )
    chat, model = configured([asked, says("ok")], [WEATHER, CALCULATE, SEARCH], stores=STORE)

    turn = await chat.respond("Do it")

    weather, total, found = [r.result.result for r in turn.response.tool_calls]
    assert weather == {"temperature": 22, "condition": "sunny", "humidity": 65}
    assert total == {"result": 4}
    assert found["results"][0]["title"] == "Routes"
    assert len(model.requests[0].options.tools) == 3


async def test_the_two_sample_set_ups_run():
    """Weather and documentation assistant: limits of their own, matched by their rules (TC-26, DS-12, DS-20)."""
    weather_rule = {
        "match": {"user_message_regexp": "/(weather|forecast)/"},
        "llm": "bot",
        "model": "weather-model",
        "prompt": "You are a weather assistant.\n\nUser: {{user_message}}",
        "tools": {"enabled": True, "allowed_tools": ["get_weather"], "max_iterations": 3},
    }
    docs_rule = {
        "match": {"user_message_contains": "docs"},
        "llm": "bot",
        "model": "docs-model",
        "tools": {"enabled": True, "allowed_tools": ["search_documents"], "max_iterations": 2},
    }
    replies = [calls(("get_weather", {"location": str(n)})) for n in range(3)]
    replies += [calls(("search_documents", {"query": str(n)})) for n in range(2)]
    chat, model = configured(replies, [WEATHER, SEARCH], weather_rule, docs_rule, stores=STORE)

    first = await chat.respond("the weather please")
    second = await chat.respond("search the docs")

    assert [r.model for r in model.requests] == ["weather-model"] * 3 + ["docs-model"] * 2
    assert first.response.max_iterations_reached
    assert second.response.max_iterations_reached
    assert model.requests[0].messages[0].content.endswith("User: the weather please")


def test_a_definition_that_fails_is_left_out_and_the_others_load(caplog):
    """Logged, noted, and no reason to stop (TC-69, C25: of two with one name the first stays)."""
    bad = {**WEATHER, "name": "bad", "parameters": {"type": "string"}}
    second = {**WEATHER, "description": "Another"}

    chat, _ = configured([], [bad, WEATHER, second, CALCULATE], tools_table={"on_error": "leave out"})

    names = [t.name for t in chat.tools.get_registry().list()]
    assert names == ["get_weather", "calculate"]
    assert chat.tools.get_registry().get("get_weather").description == WEATHER["description"]
    assert any("tool 'bad' is left out: Tool parameters must be an object schema" in n.text for n in chat.notes)
    assert any("a second tool" in n.text for n in chat.notes)
    assert "left out" in caplog.text


@pytest.mark.parametrize(("table", "loaded"), [({}, 1), ({"enabled": True}, 1), ({"enabled": False}, 0)])
def test_tools_are_loaded_only_if_they_are_enabled(table, loaded):
    """tools.enabled = false loads none (TC-67)."""
    chat, _ = configured([], [WEATHER], tools_table=table)

    assert len(chat.tools.get_registry().list()) == loaded


def test_name_only_and_flat_definitions_become_canonical():
    """The forms of the original (C9); implementation.handler wins over handler, which wins over the name."""
    flat = {
        "name": "lucky",
        "description": "A number",
        "type": "mock",
        "mock_response": 7,
        "parameters": {"type": "object"},
    }

    chat, _ = configured([], [{"name": "calculator"}, flat])

    calculator, lucky = chat.tools.get_registry().list()
    assert calculator.implementation.type == "builtin"
    assert "expression" in calculator.parameters["properties"]
    assert (lucky.type, lucky.implementation.type) == ("function", "mock")


def test_an_http_tool_is_refused_at_load_with_what_is_there():
    """A type no plugin brings (C24): here, because its package is left out."""
    http = {**WEATHER, "implementation": {"type": "http", "url": "https://example.org"}}

    with pytest.raises(ConfigError, match=r"no implementation type is called 'http'.*'http' blocked"):
        configured([], [http], plugins={"block": ["http"]})


async def test_an_http_tool_made_in_code_fails_with_the_specified_text(make_manager, make_tool):
    """At execution (TC-47)."""
    made = make_manager(make_tool("fetch", {"type": "http"}))

    result = await made.get_executor().execute("fetch", {"location": "x"})

    assert result.error == "HTTP tools are not yet supported (coming in v2)"


async def test_further_handlers_come_by_name():
    """A plugin registers one; a config names it (TC-66)."""

    class Dice:
        @hookimpl
        def flexchat_register_tool_handlers(self):
            yield ToolHandler(kind="builtin", name="loaded_die", call=lambda params, context: 6)

    host = PluginHost()
    host.load_installed()
    host.register(Dice(), "dice")
    die = {
        "name": "roll",
        "description": "Roll",
        "parameters": {"type": "object"},
        "implementation": {"type": "builtin", "handler": "loaded_die"},
    }
    config = {
        "llms": {"bot": {"provider": "scripted"}},
        "tools": {"registry": [die]},
        "responses": [{"llm": "bot", "model": "m"}],
    }

    chat = FlexChat.from_config(config, plugins=host)

    assert host.handlers.by_name["builtin", "loaded_die"].name == "loaded_die"
    assert (await chat.call_tool("roll", {})).result == 6


async def test_registry_executor_and_manager_stand_alone(make_manager, weather):
    """Storage, execution and coordination are apart; the loop is the generator's (TC-14, TC-15, TC-16, DS-1, DS-2)."""
    made = make_manager(weather)
    executor, registry = made.get_executor(), made.get_registry()

    assert executor.validate(registry.get("get_weather"), {}) == ["missing 'location'"]
    assert executor.validate(registry.get("get_weather"), {"location": "Rome"}) == []
    assert not hasattr(ScriptedProvider, "execute")


async def test_the_format_is_the_providers_own_name_for_it(make_manager, weather):
    """A subclass, or a second service of one kind, changes nothing (TC-76, C12)."""

    class SomethingElseEntirely(ScriptedProvider):
        pass

    config = {
        "llms": {"one": {"provider": "scripted"}, "two": {"provider": "scripted"}},
        "tools": {"registry": [WEATHER]},
        "responses": [{"llm": "two", "model": "m", "tools": {"enabled": True}}],
    }
    model = SomethingElseEntirely(["ok"])
    chat = FlexChat.from_config(config, providers={"two": model})

    await chat.respond("x")

    assert model.requests[0].options.tools[0]["function"]["name"] == "get_weather"


async def test_a_schema_may_say_more_than_types(make_manager, make_tool):
    """enum, default, integer, required, and what lies deeper; defaults are not filled in (TC-23, DS-7, C10)."""
    schema = {
        "type": "object",
        "properties": {
            "place": {
                "type": "object",
                "properties": {"city": {"type": "string", "minLength": 1}},
                "required": ["city"],
            },
            "days": {"type": "integer", "minimum": 1, "maximum": 7, "default": 3},
        },
        "required": ["place"],
    }
    made = make_manager(make_tool("echo", {"type": "builtin", "handler": "echo"}, parameters=schema))
    run = made.get_executor().execute

    assert (await run("echo", {"place": {"city": "Rome"}})).result == {"echo": {"place": {"city": "Rome"}}}
    assert "city" in (await run("echo", {"place": {}})).error
    assert "days" in (await run("echo", {"place": {"city": "Rome"}, "days": 9})).error


async def test_sizes_are_limited_and_broken_text_goes_nowhere(generation):
    """Arguments of any size or kind never crash a turn and never leave it broken (TC-114)."""

    @tool
    async def keep(text: str = "", items: list[int] | None = None) -> str:
        """Keep."""
        return text

    huge = calls(
        ("keep", {"text": "x" * 200_000}), ("keep", {"items": [1] * 20_000}), ("keep", {"text": "\ud800 \x00 ok"})
    )
    made = generation([huge, says("ok")], keep)

    response = await made.answer()

    first, second, third = response.tool_calls
    assert not first.result.success
    assert not second.result.success
    assert third.result.success
    for message in made.model.requests[1].messages:
        (message.content or "").encode()  # no lone surrogate is sent anywhere


async def test_an_execution_is_logged_without_its_arguments(make_manager, make_tool, caplog):
    """Tool, success and time; quiet unless asked for; only the JSON log has the arguments, masked (TC-126, DS-19)."""
    made = make_manager(make_tool("echo", {"type": "builtin", "handler": "echo"}, parameters={"type": "object"}))

    with caplog.at_level(logging.DEBUG, logger="flexchat.calls"):
        await made.get_executor().execute("echo", {"password": "tiger77", "city": "Rome"})

    [record] = [r for r in caplog.records if "success" in r.msg]
    text = record.getMessage()
    assert "echo" in text
    assert "success=True" in text
    assert "Rome" not in text
    assert "tiger77" not in text


async def test_long_results_are_cut_for_the_model_and_kept_in_the_record(generation, make_tool):
    """Head, marker, tail (DS-17); short ones are concise JSON (DS-13)."""
    long = make_tool(implementation={"type": "mock", "mock_response": "a" * 5000 + "z" * 5000})
    made = generation([calls(("get_weather", {"location": "x"})), says("ok")], long, max_result_chars=1000)

    response = await made.answer()

    told = json.loads(made.model.requests[1].messages[-1].content)["result"]
    assert told.startswith("a" * 700)
    assert told.endswith("z" * 200)
    assert "left out" in told
    assert len(told) < 1200
    assert len(response.tool_calls[0].result.result) == 10_000


async def test_streaming_runs_no_tool_before_the_answer_is_complete(generation, weather):
    """Calls are gathered first (DS-18)."""
    events = await generation([calls(("get_weather", {"location": "Rome"})), says("Sunny.")], weather).events()

    names = [type(e).__name__ for e in events]
    assert (
        names.index("AnswerEnd") < names.index("ToolStarted") < names.index("ToolFinished") < names.index("TextDelta")
    )
    assert names[-1] == "ChatResponse"


def test_a_call_keeps_its_object_and_its_text():
    """One internal type for every provider's form (C17)."""
    text = ToolCall.from_text("f", '{"b": 1, "a": 2}', wire_id="x1")
    plain = ToolCall.from_object("f", {"b": 1, "a": 2})

    assert text.arguments == plain.arguments
    assert (text.raw_arguments, plain.raw_arguments) == ('{"b": 1, "a": 2}', None)
    assert text.id != text.wire_id


async def test_the_model_reads_the_envelope(generation, weather):
    """Results go to the model as the JSON of the whole envelope (C18, RG-21)."""
    made = generation([calls(("get_weather", {"location": "Rome"})), says("ok")], weather)

    await made.answer()

    told = json.loads(made.model.requests[1].messages[-1].content)
    assert set(told) == {"success", "result", "tool_name", "execution_time_ms"}
