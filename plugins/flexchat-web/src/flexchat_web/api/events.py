"""A turn as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from flexchat import ReasoningDelta, StreamEnd, StreamEvent, TextDelta, ToolFinished, ToolStarted, Turn, TurnFinished
from flexchat.domain import ToolCallDelta, ToolCallStart

from ..operations import Event


async def events_of(
    turn: AsyncGenerator[StreamEvent, None], last: Callable[[Turn], Awaitable[Event]]
) -> AsyncGenerator[Event, None]:
    """Yield what happens in a turn, by name; ``last`` makes the last event of the finished turn.

    The texts since the last ``answer_end`` that others follow are the turn's content.
    """
    async with aclosing(turn):
        async for happened in turn:
            if isinstance(happened, TurnFinished):
                yield await last(happened.turn)
            elif (event := _event(happened)) is not None:
                yield event


def _event(happened: StreamEvent) -> Event | None:
    match happened:
        case TextDelta():
            return Event("text", {"index": happened.index, "text": happened.text})
        case ReasoningDelta():
            return Event("reasoning", {"index": happened.index, "text": happened.text})
        case ToolCallStart():
            return Event("tool_call", {"index": happened.index, "name": happened.name})
        case ToolCallDelta():
            return Event("tool_arguments", {"index": happened.index, "arguments": happened.arguments})
        case ToolStarted():
            call = happened.call
            arguments = dict(call.arguments) if call.arguments is not None else call.raw_arguments
            return Event("tool_started", {"call_id": call.id, "name": call.name, "arguments": arguments})
        case ToolFinished():
            return Event("tool_finished", {"call_id": happened.record.call_id, **happened.record.to_dict()})
        case StreamEnd(result=result) if not result.is_paused:
            return Event("answer_end", {})
    return None  # a call is complete: tool_started says so; an answer that paused goes on
