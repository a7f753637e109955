"""Whose server a command starts."""

import json

import pytest

WHOSE = {"name": "whose", "description": "Say whose it is.", "inputSchema": {"type": "object"}}
COMMANDS = [
    ("call", "fake", "whose"),
    ("inspect", "fake"),
    ("doctor", "fake"),
    ("resources", "fake"),
    ("prompts", "fake"),
]


@pytest.fixture
def tables(folder):
    """The table of a server, and that of one that all tenants share."""
    folder.tools(WHOSE)
    command = folder.command("both", "readable")
    return {"name": "fake", "command": command, "per_tenant": True}, {"name": "shared", "command": command}


@pytest.mark.parametrize(
    ("words", "whose"), [((), "default"), (("--tenant", "acme"), "acme"), (("--tenant", ""), "default")]
)
def test_a_command_uses_the_server_of_a_tenant(config, run, tables, words, whose):
    config(*tables)
    status, out, _ = run("call", "fake", "whose", *words)

    assert (status, json.loads(out)["tenant"]) == (0, whose)


@pytest.mark.parametrize("words", COMMANDS)
def test_each_command_takes_a_tenant(config, run, tables, folder, words):
    """It starts that one alone, and lists what that one has."""
    config(*tables)
    (folder.path / "tools_of.json").write_text(json.dumps({"acme": [WHOSE, {**WHOSE, "name": "more"}]}))
    status, out, err = run(*words, "--tenant", "acme", "--json")

    assert status == 0, err
    assert len(folder.lines("starts")) == 1
    if words[0] in ("inspect", "doctor"):
        (found,) = json.loads(out)
        assert (found["tools"] if words[0] == "doctor" else len(found["tools"])) == 2


@pytest.mark.parametrize("words", COMMANDS)
def test_a_server_that_all_share_is_nobodys(config, run, tables, folder, words):
    config({**tables[0], "per_tenant": False})
    status, _, err = run(*words, "--tenant", "acme")

    assert status == 2
    assert "fake has no per_tenant = true, so all tenants share it; leave out --tenant" in err
    assert folder.lines("starts") == []


def test_for_a_tenant_all_means_its_own(config, run, tables, folder):
    config(*tables)
    (found,) = json.loads(run("doctor", "--tenant", "acme", "--json")[1])
    config(tables[1])
    status, _, err = run("doctor", "--tenant", "acme")

    assert found["server"] == "fake"
    assert (status, "no MCP server has per_tenant = true, so all tenants share them" in err) == (2, True)


def test_a_name_that_no_process_can_be_told_is_said(config, run, tables):
    """A word that is not UTF-8."""
    config(*tables)
    status, _, err = run("call", "fake", "whose", "--tenant", "\udcff")

    assert status == 2
    assert "the name of its tenant has NUL or half of a surrogate pair: use another name" in err
