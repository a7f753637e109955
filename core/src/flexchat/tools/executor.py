"""Runs one tool: looks it up, checks the arguments, runs it in time, and never raises."""

from __future__ import annotations

import asyncio
import copy
import logging
import secrets
import time
from collections.abc import Collection, Mapping
from typing import Any, Literal

import attrs

from ..domain import ToolDefinition, ToolResult
from ..domain.masking import Mask
from ..errors import ToolError, nearest, with_hint
from ..plugin.contracts import ImplementationType, Retriever, ToolContext, ToolHandler
from ..plugin.events import EventHooks
from ..plugin.foreign import ForeignError, contained, told
from ..plugin.threads import STILL_RUNNING
from ..schema.check import ArgumentChecker
from ..schema.wording import joined, quoted
from .registry import ToolRegistry
from .results import as_json

log = logging.getLogger(__name__)

_NAMES_SHOWN = 20
_NOT_YET = {"http": "HTTP tools are not yet supported (coming in v2)"}  # TC-47; a plugin that brings the type ends this


@attrs.frozen
class _Prepared:
    """What is needed again each time a tool runs."""

    checker: ArgumentChecker
    implementation: ImplementationType
    settings: Any
    context: ToolContext


class ToolExecutor:
    """Executes tools. The outcome, whatever it is, is a ToolResult.

    Args:
        default_timeout_ms: For tools that say nothing of their own.
        mask: Takes secrets out of error texts.
        error_detail: "message" shows a model the (masked) text of an exception; "incident" a number that stands
            beside the full text in the log.

    Source: tool-execution specification (requirements TE-1 to TE-19, TC-36 to TC-49).
    """

    def __init__(
        self,
        registry: ToolRegistry,
        implementation_types: Mapping[str, ImplementationType],
        *,
        handlers: Mapping[tuple[str, str], ToolHandler] | None = None,
        retrievers: Mapping[str, Retriever] | None = None,
        events: EventHooks | None = None,
        default_timeout_ms: int = 30_000,
        mask: Mask | None = None,
        error_detail: Literal["message", "incident"] = "message",
    ) -> None:
        self._registry = registry
        self._types = dict(implementation_types)
        self._handlers = dict(handlers or {})
        self._retrievers = dict(retrievers or {})
        self._events = events or EventHooks()
        self._default_timeout_ms = default_timeout_ms
        self._mask = mask or Mask()
        self._error_detail = error_detail
        self._prepared: dict[str, tuple[ToolDefinition, _Prepared]] = {}

    async def execute(
        self,
        name: str,
        params: Mapping[str, Any],
        *,
        allowed: Collection[str] | None = None,
        timeout_s: float | None = None,
    ) -> ToolResult:
        """Run a tool with these arguments. Whatever name and params are, the outcome is a result.

        Args:
            allowed: Names that were offered; any other tool does not exist here. None allows all.
            timeout_s: Seconds that are left, where they are fewer than the tool's own timeout.
        """
        started = time.perf_counter()
        if not isinstance(name, str):
            name = quoted(name)
        tool = self._registry.get(name)
        if tool is None or (allowed is not None and name not in allowed):
            if tool is not None:
                log.warning("tool %s: called although it was not offered; refused", name)
            return attrs.evolve(self._not_found(name, allowed), execution_time_ms=_ms(started))
        try:
            prepared = self._prepare(tool)
            checked = prepared.checker.check(params)
        except (ToolError, RecursionError) as error:
            return ToolResult.failed(name, self._mask(told(error)), _ms(started), hint=self._hint_of(error))
        if checked.findings:
            wrong = joined(checked.findings)
            text = f"Invalid parameters: {wrong.text}"
            return ToolResult.failed(name, text, _ms(started), checked.notes, hint=wrong.hint)
        answer = await self._events.before_tool_call(tool, checked.params)
        if answer is None:
            result = await self._run(tool, prepared, checked.params, timeout_s)
        else:
            result = self._taken(tool, answer)
        notes = (*checked.notes, *result.notes)
        result = attrs.evolve(result, tool_name=name, execution_time_ms=_ms(started), notes=notes)
        await self._events.after_tool_call(tool, checked.params, result)
        if log.isEnabledFor(logging.DEBUG):
            log.debug(
                "tool %s(%s): success=%s, %d ms", name, self._mask(repr(dict(params))), result.success, _ms(started)
            )
        return result

    def validate(self, tool: ToolDefinition, params: Mapping[str, Any]) -> list[str]:
        """Return what is wrong with the arguments, in the specification's words; empty if nothing is."""
        return [found.text for found in self._prepare(tool).checker.check(params).findings]

    async def _run(
        self, tool: ToolDefinition, prepared: _Prepared, params: Mapping[str, Any], timeout_s: float | None
    ) -> ToolResult:
        limit_ms = tool.timeout_ms if tool.timeout_ms is not None else self._default_timeout_ms
        if timeout_s is not None:
            limit_ms = min(limit_ms, round(timeout_s * 1000))
        if limit_ms <= 0:
            return ToolResult.failed(tool.name, "Not executed: no time is left for this message")
        try:
            with contained():
                async with asyncio.timeout(limit_ms / 1000) as deadline:
                    value = await prepared.implementation.run(prepared.settings, _own(params), prepared.context)
                plain, encoded = as_json(value)
        except Exception as error:  # noqa: BLE001  a tool may raise anything, and the model is told
            if isinstance(error, TimeoutError) and deadline.expired():
                log.warning("tool %s: not finished after %d ms", tool.name, limit_ms)
                return ToolResult.failed(tool.name, f"Tool execution timed out after {limit_ms}ms", hint=_left(error))
            return self._failed(tool, error)
        return ToolResult(success=True, tool_name=tool.name, result=plain, encoded=encoded)

    def _taken(self, tool: ToolDefinition, answer: ToolResult) -> ToolResult:
        """Hold a plugin's answer in a tool's place to what a tool's must be: JSON data, or an error with a text."""
        try:
            with contained():
                notes = tuple(map(str, answer.notes))
                if answer.success:
                    plain, encoded = as_json(answer.result)
                    return attrs.evolve(answer, result=plain, encoded=encoded, notes=notes)
                error, hint = (_as_text(said) for said in (answer.error, answer.hint))
                return attrs.evolve(answer, error=error or "The call was refused", hint=hint or None, notes=notes)
        except Exception as error:  # noqa: BLE001  the same trouble as a tool's
            return self._failed(tool, error)

    def _failed(self, tool: ToolDefinition, error: BaseException) -> ToolResult:
        text, hint, incident = self._mask(told(error)), self._hint_of(error), secrets.token_hex(4)
        log.warning("tool %s failed (incident %s): %s", tool.name, incident, with_hint(text, hint))
        if self._error_detail == "incident":
            kind = type(error.__cause__ if isinstance(error, ForeignError) else error).__name__
            said = f"The tool failed ({kind}, incident {incident}); its owner can look that up"
            return ToolResult.failed(tool.name, said)
        return ToolResult.failed(tool.name, text, hint=hint)

    def _hint_of(self, error: BaseException) -> str | None:
        return self._mask(error.hint) if isinstance(error, ToolError) and error.hint else None

    def _not_found(self, name: str, allowed: Collection[str] | None) -> ToolResult:
        """The specified text; the hint says which tool may have been meant, and which there are."""
        names, meant = self._registry.names(), name
        if allowed is not None:  # a model asks: it knows the tools it was offered, by the names it was told
            names = tuple(self._registry.sent_name(known) for known in names if known in allowed)
            meant = self._registry.sent_name(name)
        shown = ", ".join(names[:_NAMES_SHOWN]) + (", …" if len(names) > _NAMES_SHOWN else "")
        close = nearest(meant, names)
        hint = f"did you mean '{close}'? " if close is not None else ""
        return ToolResult.failed(name, f"Tool '{meant}' not found", hint=f"{hint}available tools: {shown or 'none'}")

    def _prepare(self, tool: ToolDefinition) -> _Prepared:
        known = self._prepared.get(tool.name)
        if known is not None and known[0] is tool:
            return known[1]
        implementation = self._types.get(tool.implementation.type)
        if implementation is None:
            name, there = tool.implementation.type, ", ".join(self._types) or "none"
            raise ToolError(
                _NOT_YET.get(name, f"Unknown implementation type: {name}"), hint=f"the installed plugins bring: {there}"
            )
        settings = tool.implementation.settings
        if isinstance(settings, Mapping):
            settings = _structured(settings, implementation)
        context = ToolContext(tool=tool, handlers=self._handlers, retrievers=self._retrievers)
        prepared = _Prepared(ArgumentChecker(tool.parameters), implementation, settings, context)
        self._prepared[tool.name] = (tool, prepared)
        return prepared


def _structured(settings: Mapping[str, Any], implementation: ImplementationType) -> Any:
    """Settings of a tool that was made in code or by a plugin; those of a config arrive structured."""
    from ..config.structure import structure_mapping  # imports cattrs: only where it is needed

    value, problems = structure_mapping(settings, implementation.settings_class)
    if problems:
        raise ToolError(f"implementation of type {implementation.name}: {'; '.join(problems)}")
    return value


def _left(error: BaseException) -> str | None:
    """Say what a timeout left behind: a coroutine was cancelled, a thread cannot be, and the model should know."""
    return STILL_RUNNING if STILL_RUNNING in getattr(error.__cause__, "__notes__", ()) else None


def _as_text(said: Any) -> str:
    if isinstance(said, BaseException):
        return told(said)
    return "" if said is None else str(said)


def _own(params: Mapping[str, Any]) -> dict[str, Any]:
    """A tool may do what it likes with its arguments; the record keeps what the model wrote."""
    if any(isinstance(value, (dict, list)) for value in params.values()):
        return copy.deepcopy(dict(params))
    return dict(params)


def _ms(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)
