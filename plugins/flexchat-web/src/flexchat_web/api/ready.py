"""Whether the process runs, and whether the stores behind it answer: for load balancers and supervisors."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any

import flexchat
from flexchat import FlexChatError

from ..operations import Call, Json, Operations, Reply
from .shapes import SWITCH, TABLE, TEXT, TEXTS, record

if TYPE_CHECKING:
    from flexchat import FlexChat

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

    @classmethod
    def of(cls, serving: Serving) -> Readiness:
        """Return a server's instance."""
        return serving.shared(cls, lambda: cls(serving))

    async def stores(self) -> Mapping[str, str]:
        """Check each store; map its name to its problem, empty if it answers."""
        async with self._lock:
            if time.monotonic() - self._asked_at >= FRESH_S:
                async with self._serving.chat() as chat:
                    asked = _questions(chat)
                    found = await asyncio.gather(*map(self._trouble, asked, asked.values()))
                self._stores, self._asked_at = dict(zip(asked, found, strict=True)), time.monotonic()
            return self._stores

    async def _trouble(self, name: str, question: Awaitable[Any]) -> str:
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


def _questions(chat: FlexChat) -> dict[str, Awaitable[Any]]:
    """Return a short read of each store, by the store's name."""
    found: dict[str, Awaitable[Any]] = {"effects": chat.effects(limit=1)}
    if chat.conversations is not None:
        found["conversations"] = chat.conversations.list(limit=1)
    return found | {f"stores.{name}": store.collections() for name, store in chat.stores.items()}


operation = Operations("server")


@operation(
    "GET",
    "/health",
    answers={
        200: record({"status": TEXT}, version=TEXT, config_loaded=SWITCH, ai_providers=TEXTS, rag_providers=TEXTS)
    },
    open=True,
)
async def health(call: Call) -> Reply:
    """Check that the process runs; what it consists of is shown to those who may use it."""
    if call.is_stranger:
        return Json({"status": "ok"})
    async with call.serving.chat() as chat:
        return Json(
            {
                "status": "ok",
                "version": flexchat.__version__,
                "config_loaded": not call.serving.config_problems,
                "ai_providers": sorted({entry.provider for entry in chat.config.llms.values()}),
                "rag_providers": sorted({entry.provider for entry in chat.config.stores.values()}),
            }
        )


@operation(
    "GET",
    "/ready",
    answers={200: record({"status": TEXT}, stores=TABLE), 503: record({"status": TEXT}, stores=TABLE)},
    open=True,
)
async def ready(call: Call) -> Reply:
    """Check that the stores answer; which one does not is shown to those who may use the server."""
    stores = await Readiness.of(call.serving).stores()
    is_ready = not any(stores.values())
    told = {} if call.is_stranger else {"stores": {name: text or "ok" for name, text in stores.items()}}
    return Json({"status": "ready" if is_ready else "not ready", **told}, 200 if is_ready else 503)
