"""The server: whether it runs and its stores answer, the page's settings and Markdown, and signing in and out.

A browser keeps the id of its session in a cookie that scripts cannot read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flexchat
from flexchat import FlexChat, FlexChatError, RetrievalError, StorageError

from ..apart import Apart
from ..kept_databases import databases_of_chat
from ..markdown import QUICK, all_rendered, price
from ..operations import Call, Json, Operations, Reply, Text
from ..page_files import STATIC
from ..problems import ApiError
from ..sessions import Sessions, cookie
from ..shapes import TEXT, body_schema, listed, record
from ..uploads import media_store

if TYPE_CHECKING:
    from flexchat.store import StoreDatabase

    from ..serving import Serving

log = logging.getLogger(__name__)

PATIENCE_S = 5.0
"""How long a store may take to answer."""

FRESH_S = 1.0
"""How long an answer is given again: strangers may ask as often as they like."""


class Readiness:
    """What the stores of a server last answered."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._lock = asyncio.Lock()
        self._stores: Mapping[str, str] = {}
        self._asked_at = -FRESH_S

    async def stores(self) -> Mapping[str, str]:
        """Check each store; map its name to its problem, empty if it answers."""
        async with self._lock:
            if time.monotonic() - self._asked_at >= FRESH_S:
                async with self._serving.chat() as chat:
                    questions = _store_reads(chat)
                    troubles = await asyncio.gather(*map(self._problem, questions, questions.values()))
                self._stores, self._asked_at = dict(zip(questions, troubles, strict=True)), time.monotonic()
            return self._stores

    async def _problem(self, name: str, question: Awaitable[Any]) -> str:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await question
        except TimeoutError:
            text = public = f"no answer within {PATIENCE_S:g} seconds"
        except FlexChatError as error:
            text, public = str(error), error.public_text
        except Exception as error:
            text = public = type(error).__name__
            log.debug("%s", name, exc_info=error)
        else:
            return ""
        log.warning("not ready: %s: %s", name, self._serving.mask(text))
        return self._serving.mask(public)


def _store_reads(chat: FlexChat) -> dict[str, Awaitable[Any]]:
    """Return a short read of each store, by the store's name."""
    questions: dict[str, Awaitable[Any]] = {"effects": chat.effects(limit=1)}
    if chat.conversations is not None:
        questions["conversations"] = chat.conversations.list(limit=1)
    questions |= {f"stores.{name}": store.collections() for name, store in chat.stores.items()}
    for names, database in databases_of_chat(chat).by_names.items():
        questions[f"schema of {', '.join(names)}"] = _check_schema(database)
    return questions


async def _check_schema(database: StoreDatabase) -> None:
    """Raise StorageError for a schema that this version cannot use; missing steps are done by the first use."""
    state = await database.schema()
    if not state.is_usable:
        raise StorageError(f"{database.place}: the schema was changed by a newer FlexChat: update this one")
    if state.is_behind and not database.migrates:
        raise StorageError(f"{database.place}: steps of the schema are missing: run flexchat migrate")


operation = Operations("server")


@operation("GET", "/docs", answers={200: None}, media=("text/html",), open=True)
async def show_docs(call: Call) -> Reply:
    """Show the OpenAPI document as a page, whose files are this server's own."""
    return Text(await asyncio.to_thread((STATIC / "docs.html").read_text, encoding="utf-8"), media_type="text/html")


@operation(
    "GET",
    "/health",
    answer=record({"status": str}, version=str, config_loaded=bool, ai_providers=list[str], rag_providers=list[str]),
    open=True,
)
async def health(call: Call, chat: FlexChat) -> Reply:
    """Check that the process runs; authorized clients also see its parts."""
    if call.is_stranger:
        return Json({"status": "ok"})
    return Json(
        {
            "status": "ok",
            "version": flexchat.__version__,
            "config_loaded": not call.serving.config_problems,
            "ai_providers": sorted({entry.provider for entry in chat.config.llms.values()}),
            "rag_providers": sorted({entry.provider for entry in chat.config.stores.values()}),
        }
    )


