"""Gates: a plugin that must be there is active, or why_inactive and closed_gates say why it is not."""

import importlib.metadata
import types

import pytest
from flexchat.plugin import hookimpl
from flexchat.plugin.host import PluginHost


class Policy:
    """A gate that works."""

    @hookimpl
    def flexchat_before_tool_call(self, tool):
        """Let everything pass."""


class Misspelt:
    @hookimpl
    def flexchat_before_toolcall(self, tool):
        """Never called."""


class Unmarked:
    def flexchat_before_tool_call(self, tool):
        """Without @hookimpl."""


class WrongArguments:
    @hookimpl
    def flexchat_before_tool_call(self, tool, mood):
        """mood is nothing FlexChat gives."""


class Raising:
    @hookimpl
    def flexchat_register_tools(self):
        raise RuntimeError("no rules found")

    @hookimpl
    def flexchat_before_tool_call(self, tool):
        """Never reached."""


class Strange(BaseException):
    """Not an Exception."""


class RaisingStrangely(Policy):
    @hookimpl
    def flexchat_register_tools(self):
        raise Strange("odd")


BROKEN = {
    Misspelt: "did you mean 'flexchat_before_tool_call'?",
    Unmarked: "is not marked with @hookimpl",
    WrongArguments: "mood",
    Raising: "no rules found",
    RaisingStrangely: "Strange: odd",
    types.SimpleNamespace: "implements no hook",
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_gate_that_does_not_work_is_closed_with_the_reason(broken):
    """Whatever keeps its hook from being called."""
    host = PluginHost()
    host.register(broken(), "policy", "acme-policy 1.0", gate=True)

    ((name, text),) = host.closed_gates()

    assert name == "policy"
    assert BROKEN[broken] in text
    assert "uninstall acme-policy 1.0" in text
    assert host.why_inactive("policy") in text


def test_a_gate_that_works_is_active():
    """And so is one that is only required by its name."""
    host = PluginHost()
    host.register(Policy(), "policy", gate=True)

    assert [*host.closed_gates()] == []
    assert host.why_inactive("policy") is None
    assert host.reports[0].gate


def test_a_blocked_gate_is_closed():
    """Blocking it would let happen what it forbids."""
    host = PluginHost(block={"policy": "FLEXCHAT_BLOCK_PLUGINS"})
    host.register(Policy(), "policy", gate=True)

    ((_, text),) = host.closed_gates()

    assert "plugin 'policy' is left out by FLEXCHAT_BLOCK_PLUGINS" in text


def test_a_plugin_that_is_not_there_is_named_with_the_nearest():
    """A typing error in plugins.require."""
    host = PluginHost()
    host.register(Policy(), "policy")

    assert "did you mean 'policy'?" in host.why_inactive("polcy")


def test_a_name_that_two_packages_take_is_nobodys():
    """The gate may be the second one."""
    host = PluginHost()
    host.register(Policy(), "policy", "acme-policy 1.0")
    host.register(Policy(), "policy", "impostor 6.6")

    reason = host.why_inactive("policy")

    assert "acme-policy 1.0 and impostor 6.6" in reason


class Installed(importlib.metadata.EntryPoint):
    """An entry point whose value is the plugin, or the error that importing it raises."""

    def __init__(self, name, group, value, plugin):
        super().__init__(name, value, group)
        vars(self)["plugin"] = plugin

    def load(self):
        if isinstance(self.plugin, Exception):
            raise self.plugin
        return self.plugin


def test_entry_points_of_the_group_are_gates(monkeypatch):
    """Those of the other group are not; one that stands in both is loaded once, as a gate."""
    policy = Policy()
    entries = importlib.metadata.EntryPoints(
        [
            Installed("both", "flexchat", "acme", policy),
            Installed("other", "flexchat", "x", ImportError("gone")),
            Installed("both", "flexchat.gates", "acme", policy),
            Installed("broken", "flexchat.gates", "y", ImportError("no acme_rules")),
        ]
    )
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda: entries)
    host = PluginHost()

    host.load_installed()

    assert [(r.name, r.status, r.gate) for r in host.reports] == [
        ("both", "active", True),
        ("broken", "failed", True),
        ("other", "failed", False),
    ]
    ((name, text),) = host.closed_gates()
    assert name == "broken"
    assert "no acme_rules" in text


def test_what_a_configuration_blocks_is_left_out_of_a_host_that_was_made_before():
    """And comes back where the configuration blocks it no more; what others block stays blocked."""
    host = PluginHost(block={"never": "--no-plugin"})
    for name in ("never", "policy", "other"):
        host.register(Policy(), name)

    without = host.configured(["policy"], ())
    again = without.configured([], ())

    assert [r.status for r in without.reports] == ["blocked", "blocked", "active"]
    assert without.reports[1].reason == "by plugins.block"
    assert [r.status for r in again.reports] == ["blocked", "active", "active"]
    assert host.configured([], ()) is host
    assert without.configured(["policy", "not-installed"], ()) is without
