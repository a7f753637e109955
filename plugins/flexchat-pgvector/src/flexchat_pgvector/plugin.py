"""Registers the document store ``pgvector``, and its settings. psycopg is imported on first use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import attrs
from flexchat.plugin import hookimpl
from flexchat.store import DocumentStore, DocumentStoreContext, DocumentStoreType, key
from flexchat_postgresql import PostgresConfig


@attrs.frozen(kw_only=True)
class PgvectorConfig(PostgresConfig):
    """A stores entry with ``provider = "pgvector"``."""

    search: Literal["hybrid", "vector", "keyword"] = key("By words and vectors, or one of them.", default="hybrid")
    index: Literal["exact", "hnsw"] = key(
        "exact compares every vector; hnsw is quicker from some 50,000 passages on, and may miss some.",
        default="exact",
    )
    language: str = key(
        "Text search configuration of new collections: how words are reduced to stems.", default="english"
    )


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
