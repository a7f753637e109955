"""Owners: the processes that use the tables, and the leases that keep them alive."""

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

_LEASE: LiteralString = """
    INSERT INTO {s}.owners AS o (owner, alive_until, lease_s, renewals)
    SELECT %(owner)s, clock_timestamp() + make_interval(secs => %(for_s)s), %(lease_s)s, 1 {where}
    ON CONFLICT (owner) DO UPDATE
    SET alive_until = excluded.alive_until, lease_s = excluded.lease_s, renewals = o.renewals + 1"""

LIVES: LiteralString = """EXISTS (
    SELECT FROM {s}.owners o WHERE o.owner = e.owner AND o.alive_until > clock_timestamp()
)"""
"""SQL condition for display: the lease of the owner of row e has not expired."""


_UNLESS_FRESH: LiteralString = """NOT EXISTS (
    SELECT FROM {s}.owners WHERE owner = %(owner)s
    AND alive_until BETWEEN clock_timestamp() + make_interval(secs => %(lease_s)s)
    AND clock_timestamp() + make_interval(secs => %(for_s)s)
)"""
_EXTEND: LiteralString = _LEASE.replace("{where}", f"WHERE {_UNLESS_FRESH}")
WITH_CLAIM: LiteralString = _LEASE.replace("{where}", f"FROM made WHERE {_UNLESS_FRESH}")
"""Extends the lease of an owner if the statement's ``made`` has a row; see extend."""


async def extend(connection: Connection, owner: str, lease_s: float) -> None:
    """Extend an owner's lease, in the caller's transaction, unless it still has a full *lease_s*.

    The row gets a third more than *lease_s*, so that most claims leave it alone: concurrent transactions that update
    it wait for each other's commit.
    """
    await connection.execute(_EXTEND, lease(owner, lease_s))


def lease(owner: str, lease_s: float) -> dict[str, object]:
    """Build the parameters of extend and WITH_CLAIM."""
    return {"owner": owner, "for_s": lease_s * 4 / 3, "lease_s": lease_s}


class Renewer:
    """Renews leases from any thread, over a separate blocking connection, without an event loop."""

    def __init__(self, config: PostgresConfig, connections: Connections) -> None:
        self._config, self._connections = config, connections
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._process, self._is_closed = os.getpid(), False

    def renew(self, owner: str, lease_s: float) -> None:
        """Extend an owner's lease to *lease_s* from now. Blocks.

        Raises:
            StorageError: The database is unusable.
        """
        with self._lock, self._connections.explaining():
            # After a fork the socket belongs to the parent: using or closing it here would break the parent's lease.
            if self._process != os.getpid():
                self._connection, self._process = None, os.getpid()
            try:
                self._renew(owner, lease_s)
            finally:
                # A renewal may follow close(), while the last turns end. It must not leave a connection open.
                if self._is_closed:
                    self._close()

    def close(self) -> None:
        """Close the connection. Idempotent; a later renewal opens a connection for itself."""
        with self._lock:
            self._is_closed = True
            self._close()

    def _close(self) -> None:
        if self._connection is not None and self._process == os.getpid():
            self._connection.close()
        self._connection = None

    def _renew(self, owner: str, lease_s: float) -> None:
        statement = self._connections.compose(_LEASE.replace("{where}", ""))
        values = {"owner": owner, "for_s": lease_s, "lease_s": lease_s}
        if self._connection is not None:
            try:
                self._connection.execute(statement, values)
                return
            except psycopg.OperationalError:
                self._close()
        self._connection = self._connect()
        try:
            self._connection.execute(statement, values)
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            # The lease may be renewed before the store is first used, and so before its tables exist.
            asyncio.run(self._connections.make_tables())
            self._connection.execute(statement, values)

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        # An unresponsive server must not block the thread, which renews the leases of other turns.
        seconds = max(2, math.ceil(self._config.connect_timeout_s))
        return psycopg.connect(
            self._config.dsn,
            autocommit=True,
            prepare_threshold=None,
            application_name=self._connections.application_name("lease"),
            connect_timeout=seconds,
            tcp_user_timeout=seconds * 1000,
        )


class Watch:
    """Detects dead owners without relying on the database's clock alone, which may be set forward.

    A live owner renews its lease three times per lease. It is considered dead if its lease has expired and this
    process's monotonic clock saw no renewal for half a lease, or if it saw none for a whole lease.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[int, float]] = {}  # owner -> (renewal count, time of its last change)

    def is_dead(self, owner: str, renewals: int, lease_s: float, *, has_expired: bool) -> bool:
        """Record the owner's renewal count and return True if the owner is dead."""
        now = self._clock()
        if owner not in self._seen or self._seen[owner][0] != renewals:
            if len(self._seen) >= 1000:
                # Bounded memory. Forgetting an owner only delays the detection of its death.
                self._seen.clear()
            self._seen[owner] = (renewals, now)
        unchanged_s = now - self._seen[owner][1]
        return unchanged_s >= (lease_s / 2 if has_expired else lease_s)
