"""A model that calls every tool it is offered once, with values that fit its JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from flexchat.host import UncheckedError, value_problem
from flexchat.plugin import ChatResult
from flexchat_sdk import AssistantMessage, ChatOptions, Message, ModelInfo, ProviderRequestError

from .scripted import ScriptedProvider, calls, says

MAX_CALLS = 32
"""Calls in one answer: the default of limits.tool_calls_per_answer."""


class EveryToolProvider(ScriptedProvider):
    """A model that calls every tool once in each turn, and then answers.

    It shows that all tools of an application can be called, without a script. The answer is a value that fits the
    requested format, or otherwise a sentence that names the tools.
    """

    follows_instructions = False

    def __init__(
        self,
        *,
        arguments: Mapping[str, Mapping[str, Any]] | None = None,
        answer: str | None = None,
        name: str = "scripted",
    ) -> None:
        """Make the model.

        Args:
            arguments: Arguments by tool, in place of those made from its schema.
            answer: The answer, in place of one that is made.
        """
        super().__init__([self._next], name=name, repeat=True)
        self._arguments, self._answer = dict(arguments or {}), answer

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the one model there is."""
        return (ModelInfo(id="every-tool", capabilities=frozenset({"tools"})),)

    def _next(self, messages: Sequence[Message], options: ChatOptions) -> ChatResult:
        """Call the tools that this turn has not called yet; if there are none, answer.

        Raises:
            ProviderRequestError: No value fits the schema of a tool or of the answer.
        """
        done = _called(messages)
        offered = {tool["function"]["name"]: tool["function"]["parameters"] for tool in options.tools}
        waiting = [] if options.tool_choice == "none" else [name for name in offered if name not in done]
        if waiting:
            fixed = self._arguments
            return calls(*[(n, fixed[n] if n in fixed else self._example(n, offered[n])) for n in waiting[:MAX_CALLS]])
        form = options.response_format
        if self._answer is not None:
            return says(self._answer)
        if form is not None:
            return says(json.dumps({} if form.schema is None else self._example("response_format", form.schema)))
        return says(f"Called: {', '.join(done)}." if done else "There was no tool to call.")

    def _example(self, what: str, schema: Mapping[str, Any]) -> Any:
        try:
            return example_value(schema)
        except NoExampleError as error:
            text = f"{what}: {error}. Give it a value: EveryToolProvider(arguments={{'{what}': {{…}}}})"
            if what == "response_format":
                text = f"{what}: {error}. Give it a value: EveryToolProvider(answer='…')"
            raise ProviderRequestError(text, provider=self.name, model=self.requests[-1].model) from None


def _called(messages: Sequence[Message]) -> list[str]:
    """Return the names of the tools called since the user's last message."""
    names: list[str] = []
    for message in reversed(messages):
        if message.role == "user":
            break
        if isinstance(message, AssistantMessage):
            names = [call.name for call in message.tool_calls] + names
    return names


MAX_DEPTH = 12
"""How deep references are followed; further inside, only what is required is filled in."""

_FORMATS = {
    "date": "2026-01-02",
    "date-time": "2026-01-02T03:04:05Z",
    "time": "03:04:05Z",
    "duration": "P1D",
    "email": "ann@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "uuid": "12345678-1234-4234-8234-123456789abc",
}


class NoExampleError(ValueError):
    """No value was found that fits a schema; the text names the schema's part that does not fit."""


def example_value(schema: Mapping[str, Any]) -> Any:
    """Return a value that fits a schema, the same each time: its example, default or first choice where it has one.

    Raises:
        NoExampleError: The value that was made does not fit, for example because of a pattern.
    """
    for depth in (0, MAX_DEPTH):  # from there on, only what is required
        value = _value(schema, schema, depth)
        try:
            problem = value_problem(value, schema)
        except UncheckedError as error:
            raise NoExampleError(str(error)) from None
        if problem is None:
            return value
    raise NoExampleError(f"{json.dumps(value)[:200]} does not fit: {problem}")


