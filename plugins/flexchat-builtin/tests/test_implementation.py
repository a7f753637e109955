"""The implementation type "builtin": which handler runs a tool."""

import pytest
from flexchat.plugin import Implementation, ToolContext, ToolDefinition, ToolHandler
from flexchat_builtin.implementation import BuiltinSettings, HandlerNotFoundError, check, run


def tool_with(name="sum_up", handler=None, **settings):
    return ToolDefinition(
        name=name,
        description="Add up.",
        parameters={"type": "object"},
        implementation=Implementation(type="builtin", settings=settings),
        handler=handler,
    )


def handlers_named(*names):
    async def call(params, context):
        return {"by": context.tool.name, "got": dict(params)}

    return {("builtin", name): ToolHandler(kind="builtin", name=name, call=call) for name in names}


async def test_the_handler_is_called_with_the_parameters_and_its_result_returned():
    """Scenario: Execute builtin tool (TC-45, TE-10)."""
    context = ToolContext(tool=tool_with(), handlers=handlers_named("add"))

    result = await run(BuiltinSettings(handler="add"), {"a": 1}, context)

    assert result == {"by": "sum_up", "got": {"a": 1}}


async def test_a_blocking_handler_runs_as_well():
    """A plain def is a handler like an async one (TC-66)."""
    blocking = ToolHandler(kind="builtin", name="add", call=lambda params, context: params["a"] + 1)
    context = ToolContext(tool=tool_with(), handlers={("builtin", "add"): blocking})

    assert await run(BuiltinSettings(handler="add"), {"a": 1}, context) == 2


@pytest.mark.parametrize(
    ("settings", "key", "expected"),
    [("first", "second", "first"), (None, "second", "second"), (None, None, "sum_up")],
)
async def test_implementation_handler_wins_over_the_tools_key_and_that_over_its_name(settings, key, expected):
    """Conflict C9: implementation.handler, then handler, then name."""
    tool = tool_with(handler=key)
    handlers = {
        k: ToolHandler(kind="builtin", name=k[1], call=lambda params, context, name=k[1]: name)
        for k in handlers_named("first", "second", "sum_up")
    }

    assert await run(BuiltinSettings(handler=settings), {}, ToolContext(tool=tool, handlers=handlers)) == expected


async def test_an_unknown_handler_is_named_with_the_nearest_known_one():
    """Scenario: Builtin handler not found (TC-45, TE-11)."""
    context = ToolContext(tool=tool_with(), handlers=handlers_named("math_eval", "echo"))

    with pytest.raises(HandlerNotFoundError) as caught:
        await run(BuiltinSettings(handler="math_evla"), {}, context)

    assert str(caught.value) == "Builtin handler 'math_evla' not found"
    assert caught.value.hint == "did you mean 'math_eval'?"


def test_check_says_at_load_what_run_would_raise():
    """A config that names an unknown handler is found when it is read; other kinds' handlers do not count."""
    handlers = {**handlers_named("echo"), ("internal", "far"): handlers_named("far")["builtin", "far"]}

    assert check(BuiltinSettings(handler="echo"), tool_with(), handlers) is None
    assert check(BuiltinSettings(handler="far"), tool_with(), handlers) == (
        "Builtin handler 'far' not found (known: echo)"
    )
    assert check(BuiltinSettings(), tool_with(), {}) == "Builtin handler 'sum_up' not found (known: none)"
