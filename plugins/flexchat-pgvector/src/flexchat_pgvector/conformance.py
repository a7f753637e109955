"""Conformance subject: the store that FlexChat's test kit exercises.

Used by tests/test_conformance.py, and by ``flexchat plugins verify pgvector`` if FLEXCHAT_TEST_POSTGRES holds the
dsn of a scratch database.
"""

from __future__ import annotations

from flexchat.store import DocumentStore, DocumentStoreContext
from flexchat_postgresql.conformance import settings_of
from flexchat_testing import DocumentStoreConformance

from .config import PgvectorConfig
from .plugin import create_documents


class Pgvector(DocumentStoreConformance):
    """The store "pgvector"."""

    supports = frozenset({"collections", "embeddings", "durable", "json_metadata", "metadata_fields", "sources"})
    plugin = "flexchat_pgvector.plugin"

    def make_store(self, context: DocumentStoreContext) -> DocumentStore:
        """Return a store with a schema of its own for each folder."""
        return create_documents(PgvectorConfig(**settings_of(context.folder)), context)
