"""How the package is found, and the laws of what it brings."""

import subprocess
import sys
from typing import ClassVar

import pytest
from flexchat.assembly import installed_plugins
from flexchat.config.structure import structure_mapping
from flexchat_mcp.plugin import flexchat_register_tool_sources
from flexchat_mcp.settings import McpConfig
from flexchat_testing import ToolSourceConformance

from .conftest import SERVER


def test_the_package_is_found_and_loads():
    reports = {report.name: report for report in installed_plugins().reports}

    assert reports["mcp"].status == "active"


def test_the_sdk_is_loaded_when_a_server_is_needed():
    code = (
        "import sys\nfrom flexchat.assembly import installed_plugins\ninstalled_plugins()\nprint('mcp' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


class TestMcp(ToolSourceConformance):
    source = next(iter(flexchat_register_tool_sources()))
    settings: ClassVar = {}
    wrong_settings = ({"command": "no-such-program-at-all"},)
    plugin = "flexchat_mcp.plugin"
    supports = frozenset({"refuses"})

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path, monkeypatch):
        command = [sys.executable, str(SERVER), str(tmp_path)]
        monkeypatch.setattr(type(self), "settings", {"command": command})


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "a server has either a command or a url"),
        ({"command": "x", "url": "https://x.example"}, "a server has either a command or a url"),
        ({"command": ""}, "command is empty"),
        ({"command": []}, "command is empty"),
        ({"command": "x", "effects": {"a": "reads"}}, "expected one of"),
        ({"command": "x", "max_bytes": 3}, "1024"),
        ({"comand": "x"}, "did you mean 'command'"),
    ],
)
def test_wrong_settings_are_said(table, said):
    _, problems = structure_mapping(table, McpConfig)

    assert any(said in str(problem) for problem in problems)


@pytest.mark.parametrize("table", [{"command": "a", "args": ["b"]}, {"command": ["a", "b"]}])
def test_a_command_may_be_a_text_or_a_list(table):
    config, problems = structure_mapping(table, McpConfig)

    assert (config.argv, list(problems)) == (("a", "b"), [])
