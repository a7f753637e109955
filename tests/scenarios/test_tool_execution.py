"""The tool-execution specification, scenario by scenario, in its order."""

import asyncio
import datetime
import logging
import threading

import pytest
from flexchat import ToolContext, ToolResult, tool
from flexchat.domain.masking import Mask
from flexchat.errors import DuplicateToolError
from flexchat.host import ToolDefinitionError, UnknownToolFormatError
from flexchat.installing import how_to_install
from flexchat.plugin.hooks import HookCall, Hooks

ENVELOPE = {"success", "tool_name", "execution_time_ms"}


async def run(made, name, params, **rest):
    return await made.get_executor().execute(name, params, **rest)


# Requirement: Tool Execution Flow


async def test_successful_tool_execution(make_manager, weather):
    """Scenario: Successful tool execution (TE-1, TC-42)."""
    result = await run(make_manager(weather), "get_weather", {"location": "Rome"})

    body = result.to_dict()
    assert set(body) == {*ENVELOPE, "result"}
    assert body["success"] is True
    assert body["result"] == {"temperature": 22, "condition": "sunny", "humidity": 65}
    assert body["tool_name"] == "get_weather"


async def test_tool_not_found(make_manager, weather):
    """Scenario: Tool not found (TE-2, TC-36, TC-106): the specified text; the hint has the nearest and all names."""
    result = await run(make_manager(weather), "get_wether", {})

    assert set(result.to_dict()) == {*ENVELOPE, "error", "hint"}
    assert result.error == "Tool 'get_wether' not found"
    assert result.hint == "did you mean 'get_weather'? available tools: get_weather"


async def test_parameter_validation_failure(make_manager):
    """Scenario: Parameter validation failure (TE-3, TC-37, TC-107, C1)."""
    ran = []

    @tool
    def get_weather(location: str) -> str:
        """Get the weather."""
        ran.append(location)

    result = await run(make_manager(get_weather), "get_weather", {})

    assert (result.error, result.hint) == ("Invalid parameters: missing 'location'", None)
    assert ran == []


async def test_a_misspelt_parameter_is_the_hint(make_manager, weather):
    """The specified text stands alone, whatever was sent instead (TE-3, C1)."""
    result = await run(make_manager(weather), "get_weather", {"locaton": "Rome"})

    assert result.error == "Invalid parameters: missing 'location'"
    assert result.hint == "you sent 'locaton'"


async def test_tool_execution_error(make_manager, make_tool):
    """Scenario: Tool execution error (TE-4, TC-43)."""
    broken = make_tool(implementation={"type": "mock", "error": "station offline"})

    result = await run(make_manager(broken), "get_weather", {"location": "Rome"})

    assert (result.success, result.error, result.tool_name) == (False, "station offline", "get_weather")


# Requirement: Parameter Validation


