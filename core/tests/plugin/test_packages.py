"""Which package brings a name that no installed plugin offers."""

import json
import re
import shlex
from pathlib import Path

import pytest
from flexchat import installing
from flexchat.installing import _packages, how_to_install, package_with
from flexchat.plugin.host import PluginHost

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The code as if installed in site-packages, with this direct_url.json."""

    def install(noted):
        class Core:
            def read_text(self, name):
                assert name == "direct_url.json"
                return noted

        monkeypatch.setattr(installing, "__file__", str(tmp_path / "lib/site-packages/flexchat/installing.py"))
        monkeypatch.setattr(installing, "distribution", lambda name: Core())

    return install


def test_a_name_says_its_package():
    """By the kind of thing and its name; None for what the file does not know."""
    assert package_with("provider", "openai") == "flexchat-openai"
    assert package_with("implementation type", "mock") == "flexchat-mock"
    assert package_with("command", "openai") is None


def test_from_a_checkout_its_folders_are_installed(installed, tmp_path, monkeypatch):
    """They are on no registry yet; elsewhere the name is all there is."""
    monkeypatch.chdir(ROOT)
    assert how_to_install("flexchat-openai") == "pip install ./flexchat-openai"
    assert how_to_install("flexchat-mock") == "pip install ./plugins/flexchat-mock"
    assert how_to_install("flexchat") == "pip install ."
    assert how_to_install("flexchat-core", "regex") == "pip install './core[regex]'"
    monkeypatch.chdir(tmp_path)
    assert how_to_install("flexchat-mock") == f"pip install {shlex.quote(str(ROOT / 'plugins' / 'flexchat-mock'))}"
    installed(None)
    assert how_to_install("flexchat-openai") == "pip install flexchat-openai"
    assert how_to_install("flexchat-core", "regex") == "pip install 'flexchat-core[regex]'"


def test_what_was_installed_from_a_checkout_goes_on_from_there(installed, tmp_path):
    """As README says it: pip install ./core, which copies it; pip notes where from (PEP 610)."""
    for folder in ("core", "plugins/flexchat-mock"):
        (tmp_path / "a b" / folder).mkdir(parents=True)
        (tmp_path / "a b" / folder / "pyproject.toml").touch()
    installed(json.dumps({"url": (tmp_path / "a b" / "core").as_uri(), "dir_info": {}}))

    assert how_to_install("flexchat-mock") == f"pip install '{tmp_path}/a b/plugins/flexchat-mock'"
    assert how_to_install("flexchat-core", "regex") == f"pip install '{tmp_path}/a b/core[regex]'"
    assert how_to_install("flexchat-gone") == "pip install flexchat-gone"


@pytest.mark.parametrize(
    "noted",
    [
        "",
        "[]",
        "{",
        '{"url": 3}',
        '{"url": "file:///gone/core"}',
        '{"url": "https://example.org/core"}',
        '{"url": "x"}',
    ],
)
def test_what_pip_notes_otherwise_is_no_checkout(installed, noted):
    installed(noted)

    assert how_to_install("flexchat-mock") == "pip install flexchat-mock"


@pytest.mark.parametrize("package", sorted({*_packages().values()}))
def test_every_package_is_in_the_checkout(package, monkeypatch):
    """Under the name that a hint says."""
    monkeypatch.chdir(ROOT)
    assert how_to_install(package).startswith("pip install ./")


def test_every_kind_is_one_that_plugins_can_offer():
    """A kind that no error names would never be found."""
    hosts = {records.kind for records in vars(PluginHost()).values() if hasattr(records, "missing")}
    kinds = {*hosts, "command", "forbidding table"}  # the last one of assembly.read_tables
    assert {kind for kind, _ in _packages()} <= kinds
    assert all(re.fullmatch(r"flexchat-[a-z]+", package) for package in _packages().values())
