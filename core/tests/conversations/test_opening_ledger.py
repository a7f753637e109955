"""Where a configuration keeps its effects."""

import asyncio
import subprocess
import sys

import pytest
from flexchat import ConfigError, FlexChat, SyncFlexChat, ToolDefinitionError, tool
from flexchat.conversations.memory_ledger import MemoryLedger
from flexchat.domain import ConversationTurn, TurnInfo, UserMessage
from flexchat.plugin.call import Call
from flexchat_cli import check_config
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_sqlite.ledger import SqliteLedger

BASE = {"llms": {"bot": {"provider": "scripted"}}, "responses": [{"llm": "bot", "model": "m"}]}


@tool
async def pay(amount: int) -> int:
    """Pay."""
    return amount


def chat_with(effects=None, conversations=None, **rest):
    config = {**BASE, **({"conversations": conversations} if conversations is not None else {})}
    return FlexChat.from_config({**config, "tools": {"effects": effects or {}}}, **rest)


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.mark.parametrize(
    ("effects", "kept", "kind"),
    [
        ({}, False, MemoryLedger),
        ({}, True, SqliteLedger),
        ({"store": "memory"}, True, MemoryLedger),
        ({"store": "sqlite"}, True, SqliteLedger),
        ({"store": "sqlite"}, False, SqliteLedger),
    ],
)
def test_it_is_with_the_conversations_unless_the_config_says_otherwise(tmp_path, effects, kept, kind):
    chat = chat_with(effects, {"path": str(tmp_path / "c.db")} if kept else None)
    assert isinstance(chat.tools.effects.ledger, kind)


async def test_effects_stay_when_the_program_ends(tmp_path):
    for _ in range(2):
        async with chat_with(None, {"path": str(tmp_path / "c.db")}, tools=[pay]) as chat:
            await chat.call_tool("pay", {"amount": 5}, idempotency_key="order 7")
            (row,) = await chat.effects()
            assert (row.state, row.place, row.tool) == ("done", "key:order 7", "pay")


async def test_conversations_kept_from_outside_take_the_effects_with_them(tmp_path):
    async with chat_with(tools=[pay]) as chat:
        chat.keep_in(SqliteConversations(tmp_path / "c.db"))
        assert isinstance(chat.tools.effects.ledger, SqliteLedger)
    async with chat_with({"store": "memory"}, tools=[pay]) as chat:
        chat.keep_in(SqliteConversations(tmp_path / "c.db"))
        assert isinstance(chat.tools.effects.ledger, MemoryLedger)


@pytest.mark.parametrize("effects", [{}, {"store": "memory"}], ids=["with it", "apart"])
async def test_deleting_a_conversation_takes_what_was_said_and_leaves_that_it_happened(tmp_path, effects):
    async with chat_with(effects, {"path": str(tmp_path / "c.db")}, tools=[pay]) as chat:
        await chat.conversations.store.append(
            "c", ConversationTurn(id="t", messages=(UserMessage(content="pay"),)), tenant="default"
        )
        turn = TurnInfo(id="t", conversation="c")
        call = Call(name="pay", arguments={"amount": 5}, origin="model", turn=turn, iteration=1)
        await chat.tools.calls.run(call)
        await chat.conversations.delete("c")
        (row,) = await chat.effects(conversation="c")
        assert (row.state, row.tool, row.arguments, row.result) == ("done", "pay", "", None)


def test_what_is_wrong_says_where_and_what_was_meant(tmp_path):
    file = tmp_path / "chat.toml"
    file.write_text(
        """
llms.bot.provider = "scripted"
tools.effects.store = "sqlit"

[[tools.registry]]
name = "pay"
description = "Pay."
parameters = { type = "object" }
implementation = { type = "mock", mock_response = {} }
verify = "was_payd"

[[tools.registry]]
name = "was_paid"
description = "Say whether it was paid."
parameters = { type = "object" }
implementation = { type = "mock", mock_response = {} }

[[responses]]
llm = "bot"
model = "m"
"""
    )
    problems = {(problem.line, problem.text) for problem in check_config(file)[0]}
    assert (
        3,
        "effects can be kept in memory, sqlite, not in 'sqlit' (did you mean 'sqlite'?)",
    ) in problems
    file.write_text(file.read_text().replace("sqlit", "memory"))
    problems = {(problem.line, problem.text) for problem in check_config(file)[0]}
    wanted = "tool 'pay': there is no tool 'was_payd' that could verify it (did you mean 'was_paid'?)"
    assert problems == {(10, wanted)}
    file.write_text(file.read_text().replace("was_payd", "was_paid"))
    problems = {(problem.line, problem.text) for problem in check_config(file)[0]}
    wanted = "tool 'pay': 'was_paid' cannot verify it: its own effect must be 'read', not 'write'"
    assert problems == {(10, wanted)}


def test_a_tool_that_changes_nothing_takes_no_key(tmp_path):
    entry = {
        "name": "look",
        "description": "Look.",
        "parameters": {"type": "object"},
        "implementation": {"type": "mock", "mock_response": {}},
        "effect": "read",
        "honours_key": True,
    }
    with pytest.raises(ConfigError, match='honours_key is for tools with effect = "write"'):
        FlexChat.from_config({**BASE, "tools": {"registry": [entry]}})


def test_a_tool_given_in_code_is_checked_too():
    with pytest.raises(ToolDefinitionError, match="there is no tool 'was_paid' that could verify it"):
        FlexChat.from_config(BASE, tools=[tool(verify="was_paid")(pay.function)])


@pytest.mark.slow
def test_a_chat_without_kept_conversations_does_not_load_sqlite():
    """Nor does it start a thread, before something is changed."""
    code = (
        "import sys, threading\nfrom flexchat import FlexChat, tool\n"
        f"chat = FlexChat.from_config({BASE!r})\nimport asyncio\n"
        "assert 'sqlite3' not in sys.modules and threading.active_count() == 1"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_settling(tmp_path):
    @tool(timeout_ms=1)
    async def hang() -> None:
        """Hang."""
        await asyncio.Event().wait()

    with SyncFlexChat(chat_with(tools=[hang])) as chat:
        chat.call_tool("hang", {}, idempotency_key="k")
        (row,) = chat.effects(states=["unknown"])
        settled = chat.settle_effect(row.key[:6], "done", by="ann", note="I looked", result={"paid": True})
        assert (settled.state, settled.settled_by) == ("done", "ann")
        assert chat.call_tool("hang", {}, idempotency_key="k").result == {"paid": True}
        assert chat.effect(row.key).note == "I looked"
