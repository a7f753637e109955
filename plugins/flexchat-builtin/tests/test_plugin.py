"""The implementation type "builtin", and that everything the package offers works together."""

import flexchat_builtin.plugin
import pytest
from flexchat.plugin import Implementation, ToolContext, ToolDefinition, ToolHandler
from flexchat.plugin.host import PluginHost
from flexchat_builtin.implementation import BuiltinSettings, HandlerNotFoundError, check, run


@pytest.fixture
def host():
    """Return a host with this plugin alone."""
    host = PluginHost(strict=True)
    host.register(flexchat_builtin.plugin, "builtin")
    return host


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


def test_every_ready_tool_names_an_installed_handler(host):
    """The ready-made tools pass the check they would be put to in a config (TC-101)."""
    kind = host.implementation_types.by_name["builtin"]

    troubles = [
        kind.check(kind.settings_class(**tool.implementation.settings), tool, host.handlers.by_name)
        for tool in host.tools.by_name.values()
    ]

    assert troubles == [None] * 9
    assert {"calculator", "echo", "get_current_datetime", "generate_uuid"} < set(host.tools.by_name)


@pytest.mark.parametrize(
    ("tool", "params", "expected"),
    [
        ("calculator", {"expression": "17% of 230"}, {"result": 39.1}),
        ("echo", {"message": "hi"}, {"echo": {"message": "hi"}}),
        ("text_length", {"text": "two words"}, {"characters": 9, "words": 2, "lines": 1}),
        ("text_search", {"text": "a1", "pattern": "[0-9]", "ignore_case": True}, None),
    ],
)
async def test_a_ready_tool_runs(host, tool, params, expected):
    """From a tool's definition to its handler's result, as the executor goes."""
    definition = host.tools.by_name[tool]
    kind = host.implementation_types.by_name["builtin"]
    context = ToolContext(tool=definition, handlers=host.handlers.by_name)

    result = await kind.run(kind.settings_class(**definition.implementation.settings), params, context)

    assert result == expected or (expected is None and result["count"] == 1)


def test_asking_for_the_time_or_an_id_again_is_not_a_loop(host):
    """Tools whose answer changes by itself may be called again with the same arguments (DS-9)."""
    assert [name for name, tool in host.tools.by_name.items() if tool.repeatable] == [
        "get_current_datetime",
        "generate_uuid",
    ]
