"""JSON Schema's vocabulary: types, the shape of keywords' values, and which schemas are inside a schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from flexchat.schema.wording import cut, quoted

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
    return {"anyOf": [{k: v for k, v in schema.items() if k not in about}, {"type": "null"}], **about}


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


TABLES = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
SINGLE = (
    "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems",
    "unevaluatedProperties", "additionalItems", "contentSchema",
)  # fmt: skip


def _is_schema(value: Any) -> bool:
    return type(value) is dict or type(value) is bool


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_table(value: Any) -> bool:
    return type(value) is dict and all(map(_is_schema, value.values()))


def _is_list(value: Any) -> bool:
    return type(value) is list and bool(value) and all(map(_is_schema, value))


_NUMBERS = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems",
    "maxItems", "minProperties", "maxProperties", "minContains", "maxContains",
)  # fmt: skip
_SHAPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("description", "title", "format", "pattern", "$ref"), (_is_text, "a text")),
    **dict.fromkeys(_NUMBERS, (lambda value: type(value) in (int, float), "a number")),
    **dict.fromkeys(SINGLE, (_is_schema, "a schema")),
    **dict.fromkeys(TABLES, (_is_table, "an object with a schema for each name")),
    **dict.fromkeys(LISTS, (_is_list, "a list of at least one schema")),
    **dict.fromkeys(("nullable", "uniqueItems"), (lambda value: type(value) is bool, "true or false")),
    "required": (lambda value: type(value) is list and all(map(_is_text, value)), "a list of names next to properties"),
    "enum": (lambda value: type(value) is list and bool(value), "a list of at least one value"),
}


def sound(schema: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return a copy of a schema without its invalid parts, and their problems: keyword and sentence.

    Types are returned in lower case, each once, and draft-07's list of items as prefixItems.
    """
    draft = dict(schema)
    wrong: list[tuple[str, str]] = []
    kind = draft.get("type")
    if kind is not None and kind not in TYPES if type(kind) is str else kind is not None or "type" in draft:
        _types(draft, wrong)
    if type(draft.get("items")) is list:
        draft["prefixItems"] = draft.pop("items")
        if "additionalItems" in draft:
            draft["items"] = draft.pop("additionalItems")
        if draft["prefixItems"] == []:
            del draft["prefixItems"]
    for keyword, value in schema.items():
        shape = _SHAPES.get(keyword)
        if shape is not None and keyword in draft and not shape[0](draft[keyword]):
            wrong.append((keyword, f"{keyword} must be {shape[1]} (got {quoted(value)})"))
            del draft[keyword]
    if "prefixItems" in draft and not _is_list(draft["prefixItems"]):
        wrong.append(("items", "items must be a schema"))
        del draft["prefixItems"]
    return draft, wrong


def _types(draft: dict[str, Any], wrong: list[tuple[str, str]]) -> None:
    types = draft["type"]
    kinds = [kind.lower() if _is_text(kind) else kind for kind in (types if type(types) is list else [types])]
    unknown = [kind for kind in kinds if not (_is_text(kind) and kind in TYPES)]
    for kind in unknown:
        wrong.append(("type", f"type {cut(quoted(kind))} is not one of {', '.join(sorted(TYPES))}"))
    if not kinds:
        wrong.append(("type", "type must name at least one type"))
    if not (kinds := [*dict.fromkeys(kind for kind in kinds if _is_text(kind) and kind in TYPES)]):
        del draft["type"]
    else:
        draft["type"] = kinds if type(types) is list else kinds[0]


def inner_schemas(schema: Any, *, required_only: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the schemas directly inside a schema.

    Args:
        required_only: Only required properties, and no definitions.
    """
    for keyword, value in schema.items():
        if keyword in LISTS and type(value) is list:
            inner = value
        elif keyword in SINGLE:
            inner = value if type(value) is list else [value]
        elif keyword in TABLES and type(value) is dict:
            inner = [*value.values()]
            if required_only:
                must = schema.get("required")
                must = must if keyword == "properties" and type(must) is list else []
                inner = [value[name] for name in value if name in must]
        else:
            continue
        yield from (each for each in inner if type(each) is dict)
