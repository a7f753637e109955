"""Filters on metadata: the syntax of ``where``, parsed in one place so that it means the same to every store.

The syntax is that of MongoDB and Chroma: {"year": 2024}, {"year": {"$gte": 2020, "$lt": 2025}},
{"lang": {"$in": ["de", "en"]}}, {"$or": [{"a": 1}, {"b": 2}]}. Several keys must all hold.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import attrs

from ..errors import FilterError, did_you_mean

Where = Mapping[str, Any]
"""A metadata filter, as a caller writes it: ``{"year": {"$gte": 2024}}``."""
Operator = Literal["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin"]

OPERATORS: tuple[Operator, ...] = get_args(Operator)
MAX_CONDITIONS = 100  # most comparisons in one filter


@attrs.frozen
class Compare:
    """A comparison of a field with a value: text, a number or a Boolean; a tuple of them for $in and $nin.

    A field that is missing, or has a different type from the value, equals nothing and is neither less nor greater:
    only $ne and $nin hold. 1 and 1.0 are equal numbers; true is not a number.
    """

    field: str
    operator: Operator
    value: Any


@attrs.frozen
class AllOf:
    """A condition that holds if all of its conditions hold; always, if there are none."""

    conditions: tuple[Condition, ...]


@attrs.frozen
class AnyOf:
    """A condition that holds if at least one of its conditions holds."""

    conditions: tuple[Condition, ...]


Condition = Compare | AllOf | AnyOf
"""A metadata filter, as read_filter returns it."""


def read_filter(where: Where | None) -> AllOf:
    """Return the filter as a tree, an empty AllOf for None; raise FilterError, with the fault and its place."""
    condition = _table(where if where is not None else {}, "where", 0)
    if _count(condition) > MAX_CONDITIONS:
        raise FilterError(f"a filter may have at most {MAX_CONDITIONS} conditions")
    return condition


def holds(condition: Condition, metadata: Mapping[str, Any]) -> bool:
    """Return whether a document with this metadata passes the filter. Every store must agree with this."""
    match condition:
        case AllOf():
            return all(holds(part, metadata) for part in condition.conditions)
        case AnyOf():
            return any(holds(part, metadata) for part in condition.conditions)
    actual, operand = metadata.get(condition.field), condition.value
    order = _ORDERS.get(condition.operator)
    if order is not None:
        return _kind(actual) == _kind(operand) and bool(order(actual, operand))
    values = operand if isinstance(operand, tuple) else (operand,)
    is_in = any(_kind(actual) == _kind(value) and bool(actual == value) for value in values)
    return is_in == (condition.operator in ("$eq", "$in"))


_ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def _table(where: Any, place: str, depth: int) -> AllOf:
    if not isinstance(where, Mapping):
        raise FilterError(f"{place} must be a table of conditions, got {type(where).__name__}")
    if depth > 10:
        raise FilterError(f"{place[:100]} is nested more than 10 deep")
    conditions: list[Condition] = []
    for key, value in where.items():
        here = f"{place}.{key}"
        if not isinstance(key, str) or not key:
            raise FilterError(f"{place}: a field's name is a text, got {key!r}")
        if key in ("$and", "$or"):
            if not isinstance(value, list | tuple) or not value:
                raise FilterError(f"{here} takes a non-empty list of filters")
            parts = tuple(_table(part, f"{here}[{index}]", depth + 1) for index, part in enumerate(value))
            conditions.append(AllOf(parts) if key == "$and" else AnyOf(parts))
        elif key.startswith("$"):
            raise FilterError(f"{here}: no such operator{did_you_mean(key, ('$and', '$or', *OPERATORS))}")
        elif isinstance(value, Mapping):
            conditions += _comparisons(key, value, here)
        else:
            conditions.append(Compare(key, "$eq", _scalar(value, here)))
    return AllOf(tuple(conditions))


def _comparisons(field: str, table: Mapping[Any, Any], place: str) -> list[Condition]:
    if not table:
        raise FilterError(f'{place} is empty: write a value, or a comparison like {{"$gte": 3}}')
    conditions: list[Condition] = []
    for name, value in table.items():
        if name not in OPERATORS:
            hint = did_you_mean(str(name), OPERATORS)
            raise FilterError(f"{place}: no operator is called {name!r}{hint} (there are {', '.join(OPERATORS)})")
        here = f"{place}.{name}"
        if name not in ("$in", "$nin"):
            operand: Any = _scalar(value, here)
        elif isinstance(value, list | tuple):
            operand = tuple(_scalar(item, here) for item in value)
        else:
            raise FilterError(f"{here} takes a list")
        if name in _ORDERS and isinstance(operand, bool):
            raise FilterError(f"{here}: a truth value is neither less nor greater")
        conditions.append(Compare(field, name, operand))
    return conditions


def _scalar(value: Any, place: str) -> str | int | float | bool:
    if isinstance(value, float) and not math.isfinite(value):
        raise FilterError(f"{place}: {value} is not a number to compare with")
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        raise FilterError(f"{place}: {value} has more than 64 bits")
    if not isinstance(value, str | int | float | bool):
        raise FilterError(f"{place} takes a text, a number or a truth value, got {type(value).__name__}")
    return value


def _kind(value: Any) -> str | None:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else None


def _count(condition: Condition) -> int:
    return 1 if isinstance(condition, Compare) else sum(map(_count, condition.conditions))
