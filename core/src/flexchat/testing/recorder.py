"""A plugin that remembers every event of every turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from ..plugin import ChatOptions, ChatResult, Message, ToolDefinition, ToolResult, hookimpl


@attrs.frozen
class RecordedEvent:
    """One event: the hook's name without ``flexchat_``, and what it was told."""

    name: str
    facts: Mapping[str, Any]


class RecordedEvents:
    """Register it with a PluginHost; afterwards it knows what happened, in order.

    Attributes:
        events: What happened, oldest first.
    """

    def __init__(self) -> None:
        self.events: list[RecordedEvent] = []

    @property
    def names(self) -> list[str]:
        """The events' names, in order: "turn_started", "phase_finished" …"""
        return [event.name for event in self.events]

    def of(self, name: str) -> list[Mapping[str, Any]]:
        """Return what was told in every event of that name."""
        return [event.facts for event in self.events if event.name == name]

    def _keep(self, name: str, **facts: Any) -> None:
        self.events.append(RecordedEvent(name, facts))

    @hookimpl
    def flexchat_turn_started(self, turn_id: str, user_message: str) -> None:
        """Remember it."""
        self._keep("turn_started", turn_id=turn_id, user_message=user_message)

    @hookimpl
    def flexchat_phase_finished(self, turn_id: str, phase: str, outcome: object, elapsed_ms: float) -> None:
        """Remember it."""
        self._keep("phase_finished", turn_id=turn_id, phase=phase, outcome=outcome, elapsed_ms=elapsed_ms)

    @hookimpl
    def flexchat_before_chat(
        self, turn_id: str, service: str, model: str, messages: tuple[Message, ...], options: ChatOptions
    ) -> None:
        """Remember it."""
        self._keep("before_chat", turn_id=turn_id, service=service, model=model, messages=messages, options=options)

    @hookimpl
    def flexchat_after_chat(
        self, turn_id: str, service: str, model: str, result: ChatResult, elapsed_ms: float
    ) -> None:
        """Remember it."""
        self._keep("after_chat", turn_id=turn_id, service=service, model=model, result=result, elapsed_ms=elapsed_ms)

    @hookimpl
    def flexchat_before_tool_call(
        self, turn_id: str, call_id: str, tool: ToolDefinition, params: Mapping[str, Any]
    ) -> None:
        """Remember it, and let the tool run."""
        self._keep("before_tool_call", turn_id=turn_id, call_id=call_id, tool=tool, params=params)

    @hookimpl
    def flexchat_after_tool_call(
        self, turn_id: str, call_id: str, tool: ToolDefinition, params: Mapping[str, Any], result: ToolResult
    ) -> None:
        """Remember it."""
        self._keep("after_tool_call", turn_id=turn_id, call_id=call_id, tool=tool, params=params, result=result)

    @hookimpl
    def flexchat_turn_finished(self, turn_id: str, response: Any, elapsed_ms: float) -> None:
        """Remember it."""
        self._keep("turn_finished", turn_id=turn_id, response=response, elapsed_ms=elapsed_ms)

    @hookimpl
    def flexchat_turn_failed(self, turn_id: str, error: Exception, elapsed_ms: float) -> None:
        """Remember it."""
        self._keep("turn_failed", turn_id=turn_id, error=error, elapsed_ms=elapsed_ms)
