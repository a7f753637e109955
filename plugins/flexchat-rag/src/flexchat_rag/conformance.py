"""Conformance subject: the store that FlexChat's test kit exercises.

Used by tests/test_conformance.py and by ``flexchat plugins verify rag``.
"""

from __future__ import annotations

from flexchat.store import DocumentStore, DocumentStoreContext
from flexchat_testing import DocumentStoreConformance

from .config import SqliteConfig
from .retriever import SqliteStore


class Sqlite(DocumentStoreConformance):
    """The store "sqlite"."""

    supports = frozenset({"collections", "embeddings", "durable", "json_metadata", "metadata_fields", "sources"})
    plugin = "flexchat_rag.plugin"

    def make_store(self, context: DocumentStoreContext) -> DocumentStore:
        """Return a store in a file of the context's folder."""
        return SqliteStore(SqliteConfig(path="documents.db"), context)
