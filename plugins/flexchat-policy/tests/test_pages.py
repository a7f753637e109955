"""What docs/budgets.md and docs/limits.md show can be configured, and is printed so."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from flexchat.store import Charge
from flexchat_cli.main import main
from flexchat_sqlite import SqliteConversations

DOCS = Path(__file__).parents[3] / "docs"
BASE = """
[llms.it]
provider = "rehearsal"
prices.rehearsal = { input = 1, output = 2 }
[[responses]]
name = "desk"
llm = "it"
model = "rehearsal"
max_tokens = 500
"""
MOCK = (
    'description = "It."\nparameters = { type = "object" }\nimplementation = { type = "mock", mock_response = "a" }\n'
)
TOOLS = "".join(f'[[tools.registry]]\nname = "{name}"\n{MOCK}' for name in ("search_patents", "send_mail"))


def tables(page: str) -> list[str]:
    return re.findall(r"^```toml\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", ["budgets.md", "limits.md"])
def test_the_tables_can_be_read(page, tmp_path, monkeypatch, capsys):
    """Each as it is shown, with nothing noted."""
    monkeypatch.chdir(tmp_path)
    for table in tables(page):
        tools = "" if "[[tools.registry]]" in table else TOOLS
        text = table if tools else table + MOCK
        (tmp_path / "flexchat.toml").write_text(BASE + tools + text)
        assert main(["check"]) == 0, capsys.readouterr()
        out = "".join(capsys.readouterr())
        assert "note" not in out, out


def test_the_command_prints_what_the_page_shows(tmp_path, monkeypatch, capsys):
    """Spaces apart, and without the head, which only a terminal gets."""
    monkeypatch.chdir(tmp_path)
    (shown,) = re.findall(
        r"^```\n(\$ flexchat costs .*?)^```", (DOCS / "budgets.md").read_text(), re.DOTALL | re.MULTILINE
    )
    command, _, *expected = shown.splitlines()
    (tmp_path / "flexchat.toml").write_text(BASE + '[conversations]\npath = "kept.db"\n')

    async def count() -> None:
        store = SqliteConversations(tmp_path / "kept.db")
        for tool, usd, requests, calls, tokens in (
            ("", 412175 * 10**5, 38, 0, 30_112),
            ("search_patents", 2 * 10**10, 0, 1, 0),
        ):
            labels = {"tenant": "default", "principal": "", "rule": "desk", "tool": tool, "model": "it/m"}
            charge = Charge(key="k", amount=1, ceiling=10)
            await store.counters.reserve(tool or "none", [charge], owner="it", lease_s=60, labels=labels)
            sums = {"usd": usd, "requests": requests, "calls": calls, "tokens": tokens}
            await store.counters.settle(tool or "none", {}, sums=sums)
        await store.aclose()

    asyncio.run(count())
    assert main(command.removeprefix("$ flexchat ").split()) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.split() for line in printed] == [line.split() for line in expected]
