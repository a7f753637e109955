"""flexchat stats and flexchat slo."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
from flexchat import FlexChat
from flexchat_cli.main import main

CONFIG = """
[llms.bot]
provider = "scripted"
repeat = true
replies = [
    { tool_calls = [
        { name = "calculator", arguments = { expression = "2 + 2" } },
        { name = "calculator", arguments = { expression = "two" } },
    ] },
    { text = "Done." },
]

[[responses]]
llm = "bot"
model = "m"
name = "support"
tools = { enabled = true }

[[tools.registry]]
name = "calculator"

[conversations]
path = "kept.db"
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command in a folder with a configuration; return its status, output and errors."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flexchat.toml").write_text(CONFIG)

    def run(*words):
        status = main([*words])
        return status, *capsys.readouterr()

    return run


def add_two():
    """Run a turn: of its two calls of the calculator, one fails."""

    async def ask():
        async with FlexChat.from_config("flexchat.toml") as chat:
            await chat.respond("Add", conversation="c")

    asyncio.run(ask())


def test_stats_prints_every_kind(run):
    """Turns, rules, models and tools; errors by kind, and common arguments."""
    add_two()

    status, out, _ = run("stats")

    assert status == 0
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    assert {"all", "with tools", "support", "bot/m", "calculator"} <= {*lines}
    assert "50.0 % (9.5 to 90.5)" in lines["calculator"]
    assert "tool_error 1" in lines["calculator"]
    assert "expression (1)" in lines["calculator"]


def test_stats_has_the_figures_as_json(run):
    """Only the rows that are asked for."""
    add_two()

    data = json.loads(run("--json", "stats", "--by", "tool", "--since", "24h")[1])

    assert [*data] == ["since", "tools"]
    assert data["tools"][0]["success"] == {
        "of": 2,
        "good": 1,
        **{k: data["tools"][0]["success"][k] for k in ("rate", "low", "high")},
    }
    assert [row["name"] for row in json.loads(run("--json", "stats", "--by", "tenant")[1])["tenants"]] == ["default"]
    today = datetime.now(UTC).date()
    for day, count in ((today - timedelta(days=1), 2), (today + timedelta(days=2), 0)):
        assert len(json.loads(run("--json", "stats", "--since", day.isoformat())[1])["turns"]) == count


def test_stats_without_turns_is_one_sentence(run):
    assert run("stats", "--tenant", "acme") == (0, "", "no turn has ended in this time\n")


@pytest.mark.parametrize("since", ["x", "", "3 days", "-1d", "1.5h"])
def test_a_since_that_cannot_be_read_is_refused(run, since):
    status, out, err = run("stats", "--since", since)

    assert (status, out) == (2, "")
    assert err.startswith(f"flexchat: --since: {since!r} is no time: write 12h, 7d, 2w or a date")
    assert err.count("\n") == 1


def test_slo_without_objectives_is_refused(run):
    status, _, err = run("slo")

    assert status == 2
    assert err.startswith("flexchat: there are no objectives: write some in [slo]")


def test_slo_ends_with_status_1_if_an_objective_is_violated(run, tmp_path):
    """And names what spent the budget."""
    file = tmp_path / "flexchat.toml"
    file.write_text(
        file.read_text() + '[slo]\n"tool.calculator" = { success = 0.999 }\n"rule.support" = { done = 0.5 }\n'
    )
    assert run("slo")[0] == 0
    for _ in range(3):
        add_two()

    status, out, _ = run("slo")

    assert status == 1
    violated, undecided = out.splitlines()
    assert "violated" in violated
    assert "3 of 6" in violated
    assert "tool_error (3)" in violated
    assert "insufficient data" in undecided


def test_a_store_without_sums_is_one_sentence(run, tmp_path, monkeypatch):
    monkeypatch.delattr("flexchat_sqlite.journal.SqliteJournal.sums", raising=False)
    monkeypatch.setattr("flexchat_metrics.commands.sums.sums_of", lambda journal: None)

    assert run("stats") == (2, "", "flexchat: the store of the conversations keeps no sums of turns\n")
