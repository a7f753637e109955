"""Limits on a tool's schema: correct JSON Schema, and small enough to keep checking calls quick.

Runs once per tool, at registration. A plain walk handles the vocabularies of Draft 2020-12 and draft-07; only a few
rare keywords require the meta-schema, which needs jsonschema (0.1 s to import). Each ``$ref`` must lead to a schema in
the document. The limits come from the safety design. They keep out: 22 levels of doubled ``$ref`` (40 s), a ``$ref`` to
the network, patterns that backtrack (6.4 s at 28 characters).
"""

from __future__ import annotations

import json
import math
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..errors import did_you_mean
from .patterns import problem_of
from .wording import cut, quoted

MAX_BYTES = 64 * 1024
MAX_NODES = 2_000
MAX_DEPTH = 32
MAX_ENUM = 1_000
MAX_PATTERN = 500
MAX_UNIQUE = 1_000
MAX_REFS = 100
MAX_WEIGHT = 2_000  # schemas that may be applied to the same value: 22 levels of doubled $refs would be 2^22
MAX_DIGITS = 4_300  # longest integer that Python writes as text, and so the longest one in JSON

DIALECTS = ("https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema")

_TYPES = frozenset(("string", "integer", "number", "boolean", "null", "array", "object"))
_OTHER_NAMES = {
    "int": "integer", "long": "integer", "float": "number", "double": "number", "decimal": "number", "str": "string",
    "text": "string", "bool": "boolean", "dict": "object", "map": "object", "list": "array", "tuple": "array",
    "set": "array", "none": "null", "nil": "null",
}  # fmt: skip


class UncheckedError(Exception):
    """A value was not checked, so it is neither valid nor invalid. The text is the reason, as a noun phrase."""


def schema_problems(schema: Mapping[str, Any]) -> list[str]:
    """Return the problems of a tool's parameters, with place and remedy; ToolDefinition checks the root's type."""
    plain = schema if type(schema) is dict else dict(schema)
    try:
        too_long = _too_long(plain)
        if too_long:
            return [too_long]
        walk = _Walk(plain)
        walk.visit(plain, (), 0)
        if walk.refs and not walk.problems:
            walk.follow_references()
    except RecursionError:
        return [f"the schema is nested too deeply (at most {MAX_DEPTH} levels)"]
    if walk.unusual and not walk.problems:
        return _meta_problems(plain)
    return walk.problems


