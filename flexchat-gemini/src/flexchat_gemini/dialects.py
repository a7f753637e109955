"""Subsets of JSON Schema that Gemini supports, as data.

JSON_SCHEMA: parametersJsonSchema and responseJsonSchema. The API reference of responseJsonSchema lists the supported
keywords; others are ignored. "Recursive references only inside non-required properties"; $ref must stand alone.

PARAMETERS: parameters and responseSchema, the OpenAPI subset ``Schema``, where unknown keys fail with status 400
("Unknown name \\"const\\" … Cannot find field"). The SDK's type has additionalProperties, but the API rejects it.

Unless a request uses VALIDATED mode, schemas are not enforced, so a constraint in the description is about as good as a
keyword. The service does not enforce an anyOf of single values, so it is sent as one enum.
"""

from flexchat_sdk import NOTED, SchemaDialect

_NUMBERS = {"integer": frozenset(("int32", "int64")), "number": frozenset(("float", "double"))}

JSON_SCHEMA = SchemaDialect(
    name="gemini",
    keywords={
        **NOTED,
        **dict.fromkeys(("$id", "$anchor", "type", "title", "description", "enum", "items", "prefixItems"), "keep"),
        **dict.fromkeys(("minItems", "maxItems", "minimum", "maximum", "anyOf", "properties"), "keep"),
        **dict.fromkeys(("additionalProperties", "required", "propertyOrdering"), "keep"),
        "format": "listed",
        "oneOf": "as anyOf",  # which it is read as
        "const": "as enum",
        "exclusiveMinimum": "as bound",
        "exclusiveMaximum": "as bound",
        "nullable": "as type",
        "allOf": "merge",
        "$ref": "alone",
        "patternProperties": "open",
        "unevaluatedProperties": "open",
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
    formats={"string": frozenset(), **_NUMBERS},
    fold_enums=True,
    empty_properties="add",
    recursion="optional",
    enforces=False,
    max_tools=512,
)

PARAMETERS = SchemaDialect(
    name="gemini.parameters",
    keywords={
        **NOTED,
        **dict.fromkeys(("type", "description", "items", "minItems", "maxItems", "minimum", "maximum"), "keep"),
        **dict.fromkeys(("anyOf", "properties", "required", "propertyOrdering", "nullable", "default"), "keep"),
        **dict.fromkeys(("example", "pattern", "minLength", "maxLength", "minProperties", "maxProperties"), "keep"),
        "enum": "strings",
        "format": "listed",
        "const": "as enum",
        "oneOf": "as anyOf",
        "prefixItems": "as items",
        "exclusiveMinimum": "as bound",
        "exclusiveMaximum": "as bound",
        "allOf": "merge",
        "$ref": "write out",
        "additionalProperties": "open",
        "patternProperties": "open",
        "unevaluatedProperties": "open",
    },
    other_keywords="drop",
    root={"anyOf": "flatten", "oneOf": "flatten", "enum": "note", "const": "note", "nullable": "drop"},
    formats={"string": frozenset(("date-time", "enum")), **_NUMBERS},
    null="nullable",
    upper_case_types=True,
    boolean_schemas=False,
    union_siblings=False,
    fold_enums=True,
    untyped="string",
    bare_array="string",
    empty_properties="drop",
    known_required=True,
    property_name="[A-Za-z_][A-Za-z0-9_]{0,63}",
    enforces=False,
    max_tools=512,
)
