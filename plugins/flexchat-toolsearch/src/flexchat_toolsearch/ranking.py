"""Which tools fit a request, best first: by the words of their names, descriptions and arguments."""

from __future__ import annotations

import bisect
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from flexchat.plugin import ToolDefinition

from .words import SAME, STOP, joined, stem, stems, words

# Okapi BM25F: each field has a weight, and how much its length counts.
_K1 = 1.2
_FIELDS = {"name": (3.0, 0.5), "summary": (2.0, 0.6), "description": (0.6, 0.8), "arguments": (0.4, 0.8)}
# Shares of a word's weight: of one that stands for it, of one that begins like it, of two words written as one.
_SYNONYM, _ALIKE, _PAIR = 0.35, 0.7, 0.7
_MIN_PART = 4  # letters that the beginning of a word must have to stand for it

MAX_DESCRIPTION_CHARS = 4_000
MAX_ARGUMENTS = 60
MAX_WORDS = 512
"""Words of queries that an index remembers."""


@attrs.frozen
class Hit:
    """A tool that fits, under the name its model calls it by."""

    name: str
    tool: ToolDefinition
    score: float


class ToolIndex:
    """The words of tools, ready to be searched.

    Args:
        tools: By the names that models call them by.
    """

    def __init__(self, tools: Mapping[str, ToolDefinition]) -> None:
        self._tools = [*tools.items()]
        self._by_name = {name.lower(): place for place, (name, _) in enumerate(self._tools)}
        self._by_name |= {tool.name.lower(): place for place, (_, tool) in enumerate(self._tools)}
        fields = [_fields(name, tool) for name, tool in self._tools]
        lengths = {field: sum(len(each[field]) for each in fields) / max(len(fields), 1) for field in _FIELDS}
        frequencies: list[dict[str, float]] = []
        for each in fields:
            weights: dict[str, float] = {}
            for field, (weight, share) in _FIELDS.items():
                scale = weight / (1 - share + share * len(each[field]) / max(lengths[field], 1))
                for word, count in Counter(each[field]).items():
                    weights[word] = weights.get(word, 0.0) + count * scale
            frequencies.append(weights)
        in_tools = Counter(word for weights in frequencies for word in weights)
        total = len(fields)
        self._idf = {word: math.log(1 + (total - n + 0.5) / (n + 0.5)) for word, n in in_tools.items()}
        self._places: dict[str, list[tuple[int, float]]] = {}
        for place, weights in enumerate(frequencies):
            for word, frequency in weights.items():
                self._places.setdefault(word, []).append((place, frequency / (_K1 + frequency)))
        self._vocabulary = sorted(self._idf)
        self._fits: dict[str, tuple[float, Mapping[int, float]]] = {}

    def find(self, query: str, hits: int) -> list[Hit]:
        """Return the tools that fit best, at most so many; those whose exact names are in the query come first."""
        scores = self._scores(query)
        exact = self._exact(query)
        best = sorted(scores, key=lambda place: (-scores[place], place))
        places = dict.fromkeys([*exact, *best])
        return [Hit(*self._tools[place], scores.get(place, 0.0)) for place in [*places][:hits]]

    def _exact(self, query: str) -> Iterator[int]:
        for text in (query.strip(), *re.split(r"[\s,;'\"`()]+", query)):
            if (place := self._by_name.get(text.lower().rstrip(".?!"))) is not None:
                yield place

    def _scores(self, query: str) -> dict[int, float]:
        """Return the scores of tools that have a word of the query, by their places."""
        asked = [*self._weigh_words(query)]
        scores: dict[int, float] = {}
        matched: dict[int, float] = {}
        whole = sum(weight for weight, _ in asked)
        for weight, fitting in asked:
            for place, value in fitting.items():
                scores[place] = scores.get(place, 0.0) + weight * value
                matched[place] = matched.get(place, 0.0) + (weight if value >= 0.5 else weight * value * 2)
        # A tool that has most of what was asked for precedes one that has a single rare word often.
        return {place: score * (0.5 + matched[place] / whole) for place, score in scores.items()}

    def _weigh_words(self, query: str) -> Iterator[tuple[float, Mapping[int, float]]]:
        """Yield the weight of each word of the query, and how well it fits each tool, by place."""
        parts = [*words(query)]
        asked = dict.fromkeys(map(stem, parts))
        for word in [word for word in asked if word not in STOP] or asked:
            weight, fitting = self._fitting(word)
            if fitting:
                yield weight, fitting
        for pair in dict.fromkeys(joined(parts)):
            if pair in self._idf:
                yield self._idf[pair] * _PAIR, dict(self._places[pair])

    def _fitting(self, word: str) -> tuple[float, Mapping[int, float]]:
        """Return the weight of a word, and how well it, or one that may stand for it, fits each tool."""
        if (known := self._fits.get(word)) is not None:
            return known
        shares = {word: 1.0} | dict.fromkeys(SAME.get(word, ()), _SYNONYM)
        if word not in self._idf:
            shares |= dict.fromkeys(self._alike(word), _ALIKE)
        best: dict[int, float] = {}
        for each, share in shares.items():
            for place, frequency in self._places.get(each, ()):
                best[place] = max(best.get(place, 0.0), share * frequency)
        weight = self._idf.get(word) or min((self._idf[each] for each in shares if each in self._idf), default=0.0)
        if len(self._fits) >= MAX_WORDS:
            self._fits.clear()
        self._fits[word] = weight, best
        return weight, best

    def _alike(self, word: str) -> Iterator[str]:
        """Yield known words that begin with an unknown one, or that it begins with."""
        if len(word) >= _MIN_PART:
            at = bisect.bisect_left(self._vocabulary, word)
            yield from itertools.takewhile(lambda known: known.startswith(word), self._vocabulary[at:])
            yield from (part for end in range(_MIN_PART, len(word)) if (part := word[:end]) in self._idf)


def _fields(name: str, tool: ToolDefinition) -> dict[str, list[str]]:
    """Return the stems of each field; the summary is the description's first sentence."""
    description = tool.description[:MAX_DESCRIPTION_CHARS]
    summary = re.split(r"(?<=[.!?])\s|\n", description, maxsplit=1)[0]
    parts = [*words(f"{tool.source or ''} {tool.name}")]
    return {
        "name": [*map(stem, parts), *joined(parts)],
        "summary": stems(summary),
        "description": stems(description[len(summary) :]),
        "arguments": [word for name in [*_argument_names(tool.parameters)][:MAX_ARGUMENTS] for word in stems(name)],
    }


def _argument_names(schema: Any) -> Iterator[str]:
    """Yield the names of arguments, those inside objects as well."""
    waiting = [schema]
    while waiting:
        each = waiting.pop(0)
        properties = each.get("properties") if isinstance(each, Mapping) else None
        if isinstance(properties, Mapping):
            yield from map(str, properties)
            waiting += properties.values()
