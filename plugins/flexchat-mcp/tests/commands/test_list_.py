"""flexchat mcp list."""

import json

from flexchat_cli.main import main


def test_servers_are_listed_and_none_is_started(config, run, folder):
    config(
        {"name": "fake", "command": [*folder.command(), "--fault=tell"]},
        {"name": "far", "url": "https://x.example/mcp"},
    )
    status, out, err = run("list")

    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == ["fake", "far"]
    assert "tools not known yet" in out
    assert "https://x.example/mcp" in out
    assert "flexchat mcp inspect" in err
    assert folder.lines("starts") == []


def test_accepted_tools_are_counted(config, run, folder):
    config()
    assert main(["tools", "accept", "fake"]) == 0

    assert "2 tools, 1 of them write" in run("list")[1]
    assert json.loads(run("list", "--json")[1])[0]["tools"] == {"add": "read", "count": "write"}


def test_secrets_in_arguments_are_not_shown(config, run, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "very-secret-1")
    config({"command": ["server", "--key", "${MY_TOKEN}"]})

    out = run("list")[1]

    assert "very-secret" not in out
    assert "***" in out


def test_without_servers_that_is_said(config, run, folder):
    (folder.path / "flexchat.toml").write_text(config().read_text().partition("[[tools")[0])
    status, _, err = run("list")

    assert status == 2
    assert "no MCP servers: the configuration has no [[tools.mcp]] tables" in err
