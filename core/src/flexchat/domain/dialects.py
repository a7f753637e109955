"""What of JSON Schema a provider takes, and what became of a schema on the way to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import attrs

Action = Literal[
    "keep", "drop", "note", "refuse",
    "as enum", "as anyOf", "as items", "as bound", "as type",
    "merge", "flatten", "write out", "alone",
    "strings", "listed", "plain", "open", "close",
]  # fmt: skip
"""What is done with a keyword.

    keep        it is sent
    drop        it is left out: it says nothing that a model or a check needs
    note        it is left out, and told in the description: "(minimum: 1, maximum: 10)"
    refuse      a schema with it cannot be sent
    as enum     const becomes an enum of one value
    as anyOf    oneOf becomes anyOf
    as items    prefixItems become items of any of these forms, as many as there are
    as bound    exclusiveMinimum and exclusiveMaximum become minimum and maximum, for integers exactly
    as type     OpenAPI's nullable becomes the type "null" beside the other
    merge       the schemas of allOf become one
    flatten     a union of objects becomes one object with the properties of all
    write out   a $ref is replaced by what it refers to
    alone       a $ref is sent, and goes to $defs; one with keywords beside it is written out
    strings     an enum of strings is sent, of another the values are told in the description
    listed      a format is sent if it is among SchemaDialect.formats, else told in the description
    plain       a pattern is sent if it looks neither ahead nor behind, else told in the description
    open        additionalProperties: false is left out, a schema told in the description
    close       additionalProperties is false everywhere, a map cannot be sent
"""


def _known_actions(instance: object, attribute: attrs.Attribute[Any], value: Mapping[str, str]) -> None:
    for keyword, action in value.items():
        if action not in get_args(Action):
            raise ValueError(f"{attribute.name}: {keyword}: there is no action '{action}'")


@attrs.frozen(kw_only=True, eq=False)
class SchemaDialect:
    """What one provider, in one mode, takes of JSON Schema. With a name alone: everything.

    Attributes:
        name: "openai.strict".
        keywords: What is done with each keyword.
        other_keywords: What is done with those not in the table, x-… among them.
        root: Where the root differs from keywords.
        formats: The formats it knows, by type; a type that is absent knows any. Used by the action "listed".
        null: How "or null" is said: in the type, or by OpenAPI's nullable beside a single type.
        upper_case_types: Types are called STRING, OBJECT, ….
        boolean_schemas: true and false may stand for a schema.
        union_siblings: Constraints may stand beside anyOf.
        fold_enums: An anyOf of single values is understood as one enum only.
        untyped: What is done with a schema of any value.
        bare_array: What is done with an array that says nothing of its items; "any" gives it items: {}.
        empty_properties: "add" gives a root without properties an empty table, "drop" leaves empty tables out.
        known_required: Only names in properties may be required.
        all_required: Every property is required; an optional one may be null instead.
        recursion: Where a schema may hold itself: "optional" in properties that are not required. Where every $ref is
            written out, nowhere.
        property_name: Regular expression of a property's name; None for any.
        root_description: The description of the whole reaches the model.
        enforces: The service holds the model to what is kept, so that telling a constraint instead loses something.
        max_depth: Objects inside objects.
        max_properties: All properties of a schema together.
        max_enum_values: All enum values of a schema together.
        max_text: Characters of all names and enum values of a schema together.
        max_description: Characters of a tool's description.
        max_tools: Tools in one request.
    """

    name: str
    keywords: Mapping[str, Action] = attrs.field(factory=dict, validator=_known_actions)
    other_keywords: Literal["keep", "drop", "note", "refuse"] = "keep"
    root: Mapping[str, Action] = attrs.field(factory=dict, validator=_known_actions)
    formats: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
    null: Literal["type", "nullable"] = "type"
    upper_case_types: bool = False
    boolean_schemas: bool = True
    union_siblings: bool = True
    fold_enums: bool = False
    untyped: Literal["keep", "string", "refuse"] = "keep"
    bare_array: Literal["keep", "any", "string", "refuse"] = "keep"
    empty_properties: Literal["keep", "add", "drop"] = "keep"
    known_required: bool = False
    all_required: bool = False
    recursion: Literal["keep", "optional"] = "keep"
    property_name: str | None = None
    root_description: bool = True
    enforces: bool = True
    max_depth: int | None = None
    max_properties: int | None = None
    max_enum_values: int | None = None
    max_text: int | None = None
    max_description: int | None = None
    max_tools: int | None = None


@attrs.frozen(kw_only=True)
class SchemaNote:
    """One thing that was done to a schema, or keeps it from being sent.

    Attributes:
        severity: "error" it cannot be sent; "warning" some of its meaning is lost; "info" rewritten without loss.
        pointer: Where, as a JSON pointer into the original.
        keyword: What it is about.
        message: One sentence; of an error it says what to write instead.
    """

    severity: Literal["error", "warning", "info"]
    pointer: str
    keyword: str
    message: str


@attrs.frozen(kw_only=True)
class RewrittenSchema:
    """A schema in the words of one dialect.

    Attributes:
        schema: What is sent; None where a note is an error.
    """

    schema: Mapping[str, Any] | None
    notes: tuple[SchemaNote, ...] = ()
