"""Search: ranks documents by words (FTS5, BM25) and by vectors, within one read transaction."""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
from flexchat.store import AllOf, Collection, Compare, Condition, Document, fused, storable

from .database import Sql, fetch_documents, read_collections

if TYPE_CHECKING:
    from .vectors import Floats, Matrices

MAX_TERMS = 64
"""Words of a question that are searched for, the first ones; enough for a long paragraph."""

MAX_QUESTION_CHARS = 20_000
"""Characters of a question in which words are looked for."""

# Measured on Cranfield (benchmarks/retrieval_quality.py), nDCG@10: title words weighted 2 instead of 1, 0.377 to 0.387;
# stop words removed, 0.378 to 0.387; no stemming, 0.368.
_RANK = "bm25(words, 2.0, 1.0, 0.0)"

_TERM = re.compile(r"[^\W_]+")
_STOP_WORDS = frozenset(
    """a about all also am an and any are as at be been but by can could did do does for from had has have he
    her his how i if in into is it its may me might must my no not of on or our shall she should so some such
    than that the their them then there these they this those to too us was we were what when where which
    while who whom whose why will with would you your""".split()  # noqa: SIM905  words are read more easily so
)


def terms_of(question: str) -> tuple[str, ...]:
    """Return the distinct words of a question, without stop words unless it consists of them."""
    words = dict.fromkeys(word.lower() for word in _TERM.findall(question[:MAX_QUESTION_CHARS]))
    telling = [word for word in words if word not in _STOP_WORDS]
    return tuple(telling or words)[:MAX_TERMS]


def find_words(
    connection: sqlite3.Connection, terms: Sequence[str], collections: Sequence[int] | None, where: Sql | None, top: int
) -> list[tuple[int, float]]:
    """Return row ids and scores of the best matching documents, best first; a higher score is better.

    Args:
        collections: Row ids of collections; None for all.
        where: A filter on the documents table, aliased d; None for no filter.
    """
    if not terms or (collections is not None and not collections):
        return []
    table, condition, parameters = "words", "", [_match(terms, collections)]
    if where is not None:
        table, condition = "words CROSS JOIN documents AS d ON d.number = words.rowid", f"AND {where[0]}"
        parameters += where[1]
    hits = connection.execute(
        f"SELECT words.rowid, {_RANK} AS rank_ FROM {table} WHERE words MATCH ? {condition}"
        " ORDER BY rank_, words.rowid LIMIT ?",
        (*parameters, top),
    )
    return [(number, -rank) for number, rank in hits]


def word_distances(
    connection: sqlite3.Connection, terms: Sequence[str], collections: Sequence[int] | None, numbers: Sequence[int]
) -> dict[int, float]:
    """Compute the weighted share of a question's words that each document lacks: 0 for none, 1 for all of them.

    Weights are those of BM25, so rare words weigh more. A word that no document contains weighs most, which keeps
    off-topic questions distant. Term frequency affects the ranking, but not the distance.

    Measured on the best hit of each question: on Cranfield half of the questions are below 0.34 and 84 % below 0.5; on
    FlexChat's documentation 15 of 16 are below 0.5. Off-topic questions are at 0.49 to 1 on Cranfield, and at 0.65 to 1
    on the documentation.
    """
    count = "SELECT count(*) FROM documents"
    if collections is not None:
        count += f" WHERE collection IN ({','.join(map(str, collections))})"
    total = connection.execute(count).fetchone()[0]
    lacking = dict.fromkeys(numbers, 0.0)
    whole = 0.0
    for term in terms:
        holders, having = connection.execute(
            "SELECT count(*), json_group_array(rowid) FILTER (WHERE rowid IN (SELECT value FROM json_each(?)))"
            " FROM words WHERE words MATCH ?",
            (json.dumps([*numbers]), _match([term], collections)),
        ).fetchone()
        weight = math.log(1 + (total - holders + 0.5) / (holders + 0.5))
        whole += weight
        for number in lacking.keys() - set(json.loads(having)):
            lacking[number] += weight
    return {number: weight / whole if whole else 1.0 for number, weight in lacking.items()}


def _match(terms: Sequence[str], collections: Sequence[int] | None) -> str:
    match = f"{{title text}} : ({_any_of(terms)})"
    return match if collections is None else f"{match} AND collection : ({_any_of(map(str, collections))})"


def _any_of(terms: Sequence[str] | map[str]) -> str:
    # Quoted, a term is never parsed as an FTS5 operator. Terms contain no quotation marks.
    return " OR ".join(f'"{term}"' for term in terms)


