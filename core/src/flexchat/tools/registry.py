"""The existing tools, by name, and their translation for a provider."""

from __future__ import annotations

import builtins
import logging
from collections.abc import Collection, Mapping
from typing import Any

import attrs

from ..domain import ToolDefinition
from ..domain.copies import copied, with_own_tables
from ..errors import DuplicateToolError, ToolDefinitionError, UnknownToolFormatError, did_you_mean
from ..plugin.contracts import ToolEncoder
from ..schema.limits import schema_problems
from .wire_names import wire_names

log = logging.getLogger(__name__)


class ToolRegistry:
    """Keeps tool definitions. Knows no wire format: it gets encoders by name.

    Source: requirements TC-13, TC-27 to TC-35, DS-1.
    """

    def __init__(self, formats: Mapping[str, ToolEncoder] | None = None) -> None:
        self._tools: dict[str, ToolDefinition] = {}
        self._formats = dict(formats or {})
        self._encoded: dict[tuple[str, tuple[str, ...]], tuple[dict[str, Any], ...]] = {}
        self._sent: dict[str, str] | None = None
        self._by_sent: dict[str, str] = {}

    def register(self, tool: ToolDefinition) -> None:
        """Add a tool.

        Raises:
            DuplicateToolError: A tool with that name already exists; it stays.
            ToolDefinitionError: Its parameters are not usable JSON Schema, or exceed the limits of schema.limits.
        """
        if tool.name in self._tools:
            raise DuplicateToolError(tool.name)
        problems = schema_problems(tool.parameters)
        if problems:
            raise ToolDefinitionError(f"Tool {tool.name}: parameters: {'; '.join(problems)}")
        # The caller may change its tables later; what is checked, sent and run must not change with them.
        self._tools[tool.name] = attrs.evolve(
            tool, parameters=copied(tool.parameters), implementation=with_own_tables(tool.implementation)
        )
        self._encoded.clear()
        self._sent = None
        log.debug("tool %s registered", tool.name)

    def get(self, name: str) -> ToolDefinition | None:
        """Return the tool with that name; None if there is none."""
        return self._tools.get(name)

    def has(self, name: str) -> bool:
        """Return whether there is a tool with that name."""
        return name in self._tools

    def list(self) -> list[ToolDefinition]:
        """Return all tools, in the order they were registered."""
        return [*self._tools.values()]

    def names(self, allowed: Collection[str] | None = None) -> tuple[str, ...]:
        """Return the names of the tools on an allow-list, in order; None or empty means all of them."""
        return tuple(name for name in self._tools if not allowed or name in allowed)

    def wire_name(self, name: str) -> str:
        """Return the name a model knows a tool by; see wire_names."""
        return self._sent_names().get(name, name)

    def name_of(self, wire_name: str) -> str:
        """Return the name of the tool that a model knows by wire_name; wire_name itself if there is none."""
        if self._sent is None:
            self._sent_names()
        return self._by_sent.get(wire_name, wire_name)

    def to_provider_format(
        self, provider: str, allowed_tools: Collection[str] | None = None
    ) -> builtins.list[dict[str, Any]]:
        """Return the allowed tools in a provider's own format.

        Args:
            provider: Name of a tool format registered by a provider plugin: "openai", "gemini".
            allowed_tools: Names to keep; None or empty keeps all (TC-32).

        Raises:
            UnknownToolFormatError: No installed plugin offers that format.
        """
        return [*self.wire_tools(provider, self.names(allowed_tools))]

    def wire_tools(self, provider: str, names: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
        """Return the named tools in a provider's format: the same tuple for the same names, so it is encoded once.

        Raises:
            UnknownToolFormatError: As for to_provider_format.
        """
        found = self._encoded.get((provider, names))
        if found is None:
            encode = self._formats.get(provider)
            if encode is None:
                raise UnknownToolFormatError(provider, known=sorted(self._formats))
            found = tuple(encode([self._as_sent(name) for name in names]))
            self._encoded[provider, names] = found
        return found

    def _as_sent(self, name: str) -> ToolDefinition:
        tool, sent = self._tools[name], self.wire_name(name)
        return tool if sent == name else attrs.evolve(tool, name=sent)

    def _sent_names(self) -> dict[str, str]:
        if self._sent is None:
            self._sent = wire_names(self._tools)
            self._by_sent = {sent: name for name, sent in self._sent.items()}
        return self._sent


def verify_trouble(tool: ToolDefinition, registry: ToolRegistry) -> str | None:
    """Return why the tool's verifying tool cannot verify it, in one sentence; None if it can, or there is none."""
    if tool.verify is None:
        return None
    asked = registry.get(tool.verify)
    if asked is None:
        known = registry.names()
        hint = did_you_mean(tool.verify, known) or f" (tools: {', '.join(known)})"
        return f"tool '{tool.name}': there is no tool '{tool.verify}' that could verify it{hint}"
    if asked.effect != "read":
        wrong = f"its own effect must be 'read', not '{asked.effect}'"
        return f"tool '{tool.name}': '{asked.name}' cannot verify it: {wrong}"
    return None
