"""Which fields of a record are its text, title, source, id and metadata.

Text parts and metadata values that are lists or objects are written as the Node original's document transformer did:
lists of a text's parts joined by commas, all else as JSON; what is null is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from flexchat.plugin import storable

from .sections import Record, Trouble

USUAL_TEXT_FIELDS = ("text", "content", "body", "page_content")
_EXPORTED = {"id", "title", "text", "source", "metadata"}
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")


@attrs.frozen(kw_only=True)
class FieldMapping:
    """Which fields of a record mean what. Without text_fields: "text" and the like, else all fields with their names.

    Attributes:
        text_fields: Joined by an empty line.
        metadata_fields: None for all others that hold a text, a number or a truth value.
    """

    text_fields: tuple[str, ...] = ()
    title_field: str | None = None
    source_field: str | None = None
    id_field: str | None = None
    metadata_fields: tuple[str, ...] | None = None


def record_of(fields: Mapping[str, Any], mapping: FieldMapping, place: str) -> Record | Trouble:
    """Return a record made of the fields, or what is wrong with them.

    Args:
        place: Where they stand, "line 3".
    """
    if mapping == FieldMapping() and _is_exported(fields):
        return Record(
            id=fields["id"],
            title=fields["title"],
            text=fields["text"],
            source=fields["source"],
            metadata=fields["metadata"],
            whole=True,
        )
    missing = [name for name in mapping.text_fields if name not in fields]
    if mapping.text_fields and len(missing) == len(mapping.text_fields):
        there = ", ".join(list(fields)[:20]) or "none"
        return Trouble(f"{place}: there is no field {' or '.join(map(repr, missing))} (there are: {there})"[:400])
    names = mapping.text_fields or tuple(name for name in USUAL_TEXT_FIELDS if isinstance(fields.get(name), str))[:1]
    parts = [_as_text(fields.get(name)) for name in names]
    if not names:
        parts = [f"{name}: {text}" for name, value in fields.items() if (text := _as_text(value))]
    separator = "\n\n" if names else "\n"
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
    """Return a number for a text that says one and nothing else, so that filters can compare it; "007" is none."""
    if _WHOLE.fullmatch(text):
        return int(text)
    try:
        value = float(text)
    except ValueError:
        return text
    return value if repr(value) == text and abs(value) < 1e16 else text


def _is_exported(fields: Mapping[str, Any]) -> bool:
    texts = ("id", "title", "text")
    return (
        set(fields) == _EXPORTED
        and all(isinstance(fields[name], str) for name in texts)
        and (fields["source"] is None or isinstance(fields["source"], str))
        and isinstance(fields["metadata"], Mapping)
    )


def _metadata(fields: Mapping[str, Any], wanted: Sequence[str] | None, used: set[str | None]) -> dict[str, Any]:
    if wanted is not None:
        return {name: _as_value(fields[name]) for name in wanted if fields.get(name) is not None}
    inner = fields.get("metadata")
    given = {**fields, **inner} if isinstance(inner, Mapping) else fields
    scalar = (str, int, float, bool)
    return {n: _as_value(v) for n, v in given.items() if n not in used and isinstance(v, scalar) and v != ""}


def _as_value(value: Any) -> str | int | float | bool:
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else str(value)
    return storable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(filter(None, map(_as_text, value)))
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).strip()


def _name(fields: Mapping[str, Any], field: str | None) -> str | None:
    return (storable(_as_text(fields.get(field))) or None) if field else None
