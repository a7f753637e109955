"""Budgets: never more than the ceiling, whatever fails; what is refused is a named error."""

from __future__ import annotations

import asyncio
import contextlib
from decimal import Decimal
from typing import Any

import pytest
from flexchat import CeilingReachedError, ConfigError, FlexChat, tool
from flexchat_cli.main import main
from flexchat_sdk import ProviderConnectionError, ProviderOverloadedError, Usage
from flexchat_testing import ScriptedProvider, calls, says

PRICES = {"m": {"input": 1.0, "output": 1.0, "window": 100_000}}
TRILLION = 10**12
NOTED = """
[conversations]
path = "kept.db"
[llms.a]
provider = "rehearsal"
[[responses]]
name = "desk"
llm = "a"
model = "rehearsal"
[[tools.registry]]
name = "calculator"
[[budgets]]
scope = "tool"
per = "day"
calls = 5
only = ["calc_*", "calculater", "calculator"]
[[budgets]]
scope = "rule"
per = "day"
calls = 5
only = ["d*", "x*"]
[[rate_limits]]
rate = "10/min"
tools = ["x/*", "calculator"]
"""


def config(tmp_path, *budgets: dict[str, Any], **more: Any) -> dict[str, Any]:
    table = {"path": str(tmp_path / "kept.db")}
    llms = {"it": {"provider": "scripted", "prices": PRICES, "retry_delay_ms": 1}}
    rule = {"llm": "it", "model": "m", "name": "all", "max_tokens": 1000, "tools": {"enabled": True}}
    return {"llms": llms, "responses": [rule], "conversations": table, "budgets": list(budgets), **more}


def answers(*replies: Any, tokens: int = 100) -> ScriptedProvider:
    usage = Usage(input_tokens=tokens, output_tokens=tokens)
    script = [says("Yes.", usage=usage) if each is None else each for each in replies]
    return ScriptedProvider(script or [says("Yes.", usage=usage)], repeat=not replies)


async def spent(chat: FlexChat, name: str = "usd") -> int:
    assert chat.conversations is not None
    return sum(each.values.get(name, 0) for each in await chat.conversations.store.counters.sums())


def ask(config_: dict[str, Any], provider: ScriptedProvider, times: int, **more: Any) -> tuple[list[Any], int]:
    async def run() -> tuple[list[Any], int]:
        async with FlexChat.from_config(config_, providers={"it": provider}, **more) as chat:
            turns = await asyncio.gather(*[chat.respond("Hello?") for _ in range(times)], return_exceptions=True)
            return list(turns), await spent(chat)

    return asyncio.run(run())


def test_many_turns_at_once_stay_within_a_budget(tmp_path):
    """20 turns, of which some must be refused: the sum is what was answered, and within the ceiling."""
    turns, total = ask(config(tmp_path, {"scope": "tenant", "per": "day", "usd": 0.005}), answers(), 20)

    refused = [each for each in turns if isinstance(each, CeilingReachedError)]
    assert refused
    assert len(refused) < 20
    assert total == (20 - len(refused)) * 200 * TRILLION // 10**6 <= 0.005 * TRILLION
    assert "the budget of tenant 'default' per day has $" in str(refused[0])
    assert 0 < refused[0].retry_after_s <= 86_400


def test_a_budget_is_usable_to_its_end(tmp_path):
    """One after the other, only the last worst case stays unused."""

    async def run() -> int:
        table = config(tmp_path, {"scope": "all", "per": "month", "usd": 0.02})
        async with FlexChat.from_config(table, providers={"it": answers()}) as chat:
            with contextlib.suppress(CeilingReachedError):
                while True:
                    await chat.respond("Hello?")
            return await spent(chat)

    assert 0.02 - 0.0013 < asyncio.run(run()) / TRILLION <= 0.02


