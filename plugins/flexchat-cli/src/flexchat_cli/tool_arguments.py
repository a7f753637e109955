"""Tools and their arguments on a command line: calculator(expression: string), and key=value or one object."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from flexchat.domain import ToolDefinition
from flexchat.errors import did_you_mean

from .context import UsageError

_TYPES: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}

_MAX_CHOICES = 6


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
        texts = [json.dumps(choice, ensure_ascii=False) for choice in choices[:_MAX_CHOICES]]
        return " | ".join([*texts, "…"] if len(choices) > _MAX_CHOICES else texts)
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


def read_arguments(words: Sequence[str], tool: ToolDefinition) -> dict[str, Any]:
    """Parse the arguments of a tool from the words of a command line.

    A value is a string if the schema accepts nothing else, and JSON if it accepts other types and the value parses. A
    value that does not fit is passed unchanged, because the tool's own validation explains the problem best.

    Raises:
        UsageError: A word is neither key=value nor one JSON object, or a key is unknown or repeated.
    """
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        return read_object(words[0])
    arguments: dict[str, Any] = {}
    for word in words:
        key, separator, text = word.partition("=")
        if not separator or not key:
            raise UsageError(f"'{word}' is not key=value; the tool is {signature(tool)}")
        if key in arguments:
            raise UsageError(f"'{key}' is given twice; a list is one JSON value: {key}='[\"a\", \"b\"]'")
        arguments[key] = read_value(key, text, tool)
    return arguments


def read_object(text: str) -> dict[str, Any]:
    """Return the object in a JSON text. Raises UsageError if it is none, or has a key twice."""
    try:
        value = json.loads(text, object_pairs_hook=_each_once)
    except ValueError as error:
        raise UsageError(f"the arguments are not a JSON object: {error}") from None
    if not isinstance(value, dict):
        raise UsageError("the arguments are not a JSON object")
    return value


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for name, value in pairs:
        if name in read:
            raise UsageError(f"'{name}' is given twice")
        read[name] = value
    return read


def read_value(key: str, text: str, tool: ToolDefinition) -> Any:
    """Return the value of one argument; see read_arguments.

    Raises:
        UsageError: The tool has no such parameter, or the value should be JSON and is not.
    """
    properties: Mapping[str, Any] = tool.parameters.get("properties") or {}
    if key not in properties and properties and not tool.parameters.get("additionalProperties"):
        hint = did_you_mean(key, properties)
        raise UsageError(f"{tool.name} has no parameter '{key}'{hint}; the tool is {signature(tool)}")
    schema = _resolved(properties.get(key), tool.parameters)
    kinds = _kinds(schema, tool.parameters)
    if kinds == {"string"}:
        return text
    try:
        value = json.loads(text)
    except ValueError:
        if kinds and kinds <= {"array", "object"}:
            raise UsageError(
                f"{key} is {type_of(schema)}: give it as JSON, as in {key}='{_EXAMPLES[min(kinds)]}'"
            ) from None
        return text
    if not kinds:  # the schema gives no type: one of its text choices, or the value as JSON
        return text if text in (schema.get("enum") or ()) else value
    fits = any(type(value) in _TYPES[kind] for kind in kinds if kind != "string")
    return value if fits or "string" not in kinds else text


_EXAMPLES = {"array": '["a", "b"]', "object": '{"a": 1}'}


def _kinds(schema: Mapping[str, Any], root: Mapping[str, Any]) -> set[str]:
    """Return the types that a schema names; empty if it names none."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return {kind} & {*_TYPES, "string"}
    if isinstance(kind, (list, tuple)):
        return {*kind} & {*_TYPES, "string"}
    several = [_kinds(_resolved(s, root), root) for word in ("anyOf", "oneOf") for s in schema.get(word) or ()]
    return set().union(*several) if all(several) else set()


def _resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema, or what it refers to in the same document."""
    if not isinstance(schema, Mapping):
        return {}
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return schema
    target: Any = root
    for key in reference[2:].split("/"):
        target = target.get(key.replace("~1", "/").replace("~0", "~")) if isinstance(target, Mapping) else None
    return target if isinstance(target, Mapping) else {}
