"""A turn as server-sent events."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any

import attrs
import flexchat
from flexchat import AssistantMessage, MediaPart, PendingQuestion, Question, Reply, StreamEvent, ToolResult, Turn
from flexchat.host import record_of_media, visible
from flexchat.store import ConversationTurn
from flexchat_sdk import ToolCallDelta, ToolCallStart

from ..operations import Event
from ..problems import ApiError
from .conversations import kept_turn
from .media import SHOWN

MAX_IMAGE_BYTES = 2 * 1024 * 1024
"""Of images sent in Base64 together, where no media are kept; further ones are described, so that events stay small."""


def with_media(result: ToolResult, *, is_kept: bool) -> dict[str, Any]:
    """Return the result's envelope; see media_data."""
    envelope = result.to_dict()
    return {**envelope, "media": media_data(result.media, is_kept=is_kept)} if result.media else envelope


def media_data(media: Iterable[MediaPart], *, is_kept: bool) -> list[dict[str, Any]]:
    """Return the records of media for clients.

    Args:
        is_kept: Whether GET /api/media has them. If not, each image that is shown has its ``data``, in Base64.
    """
    records, bytes_left = [], MAX_IMAGE_BYTES
    for part in media:
        record, data = record_of_media(part), part.data or b""
        if not is_kept:
            del record["sha256"]
            if part.mime_type in SHOWN and len(data) <= bytes_left:
                bytes_left -= len(data)
                record["data"] = base64.b64encode(data).decode()
        records.append(record)
    return records


def media_of(happened: StreamEvent) -> Sequence[MediaPart]:
    """Return the media that an event names."""
    match happened:
        case flexchat.ToolFinished(record=record):
            return record.result.media
        case flexchat.TurnFinished() | flexchat.TurnCancelled():
            return _answer_media(happened.turn)
    return ()


def _answer_media(turn: Turn) -> list[MediaPart]:
    answers = [message for message in turn.response.messages if isinstance(message, AssistantMessage)]
    return [part for answer in answers for part in answer.parts if isinstance(part, MediaPart)]


async def events_of(
    turn: AsyncGenerator[StreamEvent, None], last: Callable[[Turn], Awaitable[Event]]
) -> AsyncGenerator[Event, None]:
    """Yield what happens in a turn, by name; ``last`` makes the last event of the finished turn.

    The turn's content is the texts after the last ``answer_end`` that further texts follow.
    """
    async with aclosing(turn):
        async for happened in turn:
            if isinstance(happened, flexchat.TurnFinished):
                yield await last(happened.turn)
            elif (event := _piece(happened)) is not None:
                yield event


def event_of(happened: StreamEvent, mask: Callable[[str], str], *, is_kept: bool = False) -> Event | None:
    """Convert a turn's event for listeners: its start, its questions, the answer, and the end; None for others.

    A cancelled turn has an end as well, with its own status.

    Args:
        is_kept: Whether its media are kept; see media_data.
    """
    match happened:
        case flexchat.TurnStarted(info=info):
            return Event("turn_started", {"id": info.id, "conversation": info.conversation})
        case flexchat.TurnResumed(info=info):
            return Event("turn_resumed", {"id": info.id, "conversation": info.conversation})
        case flexchat.PhaseStarted(phase=phase):
            return Event("phase_started", {"phase": phase})
        case flexchat.ModelRequestStarted():
            return Event("model_request_started", {"llm": happened.llm, "model": happened.model})
        case flexchat.ModelRequestFinished(error=error):
            failure = {} if error is None else {"error": mask(str(error))}
            took = round(happened.elapsed_ms, 3)
            data = {"llm": happened.llm, "model": happened.model, "elapsed_ms": took, **failure}
            return Event("model_request_finished", data)
        case flexchat.ToolProgress():
            far = {"progress": happened.progress, "total": happened.total, "message": happened.message}
            return Event("tool_progress", {"call_id": happened.call_id, "name": happened.tool, **far})
        case flexchat.QuestionAsked(question=question):
            return Event("question", question_data(question))
        case flexchat.QuestionAnswered(question=question, reply=reply):
            why = {"why": reply.why} if reply.why else {}
            return Event("question_answered", {"id": question.id, "action": reply.action, **why})
        case flexchat.TurnFinished() | flexchat.TurnCancelled():
            return Event("turn", turn_data(happened.turn, is_kept=is_kept))
        case flexchat.TurnSuspended() if happened.turn.status == SUSPENDED:  # or accepted: nothing of it has happened
            return Event(SUSPENDED, turn_data(happened.turn, is_kept=is_kept))
    return _piece(happened, is_kept=is_kept)


