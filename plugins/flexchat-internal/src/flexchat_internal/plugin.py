"""Registers the implementation type "internal", the handler "rag_query", the tool "search_documents", and the document
store "memory".
"""

from __future__ import annotations

from collections.abc import Iterable

from flexchat.plugin import ImplementationType, ToolDefinition, ToolHandler, hookimpl
from flexchat.store import DocumentStoreType

from .implementation import INTERNAL
from .memory_retriever import MemoryConfig, MemoryRetriever
from .rag_query import RAG_QUERY, SEARCH_DOCUMENTS


@hookimpl
def flexchat_register_implementation_types() -> Iterable[ImplementationType]:
    """Register the implementation type "internal"."""
    yield INTERNAL


@hookimpl
def flexchat_register_tool_handlers() -> Iterable[ToolHandler]:
    """Register rag_query, which searches the configured document stores."""
    yield RAG_QUERY


@hookimpl
def flexchat_register_tools() -> Iterable[ToolDefinition]:
    """Register search_documents, which a config enables by name."""
    yield SEARCH_DOCUMENTS


@hookimpl
def flexchat_register_document_stores() -> Iterable[DocumentStoreType]:
    """Register the document store "memory", which needs no service."""
    yield DocumentStoreType(
        name="memory",
        config_class=MemoryConfig,
        create=MemoryRetriever,
        summary="documents of the config or of text files, ranked by their words (BM25)",
    )
