"""Registers the document store "sqlite". The store is imported when a config uses it."""

from __future__ import annotations

from collections.abc import Iterable

from flexchat.plugin import hookimpl
from flexchat.store import DocumentStoreContext, DocumentStoreType, Retriever

from .config import SqliteConfig


def create(config: SqliteConfig, context: DocumentStoreContext) -> Retriever:
    """Create the store for one ``stores`` entry."""
    from .retriever import SqliteStore

    return SqliteStore(config, context)


@hookimpl
def flexchat_register_document_stores() -> Iterable[DocumentStoreType]:
    """Offer the store."""
    yield DocumentStoreType(
        name="sqlite",
        config_class=SqliteConfig,
        create=create,
        summary="documents in a SQLite file, found by words and by meaning",
    )
