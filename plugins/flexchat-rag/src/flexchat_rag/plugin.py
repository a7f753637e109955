"""Registers the document store "sqlite", and its settings. The store itself is imported when a config uses it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import attrs
from flexchat.plugin import hookimpl
from flexchat.store import DocumentStoreContext, DocumentStoreType, Retriever

DEFAULT_COLLECTION = "documents"
"""Default collection for files."""


@attrs.frozen(kw_only=True)
class SqliteConfig:
    """A stores entry with provider = "sqlite".

    Attributes:
        path: The database file, relative to the config's folder; ":memory:" for a database that exists as long as
            the process. Default: documents.db in the user's data folder.
        search: "hybrid" combines word search and vector search; with "keyword", new collections get no vectors.
    """

    path: str | None = None
    search: Literal["hybrid", "vector", "keyword"] = "hybrid"


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
