"""What ``flexchat check`` and every start report about budgets and limits: names, twins, and a missing store."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from flexchat.host import did_you_mean
from flexchat.plugin import CheckedConfig

from .budgets import Budget, find_twins, unknown_bounds
from .role_checks import WILD, note_unused_rules, note_unused_tools


def check_ceilings(read: CheckedConfig) -> None:
    """Report budgets without a store that counts them, two for one counter, and rules and roles that do not exist."""
    budgets, config = read.config.tables.get("budgets", ()), read.config
    if budgets and config.conversations is None and any(each.per != "turn" for each in budgets):
        text = 'budgets need a store that outlives this process: add [conversations]; only per = "turn" needs none'
        read.problem(("budgets",), text)
    for index, unit in find_twins(budgets):
        read.problem(("budgets", index, unit), "an earlier budget has the same scope, period and unit")
    rules = [rule.name or str(index) for index, rule in enumerate(config.responses)]
    roles = config.tables.get("roles")
    for index, budget in enumerate(budgets):
        known = rules if budget.scope == "rule" else [*roles] if budget.scope == "role" and roles is not None else None
        for place, name in enumerate(budget.only or ()):
            if known is not None and not WILD & {*name} and name not in known:
                hint = did_you_mean(name, known) or f" ({budget.scope}s: {', '.join(known) or 'none'})"
                read.problem(("budgets", index, "only", place), f"there is no {budget.scope} '{name}'{hint}")


def review_ceilings(read: CheckedConfig, parts: Any) -> None:
    """Note names and patterns that fit no tool or rule, and budgets that let no request pass."""
    tables = parts.config.tables
    for index, budget in enumerate(tables.get("budgets", ())):
        if parts.may_take_long:
            _note_unbounded_rules(read, parts, index, budget)
        if budget.scope == "tool":
            note_unused_tools(read, parts, ("budgets", index, "only"), budget.only or (), "fits")
        elif budget.scope == "rule":
            note_unused_rules(read, parts, ("budgets", index, "only"), budget.only or ())
    for index, limit in enumerate(tables.get("rate_limits", ())):
        note_unused_tools(read, parts, ("rate_limits", index, "tools"), limit.tools or (), "fits")


def _note_unbounded_rules(read: CheckedConfig, parts: Any, index: int, budget: Budget) -> None:
    """Note the rules each of whose requests the budget refuses: the most that one can take is unknown."""
    if budget.scope == "tool" or (budget.usd is None and budget.tokens is None):
        return
    for number, rule in enumerate(parts.config.responses):
        name = rule.name or str(number)
        is_of_others = budget.scope == "rule" and not any(fnmatchcase(name, each) for each in budget.only or ("*",))
        if is_of_others or rule.llm not in parts.llms:
            continue
        llm, model = parts.llms.resolve(rule.llm, rule.model)
        unknown = unknown_bounds(llm.name, model, llm.price_of(model), rule.max_tokens)
        if budget.usd is None:
            unknown.pop("usd", None)
        if unknown:
            text = f"the requests of the rule '{name}' are refused: {'; '.join(unknown.values())}"
            read.note(("budgets", index), text)
