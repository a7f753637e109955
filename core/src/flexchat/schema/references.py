"""Following the ``$ref`` of a schema: each must lead to a schema in this document, and none may multiply the work."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator
from typing import Any, Protocol

from ..errors import did_you_mean
from .wording import quoted

MAX_REFS = 100

# How many schemas may be applied to the same value: 22 levels of doubled $refs would be 2^22.
MAX_WEIGHT = 2_000

Where = tuple[Any, ...]
"""A place in a schema: a linked list, newest first: ``("days", ("properties", ()))``. Cheap to make at every step."""


class Walk(Protocol):
    """The checks and records of limits.py's walk through a schema."""

    problems: list[str]
    seen: set[int]

    def say(self, where: Where, text: str) -> None:
        """Note a problem."""

    def visit(self, schema: Any, where: Where, depth: int) -> None:
        """Check a schema and all its parts."""


def follow_references(root: dict[str, Any], refs: list[tuple[dict[str, Any], Where]], walk: Walk) -> None:
    """Check the targets of references; a target not walked yet is walked, which may add to refs."""
    for schema, where in refs:
        if len(refs) > MAX_REFS:
            walk.say((), f"the schema has more than {MAX_REFS} $ref; write some of them out")
            return
        target, problem = resolve(root, schema["$ref"])
        if problem:
            walk.say(where, problem)
        elif isinstance(target, dict) and id(target) not in walk.seen:
            walk.visit(target, (schema["$ref"], ()), 1)
    if walk.problems:
        return
    weights: dict[int, int] = {}
    for schema, where in refs:
        weight = _weight(root, schema, weights, set())
        if weight <= MAX_WEIGHT:
            continue
        reference = quoted(schema["$ref"])
        if weight == _ENDLESS:
            walk.say(where, f"$ref {reference} refers to itself endlessly; put it into a property")
        else:
            walk.say(where, f"$ref {reference} multiplies to {weight} checks of one value; repeat it less")
        return


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
    for keyword in ("not", "if", "then", "else"):
        if keyword in schema:
            yield schema[keyword]
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
