"""Which package brings a name that no installed plugin offers."""

import re

from flexchat.plugin.commands import installed_commands
from flexchat.plugin.host import PluginHost
from flexchat.plugin.packages import _packages, package_with


def test_a_name_says_its_package():
    """By the kind of thing and its name; None for what the file does not know."""
    assert package_with("provider", "openai") == "flexchat-openai"
    assert package_with("implementation type", "mock") == "flexchat-mock"
    assert package_with("command", "openai") is None


def test_every_kind_is_one_that_plugins_can_offer():
    """A kind that no error names would never be found."""
    hosts = {records.kind for records in vars(PluginHost()).values() if hasattr(records, "missing")}
    kinds = {*hosts, installed_commands().kind}
    assert {kind for kind, _ in _packages()} <= kinds
    assert all(re.fullmatch(r"flexchat-[a-z]+", package) for package in _packages().values())
