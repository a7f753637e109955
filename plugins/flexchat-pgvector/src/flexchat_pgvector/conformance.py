"""What FlexChat's kit tries the stores with.

Used by tests/test_conformance.py, and by ``flexchat plugins verify pgvector`` where FLEXCHAT_TEST_POSTGRES holds the
dsn of a database to try things in: each law gets a schema of its own, which is deleted at the end of the process.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import unittest
from pathlib import Path

from flexchat.store import ConversationStore, DocumentStore, DocumentStoreContext
from flexchat_testing import ConversationStoreConformance, DocumentStoreConformance

from .config import PgvectorConfig, PostgresqlConfig
from .plugin import create_conversations, create_documents

DSN_VARIABLE = "FLEXCHAT_TEST_POSTGRES"
_schemas: set[str] = set()


class Pgvector(DocumentStoreConformance):
    """The store "pgvector"."""

    supports = frozenset({"collections", "embeddings", "durable", "json_metadata", "metadata_fields", "sources"})
    plugin = "flexchat_pgvector.plugin"

    def make_store(self, context: DocumentStoreContext) -> DocumentStore:
        """Return a store with a schema of its own for each folder."""
        dsn, schema = _place(context.folder)
        return create_documents(PgvectorConfig(dsn=dsn, schema=schema, pool_size=3), context)


class Postgresql(ConversationStoreConformance):
    """The store "postgresql"."""

    supports = frozenset({"search", "durable", "shared"})
    plugin = "flexchat_pgvector.plugin"

    def make_store(self, folder: Path) -> ConversationStore:
        """Return a store with a schema of its own for each folder."""
        dsn, schema = _place(folder)
        return create_conversations(PostgresqlConfig(dsn=dsn, schema=schema, pool_size=3), folder)


def _place(folder: Path | None) -> tuple[str, str]:
    dsn = os.environ.get(DSN_VARIABLE)
    if not dsn:
        raise unittest.SkipTest(f"no database to try it with: set {DSN_VARIABLE}")
    schema = "kit_" + hashlib.sha256(f"{folder}".encode()).hexdigest()[:16]
    if not _schemas:
        atexit.register(_drop, dsn)
    _schemas.add(schema)
    return dsn, schema


def _drop(dsn: str) -> None:
    import psycopg
    from psycopg import sql

    try:
        with psycopg.connect(dsn, autocommit=True, connect_timeout=3) as connection:
            for schema in _schemas:
                connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))
    except psycopg.Error:
        pass  # the server is gone, and the schemas with it or not: nobody is there to be told
