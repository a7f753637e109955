"""The search for words: FTS5, ranked by BM25."""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Sequence

from .filters import Sql

MOST_TERMS = 64
"""Words of a question that are searched for, the first ones; enough for a long paragraph."""

# Measured on Cranfield (benchmarks/retrieval_quality.py): a title's word counts for two of the text's, nDCG@10 0.377
# to 0.387; without stop words 0.378 to 0.387; without stemming 0.368.
_RANK = "bm25(words, 2.0, 1.0, 0.0)"
_BEST_REPETITION = 2.2  # the most one term's frequency counts for in FTS5's BM25: k1 + 1, k1 = 1.2

_TERM = re.compile(r"[^\W_]+")
_STOP_WORDS = frozenset(
    """a about all also am an and any are as at be been but by can could did do does for from had has have he
    her his how i if in into is it its may me might must my no not of on or our shall she should so some such
    than that the their them then there these they this those to too us was we were what when where which
    while who whom whose why will with would you your""".split()  # noqa: SIM905  words are read more easily so
)


def terms_of(question: str) -> tuple[str, ...]:
    """Return the words of a question, each once, without those that say nothing, unless it has no others."""
    words = dict.fromkeys(word.lower() for word in _TERM.findall(question))
    telling = [word for word in words if word not in _STOP_WORDS]
    return tuple(telling or words)[:MOST_TERMS]


def find_words(
    connection: sqlite3.Connection, terms: Sequence[str], collections: Sequence[int] | None, where: Sql | None, top: int
) -> list[tuple[int, float]]:
    """Return numbers and scores of the documents with most of the terms, best first; a greater score is better.

    Args:
        collections: Their numbers; None for all.
        where: A filter over the documents as d; None for all.
    """
    if not terms or (collections is not None and not collections):
        return []
    match = f"{{title text}} : ({_any_of(terms)})"
    if collections is not None:
        match = f"{match} AND collection : ({_any_of(map(str, collections))})"
    table, condition, parameters = "words", "", [match]
    if where is not None:
        table, condition = "words CROSS JOIN documents AS d ON d.number = words.rowid", f"AND {where[0]}"
        parameters += where[1]
    found = connection.execute(
        f"SELECT words.rowid, {_RANK} AS rank_ FROM {table} WHERE words MATCH ? {condition}"
        " ORDER BY rank_, words.rowid LIMIT ?",
        (*parameters, top),
    )
    return [(number, -rank) for number, rank in found]


def best_score(connection: sqlite3.Connection, terms: Sequence[str]) -> float:
    """Return a score no document can exceed by much: every term, as often as repetition counts, in the text."""
    total = connection.execute("SELECT count(*) FROM documents").fetchone()[0]
    best = 0.0
    for term in terms:
        match = f"{{title text}} : {_any_of([term])}"
        holders = connection.execute("SELECT count(*) FROM words WHERE words MATCH ?", (match,)).fetchone()[0]
        # As FTS5 weighs a word (fts5_aux.c), which is 1e-6 for one that half of the documents have.
        weight = math.log((total - holders + 0.5) / (holders + 0.5))
        best += _BEST_REPETITION * (weight if weight > 0 else 1e-6)
    return best


def _any_of(terms: Sequence[str] | map[str]) -> str:
    # In quotation marks a word is no operator; a term has none itself.
    return " OR ".join(f'"{term}"' for term in terms)
