"""docs/roles.md: its configuration starts, and its commands print what it shows."""

from __future__ import annotations

import itertools
import json
import re
import tomllib
from pathlib import Path

import pytest
from flexchat_cli.main import main
from flexchat_policy.roles import PERMISSIONS
from flexchat_web.token_file import read_token_file

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "roles.md").read_text("utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)
EMPTY = {"type": "object", "properties": {}}


def block(kind):
    return next(text for name, text in BLOCKS if name == kind)


@pytest.fixture(autouse=True)
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tools = [
        {
            "name": name,
            "description": name,
            "parameters": EMPTY,
            "implementation": {"type": "python", "function": f"entrance_tools:{name}"},
        }
        for name in ("get_balance", "get_order", "pay")
    ]
    data = {
        "llms": {"s": {"provider": "scripted"}},
        "responses": [{"llm": "s", "model": "m", "name": "desk", "tools": {}}],
        "stores": {"handbook": {"provider": "memory", "documents": [{"text": "x", "collection": "public"}]}},
        "tools": {"registry": tools},
        "conversations": {"provider": "sqlite", "path": str(tmp_path / "c.db")},
        **tomllib.loads(block("toml")),
    }
    (tmp_path / "flexchat.json").write_text(json.dumps(data))


def test_each_command_prints_what_is_shown(capsys):
    """The line after it, up to what depends on what is kept."""
    lines = block("console").splitlines()
    for command, shown in itertools.pairwise(lines):
        if command.startswith("$ "):
            main(command.removeprefix("$ flexchat ").split())
            said = capsys.readouterr().out
            assert shown.partition(" was never used ")[0] in said


def test_each_permission_and_key_is_described():
    """No other one exists."""
    assert set(re.findall(r"^\| `(\w+)` \| (?!required|none|`)", PAGE, re.MULTILINE)) == {*PERMISSIONS}


def test_the_lines_of_the_token_file_can_be_read(tmp_path):
    """With their roles, user and date."""
    text = block("").replace("5Qv…token…", "a" * 30).replace("b7x…token…", "b" * 30)
    (tmp_path / "tokens").write_text(text)
    (tmp_path / "tokens").chmod(0o600)
    identities = [line.identity for line in read_token_file(tmp_path / "tokens")]

    assert [each.principal.roles for each in identities] == [("support",), ("finance",)]
    assert identities[1].principal.name == "ann"
