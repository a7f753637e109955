"""Registers the package's plugins. Code that handles documents and requests is imported on first use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs
from flexchat.plugin import (
    ImplementationType,
    SourcedTool,
    ToolDefinition,
    ToolHandler,
    ToolSourceType,
    hookimpl,
)
from flexchat_sdk import imported_late

from .settings import HttpToolSettings, OpenApiConfig, OperationSettings, usual

FLEXCHAT_API = (0, 1)


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
        open=imported_late("flexchat_http.openapi.source", "open_source"),
        summary="the operations of an OpenAPI document: document, include, exclude, effect, server, auth",
        configured=_configured,
    )


@hookimpl
def flexchat_register_implementation_types() -> Iterable[ImplementationType]:
    """Offer tools that are one request to a service, and the operations of documents."""
    yield ImplementationType(
        name="http",
        settings_class=HttpToolSettings,
        run=imported_late("flexchat_http.tool", "run"),
        check=_check,
        defaults=usual,
        summary="sends a request to a service: url with {placeholders}, method, headers, params_mapping, auth, …",
    )
    yield ImplementationType(
        name="openapi",
        settings_class=OperationSettings,
        run=imported_late("flexchat_http.openapi.calling", "run"),
        summary="calls an operation of an OpenAPI document; made by the tool source openapi",
    )
