"""Tokenization and stemming of words."""

from __future__ import annotations

import re
from collections.abc import Iterator

_STOP_WORDS = """
a about after again all also am an and any are as ask at be been before but by can could current currently default
did do does done each else example find for form format from get gets give given go got had has have help here how i
if in into is it its just kindly know let like make many may me might more most much must my name need new no not
now number of off on once one only optional or other our out over please required return returns s shall she should
show shows so some something string such sure t take tell tells than thank thanks that the their them then there
these they thing this those to too type up us use used using value very want was way we well were what when where
whether which while who whom whose why will with within without would yes yet you your
"""
"""Words of messages and tool descriptions that do not help to identify a tool."""

_STOP = frozenset(_STOP_WORDS.split())

_SAME = {
    word: group.split()[0]
    for group in (
        "datetime time clock hour date day",
        "calculator calculate compute arithmetic math",
        "weather forecast temperature rain umbrella",
        "document documentation doc",
        "search lookup look",
        "price cost",
        "email mail",
    )
    for word in group.split()
}


def words_of(text: str) -> Iterator[re.Match[str]]:
    """Yield the words of a text. Apostrophes are part of a word."""
    return re.finditer(r"[^\W_]+(?:['’][^\W_]+)*", text)


def name_words(name: str) -> tuple[str, ...]:
    """Return the words of an identifier; "maxResults" and "max_results" have the same ones."""
    return tuple(word.casefold() for word in re.split(r"[\W_]+|(?<=[a-z0-9])(?=[A-Z])", name) if word)


def is_stop_word(word: str) -> bool:
    """Return True if a word carries no information about the request."""
    return re.split("['’]", word.casefold())[0] in _STOP


def stem(word: str) -> str:
    """Strip English endings from a word, so that its inflections compare equal."""
    word = re.sub(r"['’]s$", "", word.casefold())
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-3] + "y" if word.endswith("ies") else word[:-1]
    bare = re.sub(r"(?<=...)(?:at(?:ion|ing|ed|e)|ing|ed)$", "", word) if word not in _SAME else word
    bare = re.sub(r"([^ls])\1$", r"\1", bare) if bare != word else bare
    return _SAME.get(word) or _SAME.get(bare) or re.sub(r"(?<=...)e$", "", bare)


def content_stems(text: str) -> set[str]:
    """Return the stems of the words that are not stop words. Identifiers count as their words."""
    return {stem(word) for word in name_words(text) if not is_stop_word(word)}
