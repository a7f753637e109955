"""What is wrong with a value that came from elsewhere: the structured answer of a server, a person's reply."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .limits import schema_problems

if TYPE_CHECKING:
    from .engine import SchemaEngine


def value_problem(value: Any, schema: Mapping[str, Any]) -> str | None:
    """Return why a value does not fit a JSON Schema; None if it does, or if nobody can tell.

    A schema that cannot be used is not the value's fault. The first call imports jsonschema, which takes 0.1 s.
    """
    from .engine import TooMuchWorkError

    engine = _engine(json.dumps(schema))
    if engine is None:
        return None
    try:
        engine.start()
        errors = engine.errors(value)
    except TooMuchWorkError:
        return None
    if not errors:
        return None
    first = errors[0]
    said = f"'{first.message}' is missing" if first.validator == "required" else first.message
    return f"{first.json_path}: {said}"[:300]


@functools.lru_cache(256)  # made once for a tool, and not for each of its calls
def _engine(schema: str) -> SchemaEngine | None:
    from .engine import SchemaEngine, TooMuchWorkError

    found = json.loads(schema)
    with contextlib.suppress(TooMuchWorkError):
        if isinstance(found, dict) and not schema_problems(found):
            return SchemaEngine(found)
    return None
