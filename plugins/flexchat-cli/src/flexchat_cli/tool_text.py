"""Tools in a line or two: calculator(expression: string)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from flexchat.domain import ToolDefinition

_MOST_CHOICES = 6


def signature(tool: ToolDefinition) -> str:
    """Return a tool with its parameters, like a declaration; optional ones have a question mark."""
    required = tool.parameters.get("required") or ()
    properties: Mapping[str, Any] = tool.parameters.get("properties") or {}
    parts = [f"{name}{'' if name in required else '?'}: {type_of(schema)}" for name, schema in properties.items()]
    return f"{tool.name}({', '.join(parts)})"


def type_of(schema: Any) -> str:
    """Return the name of a parameter's type: integer, string[], "a" | "b"."""
    if not isinstance(schema, Mapping):
        return "any"
    choices = schema.get("enum")
    if isinstance(choices, (list, tuple)):
        texts = [json.dumps(choice, ensure_ascii=False) for choice in choices[:_MOST_CHOICES]]
        return " | ".join([*texts, "…"] if len(choices) > _MOST_CHOICES else texts)
    kind = schema.get("type")
    if isinstance(kind, (list, tuple)):
        return " | ".join(map(str, kind))
    if kind == "array":
        item = type_of(schema.get("items"))
        return f"({item})[]" if "|" in item else f"{item}[]"
    several = schema.get("anyOf") or schema.get("oneOf")
    if kind is None and isinstance(several, (list, tuple)):
        return " | ".join(dict.fromkeys(map(type_of, several)))
    return str(kind or "any")


def summary(tool: ToolDefinition) -> str:
    """Return the first sentence of a tool's description."""
    return re.split(r"(?<=[.!?])\s", " ".join(tool.description.split()), maxsplit=1)[0]
