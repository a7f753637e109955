"""A plugin that remembers every event of every turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from flexchat.plugin import (
    AppInfo,
    Call,
    ChatResult,
    ModelRequest,
    PhaseRecord,
    Question,
    Reply,
    ToolCall,
    ToolCallRecord,
    ToolDefinition,
    Turn,
    TurnInfo,
    hookimpl,
)
from flexchat_sdk import ChatOptions, Message


@attrs.frozen
class RecordedEvent:
    """One event: the hook's name without ``flexchat_``, and its arguments."""

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
        """The events' names, in order: "turn_started", "phase_started" …"""
        return [event.name for event in self.events]

    def of(self, name: str) -> list[Mapping[str, Any]]:
        """Return the arguments of all events of that name."""
        return [event.facts for event in self.events if event.name == name]

    def _keep(self, name: str, **facts: Any) -> None:
        self.events.append(RecordedEvent(name, facts))

    @hookimpl
    def flexchat_before_tool_call(
        self, info: TurnInfo, call_id: str, tool: ToolDefinition, params: Mapping[str, Any], call: Call
    ) -> None:
        """Remember it, and let the tool run."""
        self._keep("before_tool_call", info=info, call_id=call_id, tool=tool, params=params, call=call)

    @hookimpl
    def flexchat_app_opened(self, app: AppInfo) -> None:
        """Remember it."""
        self._keep("app_opened", app=app)

    @hookimpl
    def flexchat_app_closed(self, app: AppInfo) -> None:
        """Remember it."""
        self._keep("app_closed", app=app)

    @hookimpl
    def flexchat_before_model_request(self, request: ModelRequest) -> None:
        """Remember it, and let it go."""
        self._keep("before_model_request", request=request)

    @hookimpl
    def flexchat_turn_started(self, info: TurnInfo, user_message: str) -> None:
        """Remember it."""
        self._keep("turn_started", info=info, user_message=user_message)

    @hookimpl
    def flexchat_turn_resumed(self, info: TurnInfo, user_message: str) -> None:
        """Remember it."""
        self._keep("turn_resumed", info=info, user_message=user_message)

    @hookimpl
    def flexchat_phase_started(self, info: TurnInfo, phase: str) -> None:
        """Remember it."""
        self._keep("phase_started", info=info, phase=phase)

    @hookimpl
    def flexchat_phase_finished(self, info: TurnInfo, record: PhaseRecord, outcome: object) -> None:
        """Remember it."""
        self._keep("phase_finished", info=info, record=record, outcome=outcome)

    @hookimpl
    def flexchat_model_request_started(
        self, info: TurnInfo, llm: str, model: str, messages: tuple[Message, ...], options: ChatOptions
    ) -> None:
        """Remember it."""
        self._keep("model_request_started", info=info, llm=llm, model=model, messages=messages, options=options)

    @hookimpl
    def flexchat_model_request_finished(
        self,
        info: TurnInfo,
        llm: str,
        model: str,
        elapsed_ms: float,
        result: ChatResult | None,
        error: Exception | None,
    ) -> None:
        """Remember it."""
        self._keep(
            "model_request_finished", info=info, llm=llm, model=model, elapsed_ms=elapsed_ms, result=result, error=error
        )

    @hookimpl
    def flexchat_tool_started(self, info: TurnInfo, call: ToolCall) -> None:
        """Remember it."""
        self._keep("tool_started", info=info, call=call)

    @hookimpl
    def flexchat_tool_progress(
        self, info: TurnInfo, call_id: str, tool: str, progress: float, total: float | None, message: str
    ) -> None:
        """Remember it."""
        self._keep(
            "tool_progress", info=info, call_id=call_id, tool=tool, progress=progress, total=total, message=message
        )

    @hookimpl
    def flexchat_question_asked(self, info: TurnInfo, question: Question) -> None:
        """Remember it."""
        self._keep("question_asked", info=info, question=question)

    @hookimpl
    def flexchat_question_answered(self, info: TurnInfo, question: Question, reply: Reply) -> None:
        """Remember it."""
        self._keep("question_answered", info=info, question=question, reply=reply)

    @hookimpl
    def flexchat_tool_finished(self, info: TurnInfo, record: ToolCallRecord) -> None:
        """Remember it."""
        self._keep("tool_finished", info=info, record=record)

    @hookimpl
    def flexchat_turn_finished(self, info: TurnInfo, turn: Turn) -> None:
        """Remember it."""
        self._keep("turn_finished", info=info, turn=turn)

    @hookimpl
    def flexchat_turn_failed(self, info: TurnInfo, error: Exception, turn: Turn) -> None:
        """Remember it."""
        self._keep("turn_failed", info=info, error=error, turn=turn)

    @hookimpl
    def flexchat_turn_cancelled(self, info: TurnInfo, turn: Turn) -> None:
        """Remember it."""
        self._keep("turn_cancelled", info=info, turn=turn)