@pytest.mark.parametrize(
    ("error", "is_free"),
    [
        (ProviderOverloadedError("busy", status=503), True),
        (ProviderConnectionError("no", code="no_connection", retryable=True), True),
        (ProviderConnectionError("broke off", retryable=True), False),
    ],
)
def test_an_attempt_that_may_have_cost_counts_in_full(tmp_path, error, is_free):
    """A service that refused, or was never reached, cost nothing; of a broken connection nothing is certain."""
    (failed,), total = ask(config(tmp_path, {"scope": "all", "per": "day", "usd": 1}), answers(error), 1)

    assert failed is error
    assert (total == 0) if is_free else (total > 1000 * TRILLION // 10**6)


def test_a_model_without_a_price_is_refused(tmp_path):
    """Unless the config prices it; a budget of tokens needs none."""
    table = config(tmp_path, {"scope": "all", "per": "day", "usd": 1})
    table["llms"]["it"]["prices"] = {}
    (refused,), _ = ask(table, answers(), 1)
    assert 'no price is known for it/m: set it in [llms.it.prices."m"]' in str(refused)

    table["budgets"] = [{"scope": "all", "per": "day", "tokens": 100_000}]
    (turn,), _ = ask(table, answers(), 1)
    assert turn.content == "Yes."


def test_a_model_without_a_limit_to_its_answers_is_refused(tmp_path):
    """Neither max_tokens nor a window bounds what it writes."""
    table = config(tmp_path, {"scope": "all", "per": "day", "usd": 1})
    del table["responses"][0]["max_tokens"]
    table["llms"]["it"]["prices"] = {"m": {"input": 1.0, "output": 1.0}}
    (refused,), _ = ask(table, answers(), 1)
    assert "set max_tokens in its rule" in str(refused)


def test_near_the_ceiling_a_turn_gets_one_last_request_without_tools(tmp_path):
    """The model answers with what it has; the turn does not fail."""

    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "it is there"

    usage = Usage(input_tokens=100, output_tokens=900)
    provider = ScriptedProvider([calls(("look", {}), usage=usage), says("There.", usage=usage)])
    table = config(tmp_path, {"scope": "all", "per": "turn", "usd": 0.006})
    (turn,), _ = ask(table, provider, 1, tools=[look])

    assert turn.content == "There."
    assert not provider.requests[-1].options.tools
    assert "the tool loop was ended: the budget per turn" in str(turn.response.warnings)


def test_priced_tools_and_calls_are_reserved(tmp_path):
    """The third call of a tool at $0.02 has no room in $0.05; the model reads that, and the turn goes on."""

    @tool(effect="read", price={"usd": 0.02})
    def buy(what: int) -> str:
        """Buy."""
        return "bought"

    script = [calls(*[("buy", {"what": each}) for each in range(3)]), says("Done.")]
    table = config(tmp_path, {"scope": "tool", "per": "day", "usd": 0.05})
    table["llms"]["it"]["prices"]["m"] = {"input": 0.0, "output": 0.0}
    (turn,), total = ask(table, ScriptedProvider(script), 1, tools=[buy])

    results = [each.result for each in turn.response.tool_calls]
    assert sorted(each.success for each in results) == [False, True, True]
    (error,) = [each.error for each in results if not each.success]
    assert error.startswith("Not executed: the budget of tool 'buy' per day has $0.01 of $0.05 left")
    assert total == Decimal("0.04") * TRILLION


def test_without_a_store_budgets_are_refused(tmp_path):
    """A budget of a day that ends with the process would be none."""
    table = config(tmp_path, {"scope": "all", "per": "day", "usd": 1})
    del table["conversations"]
    with pytest.raises(ConfigError, match="budgets need a store"):
        FlexChat.from_config(table, providers={"it": answers()})


def test_wrong_tables_are_reported_together(tmp_path):
    """With path and nearest name."""
    budgets = [
        {"scope": "tenent", "per": "day", "usd": 1},
        {"scope": "all", "per": "fortnight", "usd": 1},
        {"scope": "all", "per": "day", "usd": 0},
        {"scope": "all", "per": "day", "usd": float("nan")},
        {"scope": "all", "per": "day", "tokens": -1},
        {"scope": "all", "per": "day"},
    ]
    with pytest.raises(ConfigError) as caught:
        FlexChat.from_config(config(tmp_path, *budgets), providers={"it": answers()})
    text = str(caught.value)
    for index in range(6):
        assert f"budgets[{index}]" in text
    assert "tenant" in text
    assert text.count("budgets[3]") == 1


def test_names_and_patterns_that_fit_nothing_are_noted(tmp_path, monkeypatch, capsys):
    """With the nearest name: the budget or the limit would be for nothing."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flexchat.toml").write_text(NOTED)
    assert main(["check"]) == 0
    notes = "".join(capsys.readouterr())
    for text in (
        "budgets[0].only[0]: 'calc_*' fits no tool",
        "budgets[0].only[1]: no tool is called 'calculater' (did you mean 'calculator'?)",
        "budgets[1].only[1]: 'x*' fits no rule",
        "rate_limits[0].tools[0]: 'x/*' fits no tool",
    ):
        assert text in notes
    assert notes.count("note: ") == 4


UNBOUNDED = """
[conversations]
path = "kept.db"
[llms.a]
provider = "openai"
api_key = "k"
base_url = "http://127.0.0.1:9/v1"
[llms.a.prices."priced"]
input = 1
output = 2
[[responses]]
name = "desk"
llm = "a"
model = "own"
[[responses]]
llm = "a"
model = "own"
max_tokens = 100
[[responses]]
llm = "a"
model = "priced"
max_tokens = 100
[[budgets]]
scope = "tenant"
per = "day"
usd = 5
[[budgets]]
scope = "rule"
per = "day"
tokens = 5000
only = ["d*", "1"]
[[budgets]]
scope = "tool"
per = "day"
usd = 5
[[budgets]]
scope = "all"
per = "day"
calls = 5
"""


def test_check_notes_rules_whose_requests_a_budget_refuses(tmp_path, monkeypatch, capsys):
    """With the keys that mend it, and the line of the budget; a start does not search prices."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flexchat.toml").write_text(UNBOUNDED)

    assert main(["check"]) == 0

    notes = [line for line in "".join(capsys.readouterr()).splitlines() if "budgets[" in line]
    unlimited = "nothing limits the answers of a/own: set max_tokens in its rule"
    unpriced = 'no price is known for a/own: set it in [llms.a.prices."own"]'
    assert [note.split(": ", 1)[1] for note in notes] == [
        f"flexchat.toml:23: budgets[0]: the requests of the rule 'desk' are refused: {unlimited}; {unpriced}",
        f"flexchat.toml:23: budgets[0]: the requests of the rule '1' are refused: {unpriced}",
        f"flexchat.toml:27: budgets[1]: the requests of the rule 'desk' are refused: {unlimited}",
    ]
    at_start = FlexChat.from_config(tmp_path / "flexchat.toml").notes
    assert [note.path for note in at_start if "budgets" in note.path] == []


def test_unknown_rules_and_twins_are_reported(tmp_path):
    """A misspelt rule would have no budget."""
    both = {"scope": "all", "per": "day", "usd": 1}
    budgets = [both, both, {"scope": "rule", "per": "day", "usd": 1, "only": ["al"]}]
    with pytest.raises(ConfigError) as caught:
        FlexChat.from_config(config(tmp_path, *budgets), providers={"it": answers()})
    assert "there is no rule 'al'" in str(caught.value)
    assert "budgets[1].usd: an earlier budget has the same scope" in str(caught.value)
