"""The tools that are switched on by name."""

import flexchat_builtin.plugin
import pytest
from flexchat.plugin import ToolContext
from flexchat.plugin.host import PluginHost
from flexchat_builtin.handlers import CASES, MAX_PATTERN
from flexchat_builtin.parameters import MAX_TEXT
from flexchat_builtin.reading import MAX_FIND


@pytest.fixture
def host():
    """Return a host with this plugin alone."""
    host = PluginHost(strict=True)
    host.register(flexchat_builtin.plugin, "builtin")
    return host


def test_every_ready_tool_names_an_installed_handler(host):
    """The ready-made tools pass the check they would be put to in a config (TC-101)."""
    kind = host.implementation_types.by_name["builtin"]

    troubles = [
        kind.check(kind.settings_class(**tool.implementation.settings), tool, host.handlers.by_name)
        for tool in host.tools.by_name.values()
    ]

    assert troubles == [None] * 10
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


def test_the_limits_shown_to_models_are_those_of_the_handlers(host):
    """The longest texts, and the names of the cases."""
    tools = {name: tool.parameters["properties"] for name, tool in host.tools.by_name.items()}

    assert {each["text"]["maxLength"] for each in tools.values() if "text" in each} == {MAX_TEXT}
    assert tools["text_case"]["case"]["enum"] == [*CASES]
    assert tools["text_search"]["pattern"]["maxLength"] == MAX_PATTERN
    assert tools["read_result"]["find"]["maxLength"] == MAX_FIND
