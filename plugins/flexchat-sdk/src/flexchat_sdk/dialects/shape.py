"""What a keyword's value must look like, and which schemas are inside a schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flexchat.schema.wording import cut, quoted

from .types import TYPES

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


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_names(value: Any) -> bool:
    return type(value) is list and all(map(_is_text, value))


def _is_table(value: Any) -> bool:
    return type(value) is dict and all(map(_is_schema, value.values()))


def _is_list(value: Any) -> bool:
    return type(value) is list and bool(value) and all(map(_is_schema, value))


def _is_values(value: Any) -> bool:
    return type(value) is list and bool(value)


_NUMBERS = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems",
    "maxItems", "minProperties", "maxProperties", "minContains", "maxContains",
)  # fmt: skip
_SHAPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("description", "title", "format", "pattern", "$ref"), (_is_text, "a text")),
    **dict.fromkeys(_NUMBERS, (_is_number, "a number")),
    **dict.fromkeys(SINGLE, (_is_schema, "a schema")),
    **dict.fromkeys(TABLES, (_is_table, "an object with a schema for each name")),
    **dict.fromkeys(LISTS, (_is_list, "a list of at least one schema")),
    **dict.fromkeys(("nullable", "uniqueItems"), (lambda value: type(value) is bool, "true or false")),
    "required": (_is_names, "a list of names next to properties"),
    "enum": (_is_values, "a list of at least one value"),
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
    kinds = [*dict.fromkeys(kind for kind in kinds if _is_text(kind) and kind in TYPES)]
    if not kinds:
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
