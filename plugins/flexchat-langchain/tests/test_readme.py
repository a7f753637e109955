"""The README's Python runs, and its config is one."""

import re
from pathlib import Path

from flexchat_cli import check_config

TEXT = (Path(__file__).resolve().parents[1] / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
(CONFIG,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)


def run(code, capsys):
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    return capsys.readouterr().out


def test_tools_and_chats_in_langchain(capsys):
    shown = run(PYTHON[0], capsys)
    assert '{"city": "Rome", "degrees": 24}' in shown
    assert "Oslo" in shown
    assert shown.endswith("HELLO\n")


def test_the_client(capsys, monkeypatch, replaying, reply):
    server = replaying(reply(calls=[("get_degrees", {"city": "Rome"})]), reply("It is 24 degrees."))
    monkeypatch.setenv("OLLAMA_HOST", server.url)
    assert run(PYTHON[1], capsys).splitlines() == [
        "It is 24 degrees.",
        "HumanMessage How warm is it in Rome?",
        "AIMessage ",
        'ToolMessage {"city": "Rome", "degrees": 24}',
        "AIMessage It is 24 degrees.",
    ]
    assert server.bodies[0]["model"] == "qwen3"


def test_the_config_is_valid(tmp_path, monkeypatch):
    """As flexchat check sees it."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test-000000")
    path = tmp_path / "chat.toml"
    path.write_text(CONFIG)
    assert check_config(path) == ([], [])
