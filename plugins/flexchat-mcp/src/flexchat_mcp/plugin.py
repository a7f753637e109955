"""What this package brings. Light: the SDK is loaded when a server is needed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from flexchat.plugin import (
    CheckedConfig,
    ConfigCheck,
    ConfigTable,
    ImplementationType,
    SourcedTool,
    ToolContext,
    ToolSourceType,
    hookimpl,
)
from flexchat_sdk import imported_late, load_module

from .settings import McpConfig, McpToolSettings

if TYPE_CHECKING:
    from flexchat_web.typing import MountedApp, Web

FLEXCHAT_API = (0, 1)


async def _call(settings: McpToolSettings, params: Mapping[str, Any], context: ToolContext) -> Any:
    # Until the SDK is loaded, the server is asked nothing; but with a handle, an earlier call may have acted.
    with context.preparing() if context.handle is None else contextlib.nullcontext():
        call = (await load_module("flexchat_mcp.calling")).run
    return await call(settings, params, context)


def _configured(config: McpConfig, accepted: SourcedTool, now: SourcedTool | None) -> SourcedTool:
    from .listing import configured

    return configured(config, accepted, now)


@hookimpl
def flexchat_register_tool_sources() -> Iterable[ToolSourceType]:
    """Offer the tools of MCP servers."""
    yield ToolSourceType(
        name="mcp",
        config_class=McpConfig,
        open=imported_late("flexchat_mcp.source", "open_source"),
        summary="the tools of an MCP server: command or url, env, headers, include, exclude, effects, trust",
        configured=_configured,
    )


def _server_config() -> type:
    from .serve.settings import McpServerConfig

    return McpServerConfig


@hookimpl
def flexchat_register_config_tables() -> Iterable[ConfigTable]:
    """Register the table of FlexChat's own MCP server."""
    yield ConfigTable(
        name="mcp_server",
        load=_server_config,
        summary="What MCP clients get: flexchat mcp serve, and /mcp of flexchat serve.",
    )


def _review(read: CheckedConfig, parts: Any) -> None:
    if "mcp_server" in parts.config.tables:
        from .serve.checking import review_server

        review_server(read, parts)


@hookimpl
def flexchat_register_checks() -> Iterable[ConfigCheck]:
    """Offer notes on names in [mcp_server] that no tool has."""
    yield ConfigCheck(name="tools of the MCP server", review=_review)


@hookimpl(optionalhook=True)
def flexchat_web_apps(web: Web) -> Iterable[MountedApp]:
    """Offer /mcp of flexchat serve."""
    from .serve.web import mounted_apps

    return mounted_apps(web)


@hookimpl
def flexchat_register_implementation_types() -> Iterable[ImplementationType]:
    """Offer calls of those tools."""
    yield ImplementationType(
        name="mcp",
        settings_class=McpToolSettings,
        run=_call,
        summary="calls a tool of an MCP server; made by the tool source mcp",
    )
