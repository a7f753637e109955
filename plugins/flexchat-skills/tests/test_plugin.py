"""The package as a plugin."""

from flexchat.host import installed_plugins


def test_the_plugin_is_active():
    reports = {report.name: report for report in installed_plugins().reports}

    assert reports["skills"].status == "active"
    assert reports["skills"].package.startswith("flexchat-skills ")
