"""/mcp of flexchat serve: mounted where flexchat-web is installed, answered where the config has [mcp_server].

Light: the SDK is imported with the first request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from flexchat_sdk import load_module

from .settings import TABLE, McpServerConfig

if TYPE_CHECKING:
    from flexchat_web.typing import Admission, MountedApp, Serving, Web

PATH = "/mcp"
METADATA_PATH = f"/.well-known/oauth-protected-resource{PATH}"


def mounted_apps(web: Web) -> Iterable[MountedApp]:
    """Offer the app."""

    async def handle(serving: Serving, scope: Any, receive: Any, send: Any) -> None:
        settings = await _settings(serving)
        path = scope["path"].removeprefix(scope.get("root_path", "") or "")
        if settings is None or (path == METADATA_PATH and settings.oauth is None) or path not in (PATH, METADATA_PATH):
            why = "the configuration has no table 'mcp_server'" if settings is None else "there is nothing at this path"
            raise web.ApiError(404, why)
        if path == METADATA_PATH:
            assert settings.oauth is not None
            oauth = await load_module("flexchat_mcp.serve.oauth")
            await oauth.send_metadata(settings.oauth, scope, receive, send)
            return
        app = serving.shared((await load_module("flexchat_mcp.serve.http")).McpApp)
        await app(settings, scope, receive, send)

    async def admit(serving: Serving, bearer: str) -> Admission:
        settings = await _settings(serving)
        if settings is None or settings.oauth is None:
            return web.Admission()
        oauth = await load_module("flexchat_mcp.serve.oauth")
        admission: Admission = await oauth.admit(web, serving, settings.oauth, bearer)
        return admission

    yield web.MountedApp(path=PATH, handle=handle, open_paths=(METADATA_PATH,), admit=admit)


async def _settings(serving: Serving) -> McpServerConfig | None:
    async with serving.chat() as chat:
        settings: McpServerConfig | None = chat.config.tables.get(TABLE)
        return settings
