"""Tool definitions in Gemini's words, and the ``tools`` of a request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
from flexchat.plugin import ToolDefinition
from flexchat_sdk import SchemaDialect, require_parameters, sent_parameters

from .dialects import JSON_SCHEMA, PARAMETERS

_JSON_SCHEMA_FIELD = "parametersJsonSchema"
# Keywords that a schema without parameters may have.
_NEUTRAL_KEYWORDS = {"type", "properties", "required", "additionalProperties", "title", "description", "$schema"}


def encode_tools(tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
    """Return the tools with JSON Schemas, one ``functionDeclarations`` wrapper each; a request merges them into one.

    A wrapper has ``"strict": true`` if the definition does. The API has no such field: a request converts it to the
    calling mode VALIDATED.

    Source: Gemini tool format of the specification (TC-34, DS-3, C2).
    """
    return [_wrapper(tool, _JSON_SCHEMA_FIELD, JSON_SCHEMA) for tool in tools]


def encode_tools_as_parameters(tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
    """Return the tools with the service's own kind of schema, for services that do not know parametersJsonSchema."""
    return [_wrapper(tool, "parameters", PARAMETERS) for tool in tools]


@attrs.frozen(kw_only=True)
class OfferedTools:
    """The ``tools`` of a request.

    Attributes:
        objects: One object with all declarations, and each native tool (googleSearch, …), unchanged.
        names: Names of the functions, in order.
        strict: A definition requires strict validation.
    """

    objects: tuple[Mapping[str, Any], ...]
    names: tuple[str, ...]
    strict: bool


def offered_tools(
    tools: Sequence[Mapping[str, Any]], only: Sequence[str] = (), as_parameters: bool = False
) -> OfferedTools:
    """Merge tools into one object: several with a declaration each fail silently on 2.5 models, which see only one.

    Takes this package's wrappers, OpenAI's form, and flat ``{name, description, parameters}`` (C2).

    Args:
        only: Names to keep; none keeps all.
        as_parameters: Rewrites ``parametersJsonSchema`` to ``parameters``.
    """
    declarations: list[dict[str, Any]] = []
    natives: list[Mapping[str, Any]] = []
    strict = False
    for tool in tools:
        native, functions, is_strict = _parts_of(tool)
        if native:
            natives.append(native)
        allowed = [f for f in functions if not only or f.get("name") in only]
        strict = strict or (is_strict and bool(allowed))
        declarations += [_as_parameters(f) if as_parameters else dict(f) for f in allowed]
    merged: tuple[Mapping[str, Any], ...] = ({"functionDeclarations": declarations},) if declarations else ()
    names = tuple(str(declaration.get("name")) for declaration in declarations)
    return OfferedTools(objects=(*natives, *merged), names=names, strict=strict)


def _wrapper(tool: ToolDefinition, field: str, dialect: SchemaDialect) -> dict[str, Any]:
    parameters = {field: require_parameters(tool, dialect)} if _has_parameters(tool.parameters) else {}
    declaration = {"name": tool.name, "description": tool.description, **parameters}
    wrapper: dict[str, Any] = {"functionDeclarations": [declaration]}
    return {**wrapper, "strict": True} if tool.strict else wrapper


def _has_parameters(parameters: Mapping[str, Any]) -> bool:
    """Return whether a tool has parameters: for others no field is sent, as some models refuse an empty object."""
    says = set(parameters) - _NEUTRAL_KEYWORDS
    return bool(says or parameters.get("properties") or isinstance(parameters.get("additionalProperties"), dict))


def _schema(name: object, parameters: object, field: str, dialect: SchemaDialect) -> dict[str, Any]:
    """Return the field with the schema of a caller's own tool: unchanged where the dialect cannot express it."""
    if not isinstance(parameters, Mapping) or not _has_parameters(parameters):
        return {}
    rewritten = sent_parameters(str(name), parameters, dialect)
    return {field: parameters if rewritten is None else rewritten}


def _parts_of(tool: Mapping[str, Any]) -> tuple[dict[str, Any], list[Mapping[str, Any]], bool]:
    """Split a tool object into native fields, function declarations, and the strict flag."""
    if "functionDeclarations" in tool:
        native = {k: v for k, v in tool.items() if k not in ("functionDeclarations", "strict") and v is not None}
        return native, [*_declarations(tool["functionDeclarations"])], tool.get("strict") is True
    function = tool.get("function")
    if isinstance(function, Mapping):
        return {}, [_from_json_schema(function)], function.get("strict") is True
    if "name" in tool and "description" in tool:
        return {}, [_from_json_schema(tool)], tool.get("strict") is True
    return dict(tool), [], False


def _declarations(value: object) -> Iterator[Mapping[str, Any]]:
    for item in value if isinstance(value, Sequence) and not isinstance(value, str) else ():
        if isinstance(item, Mapping):
            yield item


def _from_json_schema(function: Mapping[str, Any]) -> dict[str, Any]:
    declaration = {k: v for k, v in function.items() if k in ("name", "description", _JSON_SCHEMA_FIELD)}
    return declaration | _schema(function.get("name"), function.get("parameters"), _JSON_SCHEMA_FIELD, JSON_SCHEMA)


def _as_parameters(declaration: Mapping[str, Any]) -> dict[str, Any]:
    rest = {k: v for k, v in declaration.items() if k != _JSON_SCHEMA_FIELD}
    return rest | _schema(declaration.get("name"), declaration.get(_JSON_SCHEMA_FIELD), "parameters", PARAMETERS)
