"""Metadata filters in SQL, equivalent to flexchat.store.holds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from flexchat.store import AllOf, Compare, Condition, storable

Sql = tuple[str, list[Any]]

_KINDS = {"text": "m.type = 'text'", "number": "m.type IN ('integer', 'real')"}
_SIGNS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


def filter_sql(condition: Condition) -> Sql:
    """Compile a condition on ``d.metadata`` to an SQL expression and its parameters."""
    if isinstance(condition, Compare):
        return _compare(condition)
    parts = [filter_sql(part) for part in condition.conditions]
    joint, nothing = (" AND ", "1") if isinstance(condition, AllOf) else (" OR ", "0")
    text = joint.join(sql for sql, _ in parts) or nothing
    return f"({text})", [value for _, values in parts for value in values]


def _compare(condition: Compare) -> Sql:
    match condition.operator:
        case "$eq":
            return _any_equal(condition.field, [condition.value])
        case "$in":
            return _any_equal(condition.field, condition.value)
        case "$ne" | "$nin":
            values = [condition.value] if condition.operator == "$ne" else condition.value
            sql, parameters = _any_equal(condition.field, values)
            return f"NOT {sql}", parameters
    kind = "text" if isinstance(condition.value, str) else "number"
    value, parameter = _value(condition.value)
    return _where(condition.field, f"{_KINDS[kind]} AND m.value {_SIGNS[condition.operator]} {value}", [parameter])


def _any_equal(field: str, values: Iterable[Any]) -> Sql:
    texts, parameters = [], []
    for value in values:
        if isinstance(value, bool):
            texts.append(f"m.type = '{str(value).lower()}'")
            continue
        sql, parameter = _value(value)
        texts.append(f"({_KINDS['text' if isinstance(value, str) else 'number']} AND m.value = {sql})")
        parameters.append(parameter)
    return _where(field, f"({' OR '.join(texts) or '0'})", parameters)


def _where(field: str, test: str, parameters: list[Any]) -> Sql:
    # json_each accepts any field name; a JSON path cannot express a quotation mark.
    sql = f"EXISTS (SELECT 1 FROM json_each(d.metadata) AS m WHERE m.key = ? AND {test})"
    return sql, [storable(field), *parameters]


def _value(value: str | int | float) -> tuple[str, Any]:
    if isinstance(value, float):
        # Parsed from text like the stored number: SQLite and Python may round the last digit differently.
        return "json_extract(?, '$')", json.dumps(value)
    return "?", storable(value) if isinstance(value, str) else value
