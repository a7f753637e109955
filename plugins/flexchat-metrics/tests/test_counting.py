"""Every figure equals a slow count over the raw journal."""

import math
from datetime import timedelta

import pytest
from flexchat.store import Cost
from flexchat_metrics.adding import MAX_NAMES, TurnAdder
from flexchat_metrics.histogram import RELATIVE_ERROR
from flexchat_metrics.keeping import bring_up_to_date
from flexchat_metrics.report import report_of
from flexchat_testing import calls, says
from generated_turns import START, count_slowly, fill, text_of


def nearest_rank(times, share):
    return sorted(times)[math.ceil(share * len(times)) - 1]


def check_row(row, slow):
    """Compare all figures of a row: counts exactly, percentiles within the stated error."""
    counts, kind = slow.counts, row.kind
    data = row.to_dict()
    assert data["count"] == counts["n"]
    tried, good = {
        "tool": (counts["n"] - slow.errors["refused"], counts["ok"]),
        "model": (counts["n"], counts["ok"]),
    }.get(kind, (counts["done"] + counts["failed"], counts["done"]))
    assert (data["success"]["of"], data["success"]["good"]) == (tried, good)
    assert data["success"]["rate"] == (good / tried if tried else None)
    for name in ("p50", "p95", "p99"):
        exact = max(nearest_rank(slow.times, int(name[1:]) / 100), 1)
        assert data["ms"][name] == pytest.approx(exact, rel=RELATIVE_ERROR, abs=0.06)
    assert data["ms"]["mean"] == pytest.approx(sum(map(round, slow.times)) / len(slow.times), abs=0.06)
    if kind == "tool":
        assert data["errors"] == dict(slow.errors)
        assert {each["text"]: each["calls"] for each in data["arguments"]} == dict(slow.arguments)
        return
    assert data["tokens"] == {"input": counts["input"], "output": counts["output"]}
    assert row.cost.amount == (slow.cost if slow.cost or not counts["unpriced"] else None)
    assert row.of("unpriced") == counts["unpriced"]
    assert data["at_limit"] == counts["at_limit"]
    assert data["depth"]["max"] == max(slow.depths, default=0)
    assert data["depth"]["mean"] == round(sum(slow.depths) / len(slow.depths), 2)
    if kind == "model":
        wrong = slow.errors["not_found"] + slow.errors["invalid_arguments"]
        assert (data["calls"], data["errors"], data["turns"]) == (counts["calls"], dict(slow.errors), counts["turns"])
        assert data["selection_accuracy"] == (counts["calls"] - wrong) / counts["calls"]
    else:
        times = data["cancelled"], data["model_ms"], data["tool_ms"]
        assert times == (counts["cancelled"], counts["model_ms"], counts["tool_ms"])


@pytest.mark.parametrize("count", [150, pytest.param(10_000, marks=pytest.mark.slow)])
async def test_every_figure_equals_a_slow_count(store, count, monkeypatch):
    """Of all tenants, of one, and of the last 100 hours: turns, rules, models, tools, tenants."""
    await fill(store, count, monkeypatch)
    await bring_up_to_date(store.journal.sums, TurnAdder())

    since = START + timedelta(hours=100)
    for choice in ({}, {"tenant": "acme"}, {"since": since}):
        tenant = choice.get("tenant")
        at = choice["since"].timestamp() if "since" in choice else 0.0
        report = report_of(await store.journal.sums.read(tenant=tenant, since_s=at))
        slow = await count_slowly(store, tenant=tenant, since=text_of(since) if at else "")
        rows = {(row.kind, row.name): row for rows in report.rows.values() for row in rows}
        assert {*rows} == {*slow}
        for key, row in rows.items():
            check_row(row, slow[key])


