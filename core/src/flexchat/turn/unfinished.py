"""What exists of a response that was stopped or failed."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from ..domain import (
    AnswerEnd,
    AssistantMessage,
    ChatEvent,
    ChatResponse,
    ReasoningDelta,
    ReasoningPart,
    TextDelta,
    TextPart,
    UserMessage,
)
from .active import ActiveTurn
from .rounds import messages_of


def unfinished_response(turn: ActiveTurn) -> ChatResponse:
    """Return the text so far and the calls that ran, with messages a later turn can continue from.

    If an answer's tools were running, each of its calls has a result: its own, or one with the reason for its absence.
    Calls of an answer that was still being written never ran, and are left out.
    """
    if turn.who is None:  # phase 6 has not begun
        asked = (UserMessage(content=turn.request.user_message), *turn.request.continuation)
        return ChatResponse(content="", llm="", model="", messages=asked, warnings=turn.log.warnings)
    messages, records = turn.messages[turn.kept :], turn.records
    # The pieces of an unfinished answer are newer than the last whole one.
    said = message_so_far(turn.pieces) if turn.pieces else turn.said
    if turn.calling is not None and turn.said is not None:
        broken_off = turn.calling.broken_off(turn.tools)
        max_chars = turn.parts.tools.table.max_result_chars
        answers = messages_of(turn.calling.asked, broken_off, max_chars, reads_on=turn.reads_on)
        # Providers refuse a history in which a call has no result, so each call gets one.
        messages, records = (*messages, turn.said, *answers), [*(records or ()), *broken_off]
    elif said is not None and (said := without_calls(said)).parts:
        messages = (*messages, said)
    return ChatResponse(
        content=turn.paused + ((said.content if said is not None else None) or ""),
        llm=turn.who.llm,
        model=turn.who.model or "",
        tool_calls=None if records is None else tuple(records),
        messages=messages,
        usage=turn.usage,
        rounds=tuple(turn.rounds),
        warnings=(*turn.log.warnings, *turn.warnings),
    )


def message_so_far(pieces: Iterable[ChatEvent]) -> AssistantMessage:
    """Return the text and the thoughts of an answer that broke off."""
    texts: dict[tuple[type, int], list[str]] = {}
    for piece in pieces:
        if isinstance(piece, AnswerEnd):
            return piece.result.message
        if isinstance(piece, TextDelta | ReasoningDelta):
            texts.setdefault((type(piece), piece.index), []).append(piece.text)
    parts: list[TextPart | ReasoningPart] = []
    for (kind, _), found in texts.items():
        if (text := "".join(found)).strip():
            parts.append(TextPart(text=text) if kind is TextDelta else ReasoningPart(text=text))
    return AssistantMessage(parts=tuple(parts))


def without_calls(said: AssistantMessage) -> AssistantMessage:
    """Return a message without its calls: one that never ran must not stay unanswered in the history."""
    calls = said.tool_calls
    return attrs.evolve(said, parts=tuple(part for part in said.parts if part not in calls)) if calls else said
