"""Registers the document store "chromadb-wrapper"."""

from __future__ import annotations

from collections.abc import Iterable

from flexchat.plugin import hookimpl
from flexchat.store import DocumentStore, DocumentStoreContext, DocumentStoreType

from .config import WrapperConfig


def create(config: WrapperConfig, context: DocumentStoreContext) -> DocumentStore:
    """Create the store for one ``stores`` entry."""
    from .store import WrapperStore

    return WrapperStore(config, context)


@hookimpl
def flexchat_register_document_stores() -> Iterable[DocumentStoreType]:
    """Register the document store "chromadb-wrapper"."""
    yield DocumentStoreType(
        name="chromadb-wrapper",
        config_class=WrapperConfig,
        create=create,
        summary="the original's RAG wrapper over ChromaDB, as it runs",
    )
