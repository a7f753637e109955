"""The state of one rewriting: its notes, and how much of a schema it has produced."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from .references import References, places
from .schema_dialect import SchemaDialect, SchemaNote

MAX_NODES = 5_000
"""Parts of a rewritten schema. Writing out $refs may multiply a small schema without limit."""

Severity = Literal["error", "warning", "info"]
Draft = dict[str, Any]


class TooLargeError(Exception):
    """The schema exceeds a limit, which the text names."""


@attrs.define
class Size:
    """How much of a schema was produced so far; level is that of the current object."""

    level: int = 0
    nodes: int = 0
    properties: int = 0
    values: int = 0
    text: int = 0


@attrs.define
class Work:
    """The rewriting of one schema for one dialect.

    Attributes:
        notes: What was done so far.
        references: The $refs of the schema.
        size: How much was produced so far.
        trail: The schemas being visited, outermost first.
        renames: Whether names that the service refuses are changed; else they are errors.
        names: The names that renamed properties are sent under, by their own.
    """

    root: dict[str, Any]
    dialect: SchemaDialect
    renames: bool = False
    notes: list[SchemaNote] = attrs.field(factory=list)
    size: Size = attrs.field(factory=Size)
    trail: list[Any] = attrs.field(factory=list)
    names: dict[str, str] = attrs.field(factory=dict)
    references: References = attrs.field()
    _places: dict[int, str] | None = None

    @references.default
    def _of_root(self) -> References:
        return References(self.root)

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
        self.size.nodes += 1
        if self.size.nodes > MAX_NODES:
            raise TooLargeError(f"with its $refs written out the schema has more than {MAX_NODES} parts; repeat less")

    def check_size(self) -> None:
        """Note what exceeds the dialect's limits."""
        dialect = self.dialect
        for limit, count, what in (
            (dialect.max_properties, self.size.properties, "properties"),
            (dialect.max_enum_values, self.size.values, "enum values"),
            (dialect.max_text, self.size.text, "characters in names and enum values"),
        ):
            if limit is not None and count > limit:
                self.note("error", "", f"the schema has {count} {what}, more than {limit}; split the tool")
