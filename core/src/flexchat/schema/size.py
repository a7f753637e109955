"""Limits on the arguments of one call, so that checking them cannot become an attack.

The numbers come from the safety design: 64 KiB as JSON, 32 levels, 10,000 items in one array.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .wording import Path, label, quoted

MAX_BYTES = 64 * 1024
MAX_DEPTH = 32
MAX_ITEMS = 10_000
MAX_DIGITS = 4_300
"""Longest integer that Python writes as text, and so the longest one in JSON."""

_LONG = 10**300  # more than any float, and far fewer digits than MAX_DIGITS
_TOO_LONG = 10**MAX_DIGITS


def is_small(params: Mapping[str, Any]) -> bool:
    """Return True if the arguments are certainly within the limits and contain no NaN or Infinity.

    Cheap, and made for the common call of a few short scalars: for anything else it returns False, and size_problems
    decides.
    """
    # 16 values of 512 characters with names of 256, at most 4 bytes per character, stay below 64 KiB.
    if len(params) > 16:
        return False
    for name, value in params.items():
        if type(name) is not str or len(name) > 256:
            return False
        kind = type(value)
        if kind is str:
            if len(value) > 512:
                return False
        elif kind is float:
            if value - value != 0.0:
                return False
        elif kind is int:
            if not -_LONG < value < _LONG:
                return False
        elif kind is not bool and value is not None:
            return False
    return True


def size_problems(params: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the problems that make the arguments too large or invalid JSON; empty if they may be checked further."""
    at_least = 0
    strange: list[str] = []
    for path, value in _walk(params):
        at_least += len(value) + 2 if isinstance(value, str) else 2
        if at_least > MAX_BYTES:
            return (_too_long(),)
        if len(path) > MAX_DEPTH:
            return (f"{label(path[:3])} is nested too deeply (at most {MAX_DEPTH} levels); send a flatter value",)
        if isinstance(value, list):
            if len(value) > MAX_ITEMS:
                return (f"{label(path)} must have at most {MAX_ITEMS} items (got {len(value)}); send fewer",)
        elif isinstance(value, dict):
            if not all(isinstance(key, str) for key in value):
                strange.append(f"{label(path)} has a name that is not a string")
        elif value is not None and not isinstance(value, (str, int, float)):
            strange.append(f"{label(path)} is not JSON data (got {type(value).__name__})")
        elif isinstance(value, int) and not -_TOO_LONG < value < _TOO_LONG:
            strange.append(f"{label(path)} must be an integer of at most {MAX_DIGITS:,} digits")
    if strange:
        return tuple(strange[:-21:-1])  # the walk goes backwards
    # ASCII, with escapes, is never shorter than UTF-8: the exact length is needed only in doubt.
    text = json.dumps(dict(params))
    if len(text) > MAX_BYTES:
        text = json.dumps(dict(params), ensure_ascii=False)
    return (_too_long(),) if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES else ()


def has_whole_floats(params: Mapping[str, Any]) -> bool:
    """Return whether the arguments contain a float that JSON Schema counts as an integer: 3.0."""
    return any(isinstance(value, float) and value.is_integer() for _, value in _walk(params))


def not_finite(params: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a sentence for each NaN and Infinity: Python reads and writes them, but JSON does not have them."""
    numbers = [(path, value) for path, value in _walk(params) if isinstance(value, float) and value - value != 0.0]
    return tuple(f"{label(path)} must be a finite number (got {quoted(value)})" for path, value in numbers[:-21:-1])


def _too_long() -> str:
    return f"the arguments are longer than {MAX_BYTES // 1024} KiB; send less at once"


def _walk(params: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """Yield every value with its path, outermost first."""
    waiting: list[tuple[Path, Any]] = [((), dict(params))]
    while waiting:
        path, value = waiting.pop()
        yield path, value
        if isinstance(value, dict):
            for key, inner in value.items():
                waiting.append(((*path, key), inner))
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                waiting.append(((*path, index), inner))
