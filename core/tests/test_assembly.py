"""What a configuration asks for, and gets or is refused: plugins it requires or blocks."""

import pytest
from flexchat import ConfigError, FlexChat
from flexchat.assembly import check_config
from flexchat.plugin import Implementation, ToolDefinition, ToolResult, hookimpl
from flexchat.plugin.host import PluginHost
from flexchat_mock import plugin as mock

CONFIG = {
    "llms": {"robot": {"provider": "rehearsal"}},
    "responses": [{"llm": "robot", "model": "any"}],
}


class Policy:
    @hookimpl
    def flexchat_before_tool_call(self, tool):
        return ToolResult.failed(tool.name, "forbidden")


class Typo:
    @hookimpl
    def flexchat_before_tool_cal(self, tool):
        """Never called."""


def host_with(*, gate=False, block=None, **plugins):
    """A host with the mock package and these plugins."""
    host = PluginHost(block=block)
    host.register(mock, "mock", "flexchat-mock 0.1.0")
    for name, plugin in plugins.items():
        host.register(plugin, name, f"acme-{name} 1.0", gate=gate)
    return host


def problems_of(config, host):
    """What check says, which must be what starting says."""
    problems, _ = check_config(config, host)
    if not problems:
        FlexChat.from_config(config, plugins=host)
        return []
    with pytest.raises(ConfigError) as caught:
        FlexChat.from_config(config, plugins=host)
    assert [*map(str, caught.value.problems)] == [*map(str, problems)]
    return [(problem.path, problem.text) for problem in problems]


def test_a_required_plugin_that_is_active_is_no_problem():
    assert problems_of({**CONFIG, "plugins": {"require": ["policy"]}}, host_with(policy=Policy())) == []


def test_a_required_plugin_that_does_not_load_stops_the_start():
    """It names the hook; without 'require' the plugin is left out as any other."""
    config = {**CONFIG, "plugins": {"require": ["policy"]}}

    ((path, text),) = problems_of(config, host_with(policy=Typo()))

    assert path == "plugins.require[0]"
    assert "unknown hook 'flexchat_before_tool_cal'; did you mean 'flexchat_before_tool_call'?" in text
    assert problems_of(CONFIG, host_with(policy=Typo())) == []


def test_a_required_plugin_that_is_not_installed_stops_the_start():
    ((path, text),) = problems_of({**CONFIG, "plugins": {"require": ["polcy"]}}, host_with(policy=Policy()))

    assert path == "plugins.require[0]"
    assert "no plugin is called 'polcy' (did you mean 'policy'?)" in text


@pytest.mark.parametrize("place", ["FLEXCHAT_BLOCK_PLUGINS", "--no-plugin"])
def test_a_required_plugin_that_is_switched_off_elsewhere_stops_the_start(place):
    host = host_with(policy=Policy(), block={"policy": place})

    assert problems_of({**CONFIG, "plugins": {"require": ["policy"]}}, host) == [
        ("plugins.require[0]", f"plugin 'policy' is left out by {place}")
    ]


def test_a_plugin_cannot_be_required_and_blocked():
    """One problem, at one place."""
    config = {**CONFIG, "plugins": {"require": ["policy"], "block": ["mock-2", "policy"]}}

    ((path, text),) = problems_of(config, host_with(policy=Policy(), **{"mock-2": Policy()}))

    assert path == "plugins.require[0]"
    assert "blocked by plugins.block[1]" in text


def test_a_gate_that_does_not_load_stops_the_start_unasked():
    """Also where there is no configuration."""
    host = host_with(policy=Typo(), gate=True)

    ((path, text),) = problems_of(CONFIG, host)
    with pytest.raises(ConfigError) as caught:
        FlexChat.from_model("rehearsal", "any", plugins=host)

    assert path == "plugins"
    assert "plugin 'policy' could not be loaded: unknown hook" in text
    assert [problem.text for problem in caught.value.problems] == [text]


def test_a_gate_that_is_required_too_is_one_problem():
    host = host_with(policy=Typo(), gate=True)

    ((path, _),) = problems_of({**CONFIG, "plugins": {"require": ["policy"]}}, host)

    assert path == "plugins.require[0]"


def test_a_misspelt_name_among_the_blocked_stops_the_start():
    """It would leave on what was to be off; a name like no other is only noted: it may be installed elsewhere."""
    host = host_with(policy=Policy())

    ((path, text),) = problems_of({**CONFIG, "plugins": {"block": ["polcy"]}}, host)
    problems, notes = check_config({**CONFIG, "plugins": {"block": ["no-such"]}}, host)

    assert path == "plugins.block[0]"
    assert "did you mean 'policy'?" in text
    assert problems == []
    assert [(note.path, note.text) for note in notes] == [
        ("plugins.block[0]", "no plugin is called 'no-such' (installed: mock, policy)")
    ]


async def test_what_a_configuration_blocks_is_off_in_a_host_that_was_made_before():
    """A server's host is made once; its configuration changes."""
    host = host_with(policy=Policy())
    tool = ToolDefinition(
        name="echo",
        description="Echo.",
        parameters={"type": "object"},
        implementation=Implementation(type="mock", settings={"mock_response": 1}),
    )

    async with FlexChat.from_config(CONFIG, tools=[tool], plugins=host) as chat:
        assert (await chat.call_tool("echo", {})).error == "forbidden"
    blocking = {**CONFIG, "plugins": {"block": ["policy"]}}
    async with FlexChat.from_config(blocking, tools=[tool], plugins=host) as chat:
        assert (await chat.call_tool("echo", {})).result == 1
