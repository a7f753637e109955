"""Costs: exact sums by each key, which all give the same total; what has no price is listed."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from typing import Any

import pytest
from flexchat import FlexChat, NotPermittedError, Principal, ToolContext, tool
from flexchat.host import current_principal
from flexchat.store import HourlySum
from flexchat_cli.main import main
from flexchat_policy.costs import KEYS, MAX_ROWS, add_up
from flexchat_sdk import Embeddings, ProviderOverloadedError, Usage
from flexchat_testing import ScriptedProvider, calls, says
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

names = st.sampled_from(["", "a", "b", "c"])
amounts = st.fixed_dictionaries(
    {}, optional={name: st.integers(0, 10**18) for name in ("usd", "tokens", "requests", "calls", "unpriced")}
)
hourly_sums = st.lists(
    st.builds(
        lambda labels, values: HourlySum(hour="2026-11-28T04:00:00Z", labels=labels, values=values),
        st.fixed_dictionaries(dict.fromkeys(KEYS, names)),
        amounts,
    )
)


@given(hourly_sums, st.sampled_from([None, "a"]))
@settings(max_examples=examples(100))
def test_the_sums_by_each_key_are_the_total(sums, tenant):
    """To the trillionth of a dollar, and in the texts that are shown."""
    counted = [each for each in sums if tenant in (None, each.labels["tenant"])]
    expected = sum(each.values.get("usd", 0) for each in counted)
    for by in KEYS:
        found = add_up(sums, by, tenant=tenant)
        assert sum(row.trillionths for row in found.rows) == found.total.trillionths == expected
        assert sum(Decimal(row.usd or 0) for row in found.rows) == Decimal(expected).scaleb(-12)
        assert sum(row.tokens for row in found.rows) == sum(each.values.get("tokens", 0) for each in counted)


def test_many_names_are_a_thousand_rows_and_one():
    """What is shown is capped, the rest is counted, and the rows add up to the total."""
    count = 50_000
    sums = [
        HourlySum(hour="", labels={"tenant": "t", "principal": f"p{each}"}, values={"usd": each})
        for each in range(count)
    ]
    found = add_up(sums, "principal")
    assert len(found.rows) == MAX_ROWS
    assert found.rows[0].name == "t/p49999"
    assert found.other_names == count - MAX_ROWS
    assert sum(row.trillionths for row in found.rows) + found.others.trillionths == count * (count - 1) // 2


PRICES = {
    "m": {"input": 1.0, "output": 2.0, "cached_input": 0.1, "window": 100_000},
    "e": {"input": 0.5, "output": 0.0, "window": 1_000},
}


class Service(ScriptedProvider):
    """Answers as scripted, and embeds texts."""

    async def embed(self, texts, model, **options: Any) -> Embeddings:
        """Return vectors, at 7 tokens."""
        return Embeddings(vectors=[[1.0]] * len(texts), model=model, usage=Usage(input_tokens=7))


def config(tmp_path, **more: Any) -> dict[str, Any]:
    service = {"provider": "scripted", "prices": PRICES, "retry_delay_ms": 1}
    rule = {
        "llm": "one",
        "model": "m",
        "name": "desk",
        "max_tokens": 100,
        "fallback": ["two"],
        "tools": {"enabled": True},
    }
    return {
        "llms": {"one": service, "two": {**service, "default_model": "m"}},
        "responses": [rule],
        "conversations": {"path": str(tmp_path / "kept.db")},
        "budgets": [{"scope": "all", "per": "month", "usd": 10}],
        **more,
    }


def test_everything_that_costs_is_in_the_sums(tmp_path):
    """Cached tokens, a fallback, a nested turn, a priced tool and an embedding: each at its price, once.

    What a tool starts is spent by the tenant and the principal of the turn that called it.
    """
    usage = Usage(input_tokens=100, output_tokens=10, cache_read_tokens=60)
    script = [
        *[ProviderOverloadedError("busy", status=503, retryable=True)] * 3,  # then the fallback answers
        says("Done.", usage=usage),
    ]
    fallback = [calls(("research", {}), usage=usage), says("Inner.", usage=usage)]
    of_answer = Decimal("40") + Decimal("6") + Decimal("20")  # millionths of a dollar

    @tool(effect="read", price={"usd": 0.02})
    async def research(context: ToolContext) -> str:
        """Ask in a turn of its own, and embed."""
        inner = await chat.respond("Inner?")
        await chat.llms["one"].embed(["text"], "e")
        return inner.content

    providers = {"one": Service(script), "two": Service([*fallback, says("Outer.", usage=usage)])}
    table = config(tmp_path)
    table["responses"][0]["fallback"] = ["two"]

    async def run() -> list[HourlySum]:
        nonlocal chat
        async with FlexChat.from_config(table, providers=providers, tools=[research]) as chat:
            turn = await chat.respond("Hello?", tenant="acme", principal=Principal("ann"))
            assert turn.succeeded, turn
            return [*await chat.conversations.store.counters.sums()]

    chat: Any = None
    sums = asyncio.run(run())
    requests = sum(len(each.requests) for each in providers.values())
    by = {key: {row.name: row for row in add_up(sums, key).rows} for key in KEYS}
    total = add_up(sums, "model").total
    answers = 3
    expected = of_answer * answers / 10**6 + Decimal("0.0000035") + Decimal("0.02")
    assert Decimal(total.usd) == expected
    assert (total.requests, total.calls) == (requests + 1, 1)
    assert Decimal(by["tool"]["research"].usd) == of_answer / 10**6 + Decimal("0.0000035") + Decimal("0.02")
    assert {*by["tenant"]} == {"acme"}
    assert by["model"]["one/e"].usd == "0.0000035"
    assert {*by["principal"]} == {"acme/ann"}


def test_a_model_without_a_price_is_listed_and_never_0(tmp_path, capsys, monkeypatch):
    """Where a budget of tokens allows it: in JSON its amount is null, and the total is marked."""
    monkeypatch.chdir(tmp_path)
    table = config(tmp_path, budgets=[{"scope": "all", "per": "day", "tokens": 100_000}])
    del table["llms"]["two"]["prices"]
    table["responses"] = [
        {"llm": "two", "model": "m", "name": "free", "match": {"user_message_contains": "two"}, "max_tokens": 100},
        {"llm": "one", "model": "m", "name": "desk", "max_tokens": 100},
    ]
    usage = Usage(input_tokens=100, output_tokens=10)
    providers = {name: ScriptedProvider([says("Yes.", usage=usage)], repeat=True) for name in ("one", "two")}

    async def run() -> None:
        async with FlexChat.from_config(table, providers=providers) as chat:
            await chat.respond("one")
            await chat.respond("two")

    asyncio.run(run())
    (tmp_path / "flexchat.toml").write_text(f'[conversations]\npath = "{tmp_path}/kept.db"\n')
    assert main(["costs", "--by", "model", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["usd"]) for row in found["costs"]] == [("one/m", "0.00012"), ("two/m", None)]
    assert found["unpriced_models"] == ["two/m"]
    assert found["total"]["unpriced"] == 1

    assert main(["costs", "--by", "rule"]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[:2] for line in out.splitlines()] == [
        ["desk", "$0.00012"],
        ["free", "unpriced"],
        ["total", "at"],
    ]
    assert "no price is known: two/m" in err
    assert main(["costs", "--since", "yesterday"]) == 2
    assert main(["costs", "--since", "2020-01-01", "--tenant", "other"]) == 0
    assert "nothing was counted in this time" in capsys.readouterr().err


@pytest.mark.parametrize(("role", "may_see"), [("finance", True), ("support", False), (None, False)])
async def test_costs_need_a_permission_where_there_are_roles(tmp_path, told, client_of, role, may_see):
    """Over HTTP 403; without [roles], as the rest of the API."""
    roles = {"finance": {"tools": ["*"], "permissions": ["view_costs"]}, "support": {"tools": ["*"]}}
    chat = FlexChat.from_config(
        config(tmp_path, roles=roles), providers={name: ScriptedProvider([]) for name in ("one", "two")}
    )
    token = current_principal.set(Principal("ann", (role,)) if role else None)
    try:
        if may_see:
            chat.require("view_costs")
        else:
            with pytest.raises(NotPermittedError, match=r"view_costs|no identity"):
                chat.require("view_costs")
    finally:
        current_principal.reset(token)
    told.tables["roles"] = {"guest": {"tools": ["*"]}}
    async with client_of(told.app()) as client:
        assert (await client.get("/api/costs")).status_code == 403


async def test_costs_over_http(told, client_of, tmp_path):
    """Of the caller's tenant."""
    told.model = told.says("Yes.")
    told.tables["conversations"] = {"path": str(tmp_path / "kept.db")}
    told.tables["budgets"] = [{"scope": "all", "per": "day", "calls": 100_000}]
    async with client_of(told.app()) as client:
        assert (await client.post("/chat/api", json={"prompt": "Hello"})).status_code == 200
        found = (await client.get("/api/costs?by=tenant&since=1h")).json()
        assert (await client.get("/api/costs?by=nothing")).status_code == 400
        assert (await client.get("/api/costs?since=soon")).status_code == 422
        assert (await client.get("/api/ui-config")).json()["counts_costs"]
    assert [(row["name"], row["requests"], row["usd"]) for row in found["costs"]] == [("default", 1, None)]
