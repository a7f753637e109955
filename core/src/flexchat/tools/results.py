"""What tools return, as JSON, and how much of it a model is shown."""

from __future__ import annotations

import datetime
import enum
import json
import logging
import uuid
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import attrs

from ..domain import ToolResult
from ..domain.text import scrub
from ..plugin.foreign import contained, error_text

log = logging.getLogger(__name__)


def as_json(value: Any) -> tuple[Any, str]:
    """Return a tool's value as JSON data and as JSON text.

    In addition to JSON's own types, it accepts anything with one obvious JSON form: dates and times, UUIDs, enums,
    paths, sets, attrs classes, dataclasses and objects with ``model_dump``.

    Raises:
        ValueError: It has no JSON form.
    """
    try:
        try:
            return value, _strict(value)
        except TypeError:  # something in it is not a JSON type: rare, and slower
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        # Python's own text for an integer too long to write names a Python function.
        why = "an integer has too many digits" if "set_int_max_str_digits" in str(error) else error_text(error)
        raise ValueError(f"the tool returned something that is not JSON: {why}") from error
    return json.loads(text), text


_strict = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def json_facts(facts: Mapping[str, Any], tool: str) -> dict[str, Any]:
    """Return the facts steps added to a call's record, as JSON data; what is not JSON is left out and logged."""
    held: dict[str, Any] = {}
    for key, value in facts.items():
        try:
            with contained():
                held[key] = as_json(value)[0]
        except Exception as error:  # noqa: BLE001  a plugin's data
            log.warning("tool %s: the fact %r is left out: %s", tool, key, error_text(error))
    return held


def _plain(thing: Any) -> Any:
    match thing:
        case datetime.datetime() | datetime.date() | datetime.time():
            return thing.isoformat()
        case uuid.UUID() | PurePath():
            return str(thing)
        case enum.Enum():
            return thing.value
        case set() | frozenset():
            return sorted(thing, key=repr)
    if attrs.has(type(thing)):
        return attrs.asdict(thing)
    if hasattr(type(thing), "__dataclass_fields__"):
        return {name: getattr(thing, name) for name in type(thing).__dataclass_fields__}
    if callable(getattr(thing, "model_dump", None)):
        return thing.model_dump(mode="json")
    raise TypeError(f"a {type(thing).__name__} has no JSON form")


READER = "read_result"
"""The tool that reads on in a long result, given its id and where to start."""


def for_the_model(result: ToolResult, max_chars: int, name: str | None = None, id: str | None = None) -> str:
    """Return a result as the model reads it: its JSON or, if it is too long, head and tail around a marker.

    Args:
        max_chars: How many characters of the result (or of error and hint) are shown, counted as the model reads them:
            as JSON. The envelope and the marker are not included.
        name: The name the model knows the tool by, if different.
        id: What READER knows the result by; None if the model cannot read on.
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
    taken = len(_encode(hint)) if hint else 0
    if id is not None:  # the marker, which is longer then, must not take the room of the error
        taken = min(taken, max_chars // 2)
    return attrs.evolve(result, error=_cut(error, max_chars - taken, id), hint=hint)


def whole_text(result: ToolResult) -> str:
    """Return the text that the model is shown head and tail of: a text as it is, any other value as JSON.

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
    """Return how many leading characters fit into at most room characters of JSON."""
    for count, char in enumerate(text):
        room -= _COST.get(char, 1)
        if room < 0:
            return count
    return len(text)
