"""flexchat can, and flexchat check --grants."""

from __future__ import annotations

import asyncio
import json

import entrance_tools
import pytest
from flexchat import FlexChat, Principal
from flexchat_cli.main import main

TOOLS = ("get_balance", "get_order", "pay")
ROLES = {
    "reader": {"tools": ["get_*"]},
    "payer": {"tools": ["pay", "get_balance"]},
    "terminal": {"tools": ["get_balance"]},
}


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    empty = {"type": "object", "properties": {}}
    registry = [
        {
            "name": name,
            "description": name,
            "parameters": empty,
            "approve": name == "pay",
            "implementation": {"type": "python", "function": f"entrance_tools:{name}"},
        }
        for name in TOOLS
    ]
    replies = [{"tool_calls": [{"name": name, "arguments": {}} for name in TOOLS]}, {"text": "Done"}]
    return {
        "llms": {"s": {"provider": "scripted", "repeat": True, "replies": replies}},
        "responses": [{"llm": "s", "model": "m", "tools": {}}],
        "tools": {"registry": registry},
        "conversations": {"provider": "sqlite", "path": str(tmp_path / "c.db")},
        "roles": ROLES,
    }


@pytest.fixture
def run(config, tmp_path, capsys):
    def run(words):
        (tmp_path / "flexchat.json").write_text(json.dumps(config))
        status = main(words.split())
        said = capsys.readouterr()
        return status, said.out + said.err

    return run


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        ("reader get_order", 0, "yes: granted by 'get_*' of reader"),
        ("reader,payer get_balance", 0, "yes: granted by 'get_*' of reader, 'get_balance' of payer"),
        ("payer pay", 0, "yes: granted by 'pay' of payer; a person must approve each call"),
        ("reader pay", 1, "no: a principal with it has 'reader', which does not grant the tool 'pay'"),
        ("raeder pay", 2, "no role is called 'raeder' (did you mean 'reader'?)"),
        ("Reader pay", 2, "no role is called 'Reader' (did you mean 'reader'?)"),
        ("re\u0430der pay", 2, "no role is called"),
        ("reader get_ordr", 2, "no tool is called 'get_ordr' (did you mean 'get_order'?)"),
    ],
)
def test_can_is_the_answer_of_a_call(run, config, words, status, text):
    """With its reason, whoever asks at the terminal; nothing runs."""
    actual, said = run(f"can {words}")

    assert actual == status
    assert text in said
    assert entrance_tools.RAN == []


def test_can_agrees_with_calls_for_each_role_and_tool(run, config):
    """One function decides about both."""

    async def call(role, name):
        async with FlexChat.from_config(config) as chat:
            result = await chat.call_tool(name, {}, principal=Principal("ann", role))
        return not str(result.error).startswith("Not permitted")

    for role in ROLES:
        for name in TOOLS:
            assert (run(f"can {role} {name}")[0] == 0) == asyncio.run(call(role, name))
    entrance_tools.RAN.clear()


def test_without_roles_can_is_an_error(run, config):
    """There is nothing to ask about."""
    del config["roles"]

    status, text = run("can reader pay")

    assert status == 2
    assert "the configuration has no roles" in text


def test_grants_that_no_turn_has_used_are_listed(run, config):
    """A refused call uses none; a role of somebody else is not used either."""

    async def respond(role):
        async with FlexChat.from_config(config) as chat:
            await chat.respond("Go", conversation="c", principal=Principal("ann", role))

    status, before = run("check --grants")
    asyncio.run(respond("reader"))
    _, after = run("check --grants")
    _, as_json = run("check --grants --json")
    _, without = run("check")
    entrance_tools.RAN.clear()

    assert status == 0
    assert "roles.reader: 'get_*' was never used (no turns are kept yet)" in before
    assert "roles.reader" not in after
    assert "roles.payer: 'pay' was never used in 1 kept turns" in after
    assert "roles.payer: 'get_balance' was never used in 1 kept turns" in after
    assert len(json.loads(as_json)["unused_grants"]) == 3
    assert "never used" not in without
