"""Tool definitions in Anthropic's words, and the ``tools`` of a request."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import attrs
from flexchat.plugin import ToolDefinition
from flexchat_sdk import require_parameters, sent_parameters

from .dialects import LOOSE, STRICT

# What one request may hold of schemas that the service compiles; more is a 400 ("Schema is too complex").
MAX_STRICT, MAX_OPTIONAL, MAX_UNIONS = 20, 24, 16


def encode_tools(tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
    """Return the ``tools`` array of a request: name, description, input_schema. Strict only where a tool asks for that.

    Raises:
        ProviderRequestError: A schema cannot be expressed; kind "invalid_schema".

    Source: Anthropic tool format of the specification (TC-33).
    """
    return [_tool(tool) for tool in tools]


@attrs.frozen(kw_only=True)
class OfferedTools:
    """The ``tools`` of a request.

    Attributes:
        objects: Server tools (web_search, …), unchanged, and functions.
        names: Names of the functions, in order.
        warnings: One sentence per unsupported option.
    """

    objects: tuple[Mapping[str, Any], ...]
    names: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def offered_tools(tools: Sequence[Mapping[str, Any]], only: Collection[str] = (), strict: bool = True) -> OfferedTools:
    """Take this package's form, OpenAI's, and flat ``{name, description, parameters}``; all else is a server's tool.

    Args:
        only: Names of functions to keep; none keeps all.
        strict: Whether the model takes strict tools.
    """
    objects = [_own_form(tool) for tool in tools]
    allowed = [tool for tool in objects if not only or not _is_function(tool) or tool.get("name") in only]
    names = tuple(str(tool.get("name")) for tool in allowed if _is_function(tool))
    strict_tools = [tool for tool in allowed if tool.get("strict") is True]
    if not strict_tools or (strict and not _too_complex(strict_tools)):
        return OfferedTools(objects=tuple(allowed), names=names)
    why = "more than the service compiles in one request" if strict else "which this model does not take"
    loose = [{k: v for k, v in tool.items() if k != "strict"} if tool in strict_tools else tool for tool in allowed]
    text = f"{len(strict_tools)} tools are strict, {why}: strict is left out"
    return OfferedTools(objects=tuple(loose), names=names, warnings=(text,))


def _tool(tool: ToolDefinition) -> dict[str, Any]:
    fields = {"name": tool.name, "description": tool.description}
    schema = sent_parameters(tool.name, tool.parameters, STRICT) if tool.strict else None
    if schema is not None:
        return {**fields, "input_schema": schema, "strict": True}
    return {**fields, "input_schema": require_parameters(tool, LOOSE)}


def _is_function(tool: Mapping[str, Any]) -> bool:
    return "input_schema" in tool


def _own_form(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    function = tool.get("function")
    flat = function if isinstance(function, Mapping) else tool
    if _is_function(tool) or "name" not in flat or not ("parameters" in flat or flat is function):
        return tool
    parameters = flat.get("parameters")
    fields = {k: flat[k] for k in ("name", "description", "strict") if flat.get(k) is not None}
    if not isinstance(parameters, Mapping):
        return {**fields, "input_schema": {"type": "object", "properties": {}}}
    dialect = STRICT if flat.get("strict") is True else LOOSE
    return {**fields, "input_schema": sent_parameters(str(flat["name"]), parameters, dialect) or parameters}


def _too_complex(tools: Sequence[Mapping[str, Any]]) -> bool:
    schemas = [schema for tool in tools for schema in _schemas(tool.get("input_schema"))]
    optional = sum(len(_table(schema, "properties")) - len(schema.get("required") or ()) for schema in schemas)
    unions = sum("anyOf" in schema or isinstance(schema.get("type"), list) for schema in schemas)
    return len(tools) > MAX_STRICT or optional > MAX_OPTIONAL or unions > MAX_UNIONS


def _schemas(schema: object) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and all in it, of what STRICT leaves."""
    if not isinstance(schema, Mapping):
        return
    yield schema
    choices = schema.get("anyOf")
    inner = [*_table(schema, "properties").values(), schema.get("items")]
    for item in inner + (list(choices) if isinstance(choices, list | tuple) else []):
        yield from _schemas(item)


def _table(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = schema.get(key)
    return value if isinstance(value, Mapping) else {}
