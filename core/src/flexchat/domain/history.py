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
    answers, strays = _pair(messages)
    repaired: list[Message] = []
    notes: list[str] = []
    for at, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            continue
        repaired.append(message)
        for number, call in enumerate(message.tool_calls if isinstance(message, AssistantMessage) else ()):
            answer = answers.get((at, number))
            if answer is None:
                notes.append(f"history: the call of {call.name} had no result; an error result was put in its place")
                answer = _missing(call)
            repaired.append(answer)
    notes += [f"history: a result of {stray.name} belongs to no call; it was left out" for stray in strays]
    return (tuple(repaired) if repaired != list(messages) else messages), tuple(notes)


def _pair(messages: tuple[Message, ...]) -> tuple[dict[tuple[int, int], ToolMessage], list[ToolMessage]]:
    """Return each call's answer, by its message and its place in there, and the answers of no call.

    An answer belongs to the latest message before it that has an unanswered call of its id (histories of other
    programs use ids again: "call_0" in every answer), else to a call behind it.
    """
    waiting: dict[str, list[tuple[int, int]]] = {}
    answers: dict[tuple[int, int], ToolMessage] = {}
    early: list[ToolMessage] = []
    for at, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            places = waiting.get(message.tool_call_id)
            if places:
                place = min(places, key=lambda place: (-place[0], place[1]))
                places.remove(place)
                answers[place] = message
            else:
                early.append(message)
        elif isinstance(message, AssistantMessage):
            for number, call in enumerate(message.tool_calls):
                waiting.setdefault(call.id, []).append((at, number))
    strays = []
    for message in early:
        places = waiting.get(message.tool_call_id)
        if places:
            answers[places.pop(0)] = message
        else:
            strays.append(message)
    return answers, strays


def _missing(call: ToolCall) -> ToolMessage:
    return ToolMessage(tool_call_id=call.id, name=call.name, content=MISSING_RESULT, is_error=True)
