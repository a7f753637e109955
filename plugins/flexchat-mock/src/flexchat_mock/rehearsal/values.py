"""Extraction of possible argument values from a text."""

from __future__ import annotations

import functools
import re
import zoneinfo
from collections.abc import Iterator
from typing import Any

import attrs

from .words import is_stop_word, words_of


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
