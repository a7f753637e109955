"""Tool definitions in Ollama's words, and the subset of JSON Schema that it supports, as data.

The server parses a tool into a fixed structure (api/types.go: ToolFunctionParameters, ToolProperty) and silently drops
everything else: at the root all but type, items, required and properties; in a property all but those and anyOf, enum
and description. A $ref becomes an empty property. The rest is shown to the model and not enforced, so a constraint in
the description is as good as a keyword.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flexchat.plugin import ToolDefinition
from flexchat_sdk import NOTED, SchemaDialect, require_parameters

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


def encode_tools(tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
    """Build the ``tools`` array of a request, with parameters in the subset of JSON Schema that the server supports.

    Raises:
        ProviderRequestError: A schema cannot be expressed; kind "invalid_schema".

    Source: requirement TC-33; ToolFunctionParameters and ToolProperty in api/types.go of the server, which drop what
    they do not know.
    """
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": require_parameters(tool, TOOLS),
            },
        }
        for tool in tools
    ]
