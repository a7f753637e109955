"""docs/mcp.md says what is so: its config can be read, and its table has every key."""

import re
import tomllib
from pathlib import Path

import attrs
import pytest
from flexchat.config.reading import read_config
from flexchat_mcp.settings import McpConfig

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "mcp.md").read_text()


@pytest.mark.parametrize("example", re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))
def test_its_configurations_can_be_read(example, monkeypatch):
    """Each is a piece of one that works."""
    monkeypatch.setenv("TICKETS_TOKEN", "x")
    base = {"llms": {"bot": {"provider": "scripted"}}, "responses": [{"llm": "bot", "model": "m"}]}

    assert read_config({**base, **tomllib.loads(example)}).problems == []


def test_its_table_has_every_key():
    """And core's, and no other."""
    table = PAGE.partition("## Settings")[2].partition("##")[0]
    told = {key for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for key in re.findall(r"`(\w+)`", row)}

    assert told == {field.name for field in attrs.fields(McpConfig) if field.init} | {"name", "prefix", "timeout_ms"}
