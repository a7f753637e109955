"""Conversion of a document's schemas to JSON Schema 2020-12, for requests.

The target of each reference is converted once, to a definition; ``fitting.py`` assembles a tool's schema from these.
Invalid parts are repaired or dropped, so that the result is always valid.

Source: OpenAPI 3.0.4 §4.7.24 and 3.1.1 §4.8.24 (Schema Object); JSON Schema 2020-12.
"""

from __future__ import annotations

import functools
import math
import re
from typing import Any, TypeGuard

from .library import Library
from .reading import Unusable, as_table

MAX_DESCRIPTION = 500
MAX_ENUM = 1_000
MAX_PATTERN = 500
MAX_UNIQUE = 1_000

_TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
_MISSPELT = {"int": "integer", "long": "integer", "float": "number", "double": "number", "decimal": "number",
             "str": "string", "text": "string", "date": "string", "file": "string", "bool": "boolean", "list": "array",
             "map": "object", "dict": "object"}  # fmt: skip
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains",
           "maxContains")  # fmt: skip
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
SINGLE = ("not", "if", "then", "else", "contains", "propertyNames", "additionalProperties", "unevaluatedItems",
        "unevaluatedProperties", "items", "contentSchema")  # fmt: skip
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
TABLES = ("properties", "patternProperties", "dependentSchemas")
_ONLY_31 = ("if", "then", "else", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties",
            "contentSchema", "prefixItems", "patternProperties", "dependentSchemas", "minContains", "maxContains",
            "const", "dependentRequired")  # fmt: skip


