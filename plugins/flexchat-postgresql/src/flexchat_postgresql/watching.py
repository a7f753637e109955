"""Notices of changed turns, by LISTEN and NOTIFY."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import AsyncGenerator

import psycopg
from flexchat.plugin import FlexChatError

from .connections import Connection, Connections

_log = logging.getLogger(__name__)
_MAX_IDS = 1000  # waiting for one watcher; more are one empty id


class Notices:
    """Sends and receives the ids of changed turns.

    All watchers of a store share one connection, which is open while there is one.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._process, self._sender = os.getpid(), secrets.token_hex(4)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watchers: set[asyncio.Queue[str | None]] = set()
        self._listening: asyncio.Task[None] | None = None

    def send(self, connection: Connection, turn: str, *, is_command: bool = False) -> None:
        """Send a turn's id once the transaction is committed.

        Args:
            is_command: Something its owner has to act on, so that watchers of this store get it as well.
        """
        if self._process != os.getpid():  # a fork: notices of the parent are another's
            self._process, self._sender = os.getpid(), secrets.token_hex(4)
        notice = f"{'' if is_command else self._sender} {turn}"
        if notice not in connection.notices:
            connection.notices.append(notice)

    async def watch(self) -> AsyncGenerator[str, None]:
        """Yield the ids of changed turns; see TurnJournal."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._watchers, self._listening = loop, set(), None
        ids: asyncio.Queue[str | None] = asyncio.Queue(_MAX_IDS)
        self._watchers.add(ids)
        if self._listening is None or self._listening.done():
            self._listening = loop.create_task(self._listen())
        try:
            while (id := await ids.get()) is not None:
                yield id
        finally:
            self._watchers.discard(ids)
            if not self._watchers and self._loop is loop and self._listening is not None:
                self._listening.cancel()
                self._listening = None

    async def aclose(self) -> None:
        """Close the connection, and end the watches."""
        self._receive(None)
        if self._listening is not None and self._loop is asyncio.get_running_loop():
            self._listening.cancel()
            await asyncio.wait([self._listening])

    async def _listen(self) -> None:
        is_reported, pause = False, 0.05
        while True:
            try:
                raw = await self._connections.listen()
                try:
                    self._receive("")  # what has changed while there was no connection
                    is_reported, pause = False, 0.05
                    async for notice in raw.notifies():
                        sender, _, turn = notice.payload.partition(" ")
                        if sender != self._sender:
                            self._receive(turn)
                finally:
                    await raw.close()
            except (psycopg.Error, OSError):
                pass  # it broke, as when the server restarts
            except FlexChatError as error:
                if not is_reported:
                    _log.warning("changes by other processes are noticed late: %s", error)
                is_reported = True
            await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0)

    def _receive(self, turn: str | None) -> None:
        for ids in self._watchers:
            is_full = ids.full()
            while is_full and not ids.empty():
                ids.get_nowait()
            ids.put_nowait("" if turn and is_full else turn)
