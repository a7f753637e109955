"""docs/approvals.md states what is so: its examples run, and its policies can be read."""

import base64
import re
import tomllib
from pathlib import Path

import attrs
import pytest
from flexchat.host import installed_plugins
from flexchat_approvals.policies import Policy
from flexchat_approvals.webhook import sign
from flexchat_cli import check_config

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "approvals.md").read_text()
WEBHOOK, *CONFIGS = sorted(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL), key=lambda text: "webhook" not in text)
SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()


def test_its_examples_run(tmp_path, monkeypatch):
    """One after the other, as a reader would type them; their assertions hold."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for example in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(example, names)


def test_its_configurations_can_be_used(tmp_path, monkeypatch):
    """The first is whole; the others are added to it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "desk.py").write_text(re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1])
    monkeypatch.syspath_prepend(str(tmp_path))
    for more in ("", *CONFIGS[1:]):
        path = tmp_path / "flexchat.toml"
        path.write_text(CONFIGS[0] + more)
        problems, _ = check_config(path, installed_plugins())
        assert problems == []


def test_its_webhook_can_be_used(tmp_path, monkeypatch):
    """And what it verifies is what is sent."""
    monkeypatch.setenv("WEBHOOK_SECRET", SECRET)
    (tmp_path / "flexchat.toml").write_text(WEBHOOK)
    problems, notes = check_config(tmp_path / "flexchat.toml", installed_plugins())
    assert [problem for problem in problems if problem.path.startswith("questions")] == []
    assert [note for note in notes if note.path.startswith("questions")] == []
    (example,) = [text for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "def verified" in text]
    names = {}
    exec(example, names)
    headers = sign(SECRET, "q1", 1_700_000_000, b'{"type": "question.asked"}')
    assert names["verified"](SECRET, headers, b'{"type": "question.asked"}') == {"type": "question.asked"}
    with pytest.raises(ValueError, match="signature"):
        names["verified"](SECRET, headers, b'{"type": "question.forged"}')


def test_it_names_every_key_of_a_policy():
    missing = [field.name for field in attrs.fields(Policy) if f"| `{field.name}` |" not in PAGE]

    assert missing == []


def test_its_other_policies_are_tables():
    assert all("approvals" in tomllib.loads(config) for config in CONFIGS)
