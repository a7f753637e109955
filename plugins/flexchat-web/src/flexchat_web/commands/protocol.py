"""uvicorn's HTTP protocol, with a limit on how long the head of a request may take.

uvicorn waits for ever for an incomplete or missing head: a client that opens connections and stays silent could take
them all.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 30.0

_TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class HeadTimeoutProtocol(H11Protocol):
    """Closes a connection if no request is complete in time."""

    head_seconds = HEAD_SECONDS
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a head."""
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Keep waiting while no request is in progress."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_expecting()
        elif self._head_timer is None:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_expecting()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self._too_late)

    def _stop_expecting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_late(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.write(_TIMEOUT)
            self.transport.close()
