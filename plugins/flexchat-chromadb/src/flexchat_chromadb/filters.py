"""Translation of filters to Chroma's query language.

Chroma distinguishes integers from floats, orders numbers only, requires lists to be of one type, and accepts several
conditions only under an explicit $and (1.5.9). One comparison may therefore translate to several.
"""

from __future__ import annotations

import math
from typing import Any

import attrs
from flexchat.store import AllOf, Compare, Condition

_MAX_EXACT = 2.0**53


@attrs.frozen
class ChromaFilter:
    """A filter in Chroma's query language.

    Attributes:
        where: The query; None matches everything.
        is_exact: True if it matches exactly the same documents; False if it matches these and others.
    """

    where: dict[str, Any] | None
    is_exact: bool


def chroma_filter(condition: Condition) -> ChromaFilter:
    """Translate a filter to the narrowest one in Chroma's language that matches all of its documents."""
    if isinstance(condition, Compare):
        return _comparison(condition)
    parts = [chroma_filter(part) for part in condition.conditions]
    queries = [part.where for part in parts if part.where is not None]
    is_exact = all(part.is_exact for part in parts)
    if isinstance(condition, AllOf):
        return ChromaFilter(_joined("$and", queries), is_exact)
    if len(queries) < len(parts):
        return ChromaFilter(None, is_exact)  # One alternative matches everything.
    return ChromaFilter(_joined("$or", queries), is_exact)


def _comparison(condition: Compare) -> ChromaFilter:
    field, operator, value = condition.field, condition.operator, condition.value
    if not field or field.startswith(("$", "#")):
        return ChromaFilter(None, is_exact=False)  # Names with a special meaning in Chroma.
    if operator in ("$in", "$nin"):
        if not value:
            return ChromaFilter(None, is_exact=operator == "$nin")
        parts = [_equality(field, "$eq" if operator == "$in" else "$ne", item) for item in value]
        return ChromaFilter(_joined("$or" if operator == "$in" else "$and", parts), is_exact=True)
    if operator in ("$eq", "$ne"):
        return ChromaFilter(_equality(field, operator, value), is_exact=True)
    if isinstance(value, str):
        return ChromaFilter(None, is_exact=False)  # Chroma does not order strings.
    return ChromaFilter(_ordered(field, operator, value), is_exact=True)


def _equality(field: str, operator: str, value: Any) -> dict[str, Any]:
    """Build an $eq or $ne condition; a number matches both as integer and as float."""
    if isinstance(value, bool | str) or not float(value).is_integer():
        return {field: {operator: value}}
    both: list[dict[str, Any]] = [{field: {operator: int(value)}}]
    if abs(value) <= _MAX_EXACT:
        both.append({field: {operator: float(value)}})
    return _joined("$or" if operator == "$eq" else "$and", both) or {}


def _ordered(field: str, operator: str, value: float) -> dict[str, Any]:
    is_up = operator in ("$gte", "$lt")  # For integers, x >= 3.5 means x >= 4 and x > 3.5 means x > 3.
    whole = math.ceil(value) if is_up else math.floor(value)
    return {"$or": [{field: {operator: whole}}, {field: {operator: float(value)}}]}


def _joined(word: str, parts: list[dict[str, Any]]) -> dict[str, Any] | None:
    if len(parts) > 1:
        return {word: parts}
    return parts[0] if parts else None
