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
    if turn.target is None:  # phase 6 has not begun
        messages = (UserMessage(content=turn.request.user_message), *turn.request.continuation)
        return ChatResponse(content="", llm="", model="", messages=messages, warnings=turn.phase_log.warnings)
    messages, records = turn.messages[turn.earlier_count :], turn.records
    # The pieces of an unfinished answer are newer than the last whole one.
    message = message_so_far(turn.pieces) if turn.pieces else turn.unsent_answer
    if turn.call_round is not None and turn.unsent_answer is not None:
        records_at_end = turn.call_round.records_at_end(turn.tools)
        max_chars = turn.parts.tools.table.max_result_chars
        answers = messages_of(turn.call_round.requested, records_at_end, max_chars, can_read_on=turn.can_read_on)
        # Providers refuse a history in which a call has no result, so each call gets one.
        messages, records = (*messages, turn.unsent_answer, *answers), [*(records or ()), *records_at_end]
    elif message is not None and (message := without_calls(message)).parts:
        messages = (*messages, message)
    content = turn.paused_text + ((message.content if message is not None else None) or "")
    return turn.to_response(content, messages, records, warnings=(*turn.phase_log.warnings, *turn.warnings))


def message_so_far(pieces: Iterable[ChatEvent]) -> AssistantMessage:
    """Return the text and the thoughts of an answer that broke off."""
    texts: dict[tuple[type, int], list[str]] = {}
    for piece in pieces:
        if isinstance(piece, AnswerEnd):
            return piece.result.message
        if isinstance(piece, TextDelta | ReasoningDelta):
            texts.setdefault((type(piece), piece.index), []).append(piece.text)
    parts: list[TextPart | ReasoningPart] = []
    for (kind, _), texts_of_part in texts.items():
        if (text := "".join(texts_of_part)).strip():
            parts.append(TextPart(text=text) if kind is TextDelta else ReasoningPart(text=text))
    return AssistantMessage(parts=tuple(parts))


def without_calls(message: AssistantMessage) -> AssistantMessage:
    """Return a message without its calls: one that never ran must not stay unanswered in the history."""
    calls = message.tool_calls
    return attrs.evolve(message, parts=tuple(part for part in message.parts if part not in calls)) if calls else message
