"""Validation of values that come from elsewhere: the structured result of a server, a person's reply."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from .fast import Check, compile_fast
from .limits import UncheckedError, schema_problems


def value_problem(value: Any, schema: Mapping[str, Any]) -> str | None:
    """Validate a value against a JSON Schema; return the first error, or None.

    The first value that is not plainly valid imports jsonschema, which takes 0.1 s.

    Raises:
        UncheckedError: The value cannot be checked: treat it as invalid, or refuse the schema where it is defined.
    """
    text = json.dumps(schema)
    if _fast(text)(value):
        return None
    from .engine import limited_work

    with limited_work():
        errors = _engine(text).errors(value)
    if not errors:
        return None
    first = errors[0]
    message = f"'{first.message}' is missing" if first.validator == "required" else first.message
    return f"{first.json_path}: {message}"[:300]


# Compiled once for a tool, not for each of its calls.
@functools.lru_cache(256)
def _fast(schema: str) -> Check:
    parsed = json.loads(schema)
    problems = schema_problems(parsed) if isinstance(parsed, dict) else ["a schema is an object"]
    if problems:
        raise UncheckedError(f"a schema that cannot be used: {problems[0]}")
    return compile_fast(parsed)


@functools.lru_cache(256)
def _engine(schema: str) -> Any:
    from .engine import SchemaEngine

    return SchemaEngine(json.loads(schema))
