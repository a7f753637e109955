"""Conformance subjects: the store, journal and ledger that FlexChat's test kit exercises.

Used by tests/test_conformance.py, and by ``flexchat plugins verify postgresql`` if FLEXCHAT_TEST_POSTGRES holds the
dsn of a scratch database: each law gets a schema of its own, which is dropped at the end of the process.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import unittest
from pathlib import Path
from typing import Any

from flexchat.store import ConversationStore
from flexchat_testing import (
    ConversationStoreConformance,
    CounterConformance,
    JournalConformance,
    LedgerConformance,
    MediaConformance,
    PendingConformance,
    TurnSumsConformance,
)

from .config import PostgresqlConfig
from .conversation_store import PostgresqlConversations
from .ledger import PostgresqlLedger
from .plugin import create_conversations

DSN_VARIABLE = "FLEXCHAT_TEST_POSTGRES"
_schemas: set[str] = set()


class Postgresql(ConversationStoreConformance):
    """The store "postgresql"."""

    supports = frozenset({"search", "durable", "shared", "history"})
    plugin = "flexchat_postgresql.plugin"

    def make_store(self, folder: Path) -> ConversationStore:
        """Return a store with a schema of its own for each folder."""
        return create_conversations(PostgresqlConfig(**settings_of(folder)), folder)


class PostgresqlTurns(JournalConformance):
    """The journal of the store "postgresql"."""

    supports = frozenset({"durable", "shared"})

    def make_store(self, folder: Path) -> PostgresqlConversations:
        """Return a store with a schema of its own for each folder."""
        return PostgresqlConversations(PostgresqlConfig(**settings_of(folder)))


class PostgresqlQuestions(PendingConformance):
    """The questions of the store "postgresql"."""

    supports = frozenset({"durable", "shared", "ledger", "sending"})

    def make_store(self, folder: Path) -> PostgresqlConversations:
        """Return a store with a schema of its own for each folder."""
        return PostgresqlConversations(PostgresqlConfig(**settings_of(folder)))


class PostgresqlMedia(MediaConformance):
    """The media of the store "postgresql"."""

    supports = frozenset({"durable", "shared", "damage"})

    def make_store(self, folder: Path) -> PostgresqlConversations:
        """Return a store with a schema of its own for each folder."""
        return PostgresqlConversations(PostgresqlConfig(**settings_of(folder)))

    async def damage(self, store: Any, sha256: str) -> None:
        """Change a piece."""
        change = "UPDATE {s}.media_pieces SET data = '\\x00' WHERE place = 2"
        await store.connections.repeated(lambda connection: connection.execute(change))


class PostgresqlCounts(CounterConformance):
    """The counters of the store "postgresql"."""

    supports = frozenset({"durable", "shared", "leases", "clock"})

    def make_store(self, folder: Path) -> PostgresqlConversations:
        """Return a store with a schema of its own for each folder."""
        return PostgresqlConversations(PostgresqlConfig(**settings_of(folder)))

    async def set_clock(self, store: Any, by_s: float) -> None:
        """Replace the function by which the statements read the clock."""
        change = "CREATE OR REPLACE FUNCTION {s}.counter_now() RETURNS bigint LANGUAGE sql AS $$ SELECT "
        change += f"((extract(epoch FROM clock_timestamp()) + ({by_s})) * 1000000)::bigint $$"
        await store.connections.repeated(lambda connection: connection.execute(change))


class PostgresqlSums(TurnSumsConformance):
    """The hourly sums of the store "postgresql"."""

    supports = frozenset({"durable", "shared"})

    def make_store(self, folder: Path) -> PostgresqlConversations:
        """Return a store with a schema of its own for each folder."""
        return PostgresqlConversations(PostgresqlConfig(**settings_of(folder)))


class PostgresqlEffects(LedgerConformance):
    """The ledger of the store "postgresql"."""

    supports = frozenset({"durable", "shared"})

    def make_ledger(self, folder: Path) -> PostgresqlLedger:
        """Return a ledger with a schema of its own for each folder; closing it closes its store."""
        store = PostgresqlConversations(PostgresqlConfig(**settings_of(folder)))
        ledger = store.ledger()
        ledger.aclose = store.aclose  # type: ignore[method-assign]
        return ledger


def settings_of(folder: Path | None) -> dict[str, Any]:
    """Return settings for the scratch database, with a schema name that is unique to *folder*."""
    dsn = os.environ.get(DSN_VARIABLE)
    if not dsn:
        raise unittest.SkipTest(f"no database to try it with: set {DSN_VARIABLE}")
    schema = "kit_" + hashlib.sha256(f"{folder}".encode()).hexdigest()[:16]
    if not _schemas:
        atexit.register(_drop, dsn)
    _schemas.add(schema)
    return {"dsn": dsn, "schema": schema, "pool_size": 3}


def _drop(dsn: str) -> None:
    import psycopg
    from psycopg import sql

    # If the server is gone, a scratch schema that survives it is harmless.
    with contextlib.suppress(psycopg.Error), psycopg.connect(dsn, autocommit=True, connect_timeout=3) as connection:
        for schema in _schemas:
            connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))