async def test_required_parameter_check(make_manager, make_tool):
    """Scenario: Required parameter check (TE-5, TC-38, TC-113): all of them, missing ones first, in schema order."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": "string"}},
        "required": ["c", "a"],
    }
    result = await run(make_manager(make_tool(parameters=schema)), "get_weather", {"b": "x"})

    assert result.error == "Invalid parameters: missing 'c', missing 'a', b must be an integer"
    assert result.hint == 'b: got the string "x"'


@pytest.mark.parametrize(
    ("kind", "good", "bad", "words"),
    [
        ("integer", [5, 5.0, -1], [5.5, True, None, [1]], "must be an integer"),
        ("string", ["", "x"], [5, True, None, {}], "must be a string"),
        ("number", [1, 1.5], [True, None, "x"], "must be a number"),
        ("boolean", [True, False], [0, 1, None], "must be a boolean"),
        ("array", [[], [1]], [{}, 1], "must be an array"),
        ("object", [{}, {"a": 1}], [[], 1], "must be an object"),
    ],
)
async def test_type_checking(make_manager, make_tool, kind, good, bad, words):
    """Scenario: Type checking (TE-6, TC-39, C19)."""
    schema = {"type": "object", "properties": {"p": {"type": kind}}, "required": ["p"]}
    made = make_manager(make_tool(parameters=schema))

    for value in good:
        assert (await run(made, "get_weather", {"p": value})).success, value
    for value in bad:
        result = await run(made, "get_weather", {"p": value})
        assert result.error == f"Invalid parameters: p {words}"
        assert result.hint.startswith("got "), value


async def test_enum_validation(make_manager, weather):
    """Scenario: Enum validation (TE-7, TC-40)."""
    result = await run(make_manager(weather), "get_weather", {"location": "Rome", "units": "kelvin"})

    assert result.error == "Invalid parameters: units must be one of: celsius, fahrenheit"
    assert result.hint == 'got "kelvin"'
    result = await run(make_manager(weather), "get_weather", {"location": "Rome", "units": "celcius"})
    assert result.error == "Invalid parameters: units must be one of: celsius, fahrenheit"
    assert result.hint == 'got "celcius"; did you mean "celsius"?'


async def test_allow_extra_parameters(make_manager, weather):
    """Scenario: Allow extra parameters (TE-8, TC-41)."""
    assert (await run(make_manager(weather), "get_weather", {"location": "Rome", "mood": 3})).success


async def test_lossless_coercion_is_noted_and_lossy_coercion_is_refused(make_manager, weather):
    """ "2" may stand for 2 and the record says so; "two" and "2.7" may not."""
    made = make_manager(weather)

    result = await run(made, "get_weather", {"location": "Rome", "days": "2"})

    assert result.success
    assert len(result.notes) == 1
    assert "days" in result.notes[0]
    for lossy in ("two", "2.7", "2 days"):
        result = await run(made, "get_weather", {"location": "Rome", "days": lossy})
        assert result.error == "Invalid parameters: days must be an integer"
        assert result.hint == f'got the string "{lossy}"'


# Requirement: Mock Tool Execution


@pytest.mark.timed
async def test_execute_mock_tool(make_manager, weather):
    """Scenario: Execute mock tool (TE-9, TC-20, TC-44): the response as it is, in under 10 ms."""
    made = make_manager(weather)

    results = [await run(made, "get_weather", {"location": "Oslo"}) for _ in range(5)]

    assert all(r.result == {"temperature": 22, "condition": "sunny", "humidity": 65} for r in results)
    assert min(r.execution_time_ms for r in results) < 10


# Requirement: Builtin Tool Execution


async def test_execute_builtin_tool(make_manager, make_tool):
    """Scenario: Execute builtin tool (TE-10, TC-21, TC-45)."""
    echo = make_tool("echo", {"type": "builtin", "handler": "echo"}, parameters={"type": "object"})

    assert (await run(make_manager(echo), "echo", {"a": [1]})).result == {"echo": {"a": [1]}}


async def test_builtin_handler_not_found(make_manager, make_tool):
    """Scenario: Builtin handler not found (TE-11, TC-45)."""
    odd = make_tool("odd", {"type": "builtin", "handler": "nope"})

    result = await run(make_manager(odd), "odd", {"location": "x"})

    assert not result.success
    assert result.error == "Builtin handler 'nope' not found"
    assert result.hint.startswith("known: ")
    odd = make_tool("odd", {"type": "builtin", "handler": "math_evla"})
    result = await run(make_manager(odd), "odd", {"location": "x"})
    assert (result.error, result.hint) == ("Builtin handler 'math_evla' not found", "did you mean 'math_eval'?")


async def test_math_evaluation_handler(make_manager, make_tool):
    """Scenario: Math evaluation handler (TE-12, TC-63, TC-64, TC-117)."""
    schema = {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]}
    made = make_manager(make_tool("calculate", {"type": "builtin", "handler": "math_eval"}, parameters=schema))

    assert (await run(made, "calculate", {"expression": "2+2"})).result == {"result": 4}
    for bad in ("2 +", "__import__('os')", "1/0", "5 cm to inch"):
        error = (await run(made, "calculate", {"expression": bad})).error
        assert error.startswith("Math evaluation failed: "), error
        assert len(error) > len("Math evaluation failed: ")
    result = await run(made, "calculate", {"expression": "sqr(4)"})
    assert (result.error, result.hint) == ("Math evaluation failed: unknown name 'sqr'", "did you mean 'sqrt'?")


async def test_echo_handler(make_manager, make_tool):
    """Scenario: Echo handler (TE-13, TC-65)."""
    echo = make_tool("echo", {"type": "builtin"}, parameters={"type": "object"})

    assert (await run(make_manager(echo), "echo", {"x": "y"})).result == {"echo": {"x": "y"}}


# Requirement: Internal Tool Execution


async def test_execute_internal_tool(make_manager, make_tool):
    """Scenario: Execute internal tool (TE-14, TC-46): without a document store its handler says so."""
    schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    odd = make_tool("search", {"type": "internal", "handler": "rag_query"}, parameters=schema)

    result = await run(make_manager(odd), "search", {"query": "x"})

    assert not result.success
    assert "Internal handler" in result.error or "stores" in result.error


async def test_internal_handler_not_found(make_manager, make_tool):
    """Scenario: Internal handler not found (TE-15, TC-46)."""
    odd = make_tool("odd", {"type": "internal", "handler": "nope"})

    result = await run(make_manager(odd), "odd", {"location": "x"})

    assert result.error == "Internal handler 'nope' not found"
    assert result.hint.startswith("installed: ")


# Requirement: Execution Time Tracking


@pytest.mark.usefixtures("virtual_time")
async def test_track_execution_time(make_manager, make_tool):
    """Scenario: Track execution time (TE-16)."""
    slow = make_tool(implementation={"type": "mock", "mock_response": 1, "delay_ms": 40})

    result = await run(make_manager(slow), "get_weather", {"location": "Rome"})

    assert 35 <= result.execution_time_ms < 1000


@pytest.mark.usefixtures("virtual_time")
async def test_include_time_in_error_results(make_manager, make_tool):
    """Scenario: Include time in error results (TE-17)."""
    slow = make_tool(implementation={"type": "mock", "error": "no", "delay_ms": 40})

    result = await run(make_manager(slow), "get_weather", {"location": "Rome"})

    assert 35 <= result.execution_time_ms < 1000


# Requirement: Error Result Format


async def test_error_result_structure(make_manager, make_tool, weather):
    """Scenario: Error result structure (TE-18), in every kind of failure (TC-48)."""
    made = make_manager(
        weather,
        make_tool("raises", {"type": "mock", "error": "no"}),
        make_tool("unknown_type", {"type": "acme"}),
        make_tool("http_tool", {"type": "http", "url": "https://example.org"}),
        make_tool("slow", {"type": "mock", "mock_response": 1, "delay_ms": 5000}, timeout_ms=20),
    )
    attempts = [("absent", {}), ("get_weather", {})]
    attempts += [(name, {"location": "x"}) for name in ("raises", "unknown_type", "http_tool", "slow")]
    for name, params in attempts:
        body = (await run(made, name, params)).to_dict()
        assert set(body) - {"hint"} == {*ENVELOPE, "error"}
        assert (body["success"], body["tool_name"], type(body["execution_time_ms"])) == (False, name, int)
        assert body["error"]
    assert (await run(made, "unknown_type", {"location": "x"})).error == "Unknown implementation type: acme"  # TC-48
    http = await run(made, "http_tool", {"location": "x"})
    assert http.error == "HTTP tools are not yet supported (coming in v2)"  # TC-47
    assert how_to_install("flexchat-http") in http.hint


async def test_success_result_structure(make_manager, make_tool):
    """Scenario: Success result structure (TE-19), whatever the tool returned."""
    for value in (None, 0, "", [], {"success": False, "tool_name": "forged"}, 1.5, "text"):
        made = make_manager(make_tool(implementation={"type": "mock", "mock_response": value}))
        body = (await run(made, "get_weather", {"location": "x"})).to_dict()
        assert set(body) == {*ENVELOPE, "result"}
        assert (body["success"], body["tool_name"], body["result"]) == (True, "get_weather", value)


# Registry and manager of the long specification


def test_registering_refuses_what_is_no_tool(make_manager, make_tool, weather):
    """The specified texts (TC-27, TC-28, TC-29)."""
    with pytest.raises(ToolDefinitionError, match=r"^Tool must have name and description$"):
        make_tool(name="")
    with pytest.raises(ToolDefinitionError, match=r"^Tool must have name and description$"):
        make_tool(description="")
    for parameters in ({}, {"type": "string"}, None, []):
        with pytest.raises(ToolDefinitionError, match=r"^Tool parameters must be an object schema$"):
            make_tool(parameters=parameters)
    with pytest.raises(DuplicateToolError, match=r"^Tool get_weather already registered$"):
        make_manager(weather, weather)


def test_the_registry_answers_for_its_tools(make_manager, make_tool, caplog):
    """get, has, list, and each registration is logged (TC-13, TC-30, TC-31)."""
    with caplog.at_level(logging.DEBUG):
        registry = make_manager(make_tool("a"), make_tool("b")).get_registry()

    assert [t.name for t in registry.list()] == ["a", "b"]
    assert registry.get("a").name == "a"
    assert registry.get("z") is None
    assert (registry.has("b"), registry.has("z")) == (True, False)
    assert [r.args for r in caplog.records if "registered" in r.msg] == [("a",), ("b",)]


def test_an_allow_list_filters_in_registry_order(make_manager, make_tool):
    """None and an empty list keep all (TC-32); an unknown format is refused (TC-35, C12)."""
    registry = make_manager(*map(make_tool, "abc")).get_registry()

    def names(allowed):
        return [t["function"]["name"] for t in registry.to_provider_format("scripted", allowed)]

    assert names(None) == names([]) == ["a", "b", "c"]
    assert names(["c", "a", "zz"]) == ["a", "c"]
    with pytest.raises(UnknownToolFormatError, match=r"^Unknown provider: acme"):
        registry.to_provider_format("acme")


def test_the_manager_knows_the_limits(make_manager):
    """Defaults 5 and 30000 (TC-17, TC-70, C8); no registry is no error (TC-68)."""
    made = make_manager()
    assert (made.get_max_iterations(), made.get_default_timeout(), made.is_enabled()) == (5, 30_000, False)
    assert make_manager(max_iterations=0).get_max_iterations() == 5
    assert make_manager(enabled=True).is_enabled()


# Execution, beyond the scenarios


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("effect", ["read", "write"])
async def test_a_tool_that_takes_too_long_is_given_up(make_manager, kind, effect):
    """Timeouts hold for every kind of tool (TC-49, TC-110); of one that changes something the effect is unknown."""
    blocked, freed = asyncio.Event(), threading.Event()

    async def wait_async() -> str:
        """Wait."""
        await blocked.wait()

    def wait_sync() -> str:
        """Wait."""
        freed.wait(60)

    made = make_manager(tool(timeout_ms=50, name="wait", effect=effect)(wait_sync if kind == "sync" else wait_async))

    result = await run(made, "wait", {})
    freed.set()

    assert result.error == "Tool execution timed out after 50ms"
    assert ("it may still be running" in (result.hint or "")) == (kind == "sync")
    assert ("it is unknown whether 'wait' took effect" in (result.hint or "")) == (effect == "write")


async def test_a_timeout_of_the_tools_own_is_its_error(make_manager):
    """A TimeoutError that the tool raises is not our deadline."""

    @tool
    async def fetch() -> str:
        """Fetch."""
        raise TimeoutError("upstream said no")

    assert (await run(make_manager(fetch), "fetch", {})).error == "upstream said no"


@pytest.mark.parametrize("error", [SystemExit(3), StopIteration("x"), RecursionError(), KeyError("k"), Exception()])
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_whatever_a_tool_raises_is_a_result(make_manager, error, kind):
    """No exception of a tool leaves the executor (TC-43)."""

    def fail_sync() -> str:
        """Fail."""
        raise error

    async def fail_async() -> str:
        """Fail."""
        raise error

    result = await run(make_manager(tool(name="fail")(fail_sync if kind == "sync" else fail_async)), "fail", {})

    assert not result.success
    assert result.error


async def test_cancelling_reaches_the_tool(make_manager):
    """Cancellation is not swallowed, and an async tool is told."""
    told = asyncio.Event()
    begun = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            told.set()

    task = asyncio.create_task(run(make_manager(wait), "wait", {}))
    await begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert told.is_set()


async def test_results_have_a_json_form_or_are_an_error(make_manager):
    """Dates, sets and the like become JSON; what has no JSON form is an error, not a crash."""

    @tool
    async def when() -> dict:
        """Tell."""
        return {"day": datetime.date(2026, 11, 21), "tags": {"b", "a"}}

    @tool
    async def odd() -> object:
        """Tell."""
        return {"nan": float("nan"), "object": object()}

    made = make_manager(when, odd)

    assert (await run(made, "when", {})).result == {"day": "2026-11-21", "tags": ["a", "b"]}
    assert "not JSON" in (await run(made, "odd", {})).error


async def test_secrets_stay_out_of_errors(make_tool):
    """What came from the environment and what looks like a secret is masked (TC-120, TC-43)."""
    from flexchat.calls.calls import ToolParts
    from flexchat.calls.manager import ToolManager
    from flexchat.plugin.foreign import run_in_thread  # noqa: F401  # imported here to show nothing else is needed

    @tool
    async def query() -> str:
        """Query."""
        raise RuntimeError("postgres://admin:hunter22@db failed, password=tiger77, key canary-123456")

    made = ToolManager(parts=ToolParts(mask=Mask(["canary-123456"])))
    made.add([query])
    error = (await run(made, "query", {})).error

    assert "failed" in error
    for secret in ("hunter22", "tiger77", "canary-123456"):
        assert secret not in error


async def test_an_incident_number_may_stand_for_the_text(make_manager, caplog):
    """tools.error_detail = "incident" shows the model no text at all; the log has it."""

    @tool
    async def query() -> str:
        """Query."""
        raise RuntimeError("table users is missing")

    result = await run(make_manager(query, error_detail="incident"), "query", {})

    assert "users" not in result.error
    assert "RuntimeError" in result.error
    assert "users" in caplog.text


async def test_a_tool_cannot_change_the_record_of_its_arguments(make_manager):
    """The record keeps what the model wrote."""

    @tool
    async def spoil(items: list[int]) -> int:
        """Spoil."""
        items.clear()
        return 1

    params = {"items": [1, 2]}
    assert (await run(make_manager(spoil), "spoil", params)).success
    assert params == {"items": [1, 2]}


async def test_a_function_may_ask_for_the_context(make_manager):
    """A ToolContext parameter is filled in and hidden from the model; a value the model sends for it is refused."""

    @tool
    async def who(context: ToolContext, name: str = "") -> str:
        """Tell."""
        return context.tool.name + name

    made = make_manager(who)
    assert "context" not in who.definition.parameters["properties"]
    assert (await run(made, "who", {"name": "!"})).result == "who!"


async def test_a_plugin_may_answer_in_the_tools_place(make_manager, weather):
    """flexchat_before_tool_call: the tool does not run, and the result is in the specified shape."""

    def gate(tool):
        return ToolResult.failed("forged", "A person must do this")

    hooks = Hooks({"flexchat_before_tool_call": [HookCall("gate", gate, ("tool",))]})
    result = await run(make_manager(weather, hooks=hooks), "get_weather", {"location": "Rome"})

    assert (result.success, result.error, result.tool_name) == (False, "A person must do this", "get_weather")


async def test_a_gate_that_breaks_stays_shut(make_manager, weather, caplog):
    """A before_tool_call that raises refuses the call, and its plugin is named."""

    async def gate(tool):
        raise RuntimeError("bug")

    hooks = Hooks({"flexchat_before_tool_call": [HookCall("acme", gate, ("tool",))]})
    result = await run(make_manager(weather, hooks=hooks), "get_weather", {"location": "Rome"})

    assert not result.success
    assert "acme" in result.error
    assert "acme" in caplog.text
