"""Tools: definitions, results of calls, and their records."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

import attrs

from ..errors import ToolDefinitionError, nearest, with_hint
from .keys import key
from .media import about, record_of_media
from .messages import MediaPart

# Names that not all providers accept are sent under another name: see tools/registry.py.
_LEGAL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}")
_NOT_OPTIONAL = ("name", "description", "parameters", "implementation", "type", "source")
EFFECTS = ("read", "idempotent", "write")
MAX_TIMEOUT_MS = 10**9

CALLER = "caller"
"""Implementation type of a tool that the caller of a turn runs."""


def is_timeout(value: Any) -> bool:
    """Whether a value may be a timeout_ms: a whole number from 1 to MAX_TIMEOUT_MS."""
    return type(value) is int and 1 <= value <= MAX_TIMEOUT_MS


@attrs.frozen(kw_only=True)
class Implementation:
    """The type that runs a tool, and its settings.

    Attributes:
        type: Name of an ImplementationType: "mock", "builtin", "internal", "python", or a plugin's.
        settings: The rest of the config's implementation table, or an instance of that type's settings_class.
        handler_settings: An instance of the handler's settings_class, if it has one and settings is not the table.
    """

    type: str
    settings: Any = attrs.field(factory=dict)
    handler_settings: Any = None


@attrs.frozen(kw_only=True)
class ToolRetry:
    """The number of attempts at a tool that fails for the moment, and the waits in between.

    Source: tool-calling specification, HTTP tools (TC-54), for all tools (TC-102).
    """

    max_attempts: int = key("Attempts, the first included.", min=1, max=10, default=1)
    backoff_ms: int = key(
        "Milliseconds before the second attempt, at most; twice that before the third, and so on, up to 30 s.",
        min=0,
        max=60_000,
        default=1000,
    )

    def __attrs_post_init__(self) -> None:
        for field in attrs.fields(ToolRetry):
            value, least, most = getattr(self, field.name), field.metadata["min"], field.metadata["max"]
            if type(value) is not int or not least <= value <= most:
                text = f"retry: {field.name} must be a whole number from {least} to {most}, got {value!r}"
                raise ToolDefinitionError(text)

    def wait_s(self, attempts: int, requested_s: float | None = None) -> float | None:
        """Return the seconds to wait after that many attempts; None if there is to be no further one.

        The wait doubles each time, up to 30 s, less a random part of up to half, so that many callers do not come back
        together.

        Args:
            requested_s: The wait that the service requests, a lower limit; beyond 60 s, the call is not retried.
        """
        if attempts >= self.max_attempts or (requested_s is not None and requested_s > _MAX_REQUESTED_S):
            return None
        wait = min(self.backoff_ms / 1000 * 2.0 ** (attempts - 1), _MAX_WAIT_S) * random.uniform(0.5, 1)
        return max(wait, requested_s or 0.0)


_MAX_WAIT_S = 30.0
_MAX_REQUESTED_S = 60.0


@attrs.frozen(kw_only=True)
class ToolPrice:
    """What a call of a tool costs."""

    usd: float = key("US dollars for each call, whether it succeeds or fails.")

    def __attrs_post_init__(self) -> None:
        if isinstance(self.usd, bool) or not isinstance(self.usd, int | float) or not 0 <= self.usd <= 1e6:
            raise ToolDefinitionError(f"price.usd must be a number of US dollars from 0, got {self.usd!r}")


@attrs.frozen(kw_only=True)
class ToolDefinition:
    """A tool as the config defines it and the model sees it.

    Raises:
        ToolDefinitionError: Name or description missing, an illegal name, or parameters that are not an
            object schema (requirements TC-27, TC-29); a timeout_ms that is not a whole number from 1 to 10**9; an
            effect that is none; honours_key or verify for a tool that changes nothing.

    Attributes:
        name: 1 to 128 of A-Z a-z 0-9 _ . : / -, first a letter, digit or _. A model may see another name:
            providers accept 64 of A-Z a-z 0-9 _ -.
        parameters: JSON Schema (2020-12 or draft-07) whose root type is "object". Arguments are always
            checked against this, even if a provider is sent a weaker form.
        handler: The specification's handler identifier; used if implementation.handler is not set.
        timeout_ms: Milliseconds this tool may take, each attempt of several. Default: the timeout in the
            implementation's settings, where the specification puts it, or tools.default_timeout_ms.
        retry: How often it is tried when it fails for the moment: a broken connection, a timeout, a ToolError that is
            ``retryable``. Default: ``retry`` in the implementation's settings, or once. A tool whose effect is "write"
            is tried again only if it honours_key.
        exclusive: Never runs at the same time as another call of the same answer.
        repeatable: Whether it is meant for repeated identical calls (polling).
        effect: The changes it makes: "read" none, "idempotent" the same however often it runs, "write"
            something that must not happen twice.
        honours_key: Whether it passes ``ToolContext.key`` to a service that acts once per key: then it may be called
            again with the same key if it is unknown whether it took effect.
        verify: Name of a tool that checks whether this one took effect, if unknown; its own effect is "read". It gets
            the arguments it has parameters for, and ``key`` if it has that parameter; it returns an object with "done":
            true, false, or null if it is not sure, and optionally "result".
        approve: Whether a person must approve each call before it runs; without a person, it does not run.
        price: What one call costs: its service is paid for.
        asks_first: Whether it changes nothing before its last question: then a call of it may wait for a reply without
            a process, and runs again from its beginning once it has one.
        strict: Whether the service must enforce the parameters, if it can. None for the service's default.
        source: Name of the tool source it comes from; None if it comes from none.
        pinned: Whether requests always have it, also where other tools are deferred.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    implementation: Implementation
    type: Literal["function"] = "function"
    handler: str | None = None
    timeout_ms: int | None = None
    exclusive: bool = False
    repeatable: bool = False
    effect: Literal["read", "idempotent", "write"] = "write"
    honours_key: bool = False
    verify: str | None = None
    strict: bool | None = None
    source: str | None = None
    retry: ToolRetry | None = None
    approve: bool = False
    asks_first: bool = False
    price: ToolPrice | None = None
    pinned: bool = False

    def __attrs_post_init__(self) -> None:
        if not self.name or not self.description:
            raise ToolDefinitionError("Tool must have name and description")
        if not _LEGAL_NAME.fullmatch(self.name):
            raise ToolDefinitionError(
                f"Tool name {self.name!r} must be 1 to 128 of A-Z a-z 0-9 _ . : / -, first a letter, digit or _"
            )
        if not isinstance(self.parameters, Mapping) or self.parameters.get("type") != "object":
            raise ToolDefinitionError("Tool parameters must be an object schema")
        self._take_from_settings("timeout_ms", "retry")
        if isinstance(self.price, Mapping):
            if self.price.keys() != {"usd"}:
                raise ToolDefinitionError(f"Tool {self.name}: price has one key, usd: {{ usd = 0.02 }}")
            object.__setattr__(self, "price", ToolPrice(**self.price))
        if isinstance(self.retry, Mapping):
            object.__setattr__(self, "retry", _retry(self.name, self.retry))
        if self.timeout_ms is not None and not is_timeout(self.timeout_ms):
            raise ToolDefinitionError(f"Tool {self.name}: timeout_ms must be a whole number from 1 to {MAX_TIMEOUT_MS}")
        if self.effect not in EFFECTS:
            raise ToolDefinitionError(f"Tool {self.name}: effect must be one of: {', '.join(EFFECTS)}")
        if self.effect != "write" and (self.honours_key or self.verify is not None):
            field = "honours_key" if self.honours_key else "verify"
            raise ToolDefinitionError(f'Tool {self.name}: {field} is for tools with effect = "write"')

    @property
    def may_repeat(self) -> bool:
        """Whether running it twice does no more than running it once."""
        return self.effect != "write" or self.honours_key

    @property
    def is_callers(self) -> bool:
        """Whether the caller of the turn runs it; see ChatRequest.caller_tools."""
        return self.implementation.type == CALLER

    def _take_from_settings(self, *names: str) -> None:
        """Move to the tool the values that the specification puts into the implementation's settings."""
        settings = self.implementation.settings
        if not isinstance(settings, Mapping) or not settings.keys() & {*names}:
            return
        rest = {name: value for name, value in settings.items() if name not in names}
        object.__setattr__(self, "implementation", attrs.evolve(self.implementation, settings=rest))
        for name in names:
            if getattr(self, name) is None:
                object.__setattr__(self, name, settings.get(name))

    @classmethod
    def from_dict(
        cls, table: Mapping[str, Any], implementation: Implementation | Callable[[Mapping[str, Any]], Any] | None = None
    ) -> ToolDefinition:
        """Read a tool in another format: OpenAI's (under "function", or flat), Anthropic's, MCP's, or this config's.

        The schema's key (parameters, input_schema, inputSchema) and an envelope make no difference, but one of them
        must be there: a tool without arguments has {"type": "object", "properties": {}} (TC-29). MCP's annotations
        readOnlyHint and idempotentHint give the effect. Keys FlexChat's tools do not have are ignored.

        Args:
            implementation: How it is run, or a function of the arguments as one mapping: a plain def runs in a thread,
                an async def on the event loop. None if the table names it, as in a config.

        Raises:
            ToolDefinitionError: As for ToolDefinition; or no implementation is given.

        Source: platform.openai.com/docs/guides/function-calling, docs.anthropic.com (tool use), MCP 2025-06-18.
        """
        if not isinstance(table, Mapping):
            raise ToolDefinitionError(f"A tool must be an object, not {type(table).__name__}")
        inner = table.get("function")
        tool = inner if isinstance(inner, Mapping) else table
        for required in ("name", "description"):
            if not tool.get(required):
                whose = f"'{tool['name']}'" if isinstance(tool.get("name"), str) else "the one given"
                close = nearest(required, [key for key in tool if key != required])
                seen = f": '{close}' is not a key of a tool" if close is not None else ""
                hint = f"{whose} has no {required}{seen}"
                raise ToolDefinitionError(with_hint("Tool must have name and description", hint))
        schemas = (tool.get(key) for key in ("parameters", "input_schema", "inputSchema"))
        parameters = next((schema for schema in schemas if schema is not None), None)
        optional = [field.name for field in attrs.fields(cls) if field.name not in _NOT_OPTIONAL]
        options = {key: _read(tool, key) for key in optional if tool.get(key) is not None}
        if "effect" not in options and isinstance(hints := tool.get("annotations"), Mapping):
            idempotent = "idempotent" if hints.get("idempotentHint") else "write"
            options["effect"] = "read" if hints.get("readOnlyHint") else idempotent
        name, how = _read(tool, "name") or "", _implementation(tool, implementation)
        if parameters is None:
            hint = f'\'{name}\' has none; one without arguments has {{"type": "object", "properties": {{}}}}'
            raise ToolDefinitionError(with_hint("Tool parameters must be an object schema", hint))
        description = _read(tool, "description") or ""
        return cls(name=name, description=description, parameters=parameters, implementation=how, **options)