Hit = tuple[Document, float]

DEPTH = 100
"""Hits taken from each ranking before they are merged. On Cranfield 50 and 200 differ by less than 0.003 from it."""


@attrs.frozen(kw_only=True)
class SearchQuery:
    """One search: the question, its scope and its methods.

    Attributes:
        collection: Name of the collection; None for all.
        by_words: Search by words.
        vector: The question's vector; None to search by words only.
        embedder: Name of the embedder of *vector*.
    """

    text: str
    collection: str | None
    top_k: int
    condition: AllOf
    by_words: bool
    vector: Floats | None = None
    embedder: str | None = None


def search(
    connection: sqlite3.Connection, matrices: Matrices | None, question: SearchQuery
) -> tuple[list[Collection], list[Hit]]:
    """Return the searched collections, and the best documents with their distances, best first.

    The distance is the cosine distance if the document has a vector comparable with the question's, else the weighted
    share of the question's words that it lacks, from 0 to 1.

    Raises:
        UnknownCollectionError: The collection does not exist.
    """
    collections = read_collections(connection, question.collection, counted=False)
    where = filter_sql(question.condition) if question.condition.conditions else None
    depth = max(DEPTH, question.top_k)
    terms = terms_of(question.text) if question.by_words else ()
    every = connection.execute("SELECT count(*) FROM collections").fetchone()[0]
    scope = [*collections] if every > len(collections) else None  # without a filter it takes half the time
    words = dict(find_words(connection, terms, scope, where, depth))
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
    lacking = word_distances(connection, terms, scope, by_words) if by_words else {}
    hits = []
    for number in ranked:
        if number in documents:  # Absent if it was added after this read transaction began.
            distance = 1 - cosines[number] if number in cosines else lacking[number]
            hits.append((documents[number], min(2.0, max(0.0, distance))))
    return [*collections.values()], hits


def _passing(
    connection: sqlite3.Connection, collection: int, where: Sql, numbers: Sequence[int] | None
) -> Iterable[int]:
    among: str = "d.collection = ?"
    value: Any = collection
    if numbers is not None:
        among, value = "d.number IN (SELECT value FROM json_each(?))", json.dumps(numbers)
    rows = connection.execute(f"SELECT d.number FROM documents AS d WHERE {among} AND {where[0]}", (value, *where[1]))
    return [number for (number,) in rows]


_KINDS = {"text": "m.type = 'text'", "number": "m.type IN ('integer', 'real')"}
_SIGNS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


def filter_sql(condition: Condition) -> Sql:
    """Compile a condition on ``d.metadata`` to an SQL expression and its parameters."""
    if isinstance(condition, Compare):
        return _compare(condition)
    parts = [filter_sql(part) for part in condition.conditions]
    joint, nothing = (" AND ", "1") if isinstance(condition, AllOf) else (" OR ", "0")
    text = joint.join(sql for sql, _ in parts) or nothing
    return f"({text})", [value for _, values in parts for value in values]


def _compare(condition: Compare) -> Sql:
    field, operator, operand = condition.field, condition.operator, condition.value
    if operator in _SIGNS:
        kind = "text" if isinstance(operand, str) else "number"
        value, parameter = _value(operand)
        return _where(field, f"{_KINDS[kind]} AND m.value {_SIGNS[operator]} {value}", [parameter])
    sql, parameters = _any_equal(field, operand if operator in ("$in", "$nin") else [operand])
    return (sql if operator in ("$eq", "$in") else f"NOT {sql}"), parameters


def _any_equal(field: str, values: Iterable[Any]) -> Sql:
    texts, parameters = [], []
    for value in values:
        if isinstance(value, bool):
            texts.append(f"m.type = '{str(value).lower()}'")
            continue
        sql, parameter = _value(value)
        texts.append(f"({_KINDS['text' if isinstance(value, str) else 'number']} AND m.value = {sql})")
        parameters.append(parameter)
    return _where(field, f"({' OR '.join(texts) or '0'})", parameters)


def _where(field: str, test: str, parameters: list[Any]) -> Sql:
    # json_each accepts any field name; a JSON path cannot express a quotation mark.
    sql = f"EXISTS (SELECT 1 FROM json_each(d.metadata) AS m WHERE m.key = ? AND {test})"
    return sql, [storable(field), *parameters]


def _value(value: str | int | float) -> tuple[str, Any]:
    if isinstance(value, float):
        # Parsed from text like the stored number: SQLite and Python may round the last digit differently.
        return "json_extract(?, '$')", json.dumps(value)
    return "?", storable(value) if isinstance(value, str) else value
