"""docs/validation.md: its configurations are valid, its Python runs, its figures and options are the program's."""

import math
import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from flexchat.host import rate_interval as interval
from flexchat_cli import check_config
from flexchat_validation import cases
from flexchat_validation.statistics import verdict

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "validation.md").read_text()
WORDS = {"validated": "validated", "not validated": "not_validated", "undecided": "undecided"}
ROWS = re.findall(r"^\| (\d+) of (\d+) \| (\d+) % to (\d+) % \| ([a-z ]+) \|$", TEXT, re.MULTILINE)


@pytest.mark.parametrize("text", re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL))
def test_the_configurations_are_valid(text, tmp_path, monkeypatch):
    """As flexchat check sees them."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-000000")
    (tmp_path / "chat.toml").write_text(text)

    assert check_config(tmp_path / "chat.toml") == ([], [])


@pytest.mark.parametrize(("right", "of", "low", "high", "said"), ROWS)
def test_the_figures_are_those_of_the_program(right, of, low, high, said):
    """A row of the table of verdicts: the interval, rounded outwards, and the verdict after a planned run."""
    found = interval(int(right), int(of))

    assert (math.floor(found[0] * 100), math.ceil(found[1] * 100)) == (int(low), int(high))
    assert verdict(int(right), int(of), planned=int(of)).status == WORDS[said]


def test_there_are_figures():
    """The table was found."""
    assert len(ROWS) >= 6


def test_every_key_of_a_case_is_explained():
    """What a case file may say and the page does not name is something nobody will find."""
    known = (cases.Case, cases.ExpectedCall, cases.ArgumentCheck, cases.AnswerCheck, cases.ToolMock, cases.CaseTool)
    names = {field.name for cls in known for field in attrs.fields(cls)} - {"judge", "possible_answers"}

    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", TEXT)] == []


def test_every_option_it_names_exists():
    """Those of flexchat validate."""
    help_text = subprocess.run(
        [sys.executable, "-m", "flexchat", "validate", "--help"], capture_output=True, text=True, check=True
    ).stdout

    for option in set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", TEXT)) - {"--answers"}:
        assert option in help_text, option


def test_the_python_runs(tmp_path):
    """As a reader would paste it."""
    source = "\n".join(re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 5
