"""The subset of JSON Schema that Ollama supports, as data.

The server parses a tool into a fixed structure (api/types.go: ToolFunctionParameters, ToolProperty) and silently drops
everything else: at the root all but type, items, required and properties; in a property all but those and anyOf, enum
and description. A $ref becomes an empty property. The rest is shown to the model and not enforced, so a constraint in
the description is as good as a keyword.
"""

from flexchat_sdk import NOTED, SchemaDialect

TOOLS = SchemaDialect(
    name="ollama",
    keywords={
        **NOTED,
        **dict.fromkeys(("type", "properties", "required", "description", "enum", "items", "anyOf"), "keep"),
        "const": "as enum",
        "oneOf": "as anyOf",
        "prefixItems": "as items",
        "nullable": "as type",
        "allOf": "merge",
        "$ref": "write out",
        "additionalProperties": "open",
        "patternProperties": "open",
        "unevaluatedProperties": "open",
    },
    other_keywords="drop",
    root={
        "anyOf": "flatten",
        "oneOf": "flatten",
        "enum": "note",
        "const": "note",
        "nullable": "drop",
        "description": "drop",
    },
    boolean_schemas=False,
    bare_array="any",
    empty_properties="add",
    root_description=False,
    enforces=False,
)
