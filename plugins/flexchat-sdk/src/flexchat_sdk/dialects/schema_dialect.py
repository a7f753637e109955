"""The parts of JSON Schema that a provider accepts, and the changes made to a schema for it."""

from __future__ import annotations

import hashlib
import re
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
    drop        it is left out: neither a model nor a check needs it
    note        it is left out, and mentioned in the description: "(minimum: 1, maximum: 10)"
    refuse      a schema with it cannot be sent
    as enum     const becomes an enum of one value
    as anyOf    oneOf becomes anyOf
    as items    prefixItems become that many items of any of these forms
    as bound    exclusiveMinimum and exclusiveMaximum become minimum and maximum, exactly so for integers
    as type     OpenAPI's nullable becomes the type "null" alongside the other
    merge       the schemas of allOf become one
    flatten     a union of objects becomes one object with the properties of all
    write out   a $ref is replaced by what it refers to
    alone       a $ref is sent, and goes to $defs; one next to other keywords is written out
    strings     an enum of strings is sent; the values of any other are listed in the description
    listed      a format is sent if it is among SchemaDialect.formats, otherwise mentioned in the description
    plain       a pattern is sent if it has no lookahead or lookbehind, otherwise mentioned in the description
    open        additionalProperties: false is left out; a schema is mentioned in the description
    close       additionalProperties is false everywhere; a map cannot be sent
"""


NOTED: Mapping[str, Action] = dict.fromkeys(
    (
        "default", "example", "examples", "deprecated", "format", "contentEncoding", "contentMediaType",
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern", "minLength", "maxLength",
        "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains", "unevaluatedItems",
        "minProperties", "maxProperties", "propertyNames", "dependentRequired", "dependentSchemas", "dependencies",
        "not", "if", "then", "else",
    ),
    "note",
)  # fmt: skip
"""The start of a dialect's keywords: all that a model can be shown in the description, if a service takes no more."""

_MAX_NAME_CHARS = 64


def _known_actions(instance: object, attribute: attrs.Attribute[Any], value: Mapping[str, str]) -> None:
    for keyword, action in value.items():
        if action not in get_args(Action):
            raise ValueError(f"{attribute.name}: {keyword}: there is no action '{action}'")


@attrs.frozen(kw_only=True, eq=False)
class SchemaDialect:
    """The JSON Schema that one provider accepts in one mode. With only a name: everything.

    Attributes:
        name: "openai.strict".
        keywords: The action for each keyword.
        other_keywords: The action for all other keywords, x-… included.
        root: Exceptions to keywords for the root.
        formats: The formats it supports, by type; a type not listed allows any. Used by the action "listed".
        null: How "or null" is written: in the type, or with OpenAPI's nullable next to a single type.
        upper_case_types: Types are called STRING, OBJECT, ….
        boolean_schemas: true and false are accepted as schemas.
        union_siblings: Constraints are accepted next to anyOf.
        fold_enums: An anyOf of single values is accepted only as one enum.
        untyped: The action for a schema that allows any value.
        bare_array: The action for an array that does not describe its items; "any" gives it items: {}.
        empty_properties: "add" gives a root without properties an empty table, "drop" leaves empty tables out.
        known_required: Only names in properties may be required.
        all_required: Every property is required; an optional one may be null instead.
        recursion: Where a schema may contain itself: "optional" means in properties that are not required. If every
            $ref is written out, nowhere.
        property_name: Regular expression of a property's name; None for any. Others are renamed.
        root_names_only: It concerns the root's properties alone.
        root_description: The root's description reaches the model.
        enforces: The service enforces what is kept, so only describing a constraint loses something.
        max_depth: Levels of nested objects.
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
    root_names_only: bool = False
    root_description: bool = True
    enforces: bool = True
    max_depth: int | None = None
    max_properties: int | None = None
    max_enum_values: int | None = None
    max_text: int | None = None
    max_description: int | None = None
    max_tools: int | None = None

    def legal_name(self, name: str) -> str:
        """Return the name a property is sent under: its own if the service accepts it, else letters, digits and _."""
        if self.property_name is None or re.fullmatch(self.property_name, name):
            return name
        checksum = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        base = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")[: _MAX_NAME_CHARS - 10]
        return f"{'' if base[:1].isalpha() else '_'}{base}{'_' if base else ''}{checksum}"


@attrs.frozen(kw_only=True)
class SchemaNote:
    """One change made to a schema, or one reason why it cannot be sent.

    Attributes:
        severity: "error": it cannot be sent; "warning": some of its meaning is lost; "info": rewritten without loss.
        pointer: Where, as a JSON pointer into the original.
        keyword: The keyword concerned.
        message: One sentence; for an error, with the form to write instead.
    """

    severity: Literal["error", "warning", "info"]
    pointer: str
    keyword: str
    message: str


@attrs.frozen(kw_only=True)
class RewrittenSchema:
    """A schema rewritten for one dialect.

    Attributes:
        schema: The schema to send; None if a note is an error.
        names: The names that renamed properties are sent under, by their own.
    """

    schema: Mapping[str, Any] | None
    notes: tuple[SchemaNote, ...] = ()
    names: Mapping[str, str] = attrs.field(factory=dict)
