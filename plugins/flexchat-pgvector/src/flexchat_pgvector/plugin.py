"""Registers the document store ``pgvector``. psycopg is imported on first use."""

from __future__ import annotations

from collections.abc import Iterable

from flexchat.plugin import hookimpl
from flexchat.store import DocumentStore, DocumentStoreContext, DocumentStoreType

from .config import PgvectorConfig


def create_documents(config: PgvectorConfig, context: DocumentStoreContext) -> DocumentStore:
    """Create the store for one ``stores`` entry."""
    from .document_store import PgvectorStore

    return PgvectorStore(config, context)


@hookimpl
def flexchat_register_document_stores() -> Iterable[DocumentStoreType]:
    """Offer the document store."""
    yield DocumentStoreType(
        name="pgvector",
        config_class=PgvectorConfig,
        create=create_documents,
        summary="Documents in PostgreSQL with pgvector, searched by words and vectors",
    )