class Schemas:
    """Translates the schemas of one document.

    Attributes:
        definitions: What references lead to, by the name a ``#/$defs/NAME`` has.
        broken: Why a definition cannot be used, by its name.
    """

    def __init__(self, library: Library, *, is_30: bool) -> None:
        self._library, self._is_30 = library, is_30
        self._names: dict[str, str] = {}
        self._numbers: dict[str, int] = {}  # the last one in a name, by what is before it
        self.definitions: dict[str, Any] = {}
        self.broken: dict[str, str] = {}
        self._waiting: list[tuple[str, Any, str]] = []  # a queue: definitions may lead to each other without end
        self._read_only: dict[str, bool] = {}

    def translate(self, schema: Any, base: str) -> Any:
        """Return a schema as 2020-12; references in it lead to ``definitions``.

        Raises:
            Unusable: A reference directly in it leads nowhere.
        """
        result = self._translate(schema, base)
        while self._waiting:
            name, target, where = self._waiting.pop()
            try:
                self.definitions[name] = self._translate(target, where)
            except Unusable as error:
                self.broken[name] = str(error)
        return result

    def _translate(self, schema: Any, base: str) -> Any:
        if isinstance(schema, bool):
            return {} if self._is_30 else schema
        if not isinstance(schema, dict):
            return {}
        if isinstance(schema.get("$ref"), str):
            return self._reference(schema, base)
        result = self._own_keywords(schema)
        if not self._is_30 or result.get("type") is None or "object" in result["type"]:
            self._properties(schema, base, result)
        for keyword in SINGLE:
            if keyword in schema and self._has(keyword):
                self._one(keyword, schema[keyword], base, result)
        for keyword in LISTS:
            inner = schema.get(keyword)
            if isinstance(inner, list) and inner and self._has(keyword):
                result[keyword] = [self._translate(each, base) for each in inner]
        for keyword in TABLES[1:]:
            inner = schema.get(keyword)
            if isinstance(inner, dict) and self._has(keyword):
                result[keyword] = {
                    name: self._translate(each, base)
                    for name, each in inner.items()
                    if keyword != "patternProperties" or pattern_works(name)
                }
        return result

    def _has(self, keyword: str) -> bool:
        return not self._is_30 or keyword not in _ONLY_31

    def _reference(self, schema: dict[str, Any], base: str) -> dict[str, Any]:
        target, where, address = self._library.follow(schema, base)
        if (name := self._names.get(address)) is None:
            name = self._names[address] = self._free_name(address)
            self.definitions[name] = {}
            self._waiting.append((name, target, where))
        result: dict[str, Any] = {"$ref": f"#/$defs/{name}"}
        # 3.0 has nothing beside $ref, but many documents of it have a description there, and mean it.
        rest = {
            key: each for key, each in schema.items() if key == "description" or (key != "$ref" and not self._is_30)
        }
        beside = self._translate(rest, base) if rest else None
        return result | beside if isinstance(beside, dict) else result

    def not_empty(self, schema: dict[str, Any], *, texts: bool) -> dict[str, Any]:
        """Exclude the empty list and, with *texts*, the empty string from a schema of that type.

        For required parameters: an empty value would send nothing in their location.
        """
        target = schema
        for _ in range(20):
            if "$ref" not in target:
                break
            target = as_table(self.definitions[target["$ref"].removeprefix("#/$defs/")])
        if target.get("type") == "array" and target.get("minItems", 0) < 1:
            return {**schema, "minItems": 1}
        if texts and target.get("type") == "string" and target.get("minLength", 0) < 1 and "enum" not in target:
            return {**schema, "minLength": 1}
        return schema

    def _free_name(self, address: str) -> str:
        last = re.sub(r"[^A-Za-z0-9_.-]", "_", address.rpartition("/")[2])[:60] or "schema"
        name, count = last, self._numbers.get(last, 1)
        while name in self.definitions:
            count += 1
            name = f"{last}_{count}"
        self._numbers[last] = count
        return name

    def _own_keywords(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the keywords that hold no schemas."""
        result: dict[str, Any] = {}
        if types := self._types(schema):
            result["type"] = types[0] if len(types) == 1 else types
        description = schema.get("description") or schema.get("title")
        if isinstance(description, str) and description.strip():
            result["description"] = shorten(description, MAX_DESCRIPTION)
        if isinstance(schema.get("format"), str):
            result["format"] = schema["format"]
        for keyword in _COUNTS:
            count = schema.get(keyword)
            if _is_number(count) and count >= 0 and count == int(count):
                result[keyword] = int(count)
        self._bounds(schema, result)
        self._values(schema, result)
        if schema.get("uniqueItems") is True and result.get("maxItems", math.inf) <= MAX_UNIQUE:
            result["uniqueItems"] = True
        if isinstance(pattern := schema.get("pattern"), str):
            checked = pattern if pattern_works(pattern) else weaken(pattern)
            if checked:
                result["pattern"] = checked
            if checked != pattern and len(pattern) <= 200:
                result["description"] = f"{result.get('description', '')} Matches {pattern}".strip()
        if self._has("dependentRequired") and isinstance(schema.get("dependentRequired"), dict):
            result["dependentRequired"] = {
                name: _texts(names) for name, names in schema["dependentRequired"].items() if isinstance(names, list)
            }
        for keyword in ("contentEncoding", "contentMediaType"):
            if not self._is_30 and isinstance(schema.get(keyword), str):
                result[keyword] = schema[keyword]
        return result

    def _types(self, schema: dict[str, Any]) -> list[str]:
        value = schema.get("type")
        names = value if isinstance(value, list) else [value]
        types = [_MISSPELT.get(name, name) for name in names if isinstance(name, str)]
        types = [*dict.fromkeys(name for name in types if name in _TYPES)]
        if self._is_30 and types and schema.get("nullable") is True and "null" not in types:
            types.append("null")
        return types

    def _bounds(self, schema: dict[str, Any], result: dict[str, Any]) -> None:
        for keyword in _NUMBERS:
            bound = schema.get(keyword)
            if _is_number(bound):
                result[keyword] = bound
        for keyword, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            if schema.get(exclusive) is True and keyword in result:
                result[exclusive] = result.pop(keyword)
        step = schema.get("multipleOf")
        if _is_number(step) and step > 0:
            result["multipleOf"] = step

    def _values(self, schema: dict[str, Any], result: dict[str, Any]) -> None:
        values = schema.get("enum")
        if isinstance(values, list) and 0 < len(values) <= MAX_ENUM:
            result["enum"] = _unique(values)
        elif isinstance(values, list) and values:
            some = ", ".join(str(value) for value in values[:20])
            result["description"] = (
                f"{result.get('description', '')} One of {len(values)} values: {some[:300]}, …".strip()
            )
        if "const" in schema and self._has("const"):
            result["const"] = schema["const"]
        if "default" in schema and schema["default"] is not None and len(repr(schema["default"])) <= 200:
            result["default"] = schema["default"]

    def _properties(self, schema: dict[str, Any], base: str, result: dict[str, Any]) -> None:
        """Add properties and required, without those that only occur in responses."""
        properties = as_table(schema.get("properties"))
        hidden = {name for name, inner in properties.items() if self._is_read_only(inner, base)}
        visible = {name: self._translate(each, base) for name, each in properties.items() if name not in hidden}
        if visible:
            result["properties"] = visible
        required = schema.get("required")
        names = [name for name in _texts(required) if name not in hidden] if isinstance(required, list) else []
        if names:
            result["required"] = names

    def _is_read_only(self, schema: Any, base: str) -> bool:
        """Return True for properties that requests must not contain: OpenAPI 3.0.4 §4.7.24.2, readOnly."""
        if not isinstance(schema, dict):
            return False
        if "$ref" not in schema:
            return schema.get("readOnly") is True
        if schema.get("readOnly") is True:  # beside $ref: see _reference
            return True
        target, _, address = self._library.follow(schema, base)
        if address not in self._read_only:
            self._read_only[address] = isinstance(target, dict) and target.get("readOnly") is True
        return self._read_only[address]

    def _one(self, keyword: str, inner: Any, base: str, result: dict[str, Any]) -> None:
        if keyword == "items" and isinstance(inner, list):
            if inner:  # a tuple of an older draft
                result["prefixItems"] = [self._translate(each, base) for each in inner]
        elif keyword == "additionalProperties" and isinstance(inner, bool):
            if not inner:
                result[keyword] = False
        elif isinstance(inner, (dict, bool)):
            result[keyword] = self._translate(inner, base)


def shorten(text: str, most: int) -> str:
    """Return a text cut between words to at most that many characters."""
    text = text.strip()
    if len(text) <= most:
        return text
    cut = text[: most - 1]
    return (cut.rpartition(" ")[0] if " " in cut[most // 2 :] else cut).rstrip(" ,.;:") + "…"


@functools.lru_cache(maxsize=4096)
def pattern_works(pattern: str) -> bool:
    """Return True if FlexChat can evaluate this pattern; others move to the description."""
    from flexchat.host import schema_problems

    if len(pattern) > MAX_PATTERN:
        return False
    return not schema_problems({"type": "object", "properties": {"x": {"pattern": pattern}}})


@functools.lru_cache(maxsize=4096)
def weaken(pattern: str) -> str:
    """Return a pattern that works and matches what this one does, and more; empty if there is none.

    It is without look-around, and without limits of repetitions that RE2 does not take (more than 1,000).
    """
    parts, depth, opened = [], 0, []
    for part in re.split(r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?<?[=!]|\(|\))", pattern):
        if part.startswith("(?") and part[-1] in "=!":
            opened.append(True)
            depth += 1
        elif part == "(":
            opened.append(False)
        closes = part == ")" and opened
        if not depth:
            parts.append(part)
        if closes and opened.pop():
            depth -= 1
    pattern_text = re.sub(r"\{(\d+),(\d{4,})\}", r"{\1,}", "".join(parts))
    return pattern_text if not depth and pattern_text and pattern_works(pattern_text) else ""


def _is_number(value: Any) -> TypeGuard[float]:
    return type(value) in (int, float) and math.isfinite(value)


def _texts(names: Any) -> list[str]:
    return [*dict.fromkeys(name for name in names if isinstance(name, str))]


def _unique(values: list[Any]) -> list[Any]:
    """Return the values without repetitions; 1 and true are different, 1 and 1.0 are not."""
    unique: dict[Any, Any] = {}
    for value in values:
        unique.setdefault((isinstance(value, bool), repr(value)), value)
    return [*unique.values()]
