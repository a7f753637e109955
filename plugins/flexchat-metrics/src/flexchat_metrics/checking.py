"""Checks of objectives: targets that do not exist, and figures that a target does not have."""

from __future__ import annotations

from typing import Any

from flexchat.host import did_you_mean
from flexchat.plugin import CheckedConfig

_FIGURES = {"tool": ("success", "p95_ms"), "rule": ("done", "p95_ms")}


def check_objectives(read: CheckedConfig) -> None:
    """Report targets that are neither a tool nor a rule with a name, and objectives without a figure.

    It reads the table as written: values that cannot be used are reported beside these problems.
    """
    rules = [rule.name for rule in read.config.responses if rule.name]
    objectives = dict(read.tables("slo"))
    if objectives and read.config.conversations is None:
        read.problem(("slo",), "objectives need the journal of kept turns: add a table [conversations]")
    for path, objective in objectives.items():
        target = str(path[-1])
        kind, _, name = target.partition(".")
        if kind not in _FIGURES or not name:
            hint = did_you_mean(target, [*(f"rule.{rule}" for rule in rules), *(f"{each}." for each in _FIGURES)])
            read.problem(path, f'an objective is about "tool.NAME" or "rule.NAME"{hint}')
            continue
        figures = [each for each in ("success", "done", "p95_ms") if each in objective]
        for figure in figures:
            if figure not in _FIGURES[kind]:
                read.problem((*path, figure), f"a {kind} has {' and '.join(_FIGURES[kind])}, not {figure}")
        if not objective.keys() - {"window"}:
            read.problem(path, f"it requires nothing: write {' or '.join(_FIGURES[kind])}")
        if kind == "rule" and name not in rules:
            hint = f" (rules: {', '.join(rules) or 'none has a name'})"
            read.problem(path, f"no rule is called '{name}'{did_you_mean(name, rules) or hint}")


def review_tools(read: CheckedConfig, parts: Any) -> None:
    """Note tools that do not exist, as far as the tools are known."""
    tables, registry = parts.config.tables, parts.tools.get_registry()
    names = registry.names()
    for target in tables.get("slo", ()):
        kind, _, name = target.partition(".")
        if kind == "tool" and name not in names:
            hint = f" (tools: {', '.join(sorted(names)[:10]) or 'none'})"
            read.note(("slo", target), f"no tool is called '{name}'{did_you_mean(name, names) or hint}")
