"""Results of tools as JSON, and the part of them a model is shown."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import ipaddress
import json
import logging
import math
import uuid
from collections.abc import Mapping, MappingView, Sequence, Set
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from typing import Any

import attrs

from ..domain import ToolResult
from ..domain.text import scrub
from ..plugin.foreign import contained, error_text

log = logging.getLogger(__name__)


def as_json(value: Any) -> tuple[Any, str]:
    """Return a tool's value as JSON data and as JSON text, converted by the table in docs/tool-calls.md.

    Raises:
        ValueError: It has no JSON form.
    """
    try:
        try:
            text = _strict(value)
        except (TypeError, ValueError):
            pass
        else:
            if _is_plain(value):
                return value, text
        value = _converted(value, ())
        return value, _strict(value)
    except Exception as error:
        # Python's own text for an integer too long to write names a Python function.
        why = "an integer has too many digits" if "set_int_max_str_digits" in str(error) else error_text(error)
        raise ValueError(f"the tool returned something that is not JSON: {why}") from error


_strict = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def json_facts(facts: Mapping[str, Any], tool: str) -> dict[str, Any]:
    """Return the facts steps added to a call's record, as JSON data; other values are left out and logged."""
    held: dict[str, Any] = {}
    for key, value in facts.items():
        try:
            with contained():
                held[key] = as_json(value)[0]
        except Exception as error:  # noqa: BLE001  a plugin's data
            log.warning("tool %s: the fact %r is left out: %s", tool, key, error_text(error))
    return held


_SCALARS = frozenset((str, int, float, bool, type(None)))
_NESTING = frozenset((dict, list))
_TEXT = frozenset((str,))


