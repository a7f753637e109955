"""Checks of the roles in a configuration, against its rules, document stores and tools."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from flexchat.host import did_you_mean
from flexchat.plugin import CheckedConfig

from .roles import unused_patterns

WILD = frozenset("*?[")


def check_roles(read: CheckedConfig) -> None:
    """Report roles without tools, and names of rules and document stores that do not exist."""
    names, stores = [rule.name for rule in read.config.responses if rule.name], [*read.config.stores]
    for role, grants in read.config.tables["roles"].items():
        if not role or not role.isprintable() or {*role} & {*" ,="}:
            # As in a line of a token file, and in the words of a command.
            read.problem(("roles", role), "the name of a role is printable, and has no spaces, commas and =")
        if not grants.tools:
            text = 'grants no tools: name some in tools = ["get_*"], or remove the role'
            read.problem(("roles", role), text)
        for index, pattern in enumerate(grants.rules):
            if WILD & {*pattern} or pattern in names:
                continue
            hint = f" (rules: {', '.join(names) or 'none has a name'})"
            text = f"no rule is called '{pattern}'{did_you_mean(pattern, names) or hint}"
            read.problem(("roles", role, "rules", index), text)
        for index, pattern in enumerate(grants.collections):
            store, at = pattern.partition("/")[0], ("roles", role, "collections", index)
            if WILD & {*store}:
                if store != "*" and not any(fnmatchcase(name, store) for name in stores):
                    read.note(at, f"'{pattern}' fits no document store")
            elif store not in stores:
                hint = f" (stores: {', '.join(stores) or 'none'})"
                read.problem(at, f"no document store is called '{store}'{did_you_mean(store, stores) or hint}")


def review_roles(read: CheckedConfig, parts: Any) -> None:
    """Note what grants nothing: names of tools that do not exist, and patterns that fit none."""
    for role, grants in parts.config.tables["roles"].items():
        note_unused_tools(read, parts, ("roles", role, "tools"), grants.tools, "grants")
        note_unused_rules(read, parts, ("roles", role, "rules"), grants.rules)


def note_unused_tools(
    read: CheckedConfig, parts: Any, at: tuple[str | int, ...], patterns: tuple[str, ...], verb: str
) -> None:
    """Note the patterns at a place that fit no tool; *verb* is what they do to those that they fit."""
    registry, sources = parts.tools.get_registry(), parts.tools.sources.by_name
    names, unused = registry.names(), unused_patterns(patterns, registry.list())
    for index, pattern in enumerate(patterns):
        if pattern not in unused:
            continue
        if WILD & {*pattern} or pattern.partition("/")[0] in sources:
            read.note((*at, index), f"'{pattern}' {verb} no tool")
        else:
            read.note((*at, index), f"no tool is called '{pattern}'{did_you_mean(pattern, names)}")


def note_unused_rules(read: CheckedConfig, parts: Any, at: tuple[str | int, ...], patterns: tuple[str, ...]) -> None:
    """Note the patterns at a place that fit no rule."""
    rules = [rule.name or str(index) for index, rule in enumerate(parts.config.responses)]
    for index, pattern in enumerate(patterns):
        if WILD & {*pattern} and pattern != "*" and not any(fnmatchcase(name, pattern) for name in rules):
            read.note((*at, index), f"'{pattern}' fits no rule")