@operation("GET", "/ready", answers=dict.fromkeys((200, 503), record({"status": str}, stores=dict)), open=True)
async def ready(call: Call) -> Reply:
    """Check that the stores answer; authorized clients also see which one does not."""
    stores = await call.serving.shared(Readiness).stores()
    is_ready = not any(stores.values())
    details = {} if call.is_stranger else {"stores": {name: text or "ok" for name, text in stores.items()}}
    return Json({"status": "ready" if is_ready else "not ready", **details}, 200 if is_ready else 503)


_COLLECTIONS_S = 5.0
_SWITCHES = (
    "read_only",
    "asks_for_token",
    "keeps_conversations",
    "keeps_media",
    "keeps_effects",
    "has_tools",
    "counts_costs",
)


@operation(
    "GET",
    "/api/ui-config",
    answer=record(
        {
            **dict.fromkeys(("title", "version", "reloaded_at"), str),
            **dict.fromkeys(_SWITCHES, bool),
            "config": record({"name": str, "format": str | None}),
            "llms": listed(record({"name": str, "provider": str, "default_model": str | None})),
            "collections": listed(record({"service": str, "name": str, "count": int})),
            "notes": list[str],
            "config_problem": dict | None,
        }
    ),
)
async def ui_config(call: Call, chat: FlexChat) -> Reply:
    """Return the settings with which the page starts."""
    serving = call.serving
    source = serving.source if isinstance(serving.source, Path) else None
    problems = [{"path": p.path, "text": serving.mask(p.text), "line": p.line} for p in serving.config_problems]
    return Json(
        {
            "title": "FlexChat",
            "version": flexchat.__version__,
            "read_only": not call.may_edit,
            "asks_for_token": serving.authentication.has_tokens,
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
            "keeps_media": media_store(chat) is not None,
            "keeps_effects": _keeps_effects(chat),
            "has_tools": chat.tools.is_enabled() and bool(chat.tools.get_registry().names()),
            "counts_costs": "budgets" in chat.config.tables,
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
                collections = await chat.stores[service].collections()
        except (RetrievalError, TimeoutError):
            return []
        only = chat.config.stores[service].collection
        return [
            {"service": service, "name": c.name, "count": c.documents, "description": c.description}
            for c in collections
            if only is None or c.name == only
        ]

    return [entry for entries in await asyncio.gather(*map(of, chat.stores)) for entry in entries]


@operation(
    "POST",
    "/api/markdown",
    body=body_schema({"texts": {**listed(str), "maxItems": 200}}),
    max_body_bytes=2 * 1024 * 1024,
    answer=record({"html": list[str]}),
)
async def render_markdown(call: Call) -> Reply:
    """Render Markdown texts as safe HTML."""
    texts = call.body["texts"]
    if sum(map(price, texts)) <= QUICK:
        return Json({"html": all_rendered(texts)})
    return Json({"html": await Apart.of(call.serving).run(all_rendered, texts)})


@operation(
    "POST",
    "/api/session",
    body=body_schema({"token": {**TEXT, "maxLength": 1000}}),
    answers={204: None},
    problems=(401, 404, 503),
    open=True,
)
async def sign_in(call: Call) -> Reply:
    """Begin a session with a token; its id is kept in a browser cookie."""
    token, authentication = call.body["token"].strip(), call.serving.authentication
    if not authentication.has_tokens:
        raise ApiError(404, "this server has no tokens to sign in with", kind="no-tokens")
    if authentication.of_token(token) is None:
        raise ApiError(
            401,
            "the server does not accept this token: check that it is complete, or ask whoever runs the server",
            kind="token",
            headers={"www-authenticate": 'Bearer error="invalid_token"'},
        )
    session = await call.serving.shared(Sessions).begin(token)
    return Text(status=204, headers={"set-cookie": cookie(session, base=call.base, secure=call.secure)})


@operation("DELETE", "/api/session", answers={204: None}, open=True)
async def sign_out(call: Call) -> Reply:
    """End the browser's session."""
    if call.session:
        await call.serving.shared(Sessions).end(call.session)
    return Text(status=204, headers={"set-cookie": cookie("", base=call.base, secure=call.secure)})
