"""Documents, what a search found, and the profile a response rule is matched against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs


@attrs.frozen(kw_only=True)
class Document:
    """A passage of text. metadata is whatever the store keeps beside it."""

    text: str
    title: str = "Untitled"
    source: str | None = None
    collection: str | None = None
    metadata: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class RetrievalHits:
    """What one query found, best first.

    Attributes:
        distances: One per document; 0 means identical. The measure is the store's own.
        description: What the collection is about.
    """

    documents: tuple[Document, ...]
    distances: tuple[float, ...]
    description: str = ""


@attrs.frozen(kw_only=True)
class Profile:
    """All that is known of a message when a rule is chosen (phase 4).

    Attributes:
        rag_results: How well the documents fit: "match", "partial" or "none".
        service, collection: Where the match was found; None without one.
        reasoning: Whether the message asks for reasoning; None while no phase decides that.
    """

    topic: str
    user_message: str = ""
    rag_results: Literal["match", "partial", "none"] = "none"
    intent: str | None = None
    service: str | None = None
    collection: str | None = None
    reasoning: bool | None = None
    documents: tuple[Document, ...] = ()
