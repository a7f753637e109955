"""How surely a value that was found is meant for a parameter."""

from __future__ import annotations

import re
from typing import Any

import attrs

from .clause import Clause
from .parameters import Parameter
from .values import Value
from .words import name_words, stem

MENTIONED = 2.0
"""From this score on the text means the parameter; below it only a required parameter takes the value."""


@attrs.frozen
class Candidate:
    """A value for a parameter.

    Attributes:
        score: How surely it is meant: 1 a guess, 2 likely, 4 said so, 6 named.
        evidence: How much it speaks for the tool itself that the text holds such a value.
        start, end: The stretch of text it uses up, the words around it included.
    """

    parameter: Parameter
    value: Any
    score: float
    evidence: float
    start: int
    end: int


def named(parameter: Parameter, clause: Clause, start: int) -> bool:
    """Return whether the parameter's own name stands right before a place: "limit 10", "subject: …"."""
    before = clause.before(start)
    for form in {parameter.name.casefold(), " ".join(name_words(parameter.name))}:
        sign = r"\s*(?P<sign>is|are|=|:|of|as|to|at|named|called)?\s*[\"'“`]?$"
        match = re.search(rf"(?<!\w){re.escape(form)}{sign}", before, re.I)
        if match:
            return bool(match["sign"]) or not _is_imperative(clause, start - len(before) + match.start())
    last = re.search(r"([^\W_]+)\s*(?:is|=|:)?\s*[\"'“`]?$", before)
    return bool(
        last
        and len(parameter.words) == 1
        and stem(last[1]) in parameter.words
        and last[1].casefold() not in NO_NAMES
        and not _is_imperative(clause, start - len(before) + last.start())
    )


def _is_imperative(clause: Clause, place: int) -> bool:
    """Whether a word begins the request: "replace" in "Replace x" is what to do, and no parameter's name."""
    return all(w.text.casefold() in _POLITE for w in clause.words if w.end <= place)


_POLITE = {"please", "can", "could", "would", "will", "you", "and", "then", "now", "i", "want", "to", "kindly", "let's"}


# A parameter may be called "to" or "from"; as a word of the text that is a cue, not its name.
NO_NAMES = {"to", "from", "in", "at", "on", "by", "for", "of", "a", "b", "x", "y", "when", "since", "until", "after"}


def cue_of(parameter: Parameter, clause: Clause, start: int) -> tuple[float, int]:
    """What the preposition before a value adds to its score, and where it begins."""
    match = re.search(r"(?<!\w)([A-Za-z]+)\s+(?:the\s+|a\s+|an\s+)?[\"'“`]?$", clause.before(start, 20))
    if match is None:
        return 0.0, start
    word = match[1].casefold()
    place = start - len(match[0])
    if word in parameter.cues:
        return 1.5 - 0.2 * parameter.cues.index(word), place
    return (-0.5, place) if word in PLAIN_CUES else (0.0, start)


PLAIN_CUES = {"in", "at", "from", "to", "into", "for", "about", "by", "since", "until", "on", "of", "with"}
"""Prepositions before a value; one that is none of the parameter\'s own speaks against it."""


def made(parameter: Parameter, clause: Clause, value: Value, said: Any, score: float, evidence: float) -> Candidate:
    """Return a candidate for a value that was found, its score raised by the words before it."""
    bonus, start = cue_of(parameter, clause, value.start)
    if named(parameter, clause, value.start):
        return Candidate(parameter, said, max(score, 4.0) + 2, max(evidence, 1.0), value.start, value.end)
    return Candidate(parameter, said, score + bonus, evidence, start, value.end)
