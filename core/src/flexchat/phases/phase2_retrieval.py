"""Phase 2: what the documents say about it."""

from __future__ import annotations

from ..domain import ChatRequest, Document


async def collect_rag_results(request: ChatRequest, topic: str) -> tuple[Document, ...]:
    """Return the passages found: none, as no collection is chosen."""
    return ()
