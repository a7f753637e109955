"""How well a tool fits a clause, by its words and by the values it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from .clause import Clause
from .fill_arguments import Filled, fill_arguments
from .parameters import content_stems
from .vocabulary import BOILERPLATE
from .words import groups_of, is_stop_word, name_words, stem

ENOUGH = 2.0
"""A tool that scores less does not fit. A word of its name counts 3, one of its description 1."""

_IN_NAME, _IN_PARAMETER, _IN_DESCRIPTION = 3.0, 1.2, 1.0
_AS_SYNONYM = 0.75
_WHOLE_NAME = 1.0
_INCOMPLETE = 0.7
_AN_ARGUMENT = 0.1


@attrs.frozen
class Tool:
    """A tool as it came over the wire, its words made ready.

    Attributes:
        words: Stem or synonym group (which begins with ~), and what a clause that has it scores.
        own_words: The stems of its name.
    """

    name: str
    schema: Mapping[str, Any]
    words: Mapping[str, float]
    own_words: frozenset[str]

    @property
    def all_words(self) -> frozenset[str]:
        """The words of its name and description, synonym groups included."""
        return frozenset(word for word, weight in self.words.items() if weight >= _IN_DESCRIPTION * _AS_SYNONYM)


@attrs.frozen
class Match:
    """A tool and what a clause gives it.

    Attributes:
        from_context: Some of the arguments come from other sentences of the message.
    """

    tool: Tool
    clause: Clause
    filled: Filled
    score: float
    from_context: bool = False

    @property
    def complete(self) -> bool:
        """Whether it can be called."""
        return not self.filled.missing


def read_tools(wire: Sequence[Mapping[str, Any]]) -> tuple[Tool, ...]:
    """Return the tools of a request; what is not a tool is passed over."""
    tools = []
    for entry in wire:
        function = entry.get("function", entry)
        if isinstance(function, Mapping) and isinstance(function.get("name"), str):
            tools.append(_read(function["name"], str(function.get("description") or ""), function.get("parameters")))
    return tuple(tools)


def _read(name: str, description: str, parameters: Any) -> Tool:
    schema = parameters if isinstance(parameters, Mapping) else {"type": "object"}
    own = [w for w in name_words(name) if not is_stop_word(w) and w not in BOILERPLATE] or list(name_words(name))
    words: dict[str, float] = {}
    for word in own:
        _add(words, word, _IN_NAME)
    for word in content_stems(description):
        _add(words, word, _IN_DESCRIPTION)
    properties = schema.get("properties")
    for key, part in properties.items() if isinstance(properties, Mapping) else ():
        for word in name_words(str(key)):
            if not is_stop_word(word) and word not in BOILERPLATE:
                _add(words, word, _IN_PARAMETER)
        said = part.get("description") if isinstance(part, Mapping) else None
        for word in content_stems(said) if isinstance(said, str) else ():
            _add(words, word, _IN_DESCRIPTION / 2)
        options = part.get("enum") if isinstance(part, Mapping) else None
        for option in options if isinstance(options, list | tuple) else ():
            for word in name_words(option) if isinstance(option, str) else ():
                if not is_stop_word(word):
                    words[stem(word)] = max(words.get(stem(word), 0.0), _IN_DESCRIPTION)
    return Tool(name=name, schema=schema, words=words, own_words=frozenset(map(stem, own)))


def _add(words: dict[str, float], word: str, weight: float) -> None:
    words[stem(word)] = max(words.get(stem(word), 0.0), weight)
    for group in groups_of(word):
        words[group] = max(words.get(group, 0.0), weight * _AS_SYNONYM)


def words_score(tool: Tool, clause: Clause, rivals: Sequence[Tool]) -> tuple[float, float]:
    """Return how well the words of a clause fit a tool, and how well where words that many tools share count less."""
    total, rare, seen = 0.0, 0.0, set()
    for word in clause.content:
        own = stem(word.text)
        if own in seen:
            continue
        seen.add(own)
        keys = [own, *groups_of(word.text)]
        weight = max((tool.words.get(key, 0.0) for key in keys), default=0.0)
        if weight:
            sharing = sum(any(rival.words.get(key, 0.0) >= weight for key in keys) for rival in rivals)
            total += weight
            rare += weight / max(1, sharing) ** 0.5
    if tool.own_words and tool.own_words <= seen:
        total, rare = total + _WHOLE_NAME, rare + _WHOLE_NAME
    return total, rare


def choose_tool(clause: Clause, tools: Sequence[Tool], *, enough: float = ENOUGH) -> Match | None:
    """Return the tool that fits a clause best, or None. One that lacks an argument gives way to one that does not."""
    best: Match | None = None
    best_rank = 0.0
    for tool in tools:
        words, rare = words_score(tool, clause, tools)
        filled = fill_arguments(tool.schema, clause, tool.all_words)
        score = words + filled.evidence
        if score < enough or (words == 0 and filled.evidence < enough):
            continue
        rank = (rare + filled.evidence + _AN_ARGUMENT * len(filled.arguments)) * (
            _INCOMPLETE if filled.missing else 1.0
        )
        if best is None or rank > best_rank:
            best, best_rank = Match(tool, clause, filled, score), rank
    return best
