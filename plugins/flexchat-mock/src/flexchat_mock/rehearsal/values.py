"""Words, their stems, and possible argument values in a text."""

from __future__ import annotations

import functools
import re
import zoneinfo
from collections.abc import Iterator
from typing import Any

import attrs

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
    """Return the words of an identifier; "maxResults" and "max_results" have the same words."""
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


@attrs.frozen
class Value:
    """A possible argument in a text: a number for the kind "number", otherwise a string."""

    kind: str  # one of _PATTERNS, zone or name
    value: Any
    start: int
    end: int


_OPERATORS = {"×": "*", "÷": "/", "−": "-", "plus": "+", "minus": "-", "times": "*", "divided by": "/"}
_SIGNS = rf"(?:[-+*/^]|{'|'.join(_OPERATORS)})"
_INNERMOST = r"(?:[a-z]{2,}\d*)?[(\[][\d\s.,%+*/^×÷−-]*[)\]]"
_OPERAND = rf"-?(?:(?:[a-z]{{2,}}\d*)?[(\[](?:[\d\s.,%+*/^×÷−-]|{_INNERMOST})*[)\]]|\d+(?:\.\d+)?%?(?!\w)|pi\b)"
_PATTERNS = {
    "quote": re.compile(r"\"([^\"\n]*)\"|“([^”\n]*)”|(?<!\w)['‘]([^\n]*?)['’](?!\w)|`([^`\n]*)`"),
    "email": re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    "url": re.compile(r"https?://[^\s<>\"']*[^\s<>\"'.,;:!?)]"),
    "date": re.compile(r"\b\d{4}-\d\d-\d\d\b"),
    "expression": re.compile(rf"(?<![\w.$€£]){_OPERAND}(?:\s*(?:{_SIGNS}|(?<=%)\s+of\b)\s*{_OPERAND})*"),
    "code": re.compile(r"\b[A-Z][\w-]*\d[\w-]*"),
    "number": re.compile(r"(?<![\w.,-])-?\d{1,15}(?:\.\d{1,15})?(?![\w%]|[.,]\d)"),
}
_ARITHMETIC = re.compile(rf"[\w\s)\]]{_SIGNS}|[a-z][(\[]|% +of")
_REGIONS = ("Africa", "America", "Antarctica", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")


def values_of(text: str) -> tuple[Value, ...]:
    """Find the values in a text, in order and without overlaps."""
    values: list[Value] = []
    for value in (*_matches(text), *_zones(text), *_names(text)):
        if all(value.end <= other.start or other.end <= value.start for other in values):
            values.append(value)
    return tuple(sorted(values, key=lambda value: value.start))


def _matches(text: str) -> Iterator[Value]:
    for kind, pattern in _PATTERNS.items():
        for match in pattern.finditer(text):
            value: Any = next((group for group in match.groups() if group is not None), match[0])
            if kind == "number":
                value = float(value) if "." in value else int(value)
            elif kind == "expression":
                value = re.sub("|".join(_OPERATORS), lambda sign: _OPERATORS[sign[0]], value)
            if kind != "expression" or _ARITHMETIC.search(match[0]):
                yield Value(kind, value, match.start(), match.end())


@functools.cache
def _zones_by_place() -> dict[str, str]:
    """Map lower-case zone names, and the places in them, to time zones."""
    zones = {"utc": "UTC"}
    for zone in sorted(zoneinfo.available_timezones()):
        if zone.split("/")[0] in _REGIONS and "/" in zone:
            zones[zone.casefold()] = zone
            zones.setdefault(zone.rsplit("/", 1)[1].replace("_", " ").casefold(), zone)
    return {place: zone for place, zone in zones.items() if place not in {"center", "north", "south", "west"}}


def _zones(text: str) -> Iterator[Value]:
    words = [*re.finditer(r"[^\W\d][\w/+-]*", text)]
    for size in (3, 2, 1):
        for first, last in zip(words, words[size - 1 :], strict=False):
            if zone := _zones_by_place().get(text[first.start() : last.end()].casefold()):
                yield Value("zone", zone, first.start(), last.end())


def _names(text: str) -> Iterator[Value]:
    """Yield runs of capitalised words, except a single one at the beginning of a sentence."""
    for run in re.finditer(r"\b[A-Z]\w*(?:[ -][A-Z]\w*)*", text):
        before = text[: run.start()].rstrip(" \t\"'“‘(")
        begins = not before or before[-1] in ".!?:;\n"
        words = [word for word in [*words_of(run[0])][begins:] if not is_stop_word(word[0])]
        if words:
            start, end = run.start() + words[0].start(), run.start() + words[-1].end()
            yield Value("name", text[start:end], start, end)
