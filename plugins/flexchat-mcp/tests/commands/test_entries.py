"""Files of other programs, read; tables of ours, written."""

import contextlib
import json
import tomllib

import pytest
from flexchat_mcp.commands.entries import EntriesError, read_entries
from flexchat_sdk import toml_table
from hypothesis import given
from hypothesis import strategies as st

CLAUDE = """{
  "mcpServers": {
    "time": {"command": "uvx", "args": ["mcp-server-time"]},
    "my files!": {"command": "npx", "args": ["-y", "@x/files", "/home/me"], "env": {"LEVEL": 3}, "cwd": "/tmp"}
  }
}"""
CURSOR = '{"mcpServers": {"far": {"url": "https://x.example/mcp", "headers": {"Authorization": "Bearer ${env:KEY}"}}}}'
VSCODE = """{
  // servers of this project
  "inputs": [{"id": "api-key", "type": "promptString", "password": true}],
  "servers": {
    "far": {"type": "sse", "url": "https://x.example/sse"}, /* old */
    "near": {"type": "stdio", "command": "run", "env": {"KEY": "${input:api-key}", "URL": "http://a//b"},},
  },
}"""
UNKNOWN = "only an editor knows what ${%s} stands for; write it out in the file, and try again"


def test_claudes_file_is_read():
    entries, left_out = read_entries(CLAUDE)

    assert [(entry.name, dict(entry.table)) for entry in entries] == [
        ("time", {"command": ["uvx", "mcp-server-time"]}),
        ("my-files", {"command": ["npx", "-y", "@x/files", "/home/me"], "env": {"LEVEL": "3"}, "cwd": "/tmp"}),
    ]
    assert left_out == []


def test_cursors_file_is_read():
    ((entry,), _) = read_entries(CURSOR)

    assert entry.table == {"url": "https://x.example/mcp", "headers": {"Authorization": "Bearer ${KEY}"}}


@pytest.mark.parametrize("text", [VSCODE, '\ufeff{"mcp": ' + VSCODE + "}"])
def test_vs_codes_file_is_read_with_its_comments(text):
    ((far, near), _) = read_entries(text)

    assert far.table == {"url": "https://x.example/sse", "transport": "sse"}
    assert near.table == {"command": ["run"], "env": {"KEY": "${API_KEY}", "URL": "http://a//b"}}
    assert near.notes == ("set API_KEY in the environment: the other program asks a person for it",)


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (7, "x is left out: it is not a table"),
        ({}, "x is left out: it has neither a command nor a url"),
        ({"command": "a", "disabled": True}, "x is left out: it is disabled"),
        ({"command": "a", "args": "b"}, "x is left out: args is not a list of texts"),
        ({"command": "a", "env": ["b"]}, "x is left out: env is not a table of texts"),
        ({"command": ["a", "b"]}, "x is left out: its command is not a text"),
        ({"url": "file:///etc/passwd"}, "x is left out: its url does not begin with http:// or https://"),
        ({"command": "a", "args": ["${workspaceFolder}/x"]}, f"x is left out: {UNKNOWN % 'workspaceFolder'}"),
        ({"url": "https://a", "headers": {"K": "${command:k.get}"}}, f"x is left out: {UNKNOWN % 'command:k.get'}"),
    ],
)
def test_a_server_that_cannot_be_read_is_left_out(server, said):
    entries, left_out = read_entries(json.dumps({"mcpServers": {"x": server, "y": {"command": "z"}}}))

    assert ([entry.name for entry in entries], left_out) == (["y"], [said])


def test_what_is_not_taken_over_is_said():
    server = {"command": "a", "type": "stdio", "disabled": False, "envFile": ".env", "autoApprove": ["b"]}
    ((entry,), _) = read_entries(json.dumps({"mcpServers": {"x": server}}))

    assert entry.table == {"command": ["a"]}
    assert entry.notes == ("not taken over: autoApprove, envFile",)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"mcpServers": []}', "[" * 5_000, "7"])
def test_a_file_of_another_kind_is_refused(text):
    with pytest.raises(EntriesError):
        read_entries(text)


NO_HALVES = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


@given(
    command=st.lists(NO_HALVES, min_size=1, max_size=3),
    env=st.dictionaries(NO_HALVES, NO_HALVES, max_size=3),
)
def test_what_is_written_is_toml_that_says_the_same(command, env):
    table = {"name": "x", "command": command, "env": env}

    assert tomllib.loads(toml_table("[[tools.mcp]]", table))["tools"]["mcp"] == [table]


@given(st.text())
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(EntriesError):
        read_entries(text)
