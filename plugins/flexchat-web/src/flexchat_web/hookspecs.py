"""The hooks that flexchat-web offers to other plugins.

What implementations need is passed as ``web``, the module flexchat_web.plugin_api, and in every call as ``call.web``;
flexchat_web.typing has the types. Mark them ``@hookimpl(optionalhook=True)``, and import flexchat_web.typing and
flexchat_web.shapes (JSON Schemas) only in modules that the hooks import, so that the plugin also loads without it.

Plugin operations go through the same guard, tenants, schema checks and OpenAPI document as ours.
"""

from __future__ import annotations

from collections.abc import Iterable

from flexchat.plugin import hookspec

from .operations import ModelFact, MountedApp, Operation, Page, Web


@hookspec
def flexchat_web_operations(web: Web) -> Iterable[Operation]:  # type: ignore[empty-body]
    """Offer operations of the HTTP API.

    Example:
        @hookimpl(optionalhook=True)
        def flexchat_web_operations(web):
            async def dice(call):
                async with call.serving.chat() as chat:
                    return call.web.Json({"rules": len(chat.config.responses), "tenant": call.tenant})

            yield web.Operation(
                method="GET",
                path="/api/acme/dice",
                name="acme_dice",
                summary="Roll.",
                tag="server",
                handle=dice,
                answers={200: {"type": "object"}},
            )
    """


@hookspec
def flexchat_web_pages(web: Web) -> Iterable[Page]:  # type: ignore[empty-body]
    """Register additional pages. static/js/router.js documents the exports of a page's module.

    Example:
        from pathlib import Path

        @hookimpl(optionalhook=True)
        def flexchat_web_pages(web):
            yield web.Page(name="acme_dice", label="Dice", folder=Path("pages"), script="dice.js")
    """


@hookspec
def flexchat_web_apps(web: Web) -> Iterable[MountedApp]:  # type: ignore[empty-body]
    """Mount ASGI apps: another protocol, beside the HTTP API.

    Example:
        @hookimpl(optionalhook=True)
        def flexchat_web_apps(web):
            async def handle(serving, scope, receive, send):
                async with serving.chat() as chat:
                    await acme_app(chat, scope["flexchat.tenant"])(scope, receive, send)

            yield web.MountedApp(path="/acme", handle=handle)
    """


@hookspec
def flexchat_web_model_facts(web: Web) -> Iterable[ModelFact]:  # type: ignore[empty-body]
    """Register additional facts about each model in the list of models.

    Example:
        @hookimpl(optionalhook=True)
        def flexchat_web_model_facts(web):
            async def prices(call, chat, ids):
                return {id: {"usd": 0.0} for id in ids}

            yield web.ModelFact(name="price", schema={"type": "object"}, values=prices)
    """
