"""The search for words: FTS5, ranked by BM25."""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections.abc import Sequence

from .filters import Sql

MOST_TERMS = 64
"""Words of a question that are searched for, the first ones; enough for a long paragraph."""

LONGEST_READ = 20_000
"""Characters of a question in which words are looked for."""

# Measured on Cranfield (benchmarks/retrieval_quality.py): a title's word counts for two of the text's, nDCG@10 0.377
# to 0.387; without stop words 0.378 to 0.387; without stemming 0.368.
_RANK = "bm25(words, 2.0, 1.0, 0.0)"

_TERM = re.compile(r"[^\W_]+")
_STOP_WORDS = frozenset(
    """a about all also am an and any are as at be been but by can could did do does for from had has have he
    her his how i if in into is it its may me might must my no not of on or our shall she should so some such
    than that the their them then there these they this those to too us was we were what when where which
    while who whom whose why will with would you your""".split()  # noqa: SIM905  words are read more easily so
)


def terms_of(question: str) -> tuple[str, ...]:
    """Return the words of a question, each once, without those that say nothing, unless it has no others."""
    words = dict.fromkeys(word.lower() for word in _TERM.findall(question[:LONGEST_READ]))
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
    table, condition, parameters = "words", "", [_match(terms, collections)]
    if where is not None:
        table, condition = "words CROSS JOIN documents AS d ON d.number = words.rowid", f"AND {where[0]}"
        parameters += where[1]
    found = connection.execute(
        f"SELECT words.rowid, {_RANK} AS rank_ FROM {table} WHERE words MATCH ? {condition}"
        " ORDER BY rank_, words.rowid LIMIT ?",
        (*parameters, top),
    )
    return [(number, -rank) for number, rank in found]


def word_distances(
    connection: sqlite3.Connection, terms: Sequence[str], collections: Sequence[int] | None, numbers: Sequence[int]
) -> dict[int, float]:
    """Return how much of a question these documents lack: 0 where they have all of its words, 1 where none.

    A word weighs what it does in BM25, so a rare one more; one that no document has weighs most, which keeps a question
    about something else far. How often a document has it counts for the ranking, and not here.

    Measured with the best hit of each question: on Cranfield half of the questions are below 0.34 and 84 % below 0.5,
    on our documentation 15 of 16; questions about something else are at 0.49 to 1 there, at 0.65 to 1 here.
    """
    known = "SELECT count(*) FROM documents"
    if collections is not None:
        known += f" WHERE collection IN ({','.join(map(str, collections))})"
    total = connection.execute(known).fetchone()[0]
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
    # In quotation marks a word is not an operator; a term contains none itself.
    return " OR ".join(f'"{term}"' for term in terms)
