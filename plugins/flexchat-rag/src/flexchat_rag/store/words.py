"""Word search with FTS5, ranked by BM25."""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections.abc import Sequence

from .filters import Sql

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
