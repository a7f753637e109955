"""A configuration with servers, and commands that run with it."""

import json

import pytest
from flexchat_cli.main import main
from keyboard import keyboard

__all__ = ["keyboard"]

BASE = """[llms.r]
provider = "rehearsal"

[[responses]]
llm = "r"
model = "any"
"""


@pytest.fixture
def config(folder, monkeypatch):
    """Write a configuration with these servers' tables."""
    monkeypatch.chdir(folder.path)
    monkeypatch.setenv("TERM", "dumb")

    def write(*tables):
        text = BASE
        for table in tables or ({"name": "fake", "command": folder.command(), "effects": {"add": "read"}},):
            lines = (f"{key} = {json.dumps(value)}" for key, value in table.items() if key != "effects")
            effects = "".join(f'\neffects."{key}" = "{value}"' for key, value in table.get("effects", {}).items())
            text += "\n[[tools.mcp]]\n" + "\n".join(lines) + effects + "\n"
        path = folder.path / "flexchat.toml"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def run(capsys):
    """Run a command; return its status, output and remarks."""

    def start(*words):
        status = main(["mcp", *words])
        said = capsys.readouterr()
        return status, said.out, said.err

    return start