def _read(tool: Mapping[str, Any], key: str) -> Any:
    value = tool.get(key)
    if key == "effect":
        fits, expected = value in EFFECTS, f"one of {', '.join(EFFECTS)}"
    elif key in ("retry", "price"):
        fits, expected = isinstance(value, (Mapping, ToolRetry, ToolPrice)), "an object"
    elif key in ("exclusive", "repeatable", "honours_key", "strict", "approve", "asks_first"):
        fits, expected = isinstance(value, bool), "true or false"
    else:
        fits, expected = isinstance(value, str) or key == "timeout_ms", "text"
    if value is not None and not fits:
        raise ToolDefinitionError(f"Tool {tool.get('name') or '?'}: {key} must be {expected}, got {value!r:.60}")
    return value


def _retry(tool: str, table: Mapping[str, Any]) -> ToolRetry:
    names = [field.name for field in attrs.fields(ToolRetry)]
    for name in table:
        if name not in names:
            raise ToolDefinitionError(f"Tool {tool}: retry has no key '{name}' (keys: {', '.join(names)})")
    try:
        return ToolRetry(**table)
    except ToolDefinitionError as error:
        raise ToolDefinitionError(f"Tool {tool}: {error}") from None


def _implementation(tool: Mapping[str, Any], given: Implementation | Callable[..., Any] | None) -> Implementation:
    if isinstance(given, Implementation):
        return given
    if given is not None:
        return Implementation(type="python", settings=given)
    table = tool.get("implementation")
    if not isinstance(table, Mapping) or not isinstance(table.get("type"), str):
        name = tool.get("name") or "?"
        raise ToolDefinitionError(f"Tool {name}: nothing says how it runs; give from_dict a function for it")
    return Implementation(type=table["type"], settings={k: v for k, v in table.items() if k != "type"})


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


