"""What tools return, as JSON, and as much of it as a model is shown."""

from __future__ import annotations

import datetime
import enum
import json
import uuid
from pathlib import PurePath
from typing import Any

import attrs

from ..domain import ToolResult
from ..domain.text import scrub


def as_json(value: Any) -> tuple[Any, str]:
    """Return a tool's value as JSON data and as JSON text.

    Beside JSON's own types it takes what has one obvious JSON form: dates and times, UUIDs, enums, paths, sets,
    attrs classes, dataclasses and objects with ``model_dump``.

    Raises:
        ValueError: There is no JSON for it.
    """
    converted = False

    def convert(thing: Any) -> Any:
        nonlocal converted
        converted = True
        return _plain(thing)

    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=convert)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the tool returned something that is not JSON: {error or type(error).__name__}") from error
    return (json.loads(text) if converted else value), text


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


def for_the_model(result: ToolResult, max_chars: int) -> str:
    """Return what the model reads of a result: its JSON, or head and tail of it around a marker if it is too long.

    Args:
        max_chars: Characters of the result (or of the error) that are shown; the envelope comes on top.
    """
    if result.success:
        text = result.encoded if result.encoded is not None else json.dumps(result.result, ensure_ascii=False)
        if len(text) <= max_chars:
            return scrub(result.to_json())
        whole = result.result if isinstance(result.result, str) else text
        return scrub(json.dumps({**result.to_dict(), "result": _cut(whole, max_chars)}, ensure_ascii=False))
    if len(result.error or "") <= max_chars:
        return scrub(result.to_json())
    return scrub(json.dumps({**result.to_dict(), "error": _cut(result.error or "", max_chars)}, ensure_ascii=False))


def _cut(text: str, max_chars: int) -> str:
    head = max_chars * 3 // 4
    tail = max_chars - head
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[… {left_out:,} of {len(text):,} characters left out …]\n{text[len(text) - tail :]}"
