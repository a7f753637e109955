"""Mapping of a record's fields to text, title, source, id and metadata.

Lists and objects are formatted as by the document transformer of the Node.js FlexChat: lists in text fields are joined
by commas, everything else becomes compact JSON, and nulls are omitted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from flexchat.store import storable

from .sections import Record, Trouble

DEFAULT_TEXT_FIELDS = ("text", "content", "body", "page_content")
_EXPORTED = {"id", "title", "text", "source", "metadata"}
MAX_NAME_CHARS = 1_000
"""Characters of a title, an id or a source, which every passage of a record repeats."""

MAX_METADATA_FIELDS = 100
MAX_METADATA_CHARS = 4_000
"""Of names and values together. Every passage of a record has its metadata: without a limit a long record would be
stored as often as it has passages."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")


def _text_names(names: Any) -> tuple[str, ...]:
    return _names(names, "text_fields")


def _metadata_names(names: Any) -> tuple[str, ...] | None:
    return None if names is None else _names(names, "metadata_fields")


def _names(names: Any, what: str) -> tuple[str, ...]:
    if isinstance(names, list | tuple) and all(isinstance(name, str) and name for name in names):
        return tuple(names)
    instead = f": write [{names!r}]" if isinstance(names, str) and names else ""
    raise TypeError(f"{what} must be a list of names of fields, not {names!r:.80}{instead}")


@attrs.frozen(kw_only=True)
class FieldMapping:
    """Roles of a record's fields. Without text_fields: "text" and similar names, else all fields with their names.

    Attributes:
        text_fields: Field names, as a list or tuple.
        text_separator: Separator of text fields; default: an empty line, or a newline if all fields are text.
        metadata_fields: Field names; None for all other non-empty fields.

    Raises:
        TypeError: A list of names is not a list or tuple, for example a single string.
    """

    text_fields: tuple[str, ...] = attrs.field(default=(), converter=_text_names)
    text_separator: str | None = None
    title_field: str | None = None
    source_field: str | None = None
    id_field: str | None = None
    metadata_fields: tuple[str, ...] | None = attrs.field(default=None, converter=_metadata_names)


def record_of(fields: Mapping[str, Any], mapping: FieldMapping, place: str) -> Record | Trouble:
    """Build a record from its fields, or a Trouble if they are unusable.

    Args:
        place: Position in the file, such as "line 3".
    """
    if mapping == FieldMapping() and _is_exported(fields):
        return Record(**fields, whole=True)
    missing = [name for name in mapping.text_fields if name not in fields]
    if mapping.text_fields and len(missing) == len(mapping.text_fields):
        there = ", ".join(list(fields)[:20]) or "none"
        return Trouble(f"{place}: there is no field {' or '.join(map(repr, missing))} (there are: {there})"[:400])
    names = mapping.text_fields or tuple(name for name in DEFAULT_TEXT_FIELDS if isinstance(fields.get(name), str))[:1]
    parts = [_as_text(fields.get(name)) for name in names]
    if not names:
        parts = [f"{name}: {text}" for name, value in fields.items() if (text := _as_text(value))]
    separator = ("\n\n" if names else "\n") if mapping.text_separator is None else mapping.text_separator
    text = separator.join(part for part in parts if part)
    if not text:
        return Trouble(f"{place}: no text in {', '.join(map(repr, names)) or 'any field'}")
    title_field, source_field = mapping.title_field or "title", mapping.source_field
    used = {*names, title_field, source_field, mapping.id_field}
    return Record(
        id=_name(fields, mapping.id_field),
        title=_name(fields, title_field),
        text=text,
        source=_name(fields, source_field),
        metadata=_metadata(fields, mapping.metadata_fields, used),
    )


def number_or_text(text: str) -> str | int | float:
    """Convert a numeric string to a number, so that filters can compare it; "007" stays a string."""
    if _WHOLE.fullmatch(text):
        return int(text)
    try:
        value = float(text)
    except ValueError:
        return text
    return value if repr(value) == text and abs(value) < 1e16 else text


def bounded(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Limit a record's metadata to a size that each of its passages can carry, dropping the other fields."""
    carried: dict[str, Any] = {}
    room = MAX_METADATA_CHARS
    for name, value in metadata.items():
        size = len(name) + (len(value) if isinstance(value, str) else 20)
        if size <= room and len(carried) < MAX_METADATA_FIELDS:
            carried[name] = value
            room -= size
    return carried


def _is_exported(fields: Mapping[str, Any]) -> bool:
    texts = ("id", "title", "text")
    return (
        set(fields) == _EXPORTED
        and all(isinstance(fields[name], str) for name in texts)
        and (fields["source"] is None or isinstance(fields["source"], str))
        and isinstance(fields["metadata"], Mapping)
    )


def _metadata(fields: Mapping[str, Any], names: Sequence[str] | None, used: set[str | None]) -> dict[str, Any]:
    if names is not None:
        return {name: _as_value(fields[name]) for name in names if fields.get(name) is not None}
    inner, candidates = fields.get("metadata"), fields
    if isinstance(inner, Mapping):
        candidates = {**{name: value for name, value in fields.items() if name != "metadata"}, **inner}
    empty: tuple[Any, ...] = ("", None, [], {})
    return {name: _as_value(value) for name, value in candidates.items() if name not in used and value not in empty}


def _as_value(value: Any) -> str | int | float | bool:
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else str(value)
    return storable(value if isinstance(value, str) else _as_json(value))


def _as_json(value: Any) -> str:
    return _ENCODER.encode(value)


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(filter(None, map(_as_text, value)))
    return (value if isinstance(value, str) else _as_json(value)).strip()


def _name(fields: Mapping[str, Any], field: str | None) -> str | None:
    return (storable(_as_text(fields.get(field))) or None) if field else None
