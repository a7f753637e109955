"""Prepared tools: the argument checker and the implementation of each tool, made once for all its calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from ..domain import ToolDefinition
from ..errors import ToolError
from ..installing import how_to_install, package_with
from ..plugin.contracts import ImplementationType
from ..schema.check import ArgumentChecker
from ..tools.settings import Handlers, structured_settings

_NOT_YET = {"http": "HTTP tools are not yet supported (coming in v2)"}  # TC-47; a plugin that brings the type ends this


@attrs.frozen
class PreparedTool:
    """A tool that can be called; the settings of implementation and handler are instances of their classes."""

    checker: ArgumentChecker
    implementation: ImplementationType
    settings: Any
    handler_settings: Any


class PreparedTools:
    """The tools that have been called, ready to be called again."""

    def __init__(self, implementation_types: Mapping[str, ImplementationType], handlers: Handlers) -> None:
        self._types = dict(implementation_types)
        self._handlers = handlers
        self._known: dict[tuple[str | None, str], tuple[ToolDefinition, PreparedTool]] = {}

    def is_slow(self, tool: ToolDefinition) -> bool:
        """Return whether a tool has yet to be prepared, which imports what reads its settings."""
        return (tool.source, tool.name) not in self._known and isinstance(tool.implementation.settings, Mapping)

    def of(self, tool: ToolDefinition) -> PreparedTool:
        """Prepare a tool at its first call, and return it prepared. Raises ToolError if it cannot be run."""
        entry = self._known.get((tool.source, tool.name))
        # Compared by identity: a source may offer a new definition under the same name.
        if entry is not None and entry[0] is tool:
            return entry[1]
        implementation = self._types.get(tool.implementation.type)
        if implementation is None:
            name, there = tool.implementation.type, ", ".join(self._types) or "none"
            text = _NOT_YET.get(name, f"Unknown implementation type: {name}")
            package = package_with("implementation type", name)
            get_it = f"{how_to_install(package)}; " if package else ""
            raise ToolError(text, hint=f"{get_it}the installed plugins bring: {there}")
        settings, of_handler = tool.implementation.settings, tool.implementation.handler_settings
        if isinstance(settings, Mapping):
            settings, of_handler = self._structured(settings, implementation, tool)
        prepared = PreparedTool(ArgumentChecker(tool.parameters), implementation, settings, of_handler)
        self._known[tool.source, tool.name] = (tool, prepared)
        return prepared

    def _structured(
        self, settings: Mapping[str, Any], implementation: ImplementationType, tool: ToolDefinition
    ) -> tuple[Any, Any]:
        """Return the settings of a tool made in code or by a plugin; those from a config arrive structured."""
        structured, problems = structured_settings(settings, implementation, tool, self._handlers)
        if problems:
            raise ToolError(f"implementation of type {implementation.name}: {'; '.join(problems)}")
        return structured