def _is_plain(value: Any) -> bool:
    """Whether a value that has been encoded reads back as the same: exact types, keys that are texts."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if type(each) in _SCALARS:
            continue
        if type(each) not in _NESTING:
            return False
        if type(each) is dict and not _TEXT.issuperset(map(type, each)):
            return False
        inner = each.values() if type(each) is dict else each
        if not _SCALARS.issuperset(map(type, inner)):
            waiting += [one for one in inner if type(one) not in _SCALARS]
    return True


def _converted(thing: Any, around: tuple[int, ...]) -> Any:
    """Convert a value to JSON data.

    Args:
        around: The ids of the values it is part of.
    """
    if isinstance(thing, enum.Enum):
        return _converted(thing.value, around)
    if thing is None or isinstance(thing, (str, int, float, Decimal)):
        return _scalar(thing)
    if id(thing) in around:
        raise TypeError(f"a {type(thing).__name__} contains itself")
    plain = _as_plain(thing)
    around = (*around, id(thing))
    if isinstance(plain, Mapping):
        converted: dict[str, Any] = {}
        for key, value in plain.items():
            name = _key(key)
            if name in converted:
                raise TypeError(f"two of its keys are written {name!r}")
            converted[name] = _converted(value, around)
        return converted
    return [_converted(each, around) for each in plain] if isinstance(plain, list) else _converted(plain, around)


def _scalar(thing: Any) -> Any:
    if thing is None or isinstance(thing, bool):
        return thing
    if isinstance(thing, str):
        return str.__str__(thing)
    if isinstance(thing, int):
        return int.__int__(thing)
    if isinstance(thing, Decimal):
        return str(thing) if thing.is_finite() else None
    return float.__float__(thing) if math.isfinite(thing) else None


def _as_plain(thing: Any) -> Any:
    """Return a mapping, a list or a scalar for a thing that is no scalar."""
    match thing:
        case Mapping():
            return thing
        case datetime.datetime() | datetime.date() | datetime.time():
            text = thing.isoformat()
            return None if text == "NaT" else text  # pandas' missing date is a datetime
        case datetime.timedelta():
            return thing.total_seconds()
        case uuid.UUID() | PurePath() | Fraction():
            return str(thing)
        case ipaddress.IPv4Address() | ipaddress.IPv6Address() | ipaddress.IPv4Network() | ipaddress.IPv6Network():
            return str(thing)
        case bytes() | bytearray() | memoryview():
            raise TypeError("bytes are not text; decode them, or return them as an image or a file")
        case Sequence() | MappingView():
            items: Any = thing  # views iterate
            return [*items]
        case Set():
            return sorted(thing, key=_sort_key)
    kind = type(thing)
    if callable(getattr(thing, "model_dump", None)) and not isinstance(thing, type):
        return thing.model_dump(mode="json")
    if attrs.has(kind):
        return {field.name: getattr(thing, field.name) for field in attrs.fields(kind)}
    if dataclasses.is_dataclass(kind):
        return {field.name: getattr(thing, field.name) for field in dataclasses.fields(kind)}
    if hasattr(kind, "dtype") and callable(getattr(thing, "tolist", None)):  # of numpy and pandas
        return thing.tolist()
    if kind.__name__ == "NAType":  # of pandas
        return None
    raise TypeError(f"a {kind.__name__} has no JSON form")


def _sort_key(thing: Any) -> tuple[str, Any]:
    """Sort numbers by value and texts by code point; all else by its repr."""
    return (type(thing).__name__, thing) if type(thing) in (str, int, float) else (type(thing).__name__, repr(thing))


def _key(key: Any) -> str:
    """Return a key as text: as its value is written, without quotation marks."""
    if type(key) is str:
        return key
    plain = _converted(key, ())
    if isinstance(plain, (dict, list)):
        raise TypeError(f"a key of type {type(key).__name__} has no JSON form")
    return plain if isinstance(plain, str) else _strict(plain)


READER = "read_result"  # the tool that reads on in a long result, given its id and where to start


def for_the_model(result: ToolResult, max_chars: int, name: str | None = None, id: str | None = None) -> str:
    """Return a result as the model reads it: its JSON or, if it is too long, head and tail around a marker.

    Args:
        max_chars: How many characters of the result (or of error and hint) are shown, counted as the model reads them:
            as JSON. The envelope and the marker are not included.
        name: The tool's name for the model, if different.
        id: The result's id for READER; None if the model cannot read on.
    """
    if name is not None and name != result.tool_name:
        result = attrs.evolve(result, tool_name=name)
    return scrub(shortened(result, max_chars, id).to_json())


def shortened(result: ToolResult, max_chars: int, id: str | None = None) -> ToolResult:
    """Return a result with overlong parts cut to head and tail, as for_the_model shows it."""
    if result.success:
        text = result.encoded if result.encoded is not None else _encode(result.result)
        if len(text) <= max_chars:
            return result
        whole = result.result if isinstance(result.result, str) else text
        return attrs.evolve(result, result=_cut(whole, max_chars, id), encoded=None)
    error = result.error or ""
    hint = _cut(result.hint, max_chars // 2, id, len(scrub(error)) + 1) if result.hint else None
    used = len(_encode(hint)) if hint else 0
    if id is not None:  # the marker, which is longer then, must not take the room of the error
        used = min(used, max_chars // 2)
    return attrs.evolve(result, error=_cut(error, max_chars - used, id), hint=hint)


def whole_text(result: ToolResult) -> str:
    """Return the text whose head and tail the model is shown: a text itself, any other value as JSON.

    Of a failure, it is the error and, on the next line, the hint. Halves of characters are replaced, as in everything
    a model reads: READER counts the characters of this text.
    """
    if not result.success:
        return scrub(f"{result.error or ''}\n{result.hint}" if result.hint else result.error or "")
    if isinstance(result.result, str):
        return scrub(result.result)
    return scrub(result.encoded if result.encoded is not None else _encode(result.result))


_encode = json.JSONEncoder(ensure_ascii=False).encode
_COST = {char: len(_encode(char)) - 2 for char in [*map(chr, range(32)), '"', "\\"]}  # every other character costs 1


def _cut(text: str, max_chars: int, id: str | None = None, begins: int = 0) -> str:
    """Return the text, or as much of its head and tail as makes max_chars characters of JSON.

    Args:
        id: As in for_the_model.
        begins: Where the text begins in the whole one.
    """
    if len(text) <= max_chars - 2 and len(_encode(text)) <= max_chars:
        return text
    if id is not None:
        text = scrub(text)
    room = max_chars * 3 // 4
    head = _fitting(text[:room], room)
    tail = _fitting(text[: room - max_chars - 1 : -1], max_chars - room)
    left_out = len(text) - head - tail
    more = f': {READER}(result="{id}", start={begins + head}) reads on' if id is not None else ""
    return f"{text[:head]}\n[… {left_out:,} of {len(text):,} characters left out{more} …]\n{text[len(text) - tail :]}"


def _fitting(text: str, room: int) -> int:
    """Count the leading characters that fit into at most room characters of JSON."""
    for count, char in enumerate(text):
        room -= _COST.get(char, 1)
        if room < 0:
            return count
    return len(text)
