"""flexchat mcp doctor."""

import json
import re


def test_what_works_and_what_does_not(config, run, folder):
    config(
        {"name": "fake", "command": folder.command(), "effects": {"nope": "read"}},
        {"name": "gone", "command": "no-such-server"},
        {"name": "dying", "command": ["sh", "-c", "echo no licence >&2; exit 3"]},
    )
    status, out, _ = run("doctor")

    assert status == 1
    assert re.search(r"^fake: works; 2 tools, MCP 2026-07-28, after [\d,]+ ms$", out, re.MULTILINE)
    assert "  'nope' fits no tool" in out
    assert "gone: there is no program 'no-such-server' on the PATH" in out
    assert "dying: it ended with exit code 3; its last words: no licence" in out
    assert "  stderr: no licence" in out
    assert folder.lines("calls") == []


def test_it_is_data_too(config, run, folder):
    config()
    (found,) = json.loads(run("doctor", "fake", "--json")[1])

    assert (found["trouble"], found["version"], found["tools"]) == ("", "2026-07-28", 2)
    assert found["stderr"] == ["starting, with token=***"]