async def test_a_real_turn_is_counted_as_its_response_reports_it(open_chat):
    """Steps that a chat writes: two calls, one of which fails, and an answer."""
    asks = calls(("look", {"at": "sea"}), ("look", {"at": "sun"}), ("lok", {"at": "sea"}))
    async with open_chat(asks, says("Done.")) as chat:
        turn = await chat.respond("hello", conversation="c")
        sums = chat.journal.sums
        await bring_up_to_date(sums, TurnAdder())
        report = report_of(await sums.read())

    (all_turns, with_tools), (rule,) = report.rows["turn"], report.rows["rule"]
    assert [row.of("n") for row in (all_turns, with_tools, rule)] == [1, 1, 1]
    assert (with_tools.name, rule.name) == ("with tools", "all")
    model, look = report.find("model", "bot/m"), report.find("tool", "look")
    assert (model.of("n"), model.of("ok"), model.of("calls"), model.by("depth")) == (2, 2, 3, {"2": 1})
    assert model.by("error") == {"not_found": 1, "tool_error": 1}
    assert (look.of("n"), look.of("ok"), look.by("error"), look.by("argument")) == (2, 1, {"tool_error": 1}, {"at": 1})
    assert report.find("tool", "other").by("error") == {"not_found": 1}
    assert all_turns.cost == Cost(amount=None, unpriced=("2 answers without a price",))
    assert len(turn.response.tool_calls) == 3


async def test_a_turn_whose_loop_was_ended_is_counted_at_the_limit(open_chat):
    """Once, for its rule and its model."""
    asks = calls(("look", {"at": "sea"}))
    async with open_chat(asks, asks, tools={"max_iterations": 2, "at_limit": "sentence"}) as chat:
        await chat.respond("hello", conversation="c")
        await bring_up_to_date(chat.journal.sums, TurnAdder())
        report = report_of(await chat.journal.sums.read())

    assert [report.find(*key).of("at_limit") for key in (("rule", "all"), ("model", "bot/m"), ("turn", "all"))] == [
        1
    ] * 3


async def test_values_of_arguments_are_counted_only_where_they_are_asked_for(open_chat):
    """Without secrets, and shortened."""
    asks = calls(("look", {"at": "sea", "key": "sk-" + "a1b2c3" * 8}), ("look", {"at": "x" * 200}))
    async with open_chat(asks, stats={"argument_values": ["lo*"]}) as chat:
        await chat.respond("hello", conversation="c")
        await bring_up_to_date(chat.journal.sums, TurnAdder(["lo*"], chat.mask))
        found = report_of(await chat.journal.sums.read()).find("tool", "look").by("argument")

    assert found['at="sea"'] == 1
    assert all(len(text) < 70 for text in found)
    assert not any("a1b2c3" in text for text in found)


async def test_names_beyond_the_limit_are_counted_as_other(store, monkeypatch):
    """A model, or a person who names rules, may invent any number."""
    add, values = TurnAdder(), {}
    await fill(store, 1, monkeypatch)
    (row,) = [row for each in ("acme", "globex") for row in await store.journal.list(tenant=each)]
    _, steps = await store.journal.read(row.id, tenant=row.tenant)
    rule = next(step for step in steps if step.kind == "rule")
    for number in range(MAX_NAMES + 50):
        rule.data["outcome"]["name"] = f"rule {number}"
        add(values, row, [rule])

    names = {key.split("\t")[1] for key in values if key.startswith("rule\t")}
    assert len(names) == MAX_NAMES + 1
    assert values["rule\tother\tn"] == 50


async def test_steps_that_cannot_be_read_are_left_out(store, monkeypatch):
    """The turn itself counts."""
    await fill(store, 1, monkeypatch)
    await store.database.write(lambda database: database.execute("UPDATE journal_entries SET data = '{}'"))

    await bring_up_to_date(store.journal.sums, TurnAdder())

    report = report_of(await store.journal.sums.read())
    assert (report.find("turn", "all").of("n"), report.find("rule", "none").of("n")) == (1, 1)
