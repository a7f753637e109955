"""flexchat plugins."""

import json

import pytest
from flexchat.assembly import installed_plugins
from flexchat.plugin import hookimpl
from flexchat.plugin.host import PluginHost
from flexchat_cli.context import CommandContext


def test_every_installed_plugin_is_reported_with_what_it_brings(run):
    ran = run("plugins")

    assert ran.status == 0
    for report in installed_plugins().reports:
        assert report.name in ran.out
        assert report.package in ran.out
    assert "commands: new, plugins verify" in ran.out
    assert "calculator" in ran.out


def test_a_blocked_plugin_is_listed_with_who_blocked_it(run, monkeypatch):
    assert "by --no-plugin" in run("plugins", "--no-plugin", "openai").out

    monkeypatch.setenv("FLEXCHAT_BLOCK_PLUGINS", "openai")
    assert "by FLEXCHAT_BLOCK_PLUGINS" in run("plugins").out


class Watching:
    @hookimpl
    def flexchat_turn_started(self, info):
        pass


def test_a_failed_plugin_is_listed_with_the_reason_and_a_watcher_with_what_it_watches(run, monkeypatch):
    host = PluginHost()
    host.register(Watching(), "watching", "watching 1.0")
    host.register(type("Broken", (), {"FLEXCHAT_API": (9, 9)})(), "broken", "broken 1.0")
    monkeypatch.setattr(CommandContext, "load_plugins", lambda context, config=None: host)

    ran = run("plugins")

    assert "watches: turn_started" in ran.out
    assert "broken    failed  broken 1.0" in ran.out
    assert "written for plugin API 9.9" in ran.out


def test_no_plugins_are_told(run, monkeypatch):
    monkeypatch.setattr(CommandContext, "load_plugins", lambda context, config=None: PluginHost())

    assert "no plugins are installed" in run("plugins").err


def test_plugins_as_json(run):
    reports = json.loads(run("plugins", "--json").out)

    assert {report["status"] for report in reports} == {"active"}
    assert {"name", "package", "provides", "reason"} <= reports[0].keys()


@pytest.mark.parametrize(("name", "hint"), [("opnai", "did you mean 'openai'?"), ("no-such", "installed: ")])
def test_a_plugin_to_leave_out_that_is_not_there_is_told(run, monkeypatch, name, hint):
    """A typing error in FLEXCHAT_BLOCK_PLUGINS leaves the unwanted one on; one that is there is not told of."""
    monkeypatch.setenv("FLEXCHAT_BLOCK_PLUGINS", f"openai, {name}" if name == "no-such" else name)

    ran = run("plugins")

    assert f"note: FLEXCHAT_BLOCK_PLUGINS: no plugin is called '{name}'" in ran.err
    assert hint in ran.err
    assert "called 'openai'" not in ran.err
