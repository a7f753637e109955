"""Registers the package's plugins. Code that handles documents and requests is imported on first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
from flexchat.plugin import (
    ImplementationType,
    SourcedTool,
    ToolContext,
    ToolDefinition,
    ToolHandler,
    ToolSource,
    ToolSourceContext,
    ToolSourceType,
    hookimpl,
    run_in_thread,
)

from .openapi.settings import OpenApiConfig, OperationSettings
from .settings import HttpToolSettings, usual

FLEXCHAT_API = (0, 1)


async def _load(module: str) -> None:
    """Import a module of this package, in a thread: that takes long."""
    name = f"{__package__}.{module}"
    if name not in sys.modules:
        await run_in_thread(importlib.import_module, name)


async def _run(settings: HttpToolSettings, params: Mapping[str, Any], context: ToolContext) -> Any:
    await _load("tool")
    from .tool import run

    return await run(settings, params, context)


def _check(
    settings: HttpToolSettings, tool: ToolDefinition, handlers: Mapping[tuple[str, str], ToolHandler]
) -> str | None:
    from .tool import check

    return check(settings, tool, handlers)


async def _open_document(config: OpenApiConfig, context: ToolSourceContext) -> ToolSource:
    from .openapi.source import open_source

    return await open_source(config, context)


async def _call_operation(settings: OperationSettings, params: Mapping[str, Any], context: ToolContext) -> Any:
    await _load("openapi.calling")
    from .openapi.calling import run

    return await run(settings, params, context)


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
        open=_open_document,
        summary="the operations of an OpenAPI document: document, include, exclude, effect, server, auth",
        configured=_configured,
    )


@hookimpl
def flexchat_register_implementation_types() -> Iterable[ImplementationType]:
    """Offer tools that are one request to a service, and the operations of documents."""
    yield ImplementationType(
        name="http",
        settings_class=HttpToolSettings,
        run=_run,
        check=_check,
        defaults=usual,
        summary="sends a request to a service: url with {placeholders}, method, headers, params_mapping, auth, …",
    )
    yield ImplementationType(
        name="openapi",
        settings_class=OperationSettings,
        run=_call_operation,
        summary="calls an operation of an OpenAPI document; made by the tool source openapi",
    )
