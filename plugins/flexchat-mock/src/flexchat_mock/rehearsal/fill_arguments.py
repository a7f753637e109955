"""Extraction of a tool's arguments from a text, guided by the tool's schema.

The arguments need not satisfy the whole schema: FlexChat validates those of every call.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs

from .values import Value
from .words import content_stems, is_stop_word, name_words, stem, words_of

_KINDS = {
    word: words.split()[0]
    for words in (
        "expression formula",
        "zone timezone tz",
        "email mail recipient",
        "url uri link",
        "date day",
        "words query question topic text message content body prompt",
    )
    for word in words.split()
}
"""The kind of value of a parameter with such a word in its name, or such a format; "words" are free text."""

_CUES = {"replace": "by|with", "replacement": "by|with", "separator": "at|by", "to": "to|into", "from": "from"}
"""Words that introduce the value of a parameter of that name: "by 'dog'"."""

_EVIDENCE = {"expression": 3.0, "zone": 1.5, "name": 0.5, "quote": 0.5}


@attrs.frozen
class Argument:
    """A value for a parameter."""

    value: Any
    evidence: float = 0.0  # weight in favour of the tool
    uses: Value | None = None  # no other parameter may use this value


@attrs.frozen
class _Parameter:
    name: str
    types: Collection[Any]
    options: Sequence[Any]
    kind: str
    is_needed: bool  # required, or the only parameter: a guess is better than nothing

    @property
    def takes_words(self) -> bool:
        return "string" in self.types and not self.options and self.kind in ("", "words")


def fill_arguments(
    schema: Mapping[str, Any], text: str, values: Sequence[Value], about: Collection[str]
) -> tuple[dict[str, Argument], tuple[str, ...]]:
    """Extract arguments for *schema* from a text. Returns them, and the required parameters that are missing."""
    listed = schema.get("required")
    required = [str(name) for name in listed] if isinstance(listed, list | tuple) else []
    parameters = sorted(_parameters(schema, required), key=lambda p: p.name not in required)
    arguments: dict[str, Argument] = {}
    free, rest = [*values], text
    for find in (_match_option, _match_label, _take_next):
        for parameter in (p for p in parameters if p.name not in arguments):
            if (argument := find(parameter, text, free)) is not None:
                arguments[parameter.name] = argument
                if (used := argument.uses) is not None:
                    free.remove(used)
                    rest = rest[: used.start] + " " * (used.end - used.start) + rest[used.end :]
    empty = next((p.name for p in parameters if p.is_needed and p.takes_words and p.name not in arguments), None)
    if empty is not None and (remainder := _drop_tool_words(rest, about)):
        arguments[empty] = Argument(remainder)
    ordered = {p.name: arguments[p.name] for p in parameters if p.name in arguments}
    return ordered, tuple(name for name in required if name not in arguments)


def _parameters(schema: Mapping[str, Any], required: Sequence[str]) -> list[_Parameter]:
    properties = schema.get("properties")
    parts = {str(name): part for name, part in properties.items()} if isinstance(properties, Mapping) else {}
    parameters = []
    for name, part in parts.items():
        part = part if isinstance(part, Mapping) else {}
        forms = part.get("anyOf")  # For "anyOf: X or null", use X.
        forms = forms if isinstance(forms, list) else []
        part = {**part, **next((f for f in forms if isinstance(f, Mapping) and f.get("type") != "null"), {})}
        kinds, options = part.get("type", "string"), part.get("enum")
        types, options = (list(each) if isinstance(each, list | tuple) else [] for each in (kinds, options))
        words = (*name_words(str(part.get("format", ""))), *name_words(name))
        kind = next((_KINDS[word] for word in words if word in _KINDS), "")
        parameters.append(_Parameter(name, types or [kinds], options, kind, name in required or len(parts) == 1))
    return parameters


def _match_option(parameter: _Parameter, text: str, free: Sequence[Value]) -> Argument | None:
    """Match one of the values of the parameter's enum."""
    options = (o for o in parameter.options if re.search(rf"(?<!\w){re.escape(str(o))}(?!\w)", text, re.IGNORECASE))
    return next((Argument(option, 1.0) for option in options), None)


def _match_label(parameter: _Parameter, text: str, free: Sequence[Value]) -> Argument | None:
    """Match a value labelled by the parameter's name: "limit 10", "3 days", "in the text '…'", "by 'dog'".

    The first word of the text is usually a verb, so it is a label only if a colon or an equals sign follows.
    """
    name = r"[\s_-]*".join(map(re.escape, name_words(parameter.name))) or re.escape(parameter.name)
    lead = rf"(?:\w\W+{name}\s*(?:\bis\b|\bof\b|[:=])?|^\W*{name}\s*[:=])\s*"
    cues = "|".join(_CUES[word] for word in name_words(parameter.name) if word in _CUES) or r"(?!)"
    for value in free:
        unit = re.match(r"\s*-?([^\W\d]+)", text[value.end :])
        counted = value.kind == "number" and unit is not None and stem(unit[1]) in content_stems(parameter.name)
        is_meant = counted or re.search(rf"(?:{lead}|\b(?:{cues})\s+)$", text[: value.start], re.IGNORECASE)
        if is_meant and (argument := _convert(parameter, text, value)) is not None:
            return argument
    return None


def _take_next(parameter: _Parameter, text: str, free: Sequence[Value]) -> Argument | None:
    """Take the next suitable value. Optional parameters take numbers and names only if they match their kind."""
    sure = [value for value in free if parameter.is_needed or value.kind in ("quote", parameter.kind)]
    return next((argument for value in sure if (argument := _convert(parameter, text, value)) is not None), None)


def _convert(parameter: _Parameter, text: str, value: Value) -> Argument | None:
    """Convert a value to an argument; None if its type does not match the parameter."""
    evidence = _EVIDENCE.get(value.kind, 1.0)
    if value.kind == "number":
        fits = "number" in parameter.types or ("integer" in parameter.types and isinstance(value.value, int))
        return Argument(value.value, evidence, value) if fits else None
    if "string" in parameter.types and value.kind == (parameter.kind or "quote"):
        return Argument(value.value, evidence, value)
    if not parameter.takes_words or value.kind == "expression" or (parameter.kind and value.kind != "quote"):
        return None
    return Argument(value.value if value.kind == "quote" else text[value.start : value.end], 0.5, value)


def _drop_tool_words(text: str, about: Collection[str]) -> str:
    """Return the text from its first content word that is not about the tool."""
    for word in words_of(text):
        if not is_stop_word(word[0]) and stem(word[0]) not in about:
            return text[word.start() :].rstrip(" \t.,;:!?")
    return ""
