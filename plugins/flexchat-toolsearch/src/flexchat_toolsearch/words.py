"""Words of names and texts, in the form in which they are compared."""

from __future__ import annotations

import functools
import itertools
import re
import tomllib
from collections.abc import Iterator
from importlib import resources

import snowballstemmer

# "listOpenOrders2", "HTTPServer": a word ends where the case or the kind of character changes.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")

_tables = tomllib.loads(resources.files(__package__).joinpath("words.toml").read_text("utf-8"))
_stem = snowballstemmer.stemmer("english").stemWord


@functools.lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """Return the form in which a word is compared: "orders" and "ordering" are both "order"."""
    return str(_stem(word.lower()))


def words(text: str) -> Iterator[str]:
    """Yield the words of a text, of identifiers in it as well, in lower case."""
    for match in _WORD.finditer(text):
        yield match[0].lower()


def stems(text: str) -> list[str]:
    """Return the words of a text, stemmed."""
    return [stem(word) for word in words(text)]


def joined(parts: list[str]) -> list[str]:
    """Return each two neighbours as one word: "sub accounts" is written "subaccounts" elsewhere."""
    return [stem(first + second) for first, second in itertools.pairwise(parts)]


STOP = frozenset(map(stem, _tables["stop"].split()))
"""Stems of words that do not distinguish tools."""


def _same() -> dict[str, frozenset[str]]:
    same: dict[str, set[str]] = {}
    for line in _tables["same"].strip().splitlines():
        group = {stem(word) for word in line.split()}
        for each in group:
            same.setdefault(each, set()).update(group - {each})
    return {each: frozenset(others) for each, others in same.items()}


SAME = _same()
"""By stem, those of words that stand for the same."""
