"""Search by words, by vectors, and by both combined."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
from flexchat.plugin import FlexChatError
from flexchat.store import Embedder, RetrievalError
from flexchat_postgresql import Connection
from psycopg import sql

from .adding import MAX_INDEXED
from .tables import StoredCollection, vector_texts

_LOG = logging.getLogger(__name__)

DEPTH = 100
"""Hits of each way that are put together; a fixed number, so that top_k changes no order."""
EF_SEARCH = 200
"""Candidates an index looks at; pgvector's default of 40 found 81 % of the nearest ten in our measurement."""
MAX_TERMS = 64
MAX_QUESTION_CHARS = 20_000
"""Characters of a question in which words are looked for; PostgreSQL refuses those over a megabyte."""

Filter = tuple[sql.Composable, Sequence[Any]]


@attrs.frozen(kw_only=True)
class SearchQuery:
    """One search: the question, its scope and its limits.

    Attributes:
        vector: The question's vector as a pgvector literal; None to search by words alone.
        compared: Ids of the collections whose vectors are comparable with *vector*.
    """

    text: str
    vector: str | None
    compared: Sequence[int]
    collections: Sequence[StoredCollection]
    filter: Filter
    depth: int


async def question_vector(
    embedder: Embedder | None, text: str, collections: Iterable[StoredCollection], *, required: bool
) -> tuple[str | None, list[int]]:
    """Embed the question. Returns its vector and the ids of the collections with comparable vectors.

    The vector is None if embedding fails; this is logged as a warning, and the caller searches by words.

    Raises:
        RetrievalError: Embedding failed and *required* is set.
    """

    def without(problem: str, cause: Exception | None = None) -> None:
        if required:
            raise RetrievalError(problem) from cause
        _LOG.warning("searched by words alone: %s", problem)

    fit: list[StoredCollection] = []
    for collection in collections:
        about = collection.about
        if about.embedding is not None and embedder is not None and about.embedding == embedder.name:
            fit.append(collection)
        elif about.embedding is not None:
            now = embedder.name if embedder is not None else "no embedding"
            without(f"the collection '{about.name}' has vectors of {about.embedding}, and {now} is configured")
        elif about.documents and required:
            without(f"the collection '{about.name}' has no vectors: delete it and add its documents anew")
    if embedder is None or not fit:
        return None, []
    try:
        embedded = await embedder.embed([text], purpose="query")
        (vector,) = vector_texts(embedded, 1, None, embedder.name)
    except FlexChatError as error:
        without(f"no vector for the question: {error}", error)
        return None, []
    dimensions = vector.count(",") + 1
    if any(c.about.dimensions != dimensions for c in fit):
        without(f"{embedder.name} now makes vectors of another length ({dimensions}): add the documents anew")
    return vector, [c.id for c in fit if c.about.dimensions == dimensions]


async def by_vector(connection: Connection, question: SearchQuery, *, indexed: bool) -> dict[int, float]:
    """Rank documents by cosine distance. Returns the distances by document key, nearest first."""
    if question.vector is None or not question.compared:
        return {}
    condition, parameters = question.filter
    joined = connection.compose("JOIN {s}.documents d USING (key)" if parameters else "")
    dimensions = question.vector.count(",") + 1
    if not indexed or dimensions > MAX_INDEXED:
        statement, pieces = _EXACT, {"joined": joined, "condition": condition}
        values: list[Any] = [question.vector, [*question.compared], *parameters, question.depth]
    else:
        await connection.execute(_HNSW_SETTINGS, ef=sql.Literal(min(1000, max(EF_SEARCH, question.depth))))
        parts = [
            connection.compose(
                _NEAREST,
                joined=joined,
                condition=condition,
                collection=sql.Literal(id),
                dimensions=sql.Literal(dimensions),
            )
            for id in question.compared
        ]
        statement, pieces = _OF_SEVERAL, {"parts": sql.SQL(" UNION ALL ").join(parts)}
        each = [*parameters, question.vector, question.depth]
        values = [question.vector, *(each * len(parts)), question.depth]
    rows = await connection.rows(statement, values, **pieces)
    return {key: _distance(distance) for key, distance in rows}


