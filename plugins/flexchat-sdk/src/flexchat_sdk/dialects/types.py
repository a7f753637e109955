"""Types in a schema: which exist, which are meant, and how "or null" is expressed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

TYPES = frozenset(("string", "integer", "number", "boolean", "null", "array", "object"))

ANNOTATIONS = frozenset(
    (
        "title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "$comment",
        "format", "contentEncoding", "contentMediaType", "propertyOrdering",
    )
)  # fmt: skip
"""Keywords that do not constrain values."""

_OF_TYPE = {
    "object": (
        "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties",
        "maxProperties", "dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties",
        "propertyOrdering",
    ),
    "array": (
        "items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains",
        "maxContains", "unevaluatedItems",
    ),
    "string": ("minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format"),
}  # fmt: skip
_OF_TYPE["integer"] = _OF_TYPE["number"]
_OF_SOME_TYPE = frozenset(keyword for keywords in _OF_TYPE.values() for keyword in keywords)
_KINDS: dict[type, str] = {
    str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", dict: "object", list: "array",
}  # fmt: skip


def listed(types: Any) -> list[str]:
    """Return a type or types as a list."""
    return [types] if isinstance(types, str) else [*types] if isinstance(types, list) else []


def kinds_of(values: Iterable[Any]) -> list[str]:
    """Return the values' types; "number" if some are whole and others are not."""
    kinds = [*dict.fromkeys(_KINDS.get(type(value), "string") for value in values)]
    return [kind for kind in kinds if not (kind == "integer" and "number" in kinds)]


def meant_types(schema: Mapping[str, Any]) -> list[str]:
    """Return the types implied by the other keywords of a schema without a type; empty if it may be any value."""
    if values := schema.get("enum"):
        return kinds_of(values)
    if "const" in schema:
        return kinds_of([schema["const"]])
    return next(([kind] for kind, keywords in _OF_TYPE.items() if any(k in schema for k in keywords)), [])


def is_null(schema: Any) -> bool:
    """Return whether a schema plainly allows only null."""
    if type(schema) is not dict:
        return False
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    only_null = type(values) is list and bool(values) and all(value is None for value in values)
    return only_null or schema.get("type") in ("null", ["null"], "NULL")


def or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that also allows null; the same one if it already does."""
    kinds = listed(schema.get("type"))
    if kinds and "const" not in schema and "anyOf" not in schema:
        if "null" in kinds and None in schema.get("enum", (None,)):
            return schema
        wider = {**schema, "type": [*kinds, "null"] if "null" not in kinds else schema["type"]}
        return {**wider, "enum": [*schema["enum"], None]} if None not in schema.get("enum", (None,)) else wider
    if "anyOf" in schema and "type" not in schema and "enum" not in schema:
        if any(map(_takes_null, schema["anyOf"])):
            return schema
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if not kinds and not schema.keys() - ANNOTATIONS:
        return schema
    about = {key: schema[key] for key in ("description",) if key in schema}
    rest = {key: value for key, value in schema.items() if key not in about}
    return {"anyOf": [rest, {"type": "null"}], **about}


def _takes_null(form: Mapping[str, Any]) -> bool:
    if form.get("const") is not None or None not in form.get("enum", (None,)):
        return False
    return "null" in listed(form.get("type"))


def one_type_each(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of several types as an anyOf of schemas of one type, each with the keywords that concern it."""
    kinds = [kind for kind in schema["type"] if not (kind == "integer" and "number" in schema["type"])]
    about: dict[str, Any] = {k: schema[k] for k in ("title", "description", "default", "nullable") if k in schema}
    general = {
        k: v for k, v in schema.items() if k not in about and k not in _OF_SOME_TYPE and k not in ("type", "enum")
    }
    branches = []
    for kind in kinds:
        branch = {"type": kind, **{k: schema[k] for k in _OF_TYPE.get(kind, ()) if k in schema}, **general}
        if "enum" in schema:
            branch["enum"] = [
                v for v in schema["enum"] if kinds_of([v]) == [kind] or (kind, type(v)) == ("number", int)
            ]
        if branch.get("enum") != []:
            branches.append(branch)
    return {**about, **branches[0]} if len(branches) == 1 else {**about, "anyOf": branches}