def _too_long(schema: dict[str, Any]) -> str | None:
    # A character of the repr is at most 6 bytes of JSON: the exact length is needed only in doubt.
    try:
        if len(repr(schema)) * 6 <= MAX_BYTES:
            return None
    except ValueError:
        return f"the schema contains an integer of more than {MAX_DIGITS:,} digits; write a shorter one"
    try:
        size = len(json.dumps(schema, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    except (TypeError, ValueError) as error:
        return f"the schema is not JSON data: {error}"
    if size <= MAX_BYTES:
        return None
    return f"the schema is longer than {MAX_BYTES // 1024} KiB ({size} bytes); shorten its descriptions or enums"


Where = tuple[Any, ...]
"""A place in a schema: a linked list, newest first: ``("days", ("properties", ()))``. Cheap to make at every step."""


class _Walk:
    def __init__(self, root: dict[str, Any]) -> None:
        self.root = root
        self.problems: list[str] = []
        self.refs: list[tuple[dict[str, Any], Where]] = []  # the schemas with a $ref
        self.unusual = False
        self.nodes = 0
        self.seen: set[int] = set()
        self.patterned = self.unevaluated = False

    def say(self, where: Where, text: str) -> None:
        if len(self.problems) < 20:
            self.problems.append(_place(where) + text)

    def visit(self, schema: Any, where: Where, depth: int) -> None:
        if schema is True or schema is False:
            return
        if type(schema) is not dict:
            self.say(where, f'must be a schema, an object such as {{"type": "string"}} (got {quoted(schema)})')
            return
        self.nodes += 1
        if self.nodes >= MAX_NODES or depth > MAX_DEPTH:
            if self.nodes == MAX_NODES:
                self.problems.append(f"the schema has more than {MAX_NODES} parts; split the tool")
            elif depth > MAX_DEPTH:
                self.say((), f"the schema is nested too deeply (at most {MAX_DEPTH} levels)")
            return
        self.seen.add(id(schema))
        for keyword, value in schema.items():
            rule = _RULES.get(keyword)
            if rule is not None:
                rule(self, schema, keyword, value, where, depth)

    def follow_references(self) -> None:
        """Check the targets of references; a target not walked yet is walked, which may add to them."""
        for schema, where in self.refs:
            if len(self.refs) > MAX_REFS:
                self.say((), f"the schema has more than {MAX_REFS} $ref; write some of them out")
                return
            target, problem = resolve(self.root, schema["$ref"])
            if problem:
                self.say(where, problem)
            elif isinstance(target, dict) and id(target) not in self.seen:
                self.visit(target, (schema["$ref"], ()), 1)
        weights: dict[int, int] = {}
        for schema, where in () if self.problems else self.refs:
            weight = _weight(self.root, schema, weights, set())
            if weight > MAX_WEIGHT:
                fault = f"multiplies to {weight} checks of one value; repeat it less"
                if weight == _ENDLESS:
                    fault = "refers to itself endlessly; put it into a property"
                self.say(where, f"$ref {quoted(schema['$ref'])} {fault}")
                return


def _place(where: Where) -> str:
    """Return the name of a place in a schema: ``property 'address.street': `` or ``at #/anyOf/0: ``."""
    steps: list[str] = []
    while where:
        steps.append(str(where[0]))
        where = where[1]
    steps.reverse()
    if not steps:
        return ""
    if len(steps) % 2 == 0 and all(step == "properties" for step in steps[::2]):
        return f"property '{cut('.'.join(steps[1::2]))}': "
    first = "" if steps[0].startswith("#") else "#/"
    return f"at {cut(first + '/'.join(steps), 120)}: "


# One rule for each keyword: (walk, schema, keyword, value, where, depth).
_Rule = Callable[[_Walk, dict[str, Any], str, Any, Where, int], None]


def _type(walk: _Walk, schema: dict[str, Any], keyword: str, value: Any, where: Where, depth: int) -> None:
    if type(value) is str and value in _TYPES:
        return
    if isinstance(value, list) and (not value or len(value) != len({quoted(each) for each in value})):
        walk.say(where, f"type {quoted(value)} must name at least one type, and none twice")
    for name in value if isinstance(value, list) else [value]:
        if not isinstance(name, str):
            walk.say(where, f'type must be a name such as "string" (got {quoted(name)})')
        elif name not in _TYPES:
            other = _OTHER_NAMES.get(name.casefold())
            hint = f" (did you mean '{other}'?)" if other else did_you_mean(name, sorted(_TYPES))
            hint = hint or f" (there are {', '.join(sorted(_TYPES))})"
            walk.say(where, f"type '{cut(name)}' is not a JSON Schema type{hint}")


def _text(walk: _Walk, schema: dict[str, Any], keyword: str, value: Any, where: Where, depth: int) -> None:
    if type(value) is not str:
        walk.say(where, f"{keyword} must be a text (got {quoted(value)})")


def _boolean(walk: _Walk, schema: dict[str, Any], keyword: str, value: Any, where: Where, depth: int) -> None:
    if value is not True and value is not False:
        walk.say(where, f"{keyword} must be true or false (got {quoted(value)})")


def _unique(walk: _Walk, schema: dict[str, Any], keyword: str, value: Any, where: Where, depth: int) -> None:
    _boolean(walk, schema, keyword, value, where, depth)
    most: Any = schema.get("maxItems")
    if value is True and not (_is_number(most) and most <= MAX_UNIQUE):
        walk.say(where, f"uniqueItems also needs maxItems, at most {MAX_UNIQUE}")


def _number(walk: _Walk, schema: dict[str, Any], keyword: str, value: Any, where: Where, depth: int) -> None:
    if not _is_number(value):
        walk.say(where, f"{keyword} must be a number (got {quoted(value)})")
    elif keyword == "multipleOf" and value <= 0:
        walk.say(where, f"multipleOf must be greater than 0 (got {quoted(value)})")


def _count(walk: _Walk, schema: dict[str, Any], keyword: str, value: Any, where: Where, depth: int) -> None:
    if not _is_number(value) or value < 0 or value % 1:
        walk.say(where, f"{keyword} must be a whole number from 0 (got {quoted(value)})")


def _names(walk: _Walk, schema: dict[str, Any], keyword: str, value: Any, where: Where, depth: int) -> None:
    if type(value) is list:
        if all(type(name) is str for name in value) and len(set(value)) == len(value):
            return
        walk.say(where, f"{keyword} must be a list of names, each of them once (got {quoted(value)})")
    elif value is True or value is False:
        walk.say(where, f"{keyword} must be a list of names; it belongs next to properties, not in the property")
    else:
        walk.say(where, f"{keyword} must be a list of names (got {quoted(value)})")


def _subschema(walk: _Walk, schema: dict[str, Any], keyword: str, value: Any, where: Where, depth: int) -> None:
    walk.visit(value, (keyword, where), depth + 1)


def _items(walk: _Walk, schema: dict[str, Any], keyword: str, value: Any, where: Where, depth: int) -> None:
    if type(value) is not list:
        walk.visit(value, (keyword, where), depth + 1)
    elif "draft-07" in str(walk.root.get("$schema")):
        _subschemas(walk, schema, keyword, value, where, depth)
    else:
        walk.say(where, "items must be one schema; for a list of schemas, one per position, write prefixItems")


def _subschemas(walk: _Walk, schema: dict[str, Any], keyword: str, value: Any, where: Where, depth: int) -> None:
    if type(value) is not list or not value:
        walk.say(where, f"{keyword} must be a list of at least one schema (got {quoted(value)})")
        return
    for index, inner in enumerate(value):
        walk.visit(inner, (index, (keyword, where)), depth + 1)


def _properties(walk: _Walk, schema: dict[str, Any], keyword: str, value: Any, where: Where, depth: int) -> None:
    if type(value) is not dict:
        walk.say(where, f"{keyword} must be an object: a schema for each name (got {quoted(value)})")
        return
    for name, inner in value.items():
        if type(name) is not str:
            walk.say(where, f"{keyword}: the name {quoted(name)} must be a text")
        walk.visit(inner, (name, (keyword, where)), depth + 1)


def _pattern(walk: _Walk, schema: dict[str, Any], keyword: str, value: Any, where: Where, depth: int) -> None:
    if type(value) is not str:
        walk.say(where, f"{keyword} must be a text (got {quoted(value)})")
    elif len(value) > MAX_PATTERN:
        walk.say(where, f"the pattern {quoted(value)} has more than {MAX_PATTERN} characters")
    elif problem := problem_of(value):
        walk.say(where, f"pattern {quoted(value)}: {problem}")


def _patterned(walk: _Walk, schema: dict[str, Any], keyword: str, value: Any, where: Where, depth: int) -> None:
    _properties(walk, schema, keyword, value, where, depth)
    walk.patterned = True
    for pattern in value if type(value) is dict else ():
        _pattern(walk, schema, keyword, pattern, where, depth)
    _without_unevaluated(walk, where)


def _unevaluated(walk: _Walk, schema: dict[str, Any], keyword: str, value: Any, where: Where, depth: int) -> None:
    _subschema(walk, schema, keyword, value, where, depth)
    walk.unevaluated = True
    _without_unevaluated(walk, where)


def _without_unevaluated(walk: _Walk, where: Where) -> None:
    # For unevaluatedProperties, jsonschema runs the patterns with Python's own engine, which we cannot replace.
    if walk.patterned and walk.unevaluated:
        walk.say(where, "unevaluatedProperties cannot be combined with patternProperties; use additionalProperties")


def _enum(walk: _Walk, schema: dict[str, Any], keyword: str, value: Any, where: Where, depth: int) -> None:
    if type(value) is not list:
        walk.say(where, f"{keyword} must be a list (got {quoted(value)})")
    elif len(value) > MAX_ENUM:
        walk.say(
            where, f"{keyword} has {len(value)} entries (at most {MAX_ENUM}); take a string and check it in the tool"
        )
    elif not all(type(each) is str for each in value):
        _data(walk, schema, keyword, value, where, depth)


def _data(walk: _Walk, schema: dict[str, Any], keyword: str, value: Any, where: Where, depth: int) -> None:
    if value is None or type(value) in (str, bool, int):
        return
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        walk.say(where, f"{keyword} must be JSON data (got {type(value).__name__} {cut(repr(value))})")


def _examples(walk: _Walk, schema: dict[str, Any], keyword: str, value: Any, where: Where, depth: int) -> None:
    if type(value) is not list:
        walk.say(where, f"examples must be a list (got {quoted(value)})")
    else:
        _data(walk, schema, keyword, value, where, depth)


def _ref(walk: _Walk, schema: dict[str, Any], keyword: str, value: Any, where: Where, depth: int) -> None:
    if type(value) is not str:
        walk.say(where, f'$ref must be a text such as "#/$defs/Address" (got {quoted(value)})')
    elif value != "#" and not value.startswith("#/"):
        walk.say(where, f'$ref {quoted(value)} leaves the schema; copy its target into $defs and write "#/$defs/…"')
    else:
        walk.refs.append((schema, where))


def _dialect(walk: _Walk, schema: dict[str, Any], keyword: str, value: Any, where: Where, depth: int) -> None:
    if where:
        walk.say(where, "$schema is allowed only at the root; remove it here")
    elif not isinstance(value, str) or value.rstrip("#") not in DIALECTS:
        walk.say(where, f"$schema {quoted(value)} is not supported; write {DIALECTS[0]} or leave it out")


def _identity(walk: _Walk, schema: dict[str, Any], keyword: str, value: Any, where: Where, depth: int) -> None:
    walk.unusual = True
    if where:
        walk.say(where, f'{keyword} is allowed only at the root; remove it and refer by "#/…"')


def _refused(walk: _Walk, schema: dict[str, Any], keyword: str, value: Any, where: Where, depth: int) -> None:
    walk.say(where, f'{keyword} is not supported; use $ref with "#/…"')


def _unusual(walk: _Walk, schema: dict[str, Any], keyword: str, value: Any, where: Where, depth: int) -> None:
    walk.unusual = True


def _dependencies(walk: _Walk, schema: dict[str, Any], keyword: str, value: Any, where: Where, depth: int) -> None:
    walk.unusual = True
    for name, inner in value.items() if type(value) is dict else ():
        if type(inner) is not list:
            walk.visit(inner, (name, (keyword, where)), depth + 1)


_BY_RULE: dict[_Rule, str] = {
    _type: "type",
    _text: "description title format $comment contentEncoding contentMediaType",
    _boolean: "readOnly writeOnly deprecated",
    _unique: "uniqueItems",
    _number: "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
    _count: "minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains",
    _names: "required",
    _subschema: "additionalProperties contains propertyNames not if then else contentSchema additionalItems",
    _items: "items",
    _unevaluated: "unevaluatedProperties unevaluatedItems",
    _subschemas: "allOf anyOf oneOf prefixItems",
    _properties: "properties $defs definitions dependentSchemas",
    _pattern: "pattern",
    _patterned: "patternProperties",
    _enum: "enum",
    _data: "default const",
    _examples: "examples",
    _ref: "$ref",
    _dialect: "$schema",
    _identity: "$id",
    _refused: "$dynamicRef $recursiveRef",
    _unusual: "$anchor $dynamicAnchor $recursiveAnchor $vocabulary dependentRequired",
    _dependencies: "dependencies",
}
_RULES = {keyword: rule for rule, keywords in _BY_RULE.items() for keyword in keywords.split()}


def _is_number(value: Any) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))


