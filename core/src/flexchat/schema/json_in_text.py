"""JSON values in a text that is not JSON alone: models think aloud, write a fence, and add a sentence."""

from __future__ import annotations

import json
import re
from typing import Any

import attrs

_THOUGHT_END = re.compile(r"</(?:think|thinking|thought|thoughts|reasoning|analysis)>", re.IGNORECASE)
_OPEN_THOUGHT = re.compile(r"<(?:think|thinking|thought|thoughts|reasoning|analysis)>", re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)\n?[ \t]*```", re.DOTALL | re.MULTILINE)
_BEGIN = re.compile(r"[{\[]")
_BRACKET = re.compile(r"[{}\[\]]")
_IGNORED = "\ufeff\u200b\u2060 \t\r\n"


@attrs.frozen
class FoundValue:
    """A JSON value and the text it was read from."""

    value: Any
    text: str


def no_constant(name: str) -> Any:
    """Refuse NaN and infinities, which are not JSON.

    Raises:
        ValueError: Always.
    """
    raise ValueError(f"{name} is not a JSON number")


_decoder = json.JSONDecoder(parse_constant=no_constant)


def bare(text: str) -> str:
    """Return a text without the Markdown fence around it, a byte order mark and surrounding space."""
    text = text.strip(_IGNORED)
    fenced = _FENCE.fullmatch(text)
    return fenced[1] if fenced else text


def values_in(text: str) -> list[FoundValue]:
    """Find the outermost JSON values of a text: objects, arrays, and any value that fills a fenced block.

    Thoughts, up to the last tag that ends one, are left out. A value inside a larger one that cannot be read does not
    count, since it is only a part of the intended value; if the text ends within a value, none counts.
    """
    ends = [match.end() for match in _THOUGHT_END.finditer(text)]
    text = text[ends[-1] :] if ends else text
    if _OPEN_THOUGHT.search(text):
        return []
    match: list[FoundValue] = []
    at = 0
    for fence in _FENCE.finditer(text):
        match += _in_prose(text[at : fence.start()])[0]
        inner, at = fence[1].strip(_IGNORED), fence.end()
        try:
            match.append(FoundValue(_decoder.decode(inner), inner))
        except (ValueError, RecursionError):
            match += _in_prose(inner)[0]
    last, is_open = _in_prose(text[at:])
    return [] if is_open else match + last


def _in_prose(text: str) -> tuple[list[FoundValue], bool]:
    """Return the values of a text, and whether it ends within one."""
    values: list[FoundValue] = []
    at = 0
    while (begin := _BEGIN.search(text, at)) is not None:
        try:
            value, at = _decoder.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            end = _end_of_brackets(text, begin.start())
            if end is None:
                return values, True
            at = end
        else:
            values.append(FoundValue(value, text[begin.start() : at]))
    return values, False


def _end_of_brackets(text: str, start: int) -> int | None:
    """Return the place behind the bracket that closes the one at start; None if none does."""
    depth = 0
    for bracket in _BRACKET.finditer(text, start):
        depth += 1 if bracket.group() in "{[" else -1
        if depth == 0:
            return bracket.end()
    return None
