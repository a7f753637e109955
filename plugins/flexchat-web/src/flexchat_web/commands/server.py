"""Runs uvicorn: announces itself when it listens, limits how long a request may take, and ends streams at shutdown."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..authentication import PEER

if TYPE_CHECKING:
    from ..app import WebApp


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


SHUTDOWN_SECONDS = 2


class _Peers:
    """An app around another: notes who connected, and then lets trusted proxies name the client."""

    def __init__(self, app: WebApp, proxies: Sequence[str]) -> None:
        self._app: Any = ProxyHeadersMiddleware(app, [*proxies]) if proxies else app  # type: ignore[arg-type]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        scope[PEER] = (scope.get("client") or ("",))[0]
        await self._app(scope, receive, send)


class Server(uvicorn.Server):
    """uvicorn's server. At shutdown, streams end with an event about it, and other requests have 2 seconds.

    Args:
        started: Called when it listens.
        waiting: Called at shutdown with the work that is still open, if any.
        proxies: Addresses and networks whose X-Forwarded-Proto and X-Forwarded-For are believed.
        root_path: The path below which a proxy serves it.
    """

    def __init__(
        self,
        app: WebApp,
        started: Callable[[], None],
        *,
        verbose: bool,
        waiting: Callable[[str], None] = lambda _: None,
        proxies: Sequence[str] = (),
        root_path: str = "",
    ) -> None:
        if not (errors := logging.getLogger("uvicorn")).level:  # else --log-level has set it
            errors.setLevel(logging.INFO if verbose else logging.CRITICAL)
        super().__init__(
            uvicorn.Config(
                _Peers(app, proxies),
                http=HeadTimeoutProtocol,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,  # the guard writes its own, with ids
                server_header=False,
                date_header=False,
                proxy_headers=False,  # by _Peers
                root_path=root_path,
                h11_max_incomplete_event_size=32 * 1024,
                timeout_keep_alive=15,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            )
        )
        self._app, self._started, self._waiting = app, started, waiting

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, and announce it."""
        await super().startup(sockets)
        if not self.should_exit:
            authentication = self._app.serving.authentication
            if authentication.files and hasattr(signal, "SIGHUP"):
                loop = asyncio.get_running_loop()
                loop.add_signal_handler(signal.SIGHUP, loop.run_in_executor, None, authentication.read_again)
            gc.collect()
            gc.freeze()  # full collections would pause all requests to look at every module and rule again
            self._started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, wait for the rest, and stop listening."""
        streams, others = len(self._app.streams), len(self.server_state.tasks) - len(self._app.streams)
        open_work = [_count(streams, "stream is open", "streams are open")] if streams else []
        open_work += [_count(others, "request is under way", "requests are under way")] if others > 0 else []
        if open_work:
            self._waiting(f"stopping: {', '.join(open_work)}")
        self._app.streams.stop()
        await super().shutdown(sockets)


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
