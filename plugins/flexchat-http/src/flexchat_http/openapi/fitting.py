"""One tool's schema, put together from translated parts, within what FlexChat accepts.

What several places refer to, or what refers to itself, stays a definition; the rest is written out. A schema that is
still too large loses optional parts, the deepest first: a call without them is as valid.
"""

from __future__ import annotations

import contextlib
import graphlib
import json
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Set
from typing import Any

import attrs
from flexchat.host import schema_problems

from .reading import Unusable
from .schemas import LISTS, SINGLE, TABLES

_PREFIX = "#/$defs/"
_SHORT = 120  # characters; a definition up to this long is written out wherever it is used
_BESIDE = ("description", "default")
_MAX_PARTS = 2_000
_MAX_WHOLE_CHARS = 256 * 2**10
"""Definitions of more characters together are not even tried: a tool's schema has at most a quarter of that."""
_DEPTHS = (8, 6, 5, 4, 3, 2, 1)


class Fitting:
    """Puts the schemas of a document's tools together.

    Args:
        broken: Why a definition cannot be used, by its name.
    """

    def __init__(self, definitions: Mapping[str, Any], problems: Mapping[str, str]) -> None:
        self._definitions, self._broken = definitions, problems
        self._parts: dict[str, _Part] = {}

    def fit(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a tool's parameters with the definitions they need, which are all translated by now.

        Raises:
            Unusable: It needs a broken one, or even its required parts are too much.
        """
        needed = self._find_needed(schema)
        for name in needed:
            if name in self._broken:
                raise Unusable(self._broken[name])
        problem = "they are too large"
        for form in self._forms(schema, needed):
            if not (problems := schema_problems(form)):
                return form
            problem = problems[0]
        raise Unusable(f"its parameters cannot be used: {problem}")

    def _forms(self, schema: dict[str, Any], needed: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the forms a schema may take, the best first."""
        if not needed:
            yield schema
        elif sum(self._part(name).size for name in needed) <= _MAX_WHOLE_CHARS:
            with contextlib.suppress(RecursionError):  # a chain of a thousand definitions
                yield _with_definitions(schema, needed)
            yield {**schema, "$defs": needed}
        for depth in _DEPTHS:
            with contextlib.suppress(_TooManyError):
                yield _Pruning(self._definitions, depth).prune(schema, 0)

    def _find_needed(self, schema: Any) -> dict[str, Any]:
        """Return the definitions a schema refers to, directly or through others, in order of their first use."""
        needed: dict[str, Any] = {}
        waiting = deque(_references(schema))
        while waiting:
            name = waiting.popleft()
            if name not in needed:
                needed[name] = self._definitions[name]
                waiting += self._part(name).references
        return needed

    def _part(self, name: str) -> _Part:
        if name not in self._parts:
            definition = self._definitions[name]
            self._parts[name] = _Part(references=_references(definition), size=len(json.dumps(definition)))
        return self._parts[name]


@attrs.frozen
class _Part:
    """The references of a definition, and its size as JSON."""

    references: list[str]
    size: int


def inner_schemas(schema: Any) -> list[Any]:
    """Return the schemas directly in a schema."""
    inner: list[Any] = []
    if isinstance(schema, dict):
        _map_inner(schema, inner.append)
    return inner


def _references(schema: Any) -> list[str]:
    names, waiting = [], [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if "$ref" in each:
                names.append(each["$ref"].removeprefix(_PREFIX))
            waiting += inner_schemas(each)
    return names[::-1]


def _with_definitions(schema: dict[str, Any], needed: dict[str, Any]) -> dict[str, Any]:
    uses = Counter(_references(schema))
    for definition in needed.values():
        uses.update(_references(definition))
    circular = _circular(needed)
    written_out = {
        name
        for name, definition in needed.items()
        if name not in circular and (uses[name] == 1 or _is_short(definition))
    }
    result = _write_out(schema, needed, written_out)
    definitions_left = {
        name: _write_out(definition, needed, written_out)
        for name, definition in needed.items()
        if name not in written_out
    }
    return {**result, "$defs": definitions_left} if definitions_left else dict(result)


def _is_short(definition: Any) -> bool:
    return not inner_schemas(definition) and len(json.dumps(definition)) <= _SHORT


def _circular(needed: dict[str, Any]) -> Set[str]:
    """Return the names of definitions that lead back to themselves."""
    follows = {name: set(_references(definition)) for name, definition in needed.items()}
    # What neither leads on nor is led to is taken away, until only circles (and what lies between them) are left.
    return _without_ends(_invert(_without_ends(follows))).keys()


def _without_ends(follows: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Take away what leads nowhere, until everything leads on; in time proportional to what there is."""
    sorter = graphlib.TopologicalSorter(follows)
    with contextlib.suppress(graphlib.CycleError):
        sorter.prepare()
    ends: set[str] = set()
    while ready := sorter.get_ready():
        sorter.done(*ready)
        ends.update(ready)
    return {name: others - ends for name, others in follows.items() if name not in ends}


def _invert(follows: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Invert a reference graph."""
    reversed_edges: dict[str, set[str]] = {name: set() for name in follows}
    for name, others in follows.items():
        for other in others:
            reversed_edges[other].add(name)
    return reversed_edges


def _write_out(schema: Any, needed: Mapping[str, Any], which: set[str]) -> Any:
    """Return a schema in which references to these definitions are replaced by what they stand for."""
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_PREFIX)
        if name in which:
            return _merge_beside(schema, _write_out(needed[name], needed, which))
    return _map_inner(schema, lambda inner: _write_out(inner, needed, which))


def _merge_beside(schema: dict[str, Any], target: Any) -> Any:
    """Merge the target of a reference with the keywords beside it."""
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    if not beside or not isinstance(target, dict):
        return target
    return {**target, **beside} if beside.keys() <= {*_BESIDE} else {"allOf": [target], **beside}


def _map_inner(schema: dict[str, Any], change: Any) -> dict[str, Any]:
    copy = dict(schema)
    for key in TABLES:
        if key in copy:
            copy[key] = {name: change(inner) for name, inner in copy[key].items()}
    for key in LISTS:
        if key in copy:
            copy[key] = [change(inner) for inner in copy[key]]
    for key in SINGLE:
        if key in copy:
            copy[key] = change(copy[key])
    return copy


class _TooManyError(Exception):
    """There are too many parts."""


class _Pruning:
    """Makes a schema smaller: without references, and objects below ``most`` with their required properties only."""

    def __init__(self, definitions: Mapping[str, Any], most: int) -> None:
        self._definitions, self._most, self._parts = definitions, most, 0

    def prune(self, schema: Any, depth: int) -> Any:
        """Prune a schema at the given depth.

        Raises:
            _TooManyError: The pruned schema still has too many parts.
        """
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise _TooManyError
        if not isinstance(schema, dict):
            return schema
        if depth > self._most + 6:
            return {}
        if "$ref" in schema:
            target = self.prune(self._definitions[schema["$ref"].removeprefix(_PREFIX)], depth + 1)
            return _merge_beside({key: value for key, value in schema.items() if key in _BESIDE}, target)
        copy = dict(schema)
        if depth >= self._most:
            copy.pop("description", None)
            if "properties" in copy:
                required = copy.get("required", ())
                copy["properties"] = {name: each for name, each in copy["properties"].items() if name in required}
        return _map_inner(copy, lambda inner: self.prune(inner, depth + 1))
