"""The package as a plugin."""

from __future__ import annotations

from flexchat.host import installed_plugins


def test_the_plugin_is_active():
    """The entry point loads, and the plugin registers without problems."""
    reports = {report.name: report for report in installed_plugins().reports}

    assert reports["access"].status == "active"
    assert reports["access"].package.startswith("flexchat-policy ")
