"""Turns for a journal, made up of everything that its steps may hold, and a slow count of what is in one."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from flexchat import UserMessage
from flexchat.store import ConversationTurn, JournaledTurn, JournalEntry, TurnEnd

START = datetime(2026, 11, 20, tzinfo=UTC)
HOURS = 200
TENANTS = ("acme", "globex")
TOOLS = ("get_weather", "search", "pay")
ERRORS = {
    "": None,
    "invalid_arguments": "Invalid parameters: missing 'city'",
    "timeout": "Tool execution timed out after 100ms",
    "refused": "Not executed: a person has rejected it",
    "tool_error": "the service is down",
    "not_found": "Tool 'wether' not found",
}
PRICES = {"a/small": Decimal("0.5"), "b/large": Decimal(5)}


def text_of(at):
    return at.isoformat(timespec="milliseconds")


def make_turn(dice, number):
    """Return a turn with its state, its steps, and when it ended."""
    began = START + timedelta(seconds=dice.uniform(0, HOURS * 3600))
    ended = began + timedelta(milliseconds=dice.lognormvariate(7, 1.5))
    state = dice.choices(["done", "failed", "cancelled"], [90, 8, 2])[0]
    row = JournaledTurn(
        id=f"t{number}", tenant=dice.choice(TENANTS), conversation="c", state="running", owner="o",
        began_at=text_of(began),
    )  # fmt: skip
    steps = [("started", {"request": {"user_message": "hello"}, "after": None})]
    if dice.random() < 0.2:
        round_ = {"llm": "a", "model": "small", "elapsed_ms": 30.5}
        steps.append(
            ("phase", {"record": {"phase": "topic detection", "outcome": None, "elapsed_ms": 31, "rounds": [round_]}})
        )
    if dice.random() < 0.95:
        outcome = {"name": dice.choice(["support", "sales"])} if dice.random() < 0.9 else {}
        steps.append(("rule", {"index": 2, "outcome": outcome, "tools": [*TOOLS], "sources": {}}))
        _add_loop(dice, steps, state)
    if dice.random() < 0.05:
        steps.append(("limit", {"why": "5 answers asked for tools"}))
    entries = [
        JournalEntry(number=n, kind=kind, data=data, at=text_of(began)) for n, (kind, data) in enumerate(steps, start=1)
    ]
    return row, state, entries, ended


def _add_loop(dice, steps, state):
    llm, model = dice.choice(["a/small", "b/large"]).split("/")
    for iteration in range(1, dice.randint(1, 4) + 1):
        steps.append(("request", {"llm": llm, "model": model, "messages": iteration}))
        if state == "failed" and dice.random() < 0.3:
            return
        result = {"message": {"role": "assistant", "parts": []}, "finish_reason": "stop"}
        if dice.random() < 0.9:
            result["usage"] = {"input_tokens": dice.randint(1, 5000), "output_tokens": dice.randint(0, 900)}
        price = None
        if dice.random() < 0.9:
            price = {"input": str(PRICES[f"{llm}/{model}"]), "output": "2", "source": "config"}
        answer = {"llm": llm, "model": model, "elapsed_ms": dice.lognormvariate(6, 1), "price": price, "fallback": []}
        steps.append(("answer", {**answer, "result": result, "asked_for_form": False, "warnings": []}))
        for index in range(dice.randint(0, 3)):
            kind = dice.choices([*ERRORS], [80, 4, 4, 4, 4, 4])[0]
            tool = f"wether{dice.randint(0, 10**6)}" if kind == "not_found" else dice.choice(TOOLS)
            record = {
                "tool": tool,
                "params": {"city": dice.choice(["Rome", "Oslo"]), "days": 3},
                "iteration": iteration,
            }
            outcome = {"success": True, "result": 1} if not kind else {"success": False, "error": ERRORS[kind]}
            took = int(dice.lognormvariate(4, 2))
            record["result"] = {**outcome, "tool_name": tool, **({"execution_time_ms": took} if took else {})}
            steps.append(("tool", {"iteration": iteration, "index": index, "record": record, "wrote": False}))


async def fill(store, count, monkeypatch, seed=1):
    """Write turns to a store's journal, as they would have been written."""
    dice = random.Random(seed)
    for number in range(count):
        row, state, entries, ended = make_turn(dice, number)
        monkeypatch.setattr("flexchat_sqlite.journal.now_text", lambda ended=ended: text_of(ended))
        await store.journal.write(row, entries[:1], lease_s=60)
        turn = ConversationTurn(id=row.id, messages=(UserMessage(content="hello"),), at=text_of(ended))
        end = TurnEnd(turn=row, entries=tuple(entries[1:]), state=state)
        await store.append("c", turn, tenant=row.tenant, end=end)


