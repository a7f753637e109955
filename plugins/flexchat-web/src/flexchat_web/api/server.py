"""What the page needs to start, and Markdown for it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flexchat
from flexchat import RetrievalError

from ..apart import Apart
from ..markdown import QUICK, all_rendered, price
from ..operations import Call, Json, Operations, Reply
from .shapes import COUNT, NULLABLE_TEXT, SWITCH, TEXT, TEXTS, body_schema, listed, record

if TYPE_CHECKING:
    from flexchat import FlexChat

_COLLECTIONS_S = 5.0


operation = Operations("server")


@operation(
    "GET",
    "/api/ui-config",
    answers={
        200: record(
            {
                "title": TEXT,
                "version": TEXT,
                "read_only": SWITCH,
                "asks_for_token": SWITCH,
                "config": record({"name": TEXT, "format": NULLABLE_TEXT}),
                "llms": listed(record({"name": TEXT, "provider": TEXT, "default_model": NULLABLE_TEXT})),
                "collections": listed(record({"service": TEXT, "name": TEXT, "count": COUNT})),
                "keeps_conversations": SWITCH,
                "keeps_effects": SWITCH,
                "has_tools": SWITCH,
                "reloaded_at": TEXT,
                "notes": TEXTS,
                "config_problem": {"type": ["object", "null"]},
            }
        )
    },
)
async def ui_config(call: Call) -> Reply:
    """Return what the page needs to start."""
    serving = call.serving
    source = serving.source if isinstance(serving.source, Path) else None
    problems = [{"path": p.path, "text": serving.mask(p.text), "line": p.line} for p in serving.config_problems]
    async with serving.chat() as chat:
        return Json(
            {
                "title": "FlexChat",
                "version": flexchat.__version__,
                "read_only": not call.may_edit,
                "asks_for_token": bool(serving.settings.tokens),
                "config": {
                    "name": source.name if source is not None else "demo",
                    "format": source.suffix.removeprefix(".") if source is not None else None,
                },
                "llms": [
                    {"name": name, "provider": entry.provider, "default_model": entry.default_model}
                    for name, entry in chat.config.llms.items()
                ],
                "collections": await _collections(chat),
                "keeps_conversations": chat.conversations is not None,
                "keeps_effects": _keeps_effects(chat),
                "has_tools": chat.tools.is_enabled() and bool(chat.tools.get_registry().names()),
                "reloaded_at": serving.reloaded_at,
                "notes": [serving.mask(str(note)) for note in serving.notes],
                "config_problem": {"problems": problems} if problems else None,
            }
        )


def _keeps_effects(chat: FlexChat) -> bool:
    """Return whether what tools have changed outlives this process."""
    store = chat.config.tools.effects.store
    return store != "memory" and (store is not None or chat.conversations is not None)


async def _collections(chat: FlexChat) -> list[dict[str, Any]]:
    """Return the collections of all stores that answer within some seconds."""

    async def of(service: str) -> list[dict[str, Any]]:
        try:
            async with asyncio.timeout(_COLLECTIONS_S):
                found = await chat.stores[service].collections()
        except (RetrievalError, TimeoutError):
            return []
        only = chat.config.stores[service].collection
        return [
            {"service": service, "name": c.name, "count": c.documents, "description": c.description}
            for c in found
            if only is None or c.name == only
        ]

    return [entry for entries in await asyncio.gather(*map(of, chat.stores)) for entry in entries]


@operation(
    "POST",
    "/api/markdown",
    body=body_schema({"texts": {"type": "array", "items": TEXT, "maxItems": 200}}),
    max_body_bytes=2 * 1024 * 1024,
    answers={200: record({"html": TEXTS})},
)
async def render_markdown(call: Call) -> Reply:
    """Render Markdown texts as safe HTML."""
    texts = call.body["texts"]
    if sum(map(price, texts)) <= QUICK:
        return Json({"html": all_rendered(texts)})
    return Json({"html": await Apart.of(call.serving).run(all_rendered, texts)})
