"""Budgets and limits fail closed: without store, package or the right name of their table, nothing runs."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

import pytest
from flexchat import ConfigError, FlexChat, FlexChatError, tool
from flexchat.host import PluginHost
from flexchat_testing import ScriptedProvider, calls, says

BUDGET = {"scope": "all", "per": "day", "usd": 1}
CEILINGS = {
    "budgets": [BUDGET],
    "rate_limits": [{"rate": "100/min"}],
    "concurrency": [{"concurrency": 5}],
}
PRICES = {"m": {"input": 1.0, "output": 1.0, "window": 10_000}}


def config(tmp_path: Any, **tables: Any) -> dict[str, Any]:
    llms = {"it": {"provider": "scripted", "prices": PRICES, "retry_delay_ms": 1}}
    rule = {"llm": "it", "model": "m", "max_tokens": 100, "tools": {"enabled": True}}
    return {"llms": llms, "responses": [rule], "conversations": {"path": str(tmp_path / "kept.db")}, **tables}


def table_of(name: str) -> dict[str, Any]:
    return {"budgets" if name == "budgets" else "rate_limits": CEILINGS[name]}


def delete(tmp_path: Any, chat: FlexChat) -> None:
    for path in tmp_path.glob("kept.db*"):
        path.unlink()


def lock(tmp_path: Any, chat: FlexChat) -> sqlite3.Connection:
    other = sqlite3.connect(tmp_path / "kept.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    return other


def drop(tmp_path: Any, chat: FlexChat) -> None:
    with sqlite3.connect(tmp_path / "kept.db", isolation_level=None) as other:
        for name in ("counters", "counter_reservations"):
            other.execute(f"DROP TABLE {name}")
    other.close()


def break_plugin(tmp_path: Any, chat: FlexChat) -> None:
    async def reserve(*args: Any, **more: Any) -> None:
        raise RuntimeError("a bug")

    chat.conversations.store.counters.reserve = reserve


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    """For a lock, and for what cannot be settled."""
    monkeypatch.setattr("flexchat_sqlite.database.BUSY_S", 0.05)
    monkeypatch.setattr("flexchat_policy.ceilings.CLOSING_S", 0.05)


@pytest.mark.parametrize("harm", [delete, lock, drop, break_plugin])
@pytest.mark.parametrize("ceiling", CEILINGS)
async def test_without_its_store_no_model_is_asked(tmp_path, ceiling, harm):
    """The turn fails, and nothing was sent."""
    provider = ScriptedProvider([says("Yes.")], repeat=True)
    async with FlexChat.from_config(config(tmp_path, **table_of(ceiling)), providers={"it": provider}) as chat:
        await chat.respond("Hello")
        assert len(provider.requests) == 1
        other = harm(tmp_path, chat)
        for _ in range(2):
            with pytest.raises((FlexChatError, RuntimeError)):
                await chat.respond("Hello")
        assert len(provider.requests) == 1
        if other is not None:
            other.close()
            await chat.respond("Hello")


@pytest.mark.parametrize("harm", [delete, lock, drop, break_plugin])
@pytest.mark.parametrize(
    "tables",
    [
        {"budgets": [{"scope": "tool", "per": "day", "calls": 10}]},
        {"rate_limits": [{"tools": ["buy"], "rate": "10/min"}]},
        {"rate_limits": [{"tools": ["buy"], "concurrency": 5}]},
    ],
    ids=["budgets", "rate", "concurrency"],
)
async def test_without_its_store_no_tool_runs(tmp_path, tables, harm):
    """Whatever becomes of the turn."""
    ran = []

    @tool(effect="read")
    def buy(number: int) -> str:
        """Buy."""
        ran.append(number)
        return "bought"

    async with FlexChat.from_config(
        config(tmp_path, **tables),
        providers={"it": ScriptedProvider([calls(("buy", {"number": 1})), says("Yes.")])},
        tools=[buy],
    ) as chat:
        await chat.call_tool("buy", {"number": 0})
        assert ran == [0]
        other = harm(tmp_path, chat)
        await asyncio.gather(chat.call_tool("buy", {"number": 2}), chat.respond("Buy"), return_exceptions=True)
        assert ran == [0]
        if other is not None:
            other.close()


@pytest.mark.slow
@pytest.mark.parametrize("ceiling", CEILINGS)
async def test_with_its_server_stopped_no_model_is_asked(tmp_path, own_server, ceiling):
    """PostgreSQL; once it is back, turns are answered again."""
    provider = ScriptedProvider([says("Yes.")], repeat=True)
    table = config(tmp_path, **table_of(ceiling))
    table["conversations"] = {"provider": "postgresql", "dsn": own_server.dsn(), "schema": "closed"}
    async with FlexChat.from_config(table, providers={"it": provider}) as chat:
        await chat.respond("Hello")
        own_server.stop()
        with pytest.raises(FlexChatError):
            await chat.respond("Hello")
        assert len(provider.requests) == 1
        own_server.start()
        await chat.respond("Hello")


@pytest.mark.parametrize("name", ["budget", "Budgets", "bugdets", "rate_limit", "ratelimits", "rate-limits"])
def test_a_misspelt_table_is_an_error(tmp_path, name):
    """With the name that was meant."""
    right = "budgets" if name.lower().startswith("bu") else "rate_limits"
    with pytest.raises(ConfigError, match=f"unknown key '{name}'.*{right}"):
        FlexChat.from_config(config(tmp_path, **{name: CEILINGS[right]}), providers={"it": ScriptedProvider([])})


@pytest.mark.parametrize("ceiling", ["budgets", "rate_limits"])
@pytest.mark.parametrize("how", ["blocked", "missing"])
def test_without_its_package_nothing_starts(tmp_path, ceiling, how):
    """The table implies plugins.require."""
    table = config(tmp_path, **table_of(ceiling))
    more = {"plugins": PluginHost()} if how == "missing" else {}
    if how == "blocked":
        table["plugins"] = {"block": ["access"]}
    with pytest.raises(ConfigError, match=f"{ceiling}: this table is not read"):
        FlexChat.from_config(table, providers={"it": ScriptedProvider([])}, **more)
