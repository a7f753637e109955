"""Roles: what a principal may use. One function decides about calls, listings, rules, documents and permissions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

import attrs
from flexchat import CollectionChoice, Principal, TurnInfo
from flexchat.host import ResponseRule, visible
from flexchat.plugin import ToolDefinition, hookimpl, key

Permission = Literal["approve", "edit", "view_costs", "view_others"]

PERMISSIONS: tuple[str, ...] = get_args(Permission)


@attrs.frozen(kw_only=True)
class Role:
    """What principals of one role may use; several roles of a principal add up."""

    tools: tuple[str, ...] = key(
        'Patterns of the names of tools ("get_*"), and "SOURCE/*" for those of a source.', default=()
    )
    rules: tuple[str, ...] = key("Patterns of the names of rules that may answer.", default=("*",))
    collections: tuple[str, ...] = key(
        'Patterns of the collections of documents that may be searched ("handbook/public_*"), and names of stores for '
        "all of theirs.",
        default=("*",),
    )
    permissions: tuple[Permission, ...] = key("What else its principals may do.", default=())

    def permits(self, subject: Any) -> bool:
        """Return whether a tool, a rule, a collection or, as a text, a permission is granted."""
        if isinstance(subject, str):
            return subject in self.permissions
        if isinstance(subject, CollectionChoice):
            return any(fits_collection(pattern, subject) for pattern in self.collections)
        if isinstance(subject, ToolDefinition):
            return any(fits_tool(pattern, subject) for pattern in self.tools)
        return isinstance(subject, ResponseRule) and any(fnmatchcase(subject.name or "", each) for each in self.rules)


def fits_tool(pattern: str, tool: ToolDefinition) -> bool:
    """Return whether a pattern grants a tool: by its name, or as SOURCE/NAME."""
    names = (tool.name,) if tool.source is None else (tool.name, f"{tool.source}/{tool.name}")
    return any(fnmatchcase(name, pattern) for name in names)


def fits_collection(pattern: str, choice: CollectionChoice) -> bool:
    """Return whether a pattern grants a collection: STORE/COLLECTION, or STORE for all of a store's."""
    store, has_collection, collection = pattern.partition("/")
    return fnmatchcase(choice.store, store) and (
        not has_collection or (choice.collection is not None and fnmatchcase(choice.collection, collection))
    )


def refusal(roles: Mapping[str, Role], principal: Principal | None, subject: Any) -> str | None:
    """Return the reason that keeps a principal from using something; None if one of its roles grants it.

    Args:
        subject: A tool's definition, a rule of the config, a collection or, as a text, a permission.
    """
    if principal is None:
        return "no identity was established, and the configuration has roles"
    known = [name for name in principal.roles if name in roles]
    if any(roles[name].permits(subject) for name in known):
        return None
    unknown = [name for name in principal.roles if name not in roles]
    named = ", ".join(f"'{name}'" for name in known) or "no role of the configuration"
    what = f"the permission '{subject}'" if isinstance(subject, str) else _describe(subject)
    besides = f" ({', '.join(map(repr, unknown))}: not in the configuration)" if unknown else ""
    return f"{visible(' '.join(principal.name.split()))} has {named}{besides}, which does not grant {what}"


def _describe(subject: Any) -> str:
    if isinstance(subject, ToolDefinition):
        return f"the tool '{subject.name}'"
    if isinstance(subject, CollectionChoice):
        return f"the collection '{subject.store}/{subject.collection or '*'}'"
    return f"the rule '{subject.name}'" if subject.name else "a rule without a name"


class RolesHook:
    """Decides by the roles of one chat's configuration."""

    def __init__(self, roles: Mapping[str, Role]) -> None:
        self.roles = roles

    @hookimpl
    def flexchat_refusal(self, info: TurnInfo, subject: Any) -> str | None:
        """Refuse what no role of the turn's principal grants."""
        return refusal(self.roles, info.principal, subject)


def unused_patterns(patterns: Iterable[str], tools: Sequence[ToolDefinition]) -> list[str]:
    """Return the patterns that grant none of the tools."""
    return [pattern for pattern in patterns if not any(fits_tool(pattern, tool) for tool in tools)]