async def by_words(connection: Connection, question: SearchQuery) -> dict[int, float]:
    """Rank the documents that share words with the question by BM25. Returns distances by document key, best first.

    The distance is the weighted share of the question's words that a document lacks: 0 if it has all of them, 1 if
    none. Weights are those of BM25; a word that no document contains weighs most.
    """
    condition, parameters = question.filter
    scored: list[tuple[float, float, int]] = []
    for language in sorted({c.language for c in question.collections}):
        among = [c for c in question.collections if c.language == language]
        terms = (language, question.text[:MAX_QUESTION_CHARS], MAX_TERMS)
        ids, total = [c.id for c in among], sum(c.about.documents for c in among)
        values = (*terms, ids, *parameters, total, question.depth)
        rows = await connection.rows(_BM25, values, condition=condition)
        scored += [(-score, max(0.0, 1 - weight / whole), key) for key, score, weight, whole in rows]
    return {key: distance for _, distance, key in sorted(scored)[: question.depth]}


async def hits_of(connection: Connection, question: SearchQuery, keys: Sequence[int]) -> dict[int, tuple[Any, ...]]:
    """Fetch documents by key: cosine distance or None, then the arguments of document_of."""
    values = ([*question.compared], question.vector, [*keys])
    rows = await connection.rows(_HITS, values)
    return {key: (None if distance is None else _distance(distance), *fields) for key, distance, *fields in rows}


def _distance(value: float) -> float:
    """Replace the undefined cosine distance of a zero vector by 1."""
    return 1.0 if math.isnan(value) else min(max(value, 0.0), 2.0)


_EXACT = """
    SELECT key, distance FROM (
        SELECT v.key, v.embedding <=> %s::vector AS distance FROM {s}.vectors v {joined}
        WHERE v.collection_id = ANY(%s) AND {condition}
    ) found ORDER BY distance, key LIMIT %s"""
_HNSW_SETTINGS = "SET LOCAL hnsw.ef_search = {ef}; SET LOCAL hnsw.iterative_scan = relaxed_order"
_NEAREST = """(
    SELECT v.key, v.embedding FROM {s}.vectors v {joined}
    WHERE v.collection_id = {collection} AND {condition}
    ORDER BY v.embedding::halfvec({dimensions}) <=> %s::halfvec({dimensions}) LIMIT %s
)"""
_OF_SEVERAL = """
    SELECT key, embedding <=> %s::vector AS distance FROM ({parts}) nearest ORDER BY distance, key LIMIT %s"""
# PostgreSQL's rankings ignore how rare a word is. With all weights 1, ts_rank of one word is 6/π² times the sum of 1/j²
# for j from 1 to its number of occurrences n. The difference to 1 is close to 6/π² / (n + 1/2), which yields n without
# unpacking the tsvector of each document. k1 is 1.2 and b 0.75, as usual.
_BM25 = """
    WITH terms AS MATERIALIZED (
        SELECT (E'\\'' || replace(replace(lexeme, E'\\\\', E'\\\\\\\\'), E'\\'', E'\\'\\'') || E'\\'')::tsquery AS term
        FROM unnest(to_tsvector(%s::regconfig, %s)) LIMIT %s
    ), anything AS MATERIALIZED (
        SELECT string_agg(term::text, ' | ')::tsquery AS term FROM terms
    ), matches AS MATERIALIZED (
        SELECT d.key, length(d.words)::float8 AS size, t.term::text,
            greatest(1 / (1.6449340668 * (1.0000001 - ts_rank('{{1,1,1,1}}', d.words, t.term))) - 0.5, 1) AS count
        FROM {s}.documents d, anything a, terms t
        WHERE d.collection_id = ANY(%s) AND d.words @@ a.term AND d.words @@ t.term AND {condition}
    ), rare AS MATERIALIZED (
        SELECT t.term::text, ln(1 + greatest(%s::float8 - count(m.key) + 0.5, 0.5) / (count(m.key) + 0.5)) AS weight
        FROM terms t LEFT JOIN matches m ON m.term = t.term::text GROUP BY t.term
    ), usual AS MATERIALIZED (SELECT avg(size) AS size FROM matches)
    SELECT m.key, sum(r.weight * 2.2 * m.count / (m.count + 1.2 * (0.25 + 0.75 * m.size / u.size))) AS score,
        sum(r.weight) AS held, (SELECT sum(weight) FROM rare) AS whole
    FROM matches m JOIN rare r USING (term) CROSS JOIN usual u
    GROUP BY m.key ORDER BY score DESC, m.key LIMIT %s"""
_HITS = """
    SELECT d.key, CASE WHEN d.collection_id = ANY(%s) THEN v.embedding <=> %s::vector END,
        c.name, d.id, d.title, d.source, d.text, d.metadata
    FROM {s}.documents d JOIN {s}.collections c ON c.id = d.collection_id LEFT JOIN {s}.vectors v ON v.key = d.key
    WHERE d.key = ANY(%s)"""
