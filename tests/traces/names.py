"""What FlexChat calls a thing, and what a trace calls it: the one place to change where an event or a hook is renamed.

Golden files hold the words of this module and no others. A new kind of event or hook that traces should not show yet
is named in IGNORED_EVENTS, or left out of Recorder; one they should show gets a few lines here, and the golden files
are written again (see test_traces.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from flexchat import AnswerEnd, Message, Turn
from flexchat.plugin import ChatResult, PhaseRecord, ToolCall, ToolCallRecord, ToolResult, TurnInfo, hookimpl

AnswerEnd = AnswerEnd
"""The event with which a provider's stream ends."""

IGNORED_EVENTS: frozenset[str] = frozenset(
    {"TurnStarted", "PhaseStarted", "PhaseFinished", "ModelRequestStarted", "ModelRequestFinished"}
)
"""Classes of events of a stream that traces leave out."""

EVENTS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "TextDelta": ("text", lambda e: [e.index, e.text]),
    "ReasoningDelta": ("reasoning", lambda e: [e.index, e.text]),
    "ToolCallStart": ("call start", lambda e: [e.index, e.name]),
    "ToolCallDelta": ("call delta", lambda e: [e.index, e.arguments]),
    "ToolCallEnd": ("call end", lambda e: [e.index, of_call(e.call)]),
    "AnswerEnd": ("answer end", lambda e: of_result(e.result)),
    "ToolStarted": ("tool started", lambda e: of_call(e.call)),
    "ToolFinished": ("tool finished", lambda e: of_record(e.record)),
    "TurnFinished": ("turn finished", lambda e: of_turn(e.turn)),
}
"""By class: the word in a trace, and what it shows of the event."""


EFFECTS = frozenset({"model asked", "before tool", "after tool", "turn finished", "turn failed"})
"""Hooks that tell of what a closed stream must not have begun."""


class Recorder:
    """A plugin that writes down every hook it is told of, as [word, turn's id, what a trace shows of it]."""

    def __init__(self) -> None:
        self.told: list[list[Any]] = []

    @hookimpl
    def flexchat_turn_started(self, info: TurnInfo, user_message: str) -> None:
        self.told.append(["turn started", info.id, user_message])

    @hookimpl
    def flexchat_phase_finished(self, info: TurnInfo, record: PhaseRecord, outcome: Any) -> None:
        self.told.append(["phase finished", info.id, [record.phase, of_outcome(outcome)]])

    @hookimpl
    def flexchat_model_request_started(self, info: TurnInfo, llm: str, model: str, messages: Any) -> None:
        self.told.append(["model asked", info.id, [llm, model, len(messages)]])

    @hookimpl
    def flexchat_model_request_finished(self, info: TurnInfo, llm: str, model: str, result: ChatResult | None) -> None:
        if result is not None:
            self.told.append(["model answered", info.id, [llm, model, of_result(result)]])

    @hookimpl
    def flexchat_before_tool_call(self, info: TurnInfo, call_id: str, tool: Any, params: Any) -> None:
        self.told.append(["before tool", info.id, [call_id, tool.name, dict(params)]])

    @hookimpl
    def flexchat_tool_finished(self, info: TurnInfo, record: ToolCallRecord) -> None:
        result = record.result
        self.told.append(["after tool", info.id, [record.call_id, result.tool_name, of_tool_result(result)]])

    @hookimpl
    def flexchat_turn_finished(self, info: TurnInfo, turn: Turn) -> None:
        self.told.append(["turn finished", info.id, turn.content])

    @hookimpl
    def flexchat_turn_failed(self, info: TurnInfo, error: Exception) -> None:
        self.told.append(["turn failed", info.id, type(error).__name__])


