"""Text from outside, made safe to send and store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

_NO_TEXTS = frozenset((int, float, bool, type(None)))


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


# Made once: making a decoder takes longer than reading a typical call's arguments.
STRICT_JSON = json.JSONDecoder(parse_constant=_no_constant)
"""Reads JSON without NaN and Infinity, which Python's own decoder accepts."""


def scrub(text: str) -> str:
    """Return the text with halves of surrogate pairs joined, and U+FFFD for each lone half.

    A lone half has no UTF-8 form: no provider accepts it and no database stores it. Models write them as JSON escapes,
    and servers cut characters in two.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def scrub_json(value: Any) -> Any:
    """Return JSON data with every text in it scrubbed, keys included; raise RecursionError if nested too deeply."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, Mapping):
        return {scrub(key) if isinstance(key, str) else key: scrub_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [scrub_json(item) for item in value]
    return value


def is_encodable(value: Any) -> bool:
    """Whether each text in JSON data has a UTF-8 form: scrub_json, which raises the same, would change nothing."""
    if isinstance(value, str):
        return value.isascii() or scrub(value) is value
    if type(value) is dict:  # in this one frame, if it is flat and ASCII, as most arguments are
        for key, item in value.items():
            if not (type(key) is str and key.isascii()):
                break
            if type(item) not in _NO_TEXTS and not (type(item) is str and item.isascii()):
                break
        else:
            return True
    if isinstance(value, Mapping):
        return all(map(is_encodable, value)) and all(map(is_encodable, value.values()))
    if isinstance(value, list | tuple):
        return all(map(is_encodable, value))
    return True


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 tool", "1,440 tools"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def storable(text: str) -> str:
    """Return the text in a form every database accepts: without lone surrogates and NUL."""
    return scrub(text).replace("\0", "")
