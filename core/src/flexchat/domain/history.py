"""Earlier messages as callers have them, read and repaired: what goes to a provider must be well-formed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .messages import AssistantMessage, Message, SystemMessage, TextPart, ToolCall, ToolMessage, UserMessage

_MESSAGES = (SystemMessage, UserMessage, AssistantMessage, ToolMessage)

MISSING_RESULT = "This call was never answered: the conversation broke off before its result came"


def read_history(entries: Iterable[Message | Mapping[str, Any]]) -> tuple[Message, ...]:
    """Return messages for a history of messages, of {role, content} or of {type, text} (requirements C20, TC-72).

    An entry without a role, or with one that is not "assistant", "bot", "model" or "system", counts as the user's.

    Raises:
        TypeError: An entry is neither a message nor a mapping with a text.
    """
    return tuple([entry if isinstance(entry, _MESSAGES) else _message(entry) for entry in entries])


def _message(entry: Mapping[str, Any]) -> Message:
    if not isinstance(entry, Mapping):
        raise TypeError(f"a history entry is a message or a mapping with role and content, not {type(entry).__name__}")
    text = entry.get("content", entry.get("text"))
    role = entry.get("role", entry.get("type"))
    if not isinstance(text, str):
        raise TypeError(f"a history entry needs its text as 'content' (or 'text'); got {sorted(map(str, entry))}")
    if role in ("assistant", "bot", "model"):
        return AssistantMessage(parts=(TextPart(text=text),))
    return SystemMessage(content=text) if role == "system" else UserMessage(content=text)


def repair_history(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """Give every tool call exactly one answer, right behind it; return the messages and a note per repair.

    Providers refuse a history in which a call has no answer (a turn that was interrupted) or an answer no call
    (a history that was cut in the middle).
    """
    if not any(isinstance(m, ToolMessage) or (isinstance(m, AssistantMessage) and m.tool_calls) for m in messages):
        return messages, ()
    answers: dict[str, ToolMessage] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            answers.setdefault(message.tool_call_id, message)
    repaired: list[Message] = []
    notes: list[str] = []
    placed: set[str] = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            continue
        repaired.append(message)
        for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
            answer = answers.get(call.id)
            if answer is None:
                notes.append(f"history: the call of {call.name} had no result; an error result was put in its place")
                answer = _missing(call)
            repaired.append(answer)
            placed.add(call.id)
    for message in messages:
        if isinstance(message, ToolMessage) and message.tool_call_id not in placed:
            notes.append(f"history: a result of {message.name} belongs to no call; it was left out")
    return (tuple(repaired) if repaired != list(messages) else messages), tuple(notes)


def _missing(call: ToolCall) -> ToolMessage:
    return ToolMessage(tool_call_id=call.id, name=call.name, content=MISSING_RESULT, is_error=True)
