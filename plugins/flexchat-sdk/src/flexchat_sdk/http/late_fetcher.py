"""A chat's guarded fetcher, imported with its first request, because most chats never send one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterable
from typing import TYPE_CHECKING, Any

from flexchat.domain.fetching import Fetched, FetchedStream, FetchRequest
from flexchat.domain.masking import Mask

if TYPE_CHECKING:
    from .fetcher import GuardedFetcher


class LateFetcher:
    """A fetcher that creates its GuardedFetcher with the first request.

    Args:
        allow: Addresses that need not be public.
        domains: The only hosts that may be reached; None for any.
        mask: Removes secrets from errors and the log.
    """

    def __init__(self, allow: Iterable[str], domains: Iterable[str] | None, mask: Mask) -> None:
        self._allow, self._domains, self._mask = tuple(allow), domains, mask
        self._fetcher: GuardedFetcher | None = None

    async def fetch(self, request: FetchRequest, **limits: Any) -> Fetched:
        """Send a request; see GuardedFetcher.fetch."""
        # Imported in a thread, because importing aiohttp would block the event loop noticeably.
        if self._fetcher is None:
            await asyncio.to_thread(_load)
        return await self._ensure_fetcher().fetch(request, **limits)

    @contextlib.asynccontextmanager
    async def stream(self, request: FetchRequest, *, timeout_s: float = 10.0) -> AsyncGenerator[FetchedStream, None]:
        """Send a request; see GuardedFetcher.stream."""
        if self._fetcher is None:
            await asyncio.to_thread(_load)
        async with self._ensure_fetcher().stream(request, timeout_s=timeout_s) as streamed:
            yield streamed

    async def aclose(self) -> None:
        """Close all connections."""
        if self._fetcher is not None:
            await self._fetcher.aclose()

    def _ensure_fetcher(self) -> GuardedFetcher:
        if self._fetcher is None:
            from .fetcher import GuardedFetcher
            from .guard import AddressRule

            domains = None if self._domains is None else tuple(self._domains)
            self._fetcher = GuardedFetcher(AddressRule(self._allow, domains), mask=self._mask)
        return self._fetcher


def _load() -> None:
    """Import what the first request needs; a missing package is reported by the request itself."""
    with contextlib.suppress(ImportError):
        from . import connections, fetch_trouble, fetcher, guard  # noqa: F401