def _meta_problems(schema: dict[str, Any]) -> list[str]:
    """Return the meta-schema's findings, without those on patterns: RE2 decides about these."""
    from jsonschema import Draft7Validator, Draft202012Validator, SchemaError

    draft: Any = Draft7Validator if "draft-07" in str(schema.get("$schema")) else Draft202012Validator
    try:
        draft.check_schema(schema, format_checker=None)
    except SchemaError as error:
        where = "/".join(map(str, error.absolute_path))
        return [f"at #/{cut(where, 120)}: {cut(error.message, 200)}"]
    return []


_ENDLESS = 1 << 200


def _weight(root: dict[str, Any], schema: Any, weights: dict[int, int], open_: set[int]) -> int:
    """Count the schemas applied to a value before going into its properties or items."""
    if not isinstance(schema, dict):
        return 1
    if id(schema) in open_:
        return _ENDLESS
    if id(schema) not in weights:
        open_.add(id(schema))
        total = 1 + sum(_weight(root, inner, weights, open_) for inner in _applied_in_place(root, schema))
        open_.remove(id(schema))
        weights[id(schema)] = min(total, _ENDLESS)
    return weights[id(schema)]


def _applied_in_place(root: dict[str, Any], schema: dict[str, Any]) -> Iterator[Any]:
    if "$ref" in schema:
        yield resolve(root, schema["$ref"])[0]
    yield from (schema[keyword] for keyword in ("not", "if", "then", "else") if keyword in schema)
    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from schema.get(keyword, ())
    for keyword in ("dependentSchemas", "dependencies"):
        yield from schema.get(keyword, {}).values()


def resolve(root: dict[str, Any], reference: str) -> tuple[Any, str]:
    """Return the target of a JSON pointer, and the fault in it, or an empty text."""
    value: Any = root
    for step in urllib.parse.unquote(reference[1:]).split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            hint = did_you_mean(step, value) if isinstance(value, dict) else ""
            return None, f"$ref {quoted(reference)} leads nowhere: there is no {quoted(step)}{hint}"
    if not isinstance(value, (dict, bool)):
        return None, f"$ref {quoted(reference)} does not lead to a schema"
    return value, ""
