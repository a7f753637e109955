"""Notes on the tools of a configuration, with those of its sources as the lock has them."""

from __future__ import annotations

from collections.abc import Iterator

from ..config.model import Config, ResponseRule
from ..errors import ToolClashError, UnknownToolFormatError, did_you_mean
from ..llms.llm import Llms
from ..tools.cost import ToolsCost, cost_of
from ..tools.registry import verify_trouble
from .manager import ToolManager

Place = tuple[str | int, ...]


def tool_notes(config: Config, manager: ToolManager, llms: Llms) -> Iterator[tuple[Place, str]]:
    """Yield notes for people, each with its place. Reads the accepted tools of sources; opens nothing."""
    yield from manager.sources.notes()
    if manager.sources.by_name:
        yield from _unknown_names(config, manager)
    yield from _expensive_rules(config, manager, llms)


def clashes(config: Config, manager: ToolManager) -> Iterator[tuple[Place, str]]:
    """Yield each rule that would offer two tools of one name, as far as the tools are known."""
    for index, rule in enumerate(config.responses):
        try:
            manager.offer_to(rule)
        except ToolClashError as error:
            yield ("responses", index, "tools"), str(error)


def _unknown_names(config: Config, manager: ToolManager) -> Iterator[tuple[Place, str]]:
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
        path: Place = ("tools", "registry", index)
        tool = registry.get(entry.name)
        if tool is None and entry.implementation is None:
            yield (*path, "name"), describe_unknown(entry.name)
        trouble = verify_trouble(tool, registry) if tool is not None else None
        if trouble is not None:
            yield (*path, "verify"), trouble


def _expensive_rules(config: Config, manager: ToolManager, llms: Llms) -> Iterator[tuple[Place, str]]:
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


def rule_cost(rule: ResponseRule, manager: ToolManager, llms: Llms) -> tuple[str, ToolsCost]:
    """Return the tool format a rule's model is sent, and the price of the rule's tools in it. Opens no source.

    Raises:
        UnknownLLMError: The rule names an LLM that is not configured.
        UnknownToolFormatError: No installed plugin offers the format.
    """
    llm, model = llms.resolve(rule.llm, rule.model)
    tool_format = llm.provider.tool_format(model)
    return tool_format, cost_of(manager.get_registry(), manager.offered_to(rule), tool_format)
