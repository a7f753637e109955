"""The implementation type "builtin": runs a tool with a registered handler, looked up by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
from flexchat.plugin import ToolContext, ToolDefinition, ToolError, ToolHandler

KIND = "builtin"


@attrs.frozen(kw_only=True)
class BuiltinSettings:
    """The implementation table of a builtin tool.

    Attributes:
        handler: Name of a handler of kind "builtin". Default: the tool's own handler key, else its name.
    """

    handler: str | None = None


class HandlerNotFoundError(ToolError, LookupError):
    """No plugin registers a handler of this name (requirements TC-45, TE-11)."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name, self.known = name, tuple(sorted(known))
        close = difflib.get_close_matches(name, self.known, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(self.known) or 'none'}"
        super().__init__(f"Builtin handler '{name}' not found", hint=hint)


async def run(settings: BuiltinSettings, params: Mapping[str, Any], context: ToolContext) -> Any:
    """Run the tool's handler with the parameters."""
    return await context.call(find(settings, context.tool, context.handlers), params)


def check(
    settings: BuiltinSettings, tool: ToolDefinition, handlers: Mapping[tuple[str, str], ToolHandler]
) -> str | None:
    """Validate that the handler exists, before any call; return the error text with its hint, or None."""
    try:
        find(settings, tool, handlers)
    except HandlerNotFoundError as error:
        return error.explained()
    return None


def find(
    settings: BuiltinSettings, tool: ToolDefinition, handlers: Mapping[tuple[str, str], ToolHandler]
) -> ToolHandler:
    """Look up a tool's handler by implementation.handler, else the tool's handler key, else its name.

    Raises:
        HandlerNotFoundError: No plugin registers it.
    """
    name = settings.handler or tool.handler or tool.name
    handler = handlers.get((KIND, name))
    if handler is None:
        raise HandlerNotFoundError(name, (handler_name for kind, handler_name in handlers if kind == KIND))
    return handler
