"""Whether a value keeps a schema. Where a schema says something not known here, the answer is no.

The executor checks every call again, with a complete checker; this one only keeps the rehearsal model from writing
arguments that would be refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: (isinstance(v, int) and not isinstance(v, bool)) or (isinstance(v, float) and v.is_integer()),
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "boolean": lambda v: isinstance(v, bool),
    "array": lambda v: isinstance(v, list),
    "object": lambda v: isinstance(v, dict),
    "null": lambda v: v is None,
}

_ANNOTATIONS = {
    *("title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "format"),
    *("$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "contentEncoding", "contentMediaType"),
}
_MAX_DEPTH = 20


def fits(schema: Any, value: Any, root: Any = None, depth: int = 0) -> bool:
    """Return whether value certainly keeps schema.

    Args:
        root: The schema that ``$ref`` looks in; None for schema itself.
    """
    root = schema if root is None else root
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return False

    def inner(part: Any, of: Any) -> bool:
        return fits(part, of, root, depth + 1)

    try:
        return all(_keeps(keyword, said, value, schema, root, inner) for keyword, said in schema.items())
    except (TypeError, ValueError, KeyError, AttributeError, re.error, OverflowError):
        return False  # the schema is not one


def resolve(schema: Any, root: Any) -> Any:
    """Follow a local ``$ref``; anything else is returned as it is."""
    for _ in range(_MAX_DEPTH):
        reference = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(reference, str) or not reference.startswith("#"):
            return schema
        target = root
        for step in filter(None, reference[1:].split("/")):
            step = step.replace("~1", "/").replace("~0", "~")
            target = target.get(step) if isinstance(target, Mapping) else None
        if target is None:
            return False
        schema = (
            {**target, **{k: v for k, v in schema.items() if k != "$ref"}} if isinstance(target, Mapping) else target
        )
    return False


def _keeps(keyword: str, said: Any, value: Any, schema: Any, root: Any, inner: Callable[[Any, Any], bool]) -> bool:
    if keyword in _ANNOTATIONS:
        return True
    match keyword:
        case "$ref":
            target = resolve({"$ref": said}, root)
            return not (isinstance(target, Mapping) and "$ref" in target) and inner(target, value)
        case "type":
            return any(_TYPES[t](value) for t in ([said] if isinstance(said, str) else said))
        case "enum":
            return any(_canonical(option) == _canonical(value) for option in said)
        case "const":
            return _canonical(said) == _canonical(value)
        case "allOf":
            return all(inner(part, value) for part in said)
        case "anyOf":
            return any(inner(part, value) for part in said)
    if isinstance(value, bool) or value is None:
        return keyword in _FOR_STRINGS | _FOR_NUMBERS | _FOR_ARRAYS | _FOR_OBJECTS
    if keyword in _FOR_STRINGS:
        return not isinstance(value, str) or _string(keyword, said, value)
    if keyword in _FOR_NUMBERS:
        return not isinstance(value, int | float) or _number(keyword, said, value)
    if keyword in _FOR_ARRAYS:
        return not isinstance(value, list) or _array(keyword, said, value, schema, inner)
    if keyword in _FOR_OBJECTS:
        return not isinstance(value, dict) or _object(keyword, said, value, schema, inner)
    return False


_FOR_STRINGS = {"minLength", "maxLength", "pattern"}
_FOR_NUMBERS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
_FOR_ARRAYS = {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"}
_FOR_OBJECTS = {"properties", "required", "additionalProperties", "minProperties", "maxProperties", "dependentRequired"}


def _string(keyword: str, said: Any, value: str) -> bool:
    if keyword == "pattern":
        return len(value) <= 200 and re.search(said, value) is not None
    return bool(len(value) >= said if keyword == "minLength" else len(value) <= said)


def _number(keyword: str, said: Any, value: float) -> bool:
    match keyword:
        case "minimum":
            return bool(value >= said)
        case "maximum":
            return bool(value <= said)
        case "exclusiveMinimum":
            return bool(value > said)
        case "exclusiveMaximum":
            return bool(value < said)
        case _:
            return isinstance(value, int) and isinstance(said, int) and value % said == 0


def _array(keyword: str, said: Any, value: list[Any], schema: Any, inner: Callable[[Any, Any], bool]) -> bool:
    match keyword:
        case "items":
            rest = value[len(schema.get("prefixItems", ())) :]
            return all(inner(said, item) for item in rest)
        case "prefixItems":
            return all(inner(part, item) for part, item in zip(said, value, strict=False))
        case "minItems":
            return bool(len(value) >= said)
        case "maxItems":
            return bool(len(value) <= said)
        case _:
            texts = [_canonical(item) for item in value]
            return not said or len(set(texts)) == len(texts)


def _object(keyword: str, said: Any, value: dict[str, Any], schema: Any, inner: Callable[[Any, Any], bool]) -> bool:
    match keyword:
        case "properties":
            return all(inner(part, value[name]) for name, part in said.items() if name in value)
        case "required":
            return all(name in value for name in said)
        case "additionalProperties":
            return all(inner(said, value[name]) for name in value.keys() - schema.get("properties", {}).keys())
        case "minProperties":
            return bool(len(value) >= said)
        case "maxProperties":
            return bool(len(value) <= said)
        case _:
            return all(other in value for name, others in said.items() if name in value for other in others)


def _canonical(value: Any) -> str:
    """The value as JSON text; 1.0 and 1 are one number there, true is none."""
    if isinstance(value, float) and value.is_integer() and math.isfinite(value):
        value = int(value)
    return json.dumps(value, sort_keys=True)
