"""uvicorn, run by a program that says itself that it listens, and that ends streams when it ends."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from .protocol import HeadTimeoutProtocol

SHUTDOWN_SECONDS = 2


class Server(uvicorn.Server):
    """uvicorn's server. When it listens, it calls ``started``; requests have 2 seconds when it ends."""

    def __init__(self, app: Any, started: Callable[[], None], *, verbose: bool) -> None:
        logging.getLogger("uvicorn").setLevel(logging.INFO if verbose else logging.CRITICAL)
        logging.getLogger("uvicorn.access").addFilter(without_query)
        super().__init__(
            uvicorn.Config(
                app,
                http=HeadTimeoutProtocol,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=verbose,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                h11_max_incomplete_event_size=32 * 1024,
                timeout_keep_alive=15,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            )
        )
        self._told = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so."""
        await super().startup(sockets)
        if not self.should_exit:
            self._told()


def without_query(record: logging.LogRecord) -> bool:
    """Leave the queries out of what is logged of requests: that of /?token=… is a secret."""
    if isinstance(record.args, tuple):
        record.args = tuple(each.partition("?")[0] if isinstance(each, str) else each for each in record.args)
    return True
