"""One question, from rankings to hits. Runs within one view of the file, in a thread."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection as Sized
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
from flexchat.store import AllOf, Collection, Document, fused

from .filters import Sql, filter_sql
from .reading import fetch_documents, read_collections
from .words import find_words, terms_of, word_distances

if TYPE_CHECKING:
    from .vectors import Floats, Matrices

DEPTH = 100
"""Hits taken from each ranking before they are merged. On Cranfield 50 and 200 differ by less than 0.003 from it."""


@attrs.frozen(kw_only=True)
class SearchQuery:
    """What is asked.

    Attributes:
        collection: None for all.
        by_words: Whether words are searched for.
        vector: What its meaning is compared by; None where only words are searched for.
        embedder: Whose vector that is.
    """

    text: str
    collection: str | None
    top_k: int
    condition: AllOf
    by_words: bool
    vector: Floats | None = None
    embedder: str | None = None


@attrs.frozen(kw_only=True)
class Candidates:
    """What a question has found, best first."""

    collections: tuple[Collection, ...]
    documents: tuple[Document, ...] = ()
    distances: tuple[float, ...] = ()


def search(connection: sqlite3.Connection, matrices: Matrices | None, question: SearchQuery) -> Candidates:
    """Return the best documents and their distances.

    A distance is the cosine distance where the document has a vector that compares with the question's, else how much
    of the question's words it lacks, from 0 to 1.

    Raises:
        UnknownCollectionError: There is no such collection.
    """
    collections = read_collections(connection, question.collection, counted=False)
    where = filter_sql(question.condition) if question.condition.conditions else None
    depth = max(DEPTH, question.top_k)
    terms = terms_of(question.text) if question.by_words else ()
    asked = [*collections] if _is_part(connection, collections) else None
    words = dict(find_words(connection, terms, asked, where, depth))
    cosines: dict[int, float] = {}
    near: list[tuple[int, float]] = []
    if matrices is not None and question.vector is not None:
        for number, collection in collections.items():
            if (collection.embedding, collection.dimensions) == (question.embedder, len(question.vector)):
                similar = matrices.compare(connection, number, question.vector)
                passing = partial(_passing, connection, number, where) if where is not None else None
                near += similar.nearest(depth, passing)
                cosines |= similar.of(words)
        near = sorted(near, key=lambda pair: (-pair[1], pair[0]))[:depth]
        cosines |= dict(near)
    ranked = fused([[number for number, _ in near], [*words]])[: max(0, question.top_k)]
    documents = fetch_documents(connection, ranked)
    by_words = [number for number in ranked if number not in cosines]
    lacking = word_distances(connection, terms, asked, by_words) if by_words else {}
    hits = []
    for number in ranked:
        if number in documents:  # not if it is newer than this view
            distance = 1 - cosines[number] if number in cosines else lacking[number]
            hits.append((documents[number], min(2.0, max(0.0, distance))))
    return Candidates(
        collections=tuple(collections.values()),
        documents=tuple(document for document, _ in hits),
        distances=tuple(distance for _, distance in hits),
    )


def _is_part(connection: sqlite3.Connection, collections: Sized[int]) -> bool:
    """Return whether there are others: to ask in all takes half the time of asking in each by name."""
    return bool(connection.execute("SELECT count(*) > ? FROM collections", (len(collections),)).fetchone()[0])


def _passing(
    connection: sqlite3.Connection, collection: int, where: Sql, numbers: Sequence[int] | None
) -> Iterable[int]:
    among: str = "d.collection = ?"
    given: Any = collection
    if numbers is not None:
        among, given = "d.number IN (SELECT value FROM json_each(?))", json.dumps(numbers)
    rows = connection.execute(f"SELECT d.number FROM documents AS d WHERE {among} AND {where[0]}", (given, *where[1]))
    return [number for (number,) in rows]
