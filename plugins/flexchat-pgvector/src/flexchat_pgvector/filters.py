"""Filters in SQL over the column ``d.facts``, equivalent to ``flexchat.store.holds``.

Numbers are compared as numeric, which is exact. Texts are compared as bytes, which is code point order and accepts
filter values with characters that PostgreSQL cannot store.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from flexchat.store import AllOf, AnyOf, Compare, Condition, storable
from psycopg import sql

_OPERATORS = {"$gt": sql.SQL(">"), "$gte": sql.SQL(">="), "$lt": sql.SQL("<"), "$lte": sql.SQL("<=")}
_EQUAL = sql.SQL("=")
# CASE guarantees the order of evaluation, AND does not, and the cast fails for a text.
_OF_TEXT = sql.SQL(
    "CASE jsonb_typeof(d.facts -> %s) WHEN 'string' THEN convert_to(d.facts ->> %s, 'UTF8') {} %s ELSE false END"
)
_OF_NUMBER = sql.SQL(
    "CASE jsonb_typeof(d.facts -> %s) WHEN 'number' THEN (d.facts ->> %s)::numeric {} %s::numeric ELSE false END"
)
_NEVER, _ALWAYS = sql.SQL("false"), sql.SQL("true")


def facts(metadata: Mapping[str, Any]) -> str:
    """Encode the metadata that filters can test as JSON: strings, numbers and booleans; no objects or arrays."""
    return json.dumps({k: _exact(v) for k, v in metadata.items() if isinstance(v, str | int | float)})


def condition_sql(condition: Condition) -> tuple[sql.Composable, list[Any]]:
    """Compile a condition to SQL and its parameters."""
    if isinstance(condition, Compare):
        return _comparison(condition)
    parts = [condition_sql(part) for part in condition.conditions]
    parameters = [parameter for _, values in parts for parameter in values]
    if not parts:
        return (_ALWAYS if isinstance(condition, AllOf) else _NEVER), []
    word = " OR " if isinstance(condition, AnyOf) else " AND "
    return sql.SQL("({})").format(sql.SQL(word).join([part for part, _ in parts])), parameters


def _comparison(condition: Compare) -> tuple[sql.Composable, list[Any]]:
    field, operand = condition.field, condition.value
    is_negated = condition.operator in ("$ne", "$nin")
    if storable(field) != field:  # No stored field can have this name, because PostgreSQL could not hold it.
        return (_ALWAYS if is_negated else _NEVER), []
    values = operand if condition.operator in ("$in", "$nin") else (operand,)
    operator = _OPERATORS.get(condition.operator, _EQUAL)
    tests: list[sql.Composable] = []
    parameters: list[Any] = []
    for value in values:
        test, test_values = _test(field, operator, value)
        tests.append(test)
        parameters += test_values
    either = sql.SQL("({})").format(sql.SQL(" OR ").join(tests)) if tests else _NEVER
    return (sql.SQL("NOT {}").format(either) if is_negated else either), parameters


def _test(field: str, operator: sql.SQL, value: Any) -> tuple[sql.Composable, list[Any]]:
    if isinstance(value, bool):
        test = "coalesce(d.facts -> %s = %s::jsonb, false)"
        return sql.SQL(test), [field, json.dumps(value)]
    if isinstance(value, str):
        return _OF_TEXT.format(operator), [field, field, value.encode("utf-8", "surrogatepass")]
    return _OF_NUMBER.format(operator), [field, field, repr(_exact(value))]


def _exact(value: Any) -> Any:
    """Convert an integral float to int: the shortest decimal of 2.0**60 denotes a different number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
