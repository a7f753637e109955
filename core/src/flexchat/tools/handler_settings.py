"""The keys of an implementation table that are its handler's: those of neither core nor the implementation type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from ..config.model import ImplementationEntry, own_keys
from ..domain import ToolDefinition
from ..plugin.contracts import ImplementationType, ToolHandler

Handlers = Mapping[tuple[str, str], ToolHandler]


def handler_with_settings(
    kind: ImplementationType, table: Mapping[str, Any], handler: str | None, name: str, handlers: Handlers
) -> ToolHandler | None:
    """Return the handler that runs a tool if it has settings; None if it has none or does not exist.

    Args:
        table: The implementation table; its "handler" overrides the tool's, which overrides the tool's name (C9).
        handler: The tool's handler.
        name: The tool's name.
    """
    name_given = table.get("handler") or handler or name
    match = handlers.get((kind.name, name_given)) if isinstance(name_given, str) else None
    return match if match is not None and match.settings_class is not None else None


def keys_of(handler: ToolHandler | None, kind: ImplementationType) -> frozenset[str]:
    """Return the handler's keys."""
    if handler is None or handler.settings_class is None:
        return frozenset()
    theirs = {field.name for field in attrs.fields(handler.settings_class) if field.init}
    own = {field.name for field in attrs.fields(kind.settings_class) if field.init}
    return frozenset(theirs) - own - own_keys(ImplementationEntry)


def structured_settings(
    table: Mapping[str, Any], kind: ImplementationType, tool: ToolDefinition, handlers: Handlers
) -> tuple[tuple[Any, Any], list[str]]:
    """Return the settings of a tool made in code, its type's and its handler's, and their problems."""
    from ..config.structure import structure_mapping  # imports cattrs: only when needed

    handler = handler_with_settings(kind, table, tool.handler, tool.name, handlers)
    own = keys_of(handler, kind)
    settings, problems = structure_mapping({k: v for k, v in table.items() if k not in own}, kind.settings_class)
    of_handler: Any = None
    if handler is not None and handler.settings_class is not None:
        of_handler, more = structure_mapping({k: v for k, v in table.items() if k in own}, handler.settings_class)
        problems += more
    return (settings, of_handler), problems
