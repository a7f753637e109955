"""Phase 3: what the user wants."""

from __future__ import annotations

from ..domain import Document


async def detect_intent(topic: str, documents: tuple[Document, ...]) -> str | None:
    """Return the intent: None, as no categories are configured."""
    return None
