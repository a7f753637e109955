"""Numbers that could be meant for a parameter, with what they count."""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs

from .clause import Clause
from .meant import MENTIONED, Candidate, made
from .parameters import Parameter
from .values import Value
from .vocabulary import SECONDS
from .words import groups_of, name_words, stem


def number_candidates(parameter: Parameter, clause: Clause, tool_words: frozenset[str]) -> Iterator[Candidate]:
    """Yield the numbers of a clause; one whose unit the parameter speaks of is surely meant."""
    unit = _time_unit(parameter)
    counts = bool(_COUNTS & set(name_words(parameter.name)))
    for value in clause.values:
        if value.kind != "number":
            continue
        number, end, score, evidence = value.value, value.end, 1.0, 0.1
        said = value.unit.casefold()
        seconds = SECONDS.get(said) or SECONDS.get(said.rstrip("s"))
        if seconds and unit:
            number = number * seconds / SECONDS[unit]
            score, evidence = 4.0, 1.0
        elif seconds:
            score = 0.3
        elif said and (stem(said) in parameter.words or _is_same(said, parameter.words)):
            score, evidence = 4.0, 1.0
        elif said and (stem(said) in parameter.described or _is_same(said, parameter.described)):
            score, evidence = 3.5, 0.8
        elif said and counts and (stem(said) in tool_words or groups_of(said) & tool_words):
            score, evidence = 3.0, 0.5
        elif any(v.kind == "currency" and v.start <= end + 2 and value.start <= v.end for v in clause.values):
            score = 3.5 if parameter.words & _MONEY or parameter.described & _MONEY else 1.0
            evidence = 0.5 if score > 1 else 0.1
        if not value.sure and score < MENTIONED:
            continue  # "a table" does not count tables
        if score >= MENTIONED and evidence > 0.5:
            end = _unit_end(clause, value)
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        spelled = Value("number", number, value.start, value.end, value.unit, value.sure)
        spelled_out = made(parameter, clause, spelled, number, score, evidence)
        yield attrs.evolve(spelled_out, start=_amount_start(clause, spelled_out.start), end=max(end, spelled_out.end))


_COUNTS = {"count", "number", "num", "quantity", "amount", "times", "copies", "limit", "max", "maximum", "top", "n"}
_MONEY = frozenset(
    map(stem, ("amount", "price", "cost", "budget", "sum", "money", "currency", "total", "fee", "salary"))
)


def _is_same(word: str, stems: frozenset[str]) -> bool:
    return bool(groups_of(word) and any(groups_of(word) & groups_of(s) for s in stems))


def _time_unit(parameter: Parameter) -> str | None:
    for stems in (parameter.words, parameter.described):
        for unit in SECONDS:
            if stem(unit) in stems and len(unit) > 1:
                return unit
    return None


def _unit_end(clause: Clause, value: Value) -> int:
    place = clause.text.find(value.unit, value.end, value.end + 20) if value.unit else -1
    return place + len(value.unit) if place >= 0 else value.end


_QUALIFIERS = re.compile(
    r"(?<!\w)(?:(?:for|with|of|the|a|at most|at least|up to|top|first|only|max|maximum|about)\s+)+$", re.IGNORECASE
)


def _amount_start(clause: Clause, start: int) -> int:
    """Where the words that qualify a number begin: "at most", "the top"."""
    match = _QUALIFIERS.search(clause.before(start))
    return start - len(match[0]) if match else start
