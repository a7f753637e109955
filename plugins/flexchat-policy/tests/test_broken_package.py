"""A module of the package that cannot be imported, for whatever reason: nothing that a table forbids runs."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from typing import Any

import pytest
from flexchat import FlexChat, Principal
from flexchat_testing import ScriptedProvider, calls, says

MODULES = ("plugin", "roles", "role_checks", "budgets", "limits", "ceilings", "checking", "subjects")
TABLES = {
    "roles": ({"reader": {"rules": [], "tools": ["look"]}}, 0),
    "budgets": ([{"scope": "all", "per": "day", "usd": 0.000001}], 0),
    "rate_limits": ([{"rate": "1/day"}], 2),  # of one turn
}
"""With each, and how many requests it permits."""


def raise_import_error() -> None:
    raise ImportError("no module named 'elsewhere'")


def raise_other_error() -> None:
    raise RuntimeError("a bug")


def raise_syntax_error() -> None:
    compile("def", "roles.py", "exec")


def exit_program() -> None:
    raise SystemExit(0)


class Broken(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module, whose code fails."""

    def __init__(self, name: str, fail: Any) -> None:
        self._name, self._fail = name, fail

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        return importlib.util.spec_from_loader(name, self) if name == self._name else None

    def exec_module(self, module: Any) -> None:
        self._fail()


async def requests_of(tmp_path: Any, table: str) -> tuple[int, Exception | None]:
    """How many requests leave in three turns, each of which would call a tool, and what prevented the last."""
    provider = ScriptedProvider([calls(("calculator", {"expression": "1 + 1"})), says("2")], repeat=True)
    prices = {"m": {"input": 1.0, "output": 1.0, "window": 10_000}}
    config = {
        "llms": {"it": {"provider": "scripted", "prices": prices, "retries": 0}},
        "responses": [{"llm": "it", "model": "m", "max_tokens": 100, "tools": {"enabled": True}}],
        "tools": {"registry": [{"name": "calculator"}]},
        "conversations": {"path": str(tmp_path / "kept.db")},
        table: TABLES[table][0],
    }
    refusal: Exception | None = None
    for _ in range(3):
        try:
            async with FlexChat.from_config(config, providers={"it": provider}) as chat:
                await chat.respond("1 + 1?", principal=Principal("ann", ["reader"]))
        except Exception as error:
            refusal = error
    return len(provider.requests), refusal


@pytest.mark.parametrize("table", TABLES)
async def test_the_whole_package_refuses(tmp_path, table):
    number, refusal = await requests_of(tmp_path, table)

    assert number == TABLES[table][1]
    assert refusal is not None


@pytest.mark.slow
@pytest.mark.parametrize("fail", [raise_import_error, raise_other_error, raise_syntax_error, exit_program])
@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("table", TABLES)
async def test_with_a_module_that_cannot_be_imported_nothing_more_runs(tmp_path, monkeypatch, table, module, fail):
    """It does not start, or refuses as before."""
    name = f"flexchat_policy.{module}"
    for each in [each for each in sys.modules if each.startswith("flexchat_policy.")]:
        monkeypatch.delitem(sys.modules, each)
    monkeypatch.setattr(sys, "meta_path", [Broken(name, fail), *sys.meta_path])

    number, refusal = await requests_of(tmp_path, table)

    assert number <= TABLES[table][1]
    assert refusal is not None
    if module == "plugin":
        assert number == 0
        assert table in str(refusal)
