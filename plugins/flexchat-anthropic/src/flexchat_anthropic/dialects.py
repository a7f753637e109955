"""Subsets of JSON Schema that Anthropic supports, as data.

LOOSE: a tool's input_schema. The model sees all of it, and nothing is enforced; the root must have type "object" and no
union, and only names of arguments (of the root's properties) that the service accepts.

STRICT: tools with ``strict``, and output_config.format. The service enforces the schema, and rejects what it cannot
enforce: objects that are not closed ("For 'object' type, 'additionalProperties' must be explicitly set to false"),
recursion, bounds. Keywords that Anthropic's SDK moves to the description are moved here as well.
"""

from flexchat_sdk import NOTED, SchemaDialect

_NAME = "[a-zA-Z0-9_.-]{1,64}"

LOOSE = SchemaDialect(
    name="anthropic",
    root={
        "$ref": "write out",
        "allOf": "merge",
        "anyOf": "flatten",
        "oneOf": "flatten",
        "enum": "note",
        "const": "note",
        "not": "note",
    },
    empty_properties="add",
    property_name=_NAME,
    root_names_only=True,
    enforces=False,
)

STRICT = SchemaDialect(
    name="anthropic.strict",
    keywords={
        **NOTED,
        **dict.fromkeys(("type", "title", "description", "properties", "required", "items"), "keep"),
        **dict.fromkeys(("enum", "const", "anyOf"), "keep"),
        "format": "listed",
        "additionalProperties": "close",
        "patternProperties": "close",
        "unevaluatedProperties": "open",
        "nullable": "as type",
        "oneOf": "as anyOf",
        "prefixItems": "as items",
        "allOf": "merge",
        "$ref": "write out",
    },
    other_keywords="drop",
    root={"anyOf": "flatten", "oneOf": "flatten", "enum": "note", "const": "note", "nullable": "drop"},
    formats={
        "string": frozenset(
            ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
        ),
        "integer": frozenset(),
        "number": frozenset(),
    },
    boolean_schemas=False,
    union_siblings=False,
    untyped="refuse",
    bare_array="refuse",
    empty_properties="add",
    known_required=True,
    property_name=_NAME,
    root_names_only=True,
    max_tools=20,
)
