"""The implementation type "internal": a handler that receives FlexChat's own services."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import attrs
from flexchat.plugin import ImplementationType, ToolContext, ToolDefinition, ToolError, ToolHandler

KIND = "internal"


@attrs.frozen(kw_only=True)
class InternalSettings:
    """The implementation table of an internal tool.

    Attributes:
        handler: Name of the handler; absent for the tool's own ``handler``, else its name.
        service: The only entry of stores the handler sees; absent for all of them.
    """

    handler: str | None = None
    service: str | None = None


class InternalToolError(ToolError):
    """An internal tool failed; the text addresses both the model and the author of the config."""


async def run(settings: InternalSettings, params: Mapping[str, Any], context: ToolContext) -> Any:
    """Call the handler with the services it may use.

    Raises:
        InternalToolError: The handler or service does not exist.
    """
    name = _handler_name(settings, context.tool)
    handler = context.handlers.get((KIND, name))
    if handler is None:
        raise _not_found(name, context.handlers)
    if settings.service is not None:
        if settings.service not in context.stores:
            stores = ", ".join(context.stores) or "none"
            text = f"no document store is called '{settings.service}' (configured in stores: {stores})"
            raise InternalToolError(text)
        context = attrs.evolve(context, stores={settings.service: context.stores[settings.service]})
    return await context.call(handler, params)


def check(
    settings: InternalSettings, tool: ToolDefinition, handlers: Mapping[tuple[str, str], ToolHandler]
) -> str | None:
    """Validate that the handler exists; return an error text, or None."""
    name = _handler_name(settings, tool)
    return None if (KIND, name) in handlers else _not_found(name, handlers).explained()


def _handler_name(settings: InternalSettings, tool: ToolDefinition) -> str:
    return settings.handler or tool.handler or tool.name


def _not_found(name: str, handlers: Mapping[tuple[str, str], ToolHandler]) -> InternalToolError:
    """Build the error with the specified text and a hint that lists the handlers (requirements TC-46, TE-15)."""
    names = sorted(handler for kind, handler in handlers if kind == KIND)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"installed: {', '.join(names) or 'none'}"
    return InternalToolError(f"Internal handler '{name}' not found", hint=hint)


INTERNAL = ImplementationType(
    name=KIND,
    settings_class=InternalSettings,
    run=run,
    check=check,
    stores=lambda settings: [settings.service] if settings.service is not None else [],
    summary="a handler that uses FlexChat's own services: handler, service",
)
"""The record this package registers."""
