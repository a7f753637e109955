"""The handler "rag_query", which searches the configured document stores, and its tool "search_documents"."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import attrs
from flexchat.plugin import Implementation, ToolContext, ToolDefinition, ToolHandler
from flexchat.store import Document, RetrievalHits, error_text

DEFAULT_RESULTS = 5
MAX_RESULTS = 20


class RagQueryError(Exception):
    """The search failed; the text addresses both the model and the author of the config."""


async def rag_query(params: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """Search all document stores of the context concurrently and return the nearest passages, best first.

    Each store's own order is preserved. Results of several stores are merged by rank, then by distance, because
    distances of different stores may not be comparable. Returned passages are recorded as citations.

    Returns:
        ``{"query", "results": [{"title", "source", "collection", "text", "distance"}]}``. Stores that failed while
        another one answered are listed in ``"failed"``.

    Raises:
        RagQueryError: There is no store or no query, max_results is outside 1 to 20, or every store failed.
    """
    query, collection, count = params.get("query"), params.get("collection"), _count(params)
    if not isinstance(query, str) or not query.strip():
        raise RagQueryError("query must be a non-empty text")
    if not context.stores:
        raise RagQueryError(
            "no document store is configured, so nothing can be searched: add an entry to stores in the config"
        )
    stores = list(context.stores.items())
    outcomes = await asyncio.gather(
        *(store.query(query, collection=collection or None, top_k=count) for _, store in stores),
        return_exceptions=True,
    )
    failed = {name: error_text(e) for (name, _), e in zip(stores, outcomes, strict=True) if isinstance(e, Exception)}
    if len(failed) == len(stores):
        raise RagQueryError("the search failed: " + "; ".join(f"{name}: {text}" for name, text in failed.items()))
    answers = {name: hits for (name, _), hits in zip(stores, outcomes, strict=True) if isinstance(hits, RetrievalHits)}
    results = merge_hits(answers)[:count]
    for name, hits in answers.items():
        used = [result for result in results if result.store == name]
        if used:
            documents, distances = tuple(r.document for r in used), tuple(r.distance for r in used)
            context.cite(name, attrs.evolve(hits, documents=documents, distances=distances))
    names = ("title", "source", "collection", "text")
    entries = [{name: getattr(r.document, name) for name in names} | {"distance": r.distance} for r in results]
    return {"query": query, "results": entries, **({"failed": failed} if failed else {})}


@attrs.frozen(kw_only=True)
class Result:
    """A retrieved passage.

    Attributes:
        store: Name of the store it comes from.
        rank: Its position in that store's results, from 0.
    """

    store: str
    rank: int
    document: Document
    distance: float


def merge_hits(hits_by_store: Mapping[str, RetrievalHits]) -> list[Result]:
    """Merge the results of several stores, ordered by rank, then by distance."""
    results = [
        Result(store=store, rank=rank, document=document, distance=distance)
        for store, hits in hits_by_store.items()
        for rank, (document, distance) in enumerate(zip(hits.documents, hits.distances, strict=True))
    ]
    return sorted(results, key=lambda result: (result.rank, result.distance))


def _count(params: Mapping[str, Any]) -> int:
    count = params.get("max_results", DEFAULT_RESULTS)
    whole = isinstance(count, int) or (isinstance(count, float) and count.is_integer())
    if isinstance(count, bool) or not whole or not 1 <= count <= MAX_RESULTS:
        raise RagQueryError(
            f"max_results must be a whole number from 1 to {MAX_RESULTS}, got {json.dumps(count, default=str)}"
        )
    return int(count)


RAG_QUERY = ToolHandler(kind="internal", name="rag_query", call=rag_query)  # the handler this package registers

SEARCH_DOCUMENTS = ToolDefinition(
    name="search_documents",
    description="Search the document collections for passages about something",
    parameters={
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "description": "What to search for"},
            "collection": {"type": "string", "description": "Search only this collection"},
            "max_results": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_RESULTS,
                "default": DEFAULT_RESULTS,
                "description": "How many passages to return at most",
            },
        },
        "required": ["query"],
    },
    implementation=Implementation(type="internal", settings={"handler": "rag_query"}),
    effect="read",
)
"""The tool this package offers ready-made."""
