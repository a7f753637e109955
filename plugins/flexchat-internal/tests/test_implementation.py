"""Internal tools: how a handler is found and what it is given."""

import threading

import pytest
from flexchat.calls.calls import ToolExecutor, ToolParts
from flexchat.plugin import Implementation, ToolContext, ToolDefinition, ToolHandler
from flexchat.tools.registry import ToolRegistry
from flexchat_internal.implementation import INTERNAL, InternalSettings, check, run


def tool_of(handler=None, **settings):
    return ToolDefinition(
        name="look",
        description="Look",
        parameters={"type": "object"},
        implementation=Implementation(type="internal", settings=settings),
        handler=handler,
    )


async def seen(params, context):
    return {"params": dict(params), "stores": [*context.stores]}


HANDLERS = {("internal", name): ToolHandler(kind="internal", name=name, call=seen) for name in ("look", "other")}
HANDLERS[("builtin", "echo")] = ToolHandler(kind="builtin", name="echo", call=seen)
STORES = {"one": object(), "two": object()}


def context_of(tool):
    return ToolContext(tool=tool, handlers=HANDLERS, stores=STORES)


async def test_a_handler_is_given_parameters_and_services():
    """Scenario: Execute internal tool (TE-14): found by implementation.handler, its result returned."""
    result = await run(InternalSettings(handler="other"), {"a": 1}, context_of(tool_of()))

    assert result == {"params": {"a": 1}, "stores": ["one", "two"]}


@pytest.mark.parametrize(
    ("settings", "tool", "name"),
    [
        (InternalSettings(handler="a"), tool_of(handler="b"), "a"),
        (InternalSettings(), tool_of(handler="b"), "b"),
        (InternalSettings(), tool_of(), "look"),
    ],
)
def test_the_handler_is_the_implementations_else_the_tools_else_its_name(settings, tool, name):
    """C9: implementation.handler wins over the top-level handler, which wins over the name."""
    assert f"'{name}'" in check(settings, tool, {})


async def test_an_unknown_handler_is_an_execution_error():
    """Scenario: Internal handler not found (TC-46, TE-15): the text, then what there is."""
    registry = ToolRegistry()
    registry.register(tool_of(handler="nope"))
    executor = ToolExecutor(registry, ToolParts(implementation_types={"internal": INTERNAL}, handlers=HANDLERS))

    result = await executor.execute("look", {})

    assert not result.success
    assert (result.error, result.hint) == ("Internal handler 'nope' not found", "installed: look, other")


def test_an_unknown_handler_is_told_at_load():
    """The check hook says it before the first call; a known one is fine."""
    assert check(InternalSettings(handler="echo"), tool_of(), HANDLERS).startswith("Internal handler 'echo' not found")
    assert check(InternalSettings(handler="look"), tool_of(), HANDLERS) is None


async def test_a_service_narrows_what_the_handler_sees():
    """TC-21: implementation.service names the one document store of the tool."""
    result = await run(InternalSettings(service="two"), {}, context_of(tool_of()))

    assert result["stores"] == ["two"]


async def test_an_unknown_service_is_an_error_that_names_those_there_are():
    """A typo in the config is not an empty search."""
    with pytest.raises(Exception, match=r"no document store is called 'tow' .*: one, two"):
        await run(InternalSettings(service="tow"), {}, context_of(tool_of()))


async def test_a_blocking_handler_runs_in_a_thread():
    """A plain def may block; it is not run on the event loop."""
    handler = ToolHandler(kind="internal", name="look", call=lambda params, context: threading.current_thread().name)
    context = ToolContext(tool=tool_of(), handlers={("internal", "look"): handler})

    assert await run(InternalSettings(), {}, context) != threading.current_thread().name