def of_turn(turn: Turn) -> dict[str, Any]:
    """Return what a trace shows of a turn that has ended."""
    response = turn.response
    shown = {
        "status": turn.status,
        "error": turn.error,
        "content": response.content,
        "llm": response.llm,
        "model": response.model,
        "rule": [turn.rule, turn.rule_name] if turn.rule_name else turn.rule,
        "topic": turn.profile.topic,
        "intent": turn.profile.intent,
        "finish reason": response.finish_reason,
        "limit reached": response.max_iterations_reached,
        "calls": None if response.tool_calls is None else [of_record(record) for record in response.tool_calls],
        "parsed": response.data,
        "messages": [of_message(message) for message in response.messages],
        "rounds": [
            [one.llm, one.model, one.finish_reason, one.reasoning, one.usage and one.usage.to_dict()]
            for one in response.rounds
        ],
        "usage": response.usage and response.usage.to_dict(),
        "warnings": list(response.warnings),
        "citations": [citation.to_dict() for citation in turn.citations],
        "phases": [of_phase(record.to_dict()) for record in turn.phases],
        "conversation": turn.conversation,
        "not replayed": not turn.replay,
    }
    # No calls and no tools are two things: RG-7, RG-29.
    return {key: value for key, value in shown.items() if value or key == "content" or (key == "calls" and value == [])}


def of_phase(record: dict[str, Any]) -> list[Any]:
    """Return what a trace shows of a phase: its name, and what it says of itself."""
    details = {
        key: value for key, value in record.items() if key not in ("phase", "elapsed_ms", "outcome", "rounds") and value
    }
    outcome = record["outcome"]
    if isinstance(outcome, dict):
        outcome = {key: value for key, value in outcome.items() if value and key != "text"}
    return [record["phase"], outcome, *([details] if details else [])]


def of_kept(kept: Any) -> dict[str, Any]:
    """Return what a trace shows of a turn in a store."""
    shown = {
        "status": kept.status,
        "error": kept.error,
        "topic": kept.topic,
        "messages": [of_message(message) for message in kept.messages],
        "calls": len(kept.tool_calls or ()),
        "not replayed": not kept.replay,
    }
    return {key: value for key, value in shown.items() if value}


def of_outcome(outcome: Any) -> Any:
    """Return what a trace shows of a phase's outcome: a text, a rule's number, or what kind of thing it is."""
    if isinstance(outcome, tuple):
        return outcome[0]
    return outcome if outcome is None or isinstance(outcome, str | int) else type(outcome).__name__


def of_result(result: ChatResult) -> list[Any]:
    """Return what a trace shows of a model's answer."""
    return [result.finish_reason, of_message(result.message)]


def of_call(call: ToolCall) -> list[Any]:
    """Return what a trace shows of a call: its id, its tool and the arguments, or the text that should have been."""
    return [call.id, call.name, dict(call.arguments) if call.arguments is not None else call.raw_arguments]


def of_record(record: ToolCallRecord) -> list[Any]:
    """Return what a trace shows of a call that has been answered."""
    asked = record.raw_arguments if record.raw_arguments is not None else dict(record.params)
    return [record.call_id, record.tool, asked, record.iteration, of_tool_result(record.result)]


def of_tool_result(result: ToolResult) -> Any:
    """Return what a trace shows of a tool's result."""
    shown = {"hint": result.hint, "notes": list(result.notes)}
    outcome = {"result": result.result} if result.success else {"error": result.error}
    return {**outcome, **{key: value for key, value in shown.items() if value}}


def of_message(message: Message) -> str:
    """Return a message in one line, as a person reads it."""
    if message.role == "tool":
        failed = " failed" if message.is_error else ""
        return f"tool {message.tool_call_id} {message.name}{failed}: {_unquoted(message.content)}"
    if message.role != "assistant":
        return f"{message.role}: {message.content}"
    return "assistant: " + " | ".join(_of_part(part) for part in message.parts)


def _of_part(part: Any) -> str:
    if isinstance(part, ToolCall):
        asked = part.raw_arguments if part.arguments is None else json.dumps(dict(part.arguments), ensure_ascii=False)
        return f"{part.id} {part.name}({_unquoted(asked)})" + (f" {part.error}" if part.error else "")
    kind = type(part).__name__.removesuffix("Part").lower()
    return part.text if kind == "text" else f"<{kind}> {part.text}"


def _unquoted(text: str) -> str:
    """Return JSON text as it can be read inside of JSON text."""
    return text.replace('"', "'")
