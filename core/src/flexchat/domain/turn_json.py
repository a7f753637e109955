"""Turns of conversations as JSON text and back, with nothing lost: how they are stored and exported."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from .codec import IN_MESSAGE, restore_media, value_from_dict, value_to_dict
from .conversation import ConversationTurn, HistoryTurn
from .messages import ToolMessage
from .tools import ToolResult


def turn_to_dict(turn: ConversationTurn) -> dict[str, Any]:
    """Return a turn as JSON data, with complete messages.

    The media of a tool's result are in its message: its record only refers to them.
    """
    data = value_to_dict(turn)
    sent = {message.tool_call_id: message.media for message in turn.messages if type(message) is ToolMessage}
    for entry, record in zip(data.get("tool_calls", ()), turn.tool_calls or (), strict=True):
        if record.result.media and sent.get(record.call_id) == record.result.media:
            entry["result"]["media"] = IN_MESSAGE
    return data


def turn_from_dict(data: Mapping[str, Any]) -> ConversationTurn:
    """Return the turn that turn_to_dict wrote.

    Raises:
        ValueError: It is not a turn, or from a newer FlexChat.
    """
    return value_from_dict(ConversationTurn, restore_media(data))


def turn_to_json(turn: ConversationTurn) -> str:
    """Return a turn as ASCII-only JSON text, which every database can store as text unchanged.

    NUL and halves of surrogate pairs are escaped; PostgreSQL's JSON column types accept neither.

    Raises:
        ValueError: Something in it is not JSON data, or nested too deeply.
    """
    try:
        return json.dumps(turn_to_dict(turn), separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"turn {turn.id} cannot be written as JSON: {error}") from None


def turn_from_json(text: str) -> ConversationTurn:
    """Return the turn that turn_to_json wrote.

    Raises:
        ValueError: It is not a turn, or from a newer FlexChat.
    """
    return turn_from_dict(_object_from_json(text))


def _json_from(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("a turn is nested too deeply to be read") from None


def _object_from_json(text: str) -> dict[str, Any]:
    data = _json_from(text)
    if not isinstance(data, dict):
        raise ValueError("a turn is a JSON object")
    return data


def turn_to_parts(turn: ConversationTurn) -> tuple[str, str]:
    """Return a turn as two JSON texts like that of turn_to_json: its HistoryTurn, and the rest.

    Raises:
        ValueError: As turn_to_json.
    """
    try:
        data = turn_to_dict(turn)
        history = {name: data.pop(name) for name in _OF_HISTORY if name in data}
        return json.dumps(history, separators=(",", ":")), json.dumps(data, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"turn {turn.id} cannot be written as JSON: {error}") from None


def turn_from_parts(history: str | None, rest: str) -> ConversationTurn:
    """Return the turn that turn_to_parts wrote; without a history, the one that turn_to_json wrote.

    Raises:
        ValueError: It is not a turn, or from a newer FlexChat.
    """
    data = _object_from_json(rest)
    return turn_from_dict(data if history is None else {**data, **_object_from_json(history)})


def history_from_json(texts: Sequence[str]) -> tuple[HistoryTurn, ...]:
    """Return the HistoryTurns in texts that are each the first of turn_to_parts, or that of turn_to_json.

    Raises:
        ValueError: One is something else, or from a newer FlexChat.
    """
    # Read as one array: a call of the JSON reader takes longer than reading a short turn.
    items = _json_from(f"[{','.join(texts)}]")
    return value_from_dict(tuple[HistoryTurn, ...], items)


_OF_HISTORY = tuple(field.name for field in attrs.fields(HistoryTurn))


def result_to_json(result: ToolResult) -> str:
    """Return a tool's result as JSON.

    Infinity and NaN are written as Python writes them: a service's data beside a medium may hold them.

    Raises:
        TypeError: It is not JSON data.
    """
    is_plain = result.success and not (result.notes or result.media or result.left_out)
    if is_plain and result.encoded is not None and result.encoded.isascii():
        return f'{{"success": true, "tool_name": {json.dumps(result.tool_name)}, "result": {result.encoded}}}'
    return json.dumps(value_to_dict(result))


def result_from_json(text: str) -> ToolResult:
    """Return the tool's result that result_to_json wrote.

    Raises:
        ValueError: It is something else.
    """
    return value_from_dict(ToolResult, json.loads(text))
