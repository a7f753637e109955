"""A stretch of the message that asks for one thing."""

from __future__ import annotations

import datetime as dt
import functools
import re

import attrs

from .values import Value, find_values
from .words import Word, groups_of, is_stop_word, stem, words_of

_CUE = re.compile(
    r"(?:(?<=\s)|^)(?P<cue>in|at|from|to|into|for|about|on|by|with|near|of|regarding|concerning|called|named|titled|since|until)"
    r"\s+",
    re.IGNORECASE,
)
_PHRASE_END = re.compile(
    r"\s+(?:in|at|from|to|into|for|about|on|by|with|near|regarding|concerning|called|named|titled|since|until|and|or|then"
    r"|please|now|right|today|tonight|tomorrow|is|are|using|via|saying)\b|[,.;:!?]+(?:\s|$)|[()\"“”\n\0]",
    re.IGNORECASE,
)
_DETERMINERS = re.compile(r"^(?:(?:the|a|an|my|our|your|some|any|all|me)\s+)+", re.IGNORECASE)


@attrs.frozen
class Phrase:
    """A few words that a preposition leads to: "in paris".

    Attributes:
        cue: The preposition.
        text: The words after it, without a leading article.
        start: Of the preposition.
        inner: Where text begins.
    """

    cue: str
    text: str
    start: int
    inner: int
    end: int


class Clause:
    """A stretch of text and what is in it; each is found once, whoever asks.

    Attributes:
        today: What "tomorrow" counts from.
    """

    def __init__(self, text: str, today: dt.date) -> None:
        self.text, self.today = text, today

    @functools.cached_property
    def values(self) -> tuple[Value, ...]:
        """Everything that could be an argument."""
        return find_values(self.text, self.today)

    @functools.cached_property
    def words(self) -> tuple[Word, ...]:
        """All words."""
        return words_of(self.text)

    @functools.cached_property
    def content(self) -> tuple[Word, ...]:
        """The words that say what is wanted: no stop words, nothing inside quotes or addresses."""
        fixed = [v for v in self.values if v.kind in ("quoted", "url", "email", "uuid", "path")]
        return tuple(
            w
            for w in self.words
            if not is_stop_word(w.text) and not any(v.overlaps(w.start, w.end) for v in fixed) and not w.text.isdigit()
        )

    @functools.cached_property
    def stems(self) -> dict[str, Word]:
        """The stems of all words, with the first word of each."""
        return {stem(w.text): w for w in reversed(self.words)}

    @functools.cached_property
    def groups(self) -> frozenset[str]:
        """The synonym groups of the words that say what is wanted."""
        return frozenset(g for w in self.content for g in groups_of(w.text))

    @functools.cached_property
    def phrases(self) -> tuple[Phrase, ...]:
        """What prepositions lead to."""
        found = []
        for match in _CUE.finditer(self.text):
            end_match = _PHRASE_END.search(self.text, match.end() - 1)
            end = end_match.start() if end_match else len(self.text)
            for value in self.values:  # a date or an address is not part of the phrase before it
                if value.kind in ("moment", "email", "url", "quoted") and match.end() <= value.start < end:
                    end = value.start
            text = self.text[match.end() : end]
            bare = _DETERMINERS.sub("", text).strip()
            if bare:
                inner = match.end() + text.index(bare)
                found.append(Phrase(match["cue"].casefold(), bare, match.start(), inner, inner + len(bare)))
        return tuple(found)

    def before(self, place: int, size: int = 40) -> str:
        """Return the text just before a place."""
        return self.text[max(0, place - size) : place]


def bare(text: str) -> str:
    """Return a text without a leading article and the punctuation around it."""
    return _DETERMINERS.sub("", text.strip(" \t\n\0,.;:!?-–")).strip(" \t\n\0,.;:!?")
