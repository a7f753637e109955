"""The implementation tables of the config's tools, as their implementation types want them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..config.load import Draft
from ..domain import Implementation, ToolDefinition
from ..errors import FlexChatError
from ..plugin.contracts import ImplementationType
from ..plugin.host import PluginHost
from .python_function import PYTHON
from .registry import ToolRegistry


def read_tool_settings(draft: Draft, host: PluginHost) -> dict[int, Any]:
    """Return each tool's implementation settings, by its index in tools.registry.

    An unknown implementation type, wrong settings, an unknown handler and a name that no plugin offers are added to
    the draft's problems.
    """
    structured: dict[int, Any] = {}
    for path, table in draft.tables("tools", "registry"):
        implementation = table.get("implementation")
        if implementation is None:
            _check_name(draft, host, path, table)
            continue
        if not isinstance(implementation, Mapping) or not isinstance(implementation.get("type"), str):
            continue  # reported by the structuring of core's own keys
        name, place = implementation["type"], (*path, "implementation")
        kind: ImplementationType | None = PYTHON if name == PYTHON.name else host.implementation_types.by_name.get(name)
        if kind is None:
            draft.problem((*place, "type"), host.implementation_types.missing(name))
            continue
        settings = draft.settings(place, ("type",), kind.settings_class)
        if settings is None:
            continue
        structured[int(path[-1])] = settings
        try:
            tool = _definition(table, Implementation(type=name, settings=settings))
        except FlexChatError as error:
            draft.note(path, f"left out: {error}")
            continue
        problem = kind.check(settings, tool, host.handlers.by_name) if kind.check is not None else None
        if problem:
            draft.problem(place, problem)
    return structured


def _check_name(draft: Draft, host: PluginHost, path: tuple[str | int, ...], table: Mapping[str, Any]) -> None:
    name = table.get("name")
    if isinstance(name, str) and name not in host.tools.by_name:
        draft.problem(path, f"{host.tools.missing(name)}; a tool of your own needs an 'implementation'")


def _definition(table: Mapping[str, Any], implementation: Implementation) -> ToolDefinition:
    """Return the tool a table defines, if a registry would take it.

    Raises:
        FlexChatError: It would not: TC-69 leaves such a tool out and loads the others.
    """
    tool = ToolDefinition(
        name=str(table.get("name") or ""),
        description=str(table.get("description") or ""),
        parameters=table.get("parameters") or {},
        implementation=implementation,
        handler=table.get("handler"),
    )
    ToolRegistry().register(tool)
    return tool
