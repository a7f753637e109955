"""Which package brings a name that no installed plugin offers."""

import re

import pytest
from flexchat import installing
from flexchat.installing import how_to_install
from flexchat.plugin.commands import installed_commands
from flexchat.plugin.host import PluginHost
from flexchat.plugin.packages import _packages, package_with


def test_a_name_says_its_package():
    """By the kind of thing and its name; None for what the file does not know."""
    assert package_with("provider", "openai") == "flexchat-openai"
    assert package_with("implementation type", "mock") == "flexchat-mock"
    assert package_with("command", "openai") is None


def test_from_a_checkout_its_folders_are_installed(tmp_path, monkeypatch):
    """They are on no registry yet; elsewhere the name is all there is."""
    assert how_to_install("flexchat-openai") == "pip install ./flexchat-openai"
    assert how_to_install("flexchat-mock") == "pip install ./plugins/flexchat-mock"
    assert how_to_install("flexchat") == "pip install ."
    assert how_to_install("flexchat-core", "regex") == "pip install './core[regex]'"
    monkeypatch.setattr(installing, "__file__", str(tmp_path / "lib/site-packages/flexchat/installing.py"))
    assert how_to_install("flexchat-openai") == "pip install flexchat-openai"
    assert how_to_install("flexchat-core", "regex") == "pip install 'flexchat-core[regex]'"


@pytest.mark.parametrize("package", sorted({*_packages().values()}))
def test_every_package_is_in_the_checkout(package):
    """Under the name that a hint says."""
    assert how_to_install(package).startswith("pip install ./")


def test_every_kind_is_one_that_plugins_can_offer():
    """A kind that no error names would never be found."""
    hosts = {records.kind for records in vars(PluginHost()).values() if hasattr(records, "missing")}
    kinds = {*hosts, installed_commands().kind}
    assert {kind for kind, _ in _packages()} <= kinds
    assert all(re.fullmatch(r"flexchat-[a-z]+", package) for package in _packages().values())
