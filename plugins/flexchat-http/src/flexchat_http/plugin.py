"""Registers the package's plugins. Code that handles documents and requests is imported on first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import attrs
from flexchat.plugin import (
    ImplementationType,
    SourcedTool,
    ToolDefinition,
    ToolHandler,
    ToolSourceType,
    hookimpl,
    run_in_thread,
)

from .settings import HttpToolSettings, OpenApiConfig, OperationSettings, usual

FLEXCHAT_API = (0, 1)


def _late(module: str, name: str) -> Callable[..., Awaitable[Any]]:
    """Create a coroutine function of this package that is imported with its first call."""

    async def call(*arguments: Any) -> Any:
        full_name = f"{__package__}.{module}"
        # In a thread: it takes long.
        loaded = sys.modules.get(full_name) or await run_in_thread(importlib.import_module, full_name)
        return await getattr(loaded, name)(*arguments)

    return call


def _check(
    settings: HttpToolSettings, tool: ToolDefinition, handlers: Mapping[tuple[str, str], ToolHandler]
) -> str | None:
    from .tool import check

    return check(settings, tool, handlers)


def _configured(config: OpenApiConfig, accepted: SourcedTool, now: SourcedTool | None) -> SourcedTool:
    """Return an accepted operation with the effect that the configuration gives the same request now."""
    if now is None or now.settings.get("plan") != accepted.settings.get("plan"):
        return accepted
    if (now.effect, now.honours_key) == (accepted.effect, accepted.honours_key):
        return accepted
    return attrs.evolve(accepted, effect=now.effect, honours_key=now.honours_key)


@hookimpl
def flexchat_register_tool_sources() -> Iterable[ToolSourceType]:
    """Offer the operations of OpenAPI documents."""
    yield ToolSourceType(
        name="openapi",
        config_class=OpenApiConfig,
        open=_late("openapi.source", "open_source"),
        summary="the operations of an OpenAPI document: document, include, exclude, effect, server, auth",
        configured=_configured,
    )


@hookimpl
def flexchat_register_implementation_types() -> Iterable[ImplementationType]:
    """Offer tools that are one request to a service, and the operations of documents."""
    yield ImplementationType(
        name="http",
        settings_class=HttpToolSettings,
        run=_late("tool", "run"),
        check=_check,
        defaults=usual,
        summary="sends a request to a service: url with {placeholders}, method, headers, params_mapping, auth, …",
    )
    yield ImplementationType(
        name="openapi",
        settings_class=OperationSettings,
        run=_late("openapi.calling", "run"),
        summary="calls an operation of an OpenAPI document; made by the tool source openapi",
    )