@attrs.frozen(kw_only=True)
class ToolResult:
    """The outcome of one tool call.

    Attributes:
        success: Whether the tool succeeded; decides whether result or error counts.
        execution_time_ms: From look-up to answer, validation included, in whole milliseconds.
        result: JSON data.
        error: The fault: exactly the specification's text, if it fixes one.
        hint: Further help: the nearest name, the value received, the values available; beside a result, what it does
            not show by itself. None for none.
        notes: Adjustments made along the way ('days: "2" read as 2'); for the record, not for the model.
        encoded: The result as JSON text, if already encoded.
        media: Images, sounds and files that came with the result; all of them have data.
        left_out: A sentence for each that came and is not in ``media``, with the reason.
        is_unknown: Whether it is unknown if the tool took effect. Not stored: a record has it in its facts.

    Source: tool-execution specification, "Error Result Format" (requirements TE-16 to TE-19).
    """

    success: bool
    tool_name: str
    execution_time_ms: int = 0
    result: Any = None
    error: str | None = None
    hint: str | None = None
    notes: tuple[str, ...] = ()
    encoded: str | None = attrs.field(default=None, eq=False, repr=False)
    media: tuple[MediaPart, ...] = ()
    left_out: tuple[str, ...] = ()
    is_unknown: bool = attrs.field(default=False, eq=False, repr=False)

    @classmethod
    def failed(
        cls,
        tool_name: str,
        error: str,
        execution_time_ms: int = 0,
        notes: tuple[str, ...] = (),
        *,
        hint: str | None = None,
    ) -> ToolResult:
        """Return a failure in the specified shape."""
        rest: dict[str, Any] = {"execution_time_ms": execution_time_ms, "hint": hint or None, "notes": notes}
        return cls(success=False, tool_name=tool_name, error=error, **rest)

    def explained(self) -> str:
        """Return the error followed by its hint, for showing both as one text; empty if the tool succeeded."""
        return "" if self.success else with_hint(self.error or "it failed without saying why", self.hint)

    def to_dict(self) -> dict[str, Any]:
        """Return the specified envelope: success, result or error, tool_name, execution_time_ms, and any hint.

        Media are described without their bytes.
        """
        media = {"media": [record_of_media(part) for part in self.media]} if self.media else {}
        return {**self._envelope(), **media}

    def _envelope(self) -> dict[str, Any]:
        outcome = {"result": self.result} if self.success else {"error": self.error}
        outcome |= {"hint": self.hint} if self.hint else {}
        name_and_time = {"tool_name": self.tool_name, "execution_time_ms": self.execution_time_ms}
        return {"success": self.success, **outcome, **name_and_time, **self._beside()}

    def to_json(self) -> str:
        """Return the envelope as JSON text, for the model."""
        if not self.success or self.encoded is None:
            return _encode(self._envelope())
        name = _encode(self.tool_name)
        hint = f', "hint": {_encode(self.hint)}' if self.hint else ""
        beside = f", {_encode(self._beside())[1:-1]}" if self.media or self.left_out else ""
        return (
            f'{{"success": true, "result": {self.encoded}{hint}, "tool_name": {name}, '
            f'"execution_time_ms": {self.execution_time_ms}{beside}}}'
        )

    def _beside(self) -> dict[str, Any]:
        extras: dict[str, Any] = {"media": [about(part) for part in self.media]} if self.media else {}
        return {**extras, "left_out": [*self.left_out]} if self.left_out else extras