class Slow:
    """What a slow count over the raw journal finds about one name."""

    def __init__(self):
        self.counts, self.times, self.cost, self.depths = Counter(), [], Decimal(0), []
        self.errors, self.arguments, self.causes = Counter(), Counter(), Counter()

    def count_round(self, answer):
        usage, price = answer["result"].get("usage") if "result" in answer else None, answer.get("price")
        if usage and price:
            tokens = usage["input_tokens"] * Decimal(price["input"]) + usage["output_tokens"] * Decimal(price["output"])
            self.cost += tokens / 1_000_000
        else:
            self.counts["unpriced"] += 1
        if usage:
            self.counts["input"] += usage["input_tokens"]
            self.counts["output"] += usage["output_tokens"]


async def count_slowly(store, *, tenant=None, since=""):
    """Return Slow objects by kind and name, from every step of every turn."""
    found = defaultdict(Slow)
    for each in TENANTS if tenant is None else (tenant,):
        for row in await store.journal.list(tenant=each, limit=10**9):
            if row.ended_at >= since:
                _, steps = await store.journal.read(row.id, tenant=each)
                _count_turn(found, row, steps)
    return found


def _count_turn(found, row, steps):
    of = lambda kind: [step.data for step in steps if step.kind == kind]  # noqa: E731
    rules, answers, calls = of("rule"), of("answer"), [data["record"] for data in of("tool")]
    rule = "none" if not rules else rules[0]["outcome"].get("name", str(rules[0]["index"] + 1))
    took = (datetime.fromisoformat(row.ended_at) - datetime.fromisoformat(row.began_at)) / timedelta(milliseconds=1)
    phase_rounds = [one for data in of("phase") for one in data["record"]["rounds"]]
    name = "with tools" if calls else "without tools"
    for key in (("turn", "all"), ("turn", name), ("rule", rule), ("tenant", row.tenant)):
        series = found[key]
        series.counts.update(["n", row.state, *(["at_limit"] if of("limit") else [])])
        series.times.append(took)
        series.depths.append(len(answers))
        for one in (*answers, *phase_rounds):
            series.count_round(one)
            series.counts["model_ms"] += round(one["elapsed_ms"])
        series.counts["tool_ms"] += sum(call["result"].get("execution_time_ms", 0) for call in calls)
    for data in (*of("request"), *phase_rounds):
        found["model", f"{data['llm']}/{data['model']}"].counts["n"] += 1
    for one in (*answers, *phase_rounds):
        series = found["model", f"{one['llm']}/{one['model']}"]
        series.counts["ok"] += 1
        series.times.append(one["elapsed_ms"])
        series.count_round(one)
    if answers:
        last = found["model", f"{answers[-1]['llm']}/{answers[-1]['model']}"]
        last.counts.update(["turns", *(["at_limit"] if of("limit") else [])])
        last.depths.append(len(answers))
    for call in calls:
        kind = next(kind for kind, error in ERRORS.items() if call["result"].get("error") == error)
        tool = found["tool", "other" if kind == "not_found" else call["tool"]]
        tool.counts["n"] += 1
        tool.times.append(call["result"].get("execution_time_ms", 0))
        asked = answers[call["iteration"] - 1]
        model = found["model", f"{asked['llm']}/{asked['model']}"]
        model.counts["calls"] += 1
        if kind:
            tool.errors[kind] += 1
            model.errors[kind] += 1
        else:
            tool.counts["ok"] += 1
            tool.arguments.update([*call["params"]])
