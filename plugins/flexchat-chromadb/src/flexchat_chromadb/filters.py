"""Filters in Chroma's words.

Chroma tells whole numbers from others, orders numbers only, wants one kind of value in a list, and takes several
conditions only under an explicit $and (1.5.9). So one of our comparisons may become several of its.
"""

from __future__ import annotations

import math
from typing import Any

import attrs
from flexchat.store import AllOf, Compare, Condition

_LARGEST = 2.0**53


@attrs.frozen
class ChromaFilter:
    """A filter as the wrapper takes it.

    Attributes:
        where: None lets everything through.
        is_exact: Whether it lets through exactly what ours does; else that and more.
    """

    where: dict[str, Any] | None
    is_exact: bool


def chroma_filter(condition: Condition) -> ChromaFilter:
    """Return a filter that lets through whatever passes ours, and as little else as can be said."""
    if isinstance(condition, Compare):
        return _comparison(condition)
    parts = [chroma_filter(part) for part in condition.conditions]
    said = [part.where for part in parts if part.where is not None]
    is_exact = all(part.is_exact for part in parts)
    if isinstance(condition, AllOf):
        return ChromaFilter(_joined("$and", said), is_exact)
    if len(said) < len(parts):
        return ChromaFilter(None, is_exact)  # one of the alternatives lets everything through
    return ChromaFilter(_joined("$or", said), is_exact)


def _comparison(condition: Compare) -> ChromaFilter:
    field, operator, value = condition.field, condition.operator, condition.value
    if not field or field.startswith(("$", "#")):
        return ChromaFilter(None, is_exact=False)  # names that mean something else to Chroma
    if operator in ("$in", "$nin"):
        if not value:
            return ChromaFilter(None, is_exact=operator == "$nin")
        parts = [_said(field, "$eq" if operator == "$in" else "$ne", item) for item in value]
        return ChromaFilter(_joined("$or" if operator == "$in" else "$and", parts), is_exact=True)
    if operator in ("$eq", "$ne"):
        return ChromaFilter(_said(field, operator, value), is_exact=True)
    if isinstance(value, str):
        return ChromaFilter(None, is_exact=False)  # texts have no order in Chroma
    return ChromaFilter(_ordered(field, operator, value), is_exact=True)


def _said(field: str, operator: str, value: Any) -> dict[str, Any]:
    """Return that a field equals a value or does not; a number may be stored as a whole one or as another."""
    if isinstance(value, bool | str) or not float(value).is_integer():
        return {field: {operator: value}}
    both: list[dict[str, Any]] = [{field: {operator: int(value)}}]
    if abs(value) <= _LARGEST:
        both.append({field: {operator: float(value)}})
    return _joined("$or" if operator == "$eq" else "$and", both) or {}


def _ordered(field: str, operator: str, value: float) -> dict[str, Any]:
    is_up = operator in ("$gte", "$lt")  # x >= 3.5 means 4 and more, x > 3.5 means more than 3
    whole = math.ceil(value) if is_up else math.floor(value)
    return {"$or": [{field: {operator: whole}}, {field: {operator: float(value)}}]}


def _joined(word: str, parts: list[dict[str, Any]]) -> dict[str, Any] | None:
    if len(parts) > 1:
        return {word: parts}
    return parts[0] if parts else None
