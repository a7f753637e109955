"""The JSON Schema that OpenAI accepts, as data.

LOOSE: the service reads the whole schema and enforces none of it. The root must have type "object" and no union
(400 "must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"), an object
needs properties and an array needs items.

STRICT: the service enforces the schema and refuses what it cannot enforce. The documentation of structured outputs
("Supported schemas") lists both, and the limits.
"""

from flexchat_sdk import NOTED, SchemaDialect

LOOSE = SchemaDialect(
    name="openai",
    root={
        "$ref": "write out",
        "allOf": "merge",
        "anyOf": "flatten",
        "oneOf": "flatten",
        "enum": "note",
        "const": "note",
        "not": "note",
    },
    bare_array="any",
    empty_properties="add",
    enforces=False,
    max_description=1024,
    max_tools=128,
)

STRICT = SchemaDialect(
    name="openai.strict",
    keywords={
        **NOTED,
        **dict.fromkeys(("type", "properties", "required", "description", "enum", "const", "items", "anyOf"), "keep"),
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "keep"),
        # Accepted by api.openai.com; compatible servers may refuse them.
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), "keep"),
        "pattern": "plain",
        "format": "listed",
        "additionalProperties": "close",
        "patternProperties": "close",
        "unevaluatedProperties": "open",
        "nullable": "as type",
        "oneOf": "as anyOf",
        "prefixItems": "as items",
        "allOf": "merge",
        "$ref": "alone",
    },
    other_keywords="drop",
    root={
        "$ref": "write out",
        "anyOf": "flatten",
        "oneOf": "flatten",
        "enum": "note",
        "const": "note",
        "nullable": "drop",
    },
    formats={
        "string": frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")),
        "integer": frozenset(),
        "number": frozenset(),
    },
    boolean_schemas=False,
    union_siblings=False,
    untyped="refuse",
    bare_array="refuse",
    known_required=True,
    all_required=True,
    max_depth=10,
    max_properties=5_000,
    max_enum_values=1_000,
    max_text=120_000,
    max_description=1024,
    max_tools=128,
)
