"""The problems and notes of a configuration beyond those that keep it from starting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flexchat.assembly import Reviewed, as_configured, assemble, plugins_for, read_tables, run_checks, run_reviews
from flexchat.calls.manager import ToolManager
from flexchat.config.document import ConfigDocument
from flexchat.config.model import Config
from flexchat.config.positions import KeyPath
from flexchat.config.reading import ReadConfig, read_config
from flexchat.errors import ConfigError, Problem, ToolClashError, UnknownToolFormatError, did_you_mean
from flexchat.llms.llm import Llms
from flexchat.plugin.host import PluginHost
from flexchat.tools.registry import verify_trouble

from .tool_costs import rule_cost


def check_config(
    source: str | Path | ConfigDocument | ReadConfig | Mapping[str, Any], plugins: PluginHost | None = None
) -> tuple[list[Problem], list[Problem]]:
    """Return a configuration's problems, and things only worth noting; opens no connection."""
    try:
        reading = read_config(source)
    except ConfigError as error:
        return list(error.problems), []
    host = plugins or plugins_for(reading)
    problems: tuple[Problem, ...] = ()
    try:
        parts = assemble(reading, host, [], {}, review=False)
    except ConfigError as error:
        problems = error.problems
    else:
        for path, text in _clashes(parts.config, parts.tools):
            reading.problem(path, text)
        for path, text in _tool_notes(parts.config, parts.tools, parts.llms):
            reading.note(path, text)
        if parts.config.tools.sources:  # a start does not read the accepted tools; once they are loaded, they count
            parts.tools.get_registry().names()
        run_reviews(reading, host, Reviewed(config=parts.config, tools=parts.tools, llms=parts.llms, plugins=host))
    run_checks(reading, as_configured(host, reading), at_start=False)
    return [*dict.fromkeys([*problems, *reading.problems])], [*dict.fromkeys(reading.notes)]


def find_check_problems(reading: ReadConfig, host: PluginHost) -> list[Problem]:
    """Return the problems of a usable configuration found only by checks that do not run at start."""
    host = as_configured(host, reading)
    read_tables(reading, host)
    run_checks(reading, host, at_start=False)
    return reading.problems


def _tool_notes(config: Config, manager: ToolManager, llms: Llms) -> Iterator[tuple[KeyPath, str]]:
    """Yield notes for people, each with its path. Reads the accepted tools of sources; opens nothing."""
    yield from manager.sources.notes()
    if manager.sources.by_name:
        yield from _unknown_names(config, manager)
    yield from _expensive_rules(config, manager, llms)


def _clashes(config: Config, manager: ToolManager) -> Iterator[tuple[KeyPath, str]]:
    """Yield each rule that would offer two tools of one name, as far as the tools are known."""
    for index, rule in enumerate(config.responses):
        try:
            manager.offer_to(rule)
        except ToolClashError as error:
            yield ("responses", index, "tools"), str(error)


def _unknown_names(config: Config, manager: ToolManager) -> Iterator[tuple[KeyPath, str]]:
    """Yield each name that no tool has; at start it could have been that of a source's tool."""
    registry = manager.get_registry()
    unopened = [state.name for state in manager.sources.states() if not state.accepted]

    def describe_unknown(name: str) -> str:
        if unopened:
            them = ", ".join(unopened)
            return f"no tool is called '{name}' yet; it may come from a source that was never opened: {them}"
        return f"no tool is called '{name}'{did_you_mean(name, registry.names())}"

    for index, rule in enumerate(config.responses):
        for at, name in enumerate((rule.tools and rule.tools.allowed_tools) or ()):
            if not registry.has(name) and not name.endswith("/*"):
                yield ("responses", index, "tools", "allowed_tools", at), describe_unknown(name)
    for index, entry in enumerate(config.tools.registry):
        path: KeyPath = ("tools", "registry", index)
        tool = registry.get(entry.name)
        if tool is None and entry.implementation is None:
            yield (*path, "name"), describe_unknown(entry.name)
        trouble = verify_trouble(tool, registry) if tool is not None else None
        if trouble is not None:
            yield (*path, "verify"), trouble


def _expensive_rules(config: Config, manager: ToolManager, llms: Llms) -> Iterator[tuple[KeyPath, str]]:
    budget = config.tools.budget_tokens
    for index, rule in enumerate(config.responses):
        offered = manager.offered_to(rule)
        if not offered or rule.llm not in llms:
            continue
        try:
            _, cost = rule_cost(rule, manager, llms)
        except UnknownToolFormatError:
            continue
        if cost.tokens > budget:
            yield (
                ("responses", index, "tools"),
                f"its {len(offered)} tools take about {cost.tokens:,} tokens of every request (tools.budget_tokens is "
                f"{budget:,}): allow fewer; flexchat tools cost --rule {index + 1} shows the dearest",
            )