SUSPENDED = "suspended"
"""Name of the event with which a turn begins to wait for a reply."""


def question_data(question: Question) -> dict[str, Any]:
    """Return a question's data for clients; the arguments of an approval also as a text to be shown."""
    data = {name: value for name, value in attrs.asdict(question).items() if value or name == "message"}
    details = data.get("details", {})
    if "arguments" in details:
        data["arguments_text"] = visible(json.dumps(details["arguments"], ensure_ascii=False, indent=2))
    return data


def pending_data(pending: PendingQuestion) -> dict[str, Any]:
    """Return a kept question's data for clients, with its state and its reply."""
    data = attrs.asdict(pending, filter=attrs.filters.exclude(attrs.fields(Reply).by))
    return {"id": pending.id, **data, "question": question_data(pending.question)}


def turn_data(turn: Turn, *, is_kept: bool = False) -> dict[str, Any]:
    """Return a turn's data for clients, without its messages, which contain data for the model's service only.

    Args:
        is_kept: Whether its media are kept; see media_data.
    """
    without_messages = attrs.evolve(turn, response=attrs.evolve(turn.response, messages=()))
    data = {key: value for key, value in without_messages.to_dict().items() if key not in _INTERNAL}
    if media := _answer_media(turn):
        data["media"] = media_data(media, is_kept=is_kept)
    if turn.response.tool_calls is not None:
        data["tool_calls"] = [record.to_dict() for record in turn.response.tool_calls]
    if turn.pending:
        data["pending"] = [pending_data(each) for each in turn.pending]
    return data


_INTERNAL = ("messages", "profile", "replay", "is_repeat")


def last_event(turn: ConversationTurn, conversation: str) -> Event:
    """Rebuild, from the conversation, the last event of a turn whose process died before emitting it."""
    if turn.status == "failed":
        return Event("error", ApiError(500, turn.error, kind="failed-turn").to_dict())
    data = {key: value for key, value in kept_turn(turn).items() if key not in ("messages", "at")}
    return Event("turn", {**data, "content": turn.answer, "conversation": conversation})


def _piece(happened: StreamEvent, *, is_kept: bool = False) -> Event | None:
    match happened:
        case flexchat.TextDelta():
            return Event("text", {"index": happened.index, "text": happened.text})
        case flexchat.ReasoningDelta():
            return Event("reasoning", {"index": happened.index, "text": happened.text})
        case ToolCallStart():
            return Event("tool_call", {"index": happened.index, "name": happened.name})
        case ToolCallDelta():
            return Event("tool_arguments", {"index": happened.index, "arguments": happened.arguments})
        case flexchat.ToolStarted():
            call = happened.call
            arguments = dict(call.arguments) if call.arguments is not None else call.raw_arguments
            return Event("tool_started", {"call_id": call.id, "name": call.name, "arguments": arguments})
        case flexchat.ToolFinished(record=record):
            data = {**record.to_dict(), "result": with_media(record.result, is_kept=is_kept)}
            return Event("tool_finished", {"call_id": record.call_id, **data})
        case flexchat.AnswerEnd(result=result) if not result.is_paused:
            return Event("answer_end", {})
    return None  # a complete call is reported by tool_started; a paused answer continues
