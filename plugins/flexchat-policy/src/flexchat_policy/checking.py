"""What ``flexchat check`` and every start report about budgets and limits: names, twins, and a missing store."""

from __future__ import annotations

from flexchat.host import did_you_mean
from flexchat.plugin import CheckedConfig

from .budgets import find_twins


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
            if known is not None and not set(name) & set("*?[") and name not in known:
                hint = did_you_mean(name, known) or f" ({budget.scope}s: {', '.join(known) or 'none'})"
                read.problem(("budgets", index, "only", place), f"there is no {budget.scope} '{name}'{hint}")