def call_error_kind(error: str) -> str:
    """Return the kind of a failed call, one of few, from ToolResult.error.

    "not_found", "invalid_arguments", "timeout", "refused" (before it ran) or "tool_error".
    """
    for kind, beginnings in _ERRORS.items():
        if error.startswith(beginnings):
            return kind
    return "not_found" if error.endswith("not found") else "tool_error"


_ERRORS = {
    "invalid_arguments": ("Invalid parameters", "Invalid tool arguments"),
    "timeout": ("Tool execution timed out",),
    "refused": ("Not executed", "plugin "),
}


@attrs.frozen(kw_only=True)
class ToolCallRecord:
    """One tool call as the response reports it.

    Attributes:
        params: The arguments as the model wrote them; empty if they could not be read.
        raw_arguments: The text it wrote, if that could not be read; else None.
        result: Complete, even if the model was shown a shortened one.
        iteration: Number of the model's answer with the call, from 1.
        call_id: The ToolCall's id.
        facts: Values added by steps, by their key: JSON data. Core adds "effect", with the key and the state of its row
            in the ledger.
    """

    tool: str
    params: Mapping[str, Any]
    result: ToolResult
    iteration: int
    call_id: str = ""
    raw_arguments: str | None = None
    facts: Mapping[str, Any] = attrs.field(factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the specified entry: tool, params, result, iteration, and any raw_arguments, facts and notes."""
        entry: dict[str, Any] = {
            "tool": self.tool,
            "params": dict(self.params),
            "result": self.result.to_dict(),
            "iteration": self.iteration,
        }
        if self.raw_arguments is not None:
            entry["raw_arguments"] = self.raw_arguments
        if self.facts:
            entry["facts"] = dict(self.facts)
        return {**entry, "notes": list(self.result.notes)} if self.result.notes else entry
