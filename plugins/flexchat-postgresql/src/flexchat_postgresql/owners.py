"""Owners: the processes that use the tables, and how long each counts as alive."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections.abc import Callable
from typing import Any, LiteralString

import psycopg

from .config import PostgresConfig
from .connections import Connection, Connections

_LEASE = """
    INSERT INTO {s}.owners AS o (owner, alive_until, lease_s, renewals)
    SELECT %(owner)s, clock_timestamp() + make_interval(secs => %(for_s)s), %(lease_s)s, 1 {where}
    ON CONFLICT (owner) DO UPDATE
    SET alive_until = excluded.alive_until, lease_s = excluded.lease_s, renewals = o.renewals + 1"""

LIVES: LiteralString = """EXISTS (
    SELECT FROM {s}.owners o WHERE o.owner = e.owner AND o.alive_until > clock_timestamp()
)"""
"""Whether the owner of row e lives, for what people are shown."""


_UNLESS_FRESH: LiteralString = """NOT EXISTS (
    SELECT FROM {s}.owners WHERE owner = %(owner)s
    AND alive_until BETWEEN clock_timestamp() + make_interval(secs => %(lease_s)s)
    AND clock_timestamp() + make_interval(secs => %(for_s)s)
)"""
WITH_CLAIM: LiteralString = _LEASE.replace("{where}", f"FROM made WHERE {_UNLESS_FRESH}")
"""Lets the owner of a claim live for a lease, if ``made`` has a row; see extend."""


async def extend(connections: Connections, connection: Connection, owner: str, lease_s: float) -> None:
    """Let an owner live for a lease from now on, in a transaction of the caller's.

    It gets a third more, so that not every claim changes this row: of two that do, one waits for the other's disk.
    """
    statement = connections.sql(_LEASE, where=connections.sql(f"WHERE {_UNLESS_FRESH}"))
    await connection.execute(statement, lease(owner, lease_s))


def lease(owner: str, lease_s: float) -> dict[str, object]:
    """Return the values that extend and WITH_CLAIM need."""
    return {"owner": owner, "for_s": lease_s * 4 / 3, "lease_s": lease_s}


class Renewer:
    """Renews leases from any thread, over a connection of its own, without an event loop."""

    def __init__(self, config: PostgresConfig, connections: Connections) -> None:
        self._config, self._connections = config, connections
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._process, self._is_closed = os.getpid(), False

    def renew(self, owner: str, lease_s: float) -> None:
        """Let an owner live for a lease from now on. Blocks.

        Raises:
            StorageError: The database cannot be used.
        """
        with self._lock, self._connections.explaining():
            if self._process != os.getpid():
                self._connection, self._process = None, os.getpid()  # the parent's
            try:
                self._renew(owner, lease_s)
            finally:
                if self._is_closed:
                    self._close()

    def close(self) -> None:
        """Close the connection. May be called twice; a lease that is renewed later has a connection of its own."""
        with self._lock:
            self._is_closed = True
            self._close()

    def _close(self) -> None:
        if self._connection is not None and self._process == os.getpid():
            self._connection.close()
        self._connection = None

    def _renew(self, owner: str, lease_s: float) -> None:
        if self._connection is not None:
            try:
                self._execute(self._connection, owner, lease_s)
                return
            except psycopg.OperationalError:
                self._close()
        self._connection = self._connected()
        try:
            self._execute(self._connection, owner, lease_s)
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            asyncio.run(self._connections.make_tables())  # nobody has used them yet
            self._execute(self._connection, owner, lease_s)

    def _execute(self, connection: psycopg.Connection[tuple[Any, ...]], owner: str, lease_s: float) -> None:
        given = {"owner": owner, "for_s": lease_s, "lease_s": lease_s}
        connection.execute(self._connections.sql(_LEASE, where=self._connections.sql("")), given)

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        # A server that does not answer must not hold the thread up for longer than it has to.
        seconds = max(2, math.ceil(self._config.connect_timeout_s))
        return psycopg.connect(
            self._config.dsn,
            autocommit=True,
            prepare_threshold=None,
            application_name="flexchat lease",
            connect_timeout=seconds,
            tcp_user_timeout=seconds * 1000,
        )


class Watch:
    """Tells whether an owner is dead so that a database's clock which somebody sets cannot make a living one look dead.

    An owner that lives renews its lease three times while it lasts. So it is dead only if it has not done so for half
    of a lease by this process's own clock, too; or for a whole one, whatever the database's clock says.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[int, float]] = {}  # by owner: its renewals, and since when they are unchanged

    def is_dead(self, owner: str, renewals: int, lease_s: float, *, has_expired: bool) -> bool:
        """Return whether an owner is dead, given its row."""
        now = self._clock()
        if owner not in self._seen or self._seen[owner][0] != renewals:
            if len(self._seen) >= 1000:
                self._seen.clear()  # most of them ended long ago
            self._seen[owner] = (renewals, now)
        unchanged_s = now - self._seen[owner][1]
        return unchanged_s >= (lease_s / 2 if has_expired else lease_s)
