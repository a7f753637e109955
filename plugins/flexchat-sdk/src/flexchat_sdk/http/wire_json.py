"""JSON as it goes over the wire: compact, always valid UTF-8, no NaN."""

from __future__ import annotations

import json
import math
from typing import Any

from flexchat.domain.text import scrub

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # not in the type stubs


def to_text(value: Any) -> str:
    """Return value as compact JSON.

    Raises:
        TypeError, ValueError, RecursionError: It is not JSON data.
    """
    return _encode(value)


def to_bytes(value: Any) -> bytes:
    """Return value as compact JSON in UTF-8. Halves of surrogate pairs, which have no UTF-8 form, become U+FFFD.

    Raises:
        TypeError, ValueError, RecursionError: It is not JSON data.
    """
    return utf8(_encode(value))


def utf8(text: str) -> bytes:
    """Return text in UTF-8, with halves of surrogate pairs replaced by U+FFFD."""
    return scrub(text).encode()


def finite(value: Any) -> Any:
    """Return JSON data with null in place of every number that is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list | tuple) else value


def from_bytes(data: bytes) -> Any:
    """Parse JSON. Halves of surrogate pairs stay: the other half may be in the next event.

    Raises:
        ValueError: It is not JSON, is not UTF-8, or is nested too deeply.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "surrogatepass")  # some servers write a half as three bytes
    try:
        # What json.loads does, without its checks for types and blanks, which double the time for a short text.
        value, end = _scan(text, 0)
        if end == len(text):
            return value
    except StopIteration:
        pass
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError:
        pass  # reported below, or an integer that Python does not read
    try:
        return json.loads(text.removeprefix("\ufeff"), parse_int=_integer)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _integer(digits: str) -> int | float:
    """Return an integer; one of more than 4,300 digits becomes infinite like 1e400, and must not cost the answer."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)
