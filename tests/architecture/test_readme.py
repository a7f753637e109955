"""The README's Python runs, and its config is one."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from flexchat.assembly import check_config

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
TOML = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)


def test_the_python_examples_run():
    """One after the other, as a reader would paste them."""
    done = subprocess.run([sys.executable, "-c", "\n".join(PYTHON)], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "{'city': 'Rome'}" in done.stdout
    assert "[get_weather {'city': 'Oslo'}]" in done.stdout


@pytest.mark.parametrize("text", TOML)
def test_the_config_is_valid(text, tmp_path, monkeypatch):
    """As flexchat check sees it."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-000000")
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "booking.py").write_text('def book_table(people: int) -> str:\n    """Book."""\n')
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "chat.toml"
    path.write_text(text)

    assert check_config(path) == ([], [])


def test_links_lead_somewhere():
    """Every relative link of the README and the docs."""
    for page in [ROOT / "README.md", *ROOT.glob("docs/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
