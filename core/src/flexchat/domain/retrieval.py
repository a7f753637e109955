"""Documents, the collections they live in, search results, and the profile a response rule is matched against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs


@attrs.frozen(kw_only=True)
class Document:
    """A passage of text, as stored, found and shown to a model.

    Attributes:
        title: For people and models: the heading above it, or the name of its file.
        source: Where it comes from: a path or an address.
        metadata: JSON data about it, which filters use.
        id: Its key in its collection; if None, a store makes one.
    """

    text: str
    title: str = "Untitled"
    source: str | None = None
    collection: str | None = None
    metadata: Mapping[str, Any] = attrs.field(factory=dict)
    id: str | None = None


@attrs.frozen(kw_only=True)
class Collection:
    """Documents that belong together.

    Attributes:
        description: Its subject; models read it when they choose between collections.
        match_threshold, partial_threshold: Distances below which a hit is a match or a partial match; None leaves that
            to the store's entry in the config.
        title_field, source_field: The metadata fields that hold the title and the source of documents added from then
            on, if they are text. Documents added with a Source keep its name.
        embedding: Name of the embedder whose vectors it has; None if it has none. Set by the store.
        dimensions: Length of these vectors. Set by the store.
        documents: How many there are. Set by the store.
    """

    name: str
    description: str = ""
    match_threshold: float | None = None
    partial_threshold: float | None = None
    title_field: str = "title"
    source_field: str = "source"
    embedding: str | None = None
    dimensions: int | None = None
    documents: int = 0
    metadata: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Source:
    """A file or other origin of documents, in a store's records.

    Attributes:
        name: Path or address; the ``source`` of its documents.
        digest: Hash of its content and of how it was read: while it stays the same, nothing needs to be added again.
        complete: Whether all of its documents are stored. A large source arrives in several parts.
        documents: How many of them are stored. Set by the store.
        added_at: When it was completed: ISO 8601, UTC. Set by the store.
    """

    name: str
    digest: str
    complete: bool = True
    documents: int = 0
    added_at: str | None = None


@attrs.frozen(kw_only=True)
class RetrievalHits:
    """The results of one query, best first.

    Attributes:
        distances: One per document; 0 means identical, smaller is nearer. The measure is the store's own: the cosine
            distance if it has vectors. They need not be in order if a store ranks by more than distance.
        description, match_threshold, partial_threshold: The collection's, if the store has them.
        embedding: Name of the embedder whose cosine distances these are; None if they are something else.
    """

    documents: tuple[Document, ...]
    distances: tuple[float, ...]
    description: str = ""
    match_threshold: float | None = None
    partial_threshold: float | None = None
    embedding: str | None = None


@attrs.frozen(kw_only=True)
class CollectionHits:
    """The results of phase 2 in one collection.

    Attributes:
        distances: One per document.
    """

    result: Literal["match", "partial"]
    store: str
    collection: str | None
    documents: tuple[Document, ...]
    distances: tuple[float, ...]
    description: str = ""

    @property
    def distance(self) -> float:
        """The distance of the nearest document."""
        return min(self.distances)

    @property
    def category(self) -> str:
        """Its name in phase 3 and the rules: "store/collection"."""
        return f"{self.store}/{self.collection}" if self.collection else self.store


@attrs.frozen(kw_only=True)
class RagResults:
    """The outcome of phase 2.

    Attributes:
        hits: One for a match, one or more for "partial", nearest first; none for "none".
    """

    result: Literal["match", "partial", "none"] = "none"
    hits: tuple[CollectionHits, ...] = ()


@attrs.frozen(kw_only=True)
class Citation:
    """A passage the model was shown when it answered.

    Attributes:
        store: The document store in the config; None if a tool found it and named none.
        distance: How far it was from what was searched for; None if unknown.
        named: Whether the answer names its title or its source.
        via: "prompt" for {{rag_context}}, otherwise the name of the tool that found it.
    """

    title: str
    source: str | None
    collection: str | None
    store: str | None = None
    distance: float | None = None
    named: bool = False
    via: str = "prompt"

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return attrs.asdict(self)


@attrs.frozen(kw_only=True)
class Profile:
    """The facts about a message that rules match (phase 4).

    Attributes:
        rag_results: How well the documents fit: "match", "partial" or "none".
        service, collection: Where the match was found; None without one.
        reasoning: Whether the message calls for reasoning; always None for now, because no phase decides that.
    """

    topic: str
    user_message: str = ""
    rag_results: Literal["match", "partial", "none"] = "none"
    intent: str | None = None
    service: str | None = None
    collection: str | None = None
    reasoning: bool | None = None
    documents: tuple[Document, ...] = ()
