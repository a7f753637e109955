"""Simple tool schemas compiled to functions, which leave doubtful values to jsonschema.

Most tool schemas are an object of typed properties. For those, a valid call is recognised in a microsecond, and a
program whose model makes no mistakes never imports jsonschema (0.1 s). Anything not covered here returns False, never
an error: jsonschema then decides, and words the error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], bool]

# Keywords that only describe, or mean nothing without $ref. format is an annotation in Draft 2020-12.
_SILENT = {
    *("title", "description", "default", "examples", "format", "deprecated", "readOnly", "writeOnly"),
    *("contentEncoding", "contentMediaType", "$comment", "$schema", "$id", "$defs", "definitions"),
}
_HANDLED = {
    *("type", "enum", "const", "properties", "required", "additionalProperties", "items", "minItems", "maxItems"),
    *("minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
}
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),  # 3.0 counts as one and becomes 3: see coerce.py
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}


def compile_fast(schema: Any) -> Check:
    """Return a function that returns True only for values the schema certainly allows."""
    if schema is True:
        return _always
    if not isinstance(schema, Mapping) or not (_SILENT | _HANDLED).issuperset(schema):
        return _ask
    types = schema.get("type", [*_PYTHON_TYPES])
    names: list[str] = [types] if isinstance(types, str) else types
    if "enum" in schema or "const" in schema:
        return _one_of(names, schema)
    by_type: dict[type, Check] = {kind: _ask for name in names for kind in _PYTHON_TYPES.get(name, ())}
    for kind in by_type:
        by_type[kind] = _BY_KIND[kind](schema) if kind in _BY_KIND else _always
    if len(by_type) == 1:
        [(only, check)] = by_type.items()
        if check is _always:
            return lambda value: type(value) is only
        return lambda value: type(value) is only and check(value)
    # Exact types only: subclasses of int or dict are left to jsonschema.
    return lambda value: by_type.get(type(value), _ask)(value)


def _always(value: Any) -> bool:
    return True


def _ask(value: Any) -> bool:
    return False


def _one_of(names: list[str], schema: Mapping[str, Any]) -> Check:
    """Return a check for enum and const, for text only: equality of other values is left to jsonschema."""
    if "string" not in names or not (_SILENT | {"type", "enum", "const"}).issuperset(schema):
        return _ask
    options = schema.get("enum", [schema.get("const")])
    if "const" in schema:
        options = [option for option in options if option == schema["const"]]
    texts = frozenset(option for option in options if type(option) is str)
    return lambda value: type(value) is str and value in texts


def _within(measure: Callable[[Any], int], schema: Mapping[str, Any], *, least: str, most: str) -> Check:
    if least not in schema and most not in schema:
        return _always
    low, high = schema.get(least, 0), schema.get(most, float("inf"))
    return lambda value: bool(low <= measure(value) <= high)


def _number(schema: Mapping[str, Any]) -> Check:
    infinite = float("inf")
    low, high = schema.get("minimum", -infinite), schema.get("maximum", infinite)
    above, below = schema.get("exclusiveMinimum", -infinite), schema.get("exclusiveMaximum", infinite)
    # Missing exclusive bounds are infinite, which also refuses NaN and Infinity.
    return lambda value: bool(low <= value <= high and above < value < below)


def _array(schema: Mapping[str, Any]) -> Check:
    length = _within(len, schema, least="minItems", most="maxItems")
    if "items" not in schema:
        return length
    item = compile_fast(schema["items"])
    return lambda value: length(value) and all(map(item, value))


def _object(schema: Mapping[str, Any]) -> Check:
    others = schema.get("additionalProperties", True)
    if others is not True and others is not False:
        return _ask
    checks = {name: compile_fast(inner) for name, inner in schema.get("properties", {}).items()}
    other = _always if others else _ask
    required = tuple(schema.get("required", ()))
    find = checks.get

    def check(value: Any) -> bool:
        for name in required:
            if name not in value:
                return False
        for name, inner in value.items():  # noqa: SIM110  # a generator would double the time
            if not find(name, other)(inner):
                return False
        return True

    return check


# The check for the keywords that concern one Python type.
_BY_KIND: dict[type, Callable[[Mapping[str, Any]], Check]] = {
    str: lambda schema: _within(len, schema, least="minLength", most="maxLength"),
    int: _number,
    float: _number,
    list: _array,
    dict: _object,
}
