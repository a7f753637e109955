"""docs/effects.md says what is so: its examples run, and its config can be read."""

import re
import tomllib
from pathlib import Path

from flexchat.config.reading import read_config

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "effects.md").read_text()


def test_its_examples_run():
    """One after the other, as a reader would type them; their assertions hold."""
    names = {}
    for example in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(example, names)


def test_its_configurations_can_be_read():
    """Each is a piece of one that works."""
    base = {"llms": {"bot": {"provider": "scripted"}}, "responses": [{"llm": "bot", "model": "m"}]}
    for example in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL):
        assert read_config({**base, **tomllib.loads(example)}).problems == []
