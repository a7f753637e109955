"""Registers the document store "chromadb-wrapper"."""

from __future__ import annotations

from collections.abc import Iterable

from flexchat.plugin import hookimpl
from flexchat.store import DocumentStoreType

from .config import WrapperConfig
from .store import WrapperStore


@hookimpl
def flexchat_register_document_stores() -> Iterable[DocumentStoreType]:
    """Register the document store "chromadb-wrapper"."""
    yield DocumentStoreType(
        name="chromadb-wrapper",
        config_class=WrapperConfig,
        create=WrapperStore,
        summary="the original's RAG wrapper over ChromaDB, as it runs",
    )
