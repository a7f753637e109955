"""docs/history.md: its programs, its tables, its keys."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import attrs
import pytest
from flexchat import FlexChat
from flexchat_history.settings import History

PAGE = (Path(__file__).parents[2] / "docs" / "history.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("program", blocks("python"))
def test_a_program_prints_what_its_comment_shows(tmp_path, program):
    expected = re.findall(r"# prints: (.*)", program)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == expected


@pytest.mark.parametrize("table", blocks("toml"))
def test_a_table_can_be_used(table):
    config = {"responses": [{"llm": "main", "model": "any"}], **tomllib.loads(table)}
    main = {"provider": "scripted", "prices": {"*": {"window": 100_000}}}
    config["llms"] = {"main": main, **config.get("llms", {})}
    assert FlexChat.from_config(config).config.tables["history"]


def test_all_keys_are_explained():
    keys = re.findall(
        r"(?:^\| |(?<=^\| `summary_llm`), )`(\w+)`(?= \||,)", PAGE.split("## What is left out")[0], re.MULTILINE
    )
    assert keys == ["max_tokens", "keep_last", "keep_turns", "compact", "policy", "pin", "summary_llm", "summary_model"]
    assert {*keys} == {field.name for field in attrs.fields(History)}
