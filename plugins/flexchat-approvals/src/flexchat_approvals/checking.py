"""What ``flexchat check`` reports about policies: names that do not exist, and policies that no call matches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from fnmatch import fnmatchcase
from typing import Any

from flexchat.host import did_you_mean
from flexchat.plugin import CheckedConfig, ToolDefinition

from .policies import Policy, fits_one, label, names_of
from .reviewing import find_rule


def check_policies(read: CheckedConfig) -> None:
    """Report rules that do not exist, and names that two policies have, also where a policy has other problems."""
    rules, policy_names = read.config.responses, set[str]()
    names = [rule.name for rule in rules if rule.name is not None]
    for path, table in read.tables("approvals"):
        listed, name = table.get("rule"), table.get("name")
        rule_names = [((*path, "reviewer"), table.get("reviewer"))]
        if isinstance(listed, list | tuple):
            rule_names += [((*path, "rule", place), each) for place, each in enumerate(listed)]
        for where, each in rule_names:
            # Values of other types are reported when the table is read.
            if not isinstance(each, str | int) or isinstance(each, bool) or find_rule(rules, each) is not None:
                continue
            hint = did_you_mean(each, names) if isinstance(each, str) else ""
            there = f"names: {', '.join(names) or 'none'}; numbers: 0 to {len(rules) - 1}"
            read.problem(where, f"there is no rule {each!r}{hint or f' ({there})'}")
        if isinstance(name, str):
            if name in policy_names:
                read.problem((*path, "name"), f"two policies are called '{name}'")
            policy_names.add(name)


def review_policies(read: CheckedConfig, parts: Any) -> None:
    """Note the policies that no call matches, as far as the tools are known."""
    policies: Sequence[Policy] = parts.config.tables["approvals"]
    registry, sources = parts.tools.get_registry(), parts.tools.sources.by_name
    needs_tools = [policy for policy in policies if (policy.tools, policy.effect, policy.when) != (None, None, None)]
    tools: Sequence[ToolDefinition] = registry.list() if needs_tools else ()  # reads what was accepted of sources
    names = {tool.name: names_of(tool, registry.wire_name(tool.name)) for tool in tools}
    installed = [report.name for report in parts.plugins.reports]
    for index, policy in enumerate(policies):
        path = ("approvals", index)
        for place, pattern in enumerate(policy.tools or ()):
            source = pattern.partition("/")[0]
            is_unread = source in sources and not any(tool.source == source for tool in tools)
            if is_unread or any(fits_one(names[tool.name], [pattern]) for tool in tools):
                continue
            tool_names = sorted(set().union(*names.values()))
            hint = did_you_mean(pattern, [*tool_names, *(f"{source}/*" for source in sources)])
            read.note((*path, "tools", place), f"no tool fits '{pattern}'{hint or f' (tools: {_listed(tool_names)})'}")
        of_name = [tool for tool in tools if fits_one(names[tool.name], policy.tools)]
        if (
            policy.effect is not None
            and of_name
            and not sources
            and all(tool.effect != policy.effect for tool in of_name)
        ):
            read.note((*path, "effect"), f"none of its tools has the effect '{policy.effect}': it matches no call")
        for name, hint in _unknown_arguments(policy, of_name):
            read.note((*path, "when", "properties", name), f"none of its tools has a parameter '{name}'{hint}")
        # Of a source, other tools may be accepted later.
        its_tools = [] if sources else [names[tool.name] for tool in of_name]
        covering = [at for at in range(index) if _covers(policies[at], policy, its_tools)]
        if covering:
            read.note(path, f"it is never reached: {label(policies, covering[0])} matches all its calls")
        if policy.plugin is not None and policy.plugin not in installed:
            hint = did_you_mean(policy.plugin, installed)
            read.note((*path, "plugin"), f"no plugin is called '{policy.plugin}'{hint}: a person decides")
        if policy.expires is not None and parts.config.conversations is None:
            read.note((*path, "expires"), "it has no effect: without [conversations] no question is kept")


def _unknown_arguments(policy: Policy, tools: Sequence[ToolDefinition]) -> Iterator[tuple[str, str]]:
    """Yield the arguments that ``when`` is about and no tool has, each with a hint: calls without one fit ``when``."""
    parameters = [tool.parameters.get("properties") or {} for tool in tools]
    about = (policy.when or {}).get("properties", {})
    if about and parameters and all(parameters):
        names = sorted(set().union(*parameters))
        yield from ((name, did_you_mean(name, names)) for name in about if name not in names)


def _covers(earlier: Policy, later: Policy, tools: Sequence[Set[str]]) -> bool:
    """Return whether an earlier policy certainly matches every call that a later one does.

    Args:
        tools: The names of each tool that the later one is about; none if others may be added.
    """
    if earlier.when is not None or earlier.effect not in (None, later.effect):
        return False
    for wide, narrow in ((earlier.origin, later.origin), (earlier.rule, later.rule)):
        if wide is not None and (narrow is None or not {*narrow} <= {*wide}):
            return False
    if earlier.tools is None or later.tools is None:
        return earlier.tools is None
    if tools and all(fits_one(names, earlier.tools) for names in tools):
        return True
    # A pattern whose only wildcard is * fits all names that fit a pattern which it fits as a text.
    simple = [pattern for pattern in earlier.tools if not {*pattern} & {*"?["}]
    return all(each in earlier.tools or any(fnmatchcase(each, one) for one in simple) for each in later.tools)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (", …" if len(names) > 10 else "") or "none"
