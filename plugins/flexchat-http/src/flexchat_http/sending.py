"""Sends a tool's request, with its key and the call's; the same for HTTP tools and OpenAPI operations."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import attrs
from flexchat.host import Mask
from flexchat.plugin import Fetched, FetchRequest, ToolContext
from flexchat_sdk import TimeLeft

from .answer import check_status
from .auth import authorize, secrets_of
from .request import merge_headers
from .settings import TIMEOUT_MS, Auth

_MARGIN = 0.95
"""Of the tool's time: what its service did is known better here than to the alarm that ends the tool."""


@attrs.frozen(kw_only=True)
class Sending:
    """Transport settings for the requests of one tool.

    Attributes:
        key_header: Header for the call's idempotency key; None if the service has none.
        secrets: Texts to mask in errors and results, in addition to those of auth.
    """

    auth: Auth | None = None
    key_header: str | None = None
    traceparent: bool = False
    max_bytes: int = 4 * 2**20
    secrets: tuple[str, ...] = ()

    async def send(self, request: FetchRequest, context: ToolContext) -> Fetched:
        """Send a request and return its answer, a success.

        Raises:
            FetchError: There was no answer, or the service refused or failed.
        """
        time_left = TimeLeft((context.tool.timeout_ms or TIMEOUT_MS) / 1000 * _MARGIN)
        request, key_sent = self._add_headers(request, context)
        with context.preparing():
            ready = await authorize(request, self.auth, context.fetcher, time_left() or 0.0)
        answer = await self._fetch(ready, context, time_left)
        if answer.status == 401 and self.auth is not None and self.auth.type == "oauth2":
            self.auth.issued.value = ""  # withdrawn before its time; a request refused for its key has done nothing
            with context.preparing():
                ready = await authorize(request, self.auth, context.fetcher, time_left() or 0.0)
            answer = await self._fetch(ready, context, time_left)
        check_status(answer, Mask([*self.secrets, *secrets_of(self.auth)]), key_sent=key_sent)
        return answer

    async def _fetch(self, ready: FetchRequest, context: ToolContext, time_left: TimeLeft) -> Fetched:
        ready = attrs.evolve(ready, secrets=(*self.secrets, *secrets_of(self.auth)))
        return await context.fetcher.fetch(
            ready, timeout_s=time_left() or 0.0, max_bytes=self.max_bytes, is_repeat=context.attempt > 1
        )

    def _add_headers(self, request: FetchRequest, context: ToolContext) -> tuple[FetchRequest, bool]:
        added: dict[str, str] = {}
        key = context.key if self.key_header is not None else None
        if self.key_header is not None and key is not None:
            added[self.key_header] = key
        if self.traceparent:
            added["traceparent"] = _traceparent(context)
        repeatable = request.is_safe or context.tool.effect != "write" or key is not None
        headers: Mapping[str, str] = merge_headers(request.headers, added) if added else request.headers
        return attrs.evolve(request, headers=headers, repeatable=repeatable), key is not None


def _traceparent(context: ToolContext) -> str:
    """Return a trace context (W3C, version 00): one trace for each turn, one span for each call."""
    trace = hashlib.sha256(f"turn {context.turn_id or context.call_id}".encode()).hexdigest()[:32]
    span = hashlib.sha256(f"call {context.call_id}".encode()).hexdigest()[:16]
    return f"00-{trace}-{span}-01"
