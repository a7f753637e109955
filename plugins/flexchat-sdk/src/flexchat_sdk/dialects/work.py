"""The state of one rewriting: its notes, the $refs of its schema, and how much of it was produced."""

from __future__ import annotations

import re
from typing import Any, Literal

import attrs
from flexchat.schema.limits import resolve
from flexchat.schema.wording import quoted

from .schema_dialect import SchemaDialect, SchemaNote
from .shape import inner_schemas


class References:
    """The $refs of one schema.

    Attributes:
        waiting: Names and schemas that $defs must contain and that are not rewritten yet.
    """

    def __init__(self, root: dict[str, Any]) -> None:
        self.waiting: list[tuple[str, dict[str, Any]]] = []
        self._root = root
        self._names: dict[int, str] = {}
        self._recursive: dict[int, bool] = {}

    def target(self, reference: Any) -> tuple[Any, str]:
        """Resolve a $ref; return its target and a description of the problem, empty if it resolves."""
        if type(reference) is not str or (reference != "#" and not reference.startswith("#/")):
            text = f'$ref {quoted(reference)} leaves the schema; copy its target into $defs and write "#/$defs/…"'
            return None, text
        return resolve(self._root, reference)

    def in_defs(self, reference: str, target: dict[str, Any]) -> str:
        """Return the $ref to a target that goes to $defs, unless it is the root."""
        if target is self._root:
            return "#"
        if (name := self._names.get(id(target))) is None:
            base = name = re.sub(r"[^A-Za-z0-9_.-]", "_", reference.rpartition("/")[2]) or "_"
            number = 1
            while name in self._names.values():
                number += 1
                name = f"{base}_{number}"
            self._names[id(target)] = name
            self.waiting.append((name, target))
        return f"#/$defs/{name}"

    def must_lead_back(self, schema: dict[str, Any]) -> bool:
        """Return whether a value of this schema must contain one of a schema that contains itself."""
        target, problem = self.target(schema["$ref"]) if "$ref" in schema else (None, "")
        if type(target) is dict and not problem:
            return self._leads_back(target) or self.must_lead_back(target)
        return any(self.must_lead_back(inner) for inner in inner_schemas(schema, required_only=True))

    def _leads_back(self, target: dict[str, Any]) -> bool:
        if id(target) not in self._recursive:
            waiting, seen, is_cycle = [target], set[int](), False
            while waiting and not is_cycle:
                schema = waiting.pop()
                inner = [*inner_schemas(schema)]
                if "$ref" in schema:
                    inner.append(self.target(schema["$ref"])[0])
                is_cycle = any(each is target for each in inner)
                for each in inner:
                    if type(each) is dict and id(each) not in seen:
                        seen.add(id(each))
                        waiting.append(each)
            self._recursive[id(target)] = is_cycle
        return self._recursive[id(target)]


def places(root: dict[str, Any]) -> dict[int, str]:
    """Return the JSON pointer of every object in a schema, by the object's identity."""
    pointers: dict[int, str] = {}
    waiting: list[tuple[Any, str]] = [(root, "")]
    while waiting:
        value, place = waiting.pop()
        if id(value) in pointers:
            continue
        pointers[id(value)] = place
        for step, inner in value.items() if type(value) is dict else enumerate(value):
            if type(inner) is dict or type(inner) is list:
                waiting.append((inner, f"{place}/{str(step).replace('~', '~0').replace('/', '~1')}"))
    return pointers


MAX_NODES = 5_000  # parts of a rewritten schema. Writing out $refs may multiply a small schema without limit.

Severity = Literal["error", "warning", "info"]
Draft = dict[str, Any]


class TooLargeError(Exception):
    """The schema exceeds a limit, which the text names."""


@attrs.define
class Work:
    """The rewriting of one schema for one dialect.

    Attributes:
        notes: What was done so far.
        references: The $refs of the schema.
        level: Of the current object.
        nodes, properties, values, text: How much was produced so far.
        trail: The schemas being visited, outermost first.
        renames: Whether names that the service refuses are changed; else they are errors.
        names: The names that renamed properties are sent under, by their own.
    """

    root: dict[str, Any]
    dialect: SchemaDialect
    renames: bool = False
    notes: list[SchemaNote] = attrs.field(factory=list)
    trail: list[Any] = attrs.field(factory=list)
    names: dict[str, str] = attrs.field(factory=dict)
    level: int = 0
    nodes: int = 0
    properties: int = 0
    values: int = 0
    text: int = 0
    references: References = attrs.Factory(lambda work: References(work.root), takes_self=True)
    _places: dict[int, str] | None = None

    @property
    def is_mute(self) -> bool:
        """Whether the current schema's description does not reach the model."""
        return len(self.trail) == 1 and not self.dialect.root_description

    def note(self, severity: Severity, keyword: str, message: str, at: object = None) -> None:
        """Note what was done to a keyword of the current schema, or of one inside it."""
        if self._places is None:
            self._places = places(self.root)
        pointers = (self._places.get(id(schema)) for schema in (at, *reversed(self.trail)))
        pointer = next((place for place in pointers if place is not None), "")
        self.notes.append(SchemaNote(severity=severity, pointer=pointer, keyword=keyword, message=message))

    def count(self) -> None:
        """Count one more part of the schema.

        Raises:
            TooLargeError: It has too many.
        """
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise TooLargeError(f"with its $refs written out the schema has more than {MAX_NODES} parts; repeat less")

    def check_size(self) -> None:
        """Note what exceeds the dialect's limits."""
        dialect = self.dialect
        for limit, count, what in (
            (dialect.max_properties, self.properties, "properties"),
            (dialect.max_enum_values, self.values, "enum values"),
            (dialect.max_text, self.text, "characters in names and enum values"),
        ):
            if limit is not None and count > limit:
                self.note("error", "", f"the schema has {count} {what}, more than {limit}; split the tool")
