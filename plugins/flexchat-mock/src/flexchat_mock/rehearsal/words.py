"""Words of a text, and which of them count as the same."""

from __future__ import annotations

import functools
import re

import attrs

from .vocabulary import STOP_WORDS, SYNONYMS

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@attrs.frozen
class Word:
    """A word and its place in the text."""

    text: str
    start: int
    end: int


def words_of(text: str) -> tuple[Word, ...]:
    """Return the words of a text, hyphens and apostrophes included."""
    return tuple(Word(found[0], found.start(), found.end()) for found in _WORD.finditer(text))


def name_words(name: str) -> tuple[str, ...]:
    """Return the words an identifier is made of: "maxResults" and "max_results" alike."""
    return tuple(word.casefold() for part in re.split(r"[\W_]+", name) for word in _CAMEL.split(part) if word)


def is_stop_word(word: str) -> bool:
    """Return whether a word says nothing about what is wanted."""
    return word.casefold().split("'")[0].split("’")[0] in STOP_WORDS


@functools.lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """Return what is left of a word without its English endings; the same for words of one family, mostly."""
    word = word.casefold().replace("’", "'").removesuffix("'s")
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif word.endswith(("sses", "xes", "zes", "ches", "shes")):
        word = word[:-2]
    elif len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending, shortest in (("ation", 8), ("ator", 7), ("ing", 6), ("ed", 5), ("ate", 7)):
        if word.endswith(ending) and len(word) >= shortest:
            word = word[: -len(ending)]
            if ending in ("ing", "ed") and len(word) > 2 and word[-1] == word[-2] and word[-1] not in "ls":
                word = word[:-1]
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def _synonyms() -> dict[str, frozenset[str]]:
    groups: dict[str, set[str]] = {}
    for group in SYNONYMS:
        for word in group:
            groups.setdefault(stem(word), set()).add("~" + group[0])
    return {word: frozenset(names) for word, names in groups.items()}


_GROUPS = _synonyms()


@functools.lru_cache(maxsize=8192)
def groups_of(word: str) -> frozenset[str]:
    """Return the names of the synonym groups a word belongs to; they begin with ~."""
    return _GROUPS.get(stem(word), frozenset())
