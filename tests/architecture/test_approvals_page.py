"""docs/approvals.md states what is so: its examples run, and its policies can be read."""

import re
import tomllib
from pathlib import Path

import attrs
from flexchat.host import installed_plugins
from flexchat_approvals.policies import Policy
from flexchat_cli import check_config

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "approvals.md").read_text()
CONFIGS = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


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


def test_it_names_every_key_of_a_policy():
    missing = [field.name for field in attrs.fields(Policy) if f"| `{field.name}` |" not in PAGE]

    assert missing == []


def test_its_other_policies_are_tables():
    assert all("approvals" in tomllib.loads(config) for config in CONFIGS)
