"""Conformance subjects: the implementation type, handler and document store that FlexChat's test kit exercises.

Used by tests/test_conformance.py and by ``flexchat plugins verify internal``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from flexchat.plugin import ToolHandler
from flexchat.store import Document, Retriever
from flexchat_testing import HandlerConformance, ImplementationConformance, RetrieverConformance

from .implementation import INTERNAL
from .memory_retriever import MemoryConfig, MemoryRetriever
from .rag_query import RAG_QUERY, SEARCH_DOCUMENTS

_PLUGIN = "flexchat_internal.plugin"
_DOCUMENTS = (
    Document(text="Ferns like shade and water", title="Ferns", collection="plants", metadata={"year": 2020}),
    Document(text="A cactus needs hardly any water", title="Cacti", collection="plants"),
    Document(text="Cats fear water", title="Cats", collection="animals", metadata={"year": "2020"}),
    Document(text="Granite is hard", title="Granite", collection="stones"),
)


def _store(documents: tuple[Document, ...] = _DOCUMENTS) -> Retriever:
    return MemoryRetriever(MemoryConfig(documents=documents))


class Memory(RetrieverConformance):
    """The store "memory"."""

    supports = frozenset({"collections", "sorted_distances"})
    plugin = _PLUGIN
    question = "Who likes water?"
    collection = "plants"

    def make_retriever(self) -> Retriever:
        """Return a store in which the question finds three documents."""
        return _store()

    def make_empty(self) -> Retriever:
        """Return a store without a document."""
        return _store(())


class RagQuery(HandlerConformance):
    """rag_query over one store."""

    supports = frozenset({"refuses"})
    plugin = _PLUGIN
    handler = RAG_QUERY
    tool = SEARCH_DOCUMENTS
    good = ({"query": "water"}, {"query": "water", "collection": "plants", "max_results": 1}, {"query": "nothing fits"})
    bad = ({}, {"query": "  "}, {"query": "water", "max_results": 0}, {"query": "water", "max_results": "many"})

    def stores(self) -> Mapping[str, Retriever]:
        """Return the store."""
        return {"docs": _store()}


class Internal(ImplementationConformance):
    """The implementation type."""

    supports = frozenset({"checks", "refuses"})
    plugin = _PLUGIN
    implementation = INTERNAL
    tool = SEARCH_DOCUMENTS
    settings = ({"handler": "rag_query"}, {"handler": "rag_query", "service": "docs"})
    wrong_settings = ({}, {"handler": "rag_querry"}, {"handler": []})
    failing = ({"handler": "rag_query", "service": "elsewhere"},)
    params: ClassVar = {"query": "water"}

    def handlers(self) -> Mapping[tuple[str, str], ToolHandler]:
        """Return the handler."""
        return {("internal", "rag_query"): RAG_QUERY}

    def stores(self) -> Mapping[str, Retriever]:
        """Return a store."""
        return {"docs": _store()}
