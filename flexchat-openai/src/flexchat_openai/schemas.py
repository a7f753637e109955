"""Prepares JSON Schemas for a service: unchanged, or in the strict form that it can enforce."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flexchat.plugin import ToolDefinition
from flexchat_sdk import ResponseFormat, require_parameters

from .dialects import LOOSE, STRICT


def sent_schema(schema: Mapping[str, Any], strict: bool | None) -> tuple[Mapping[str, Any], bool]:
    """Return the schema to send and whether the service should enforce it.

    Args:
        strict: True: if a strict form exists at all, even if some meaning is lost. None: only if nothing is lost.
    """
    rewritten, is_strict = _in_a_dialect(schema, strict)
    # What no dialect can express is sent unchanged: the service may accept it, and reports what it cannot use.
    return schema if rewritten is None else rewritten, is_strict


def sent_parameters(tool: ToolDefinition, strict: bool | None) -> tuple[Mapping[str, Any], bool]:
    """Return the parameters of a tool to send, and whether the service should enforce them; see sent_schema.

    Raises:
        ProviderRequestError: No dialect can express them; kind "invalid_schema".
    """
    rewritten, is_strict = _in_a_dialect(tool.parameters, strict)
    return require_parameters(tool, LOOSE) if rewritten is None else rewritten, is_strict


def _in_a_dialect(schema: Mapping[str, Any], strict: bool | None) -> tuple[Mapping[str, Any] | None, bool]:
    if strict is False and schema.get("type") == "object" and _is_plain(schema):
        return schema, False
    from flexchat_sdk import rewrite  # every command loads this module; few need that one

    if strict or (strict is None and _is_closed(schema)):
        rewritten = rewrite(schema, STRICT)
        loses = any(note.severity == "warning" for note in rewritten.notes)
        if rewritten.schema is not None and (strict or not loses):
            return rewritten.schema, True
    return rewrite(schema, LOOSE).schema, False


_VALUE = frozenset(("type", "description", "enum", "default", "minimum", "maximum", "format"))
_ARRAY = frozenset(("type", "description", "items", "minItems", "maxItems"))
_OBJECT = frozenset(("type", "description", "properties", "required", "additionalProperties"))


def _is_plain(schema: Any, levels: int = 4) -> bool:
    """Return whether LOOSE leaves a schema unchanged, as it does most; rewriting takes ten times as long."""
    if type(schema) is not dict or not levels:
        return False
    match schema.get("type"):
        case "string" | "integer" | "number" | "boolean":
            return _VALUE.issuperset(schema)
        case "array":
            return _ARRAY.issuperset(schema) and _is_plain(schema.get("items"), levels - 1)
        case "object":
            properties = schema.get("properties")
            return (
                _OBJECT.issuperset(schema)
                and type(properties) is dict
                and type(schema.get("additionalProperties", False)) is bool
                and all(_is_plain(inner, levels - 1) for inner in properties.values())
            )
    return False


def format_fields(form: ResponseFormat) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the fields of a json_schema format and warnings about what could not be honoured."""
    schema, strict = sent_schema(form.schema or {"type": "object"}, form.strict)
    warnings: tuple[str, ...] = ()
    if form.strict and not strict:
        warnings = ("the response schema has no strict form: the service does not enforce it",)
    return {"name": form.name, "schema": schema, "strict": strict}, warnings


def _is_closed(schema: Any) -> bool:
    """Return whether every object in a schema requires all its properties and allows no others.

    Only such a schema keeps its meaning in strict form: with others the model would have to write null for optional
    properties. What merely looks like an object schema (a property named "properties") may be mistaken for an open
    one, but never the other way round.
    """
    if isinstance(schema, list | tuple):
        return all(map(_is_closed, schema))
    if not isinstance(schema, Mapping):
        return True
    kind = schema.get("type")
    if kind == "object" or "properties" in schema or (isinstance(kind, list | tuple) and "object" in kind):
        properties, required = schema.get("properties"), schema.get("required", ())
        if schema.get("additionalProperties") is not False or not isinstance(properties, Mapping):
            return False
        if not isinstance(required, list | tuple) or set(properties) != {r for r in required if isinstance(r, str)}:
            return False
    return all(map(_is_closed, schema.values()))
