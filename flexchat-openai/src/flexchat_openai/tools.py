"""Tools and response formats in the terms of both APIs: their schemas, and which tools a model may or must call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flexchat.plugin import ToolDefinition
from flexchat_sdk import ChatOptions, ResponseFormat, check_allowed_tools, require_parameters

from .dialects import LOOSE, STRICT


def encode_tools(tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
    """Return the ``tools`` array of Chat Completions. ``strict`` is sent only for tools that ask for it.

    Raises:
        ProviderRequestError: A schema cannot be expressed; kind "invalid_schema".

    Source: OpenAI tool format of the specification.
    """
    items = []
    for tool in tools:
        schema, strict = sent_parameters(tool, bool(tool.strict))
        function = {"name": tool.name, "description": tool.description, "parameters": schema}
        items.append({"type": "function", "function": {**function, "strict": True} if strict else function})
    return items


def encode_responses_tools(tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
    """Return the ``tools`` array of the Responses API. ``strict`` is always sent: here, omitting it means "try it".

    Raises:
        ProviderRequestError: A schema cannot be expressed; kind "invalid_schema".
    """
    items = []
    for tool in tools:
        schema, strict = sent_parameters(tool, tool.strict)
        function = {"name": tool.name, "description": tool.description, "parameters": schema, "strict": strict}
        items.append({"type": "function", **function})
    return items


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


def response_format(form: ResponseFormat, *, flat: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a response format and warnings about what could not be honoured.

    Args:
        flat: Describe the schema as the Responses API does: without a ``json_schema`` table.
    """
    if form.type == "json_object":
        return {"type": "json_object"}, ()
    schema, strict = sent_schema(form.schema or {"type": "object"}, form.strict)
    warnings: tuple[str, ...] = ()
    if form.strict and not strict:
        warnings = ("the response schema has no strict form: the service does not enforce it",)
    fields = {"name": form.name, "schema": schema, "strict": strict}
    return {"type": "json_schema", **(fields if flat else {"json_schema": fields})}, warnings


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


def tool_name(tool: Mapping[str, Any]) -> Any:
    """Return the name of a tool in either wire format."""
    function = tool.get("function")
    return function.get("name") if isinstance(function, dict) else tool.get("name")


def shown_tools(options: ChatOptions, is_openai: bool) -> tuple[str, ...] | None:
    """Return the names of the tools that are sent; None for all.

    OpenAI gets all of them and a list of those it may call, which preserves its prompt cache. Other servers refuse or
    ignore that list (OpenRouter, xAI) and get only the allowed tools.

    Raises:
        ProviderRequestError: None of the allowed tools is offered.
    """
    allowed = options.allowed_tools
    if not allowed or options.tool_choice == "none":
        return None
    check_allowed_tools(options, map(tool_name, options.tools))
    if is_openai or (options.tool_choice == "required" and len(allowed) == 1):
        return None
    return allowed


def tool_fields(options: ChatOptions, is_openai: bool, parallel: bool | None, *, flat: bool) -> dict[str, Any]:
    """Return the fields about tools, for a request with tools; ``flat`` as for tool_choice.

    Args:
        parallel: Whether one answer may have several calls, if the options leave it open; None: the server decides.
    """
    parallel = parallel if options.parallel_tool_calls is None else options.parallel_tool_calls
    fields = {"tool_choice": tool_choice(options, is_openai, flat=flat)}
    return fields if parallel is None else {**fields, "parallel_tool_calls": parallel}


def tool_choice(options: ChatOptions, is_openai: bool, *, flat: bool) -> str | dict[str, Any]:
    """Return the value of ``tool_choice``.

    Args:
        flat: Name a tool as the Responses API does: without a ``function`` table.
    """
    mode, allowed = options.tool_choice, options.allowed_tools
    if not allowed or mode == "none":
        return mode
    if mode == "required" and len(allowed) == 1:
        return _choose(allowed[0], flat)
    if not is_openai:
        return mode
    choice = {"mode": mode, "tools": [_choose(name, flat) for name in allowed]}
    return {"type": "allowed_tools", **choice} if flat else {"type": "allowed_tools", "allowed_tools": choice}


def _choose(name: str, flat: bool) -> dict[str, Any]:
    return {"type": "function", "name": name} if flat else {"type": "function", "function": {"name": name}}