def _value(schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    if not isinstance(schema, Mapping):
        return "text"
    schema = _merged(schema, root, depth)
    if "const" in schema:
        return schema["const"]
    for name in ("enum", "examples"):
        if isinstance(schema.get(name), list) and schema[name]:
            return schema[name][0]
    if "default" in schema:
        return schema["default"]
    types = schema.get("type")
    kinds = types if isinstance(types, list) else [types]
    guess = "object" if "properties" in schema else "array" if "items" in schema else "string"
    match next((kind for kind in kinds if kind != "null"), "null" if types else guess):
        case "object":
            return _object(schema, root, depth)
        case "array":
            return _array(schema, root, depth)
        case "integer" | "number" as kind:
            return _number(schema, is_whole=kind == "integer")
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return _text(schema)


def _merged(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """Return a schema with its reference, its first alternative and all its parts in one."""
    merged = {key: value for key, value in schema.items() if key not in ("$ref", "allOf", "anyOf", "oneOf")}
    parts = [*schema.get("allOf", ())]
    if isinstance(reference := schema.get("$ref"), str):
        parts.append(_referred(reference, root))
    for alternatives in (schema.get("anyOf"), schema.get("oneOf")):
        if alternatives:
            last = alternatives[-1]  # a recursive type ends in its last alternative, which is often null
            parts.append(last if depth >= MAX_DEPTH else alternatives[0])
    for part in parts if depth < 3 * MAX_DEPTH else ():
        inner = _merged(part, root, depth + 1) if isinstance(part, Mapping) else {}
        properties = {**merged.get("properties", {}), **inner.get("properties", {})}
        required = [*merged.get("required", ()), *inner.get("required", ())]
        merged = {**inner, **merged}
        if properties:
            merged["properties"] = properties
        if required:
            merged["required"] = list(dict.fromkeys(required))
    return merged


def _referred(reference: str, root: Mapping[str, Any]) -> Any:
    value: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        value = value.get(step, {}) if isinstance(value, Mapping) else {}
    return value


def _object(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> dict[str, Any]:
    properties, required = schema.get("properties", {}), schema.get("required", ())
    names = [name for name in properties if name in required or depth < MAX_DEPTH]
    value = {name: _value(properties[name], root, depth + 1) for name in names}
    for name in required:
        value.setdefault(name, _value(schema.get("additionalProperties"), root, depth + 1))
    missing = schema.get("minProperties", 0) - len(value)
    return value | {
        f"key{number}": _value(schema.get("additionalProperties"), root, depth + 1) for number in range(missing)
    }


def _array(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> list[Any]:
    fixed = [_value(item, root, depth + 1) for item in schema.get("prefixItems", ())]
    least = max(schema.get("minItems", 0), 0 if depth >= MAX_DEPTH or schema.get("maxItems") == 0 else 1)
    items = schema.get("items")
    if items is False or len(fixed) >= least:
        return fixed
    choices = _merged(items, root, depth).get("enum") if isinstance(items, Mapping) else None
    for number in range(least - len(fixed)):
        value = _value(items, root, depth + 1)
        if schema.get("uniqueItems") and value in fixed:
            if choices:
                value = choices[number % len(choices)]
            else:
                value = f"{value}{number}" if isinstance(value, str) else _next_number(value, number)
        fixed.append(value)
    return fixed


def _next_number(value: Any, number: int) -> Any:
    return value + number if isinstance(value, (int, float)) and not isinstance(value, bool) else number


def _number(schema: Mapping[str, Any], *, is_whole: bool) -> int | float:
    step = schema.get("multipleOf", 1)
    low = schema.get("minimum")
    if isinstance(above := schema.get("exclusiveMinimum"), (int, float)) and not isinstance(above, bool):
        low = above + step if is_whole or "multipleOf" in schema else above + 0.5
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    value = low if low is not None else 1 if high is None or high > 1 else high - (1 if "maximum" not in schema else 0)
    if "multipleOf" in schema:
        value = -(-value // step) * step
    return int(-(-value // 1)) if is_whole else value


def _text(schema: Mapping[str, Any]) -> str:
    text: str = _FORMATS.get(str(schema.get("format")), "text")
    text += "x" * int(schema.get("minLength", 0) - len(text))
    limit = None if "format" in schema else schema.get("maxLength")
    return text[:limit]
