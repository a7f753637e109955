"""docs/media.md: its Python runs, its configuration can be read, its sums are the program's."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from flexchat.attachments import MAX_ATTACHMENTS, MAX_TOTAL_BYTES
from flexchat.config.reading import read_config
from flexchat.domain.media import MAX_PIXELS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "media.md").read_text()


@pytest.mark.slow
def test_its_python_runs(tmp_path):
    """Each example in a program of its own."""
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        printed = re.findall(r"# prints: (.*)", block)
        assert printed, "an example shows what it prints"
        assert all(text in done.stdout for text in printed)


def test_its_configurations_can_be_read():
    """Each is a piece of one that works."""
    base = {"llms": {"bot": {"provider": "scripted"}}, "responses": [{"llm": "bot", "model": "m"}]}
    for example in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL):
        assert read_config({**base, **tomllib.loads(example)}).problems == []


def test_its_limits_are_the_programs():
    """The figures in its sentences."""
    assert f"up to {MAX_ATTACHMENTS}, together {MAX_TOTAL_BYTES:,} bytes" in PAGE
    assert f"{MAX_PIXELS // 1_000_000} million pixels" in PAGE
