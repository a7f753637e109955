"""OpenAI's format: its messages as FlexChat's, and a turn as one completion, or as chunks of one.

Source: platform.openai.com/docs/api-reference/chat; what servers send was compared with recordings of them.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import attrs
import flexchat
from flexchat import StreamEvent, Turn, Usage
from flexchat.host import TurnEvent, repair_history

from ..operations import Event
from .content_parts import MEDIA, ContentReader, refused, unread_part
from .events import turn_data

_REASONS = {"length": "length", "content_filter": "content_filter"}
"""Those of our finish reasons that OpenAI's clients know; all others become a normal end."""


@attrs.frozen
class Dialogue:
    """The messages of a request.

    Attributes:
        question: The last message of the user.
        history: What precedes it, and the client's instructions.
        continuation: What follows it: answers that call tools of the client, and the results.
    """

    question: flexchat.UserMessage
    history: tuple[flexchat.Message, ...]
    continuation: tuple[flexchat.Message, ...] = ()

    def as_request(self) -> dict[str, Any]:
        """Return the arguments of respond."""
        question, own = self.question, {"history": self.history, "continuation": self.continuation}
        return {"message": question.content, "attachments": question.media, **own}


async def read_media(messages: Sequence[Mapping[str, Any]], reader: ContentReader) -> list[Any]:
    """Return messages in which those of the user that have media are read.

    Raises:
        ApiError: 400: a part cannot be read.
        StorageError: The store of media failed.
    """
    if unread := unread_message(messages):
        raise refused(*unread.split(": ", 1))
    read: list[Any] = [*messages]
    for index, message in enumerate(messages):
        if has_media(message):
            content = await reader.read(message["content"], f"messages[{index}].content")
            read[index] = flexchat.UserMessage(content.text, media=content.media)
    return read


def read_messages(messages: Sequence[Mapping[str, Any] | flexchat.Message], name: str = "messages") -> Dialogue:
    """Return the user's question, and what comes before and after it.

    The turn supplies a result for a call without one.

    Raises:
        ApiError: 400: a message cannot be read, or the last one is neither the user's nor a result.

    Source: wire format of Chat Completions, "messages".
    """
    if unread := unread_message(messages):
        raise refused(*unread.split(": ", 1))
    try:
        history = [*flexchat.read_history(messages, name)]
    except flexchat.ChatRequestError as error:
        place, _, why = str(error).partition(": ")
        raise refused(place, why) from None
    at = next((i for i in range(len(history) - 1, -1, -1) if isinstance(history[i], flexchat.UserMessage)), None)
    after = [] if at is None else history[at + 1 :]
    dialogue = [message for message in after if not isinstance(message, flexchat.SystemMessage)]
    if at is None or (dialogue and not isinstance(dialogue[-1], flexchat.ToolMessage)):
        raise refused(name, "the last message must be the user's, or the result of a call after that")
    question = history[at]
    assert isinstance(question, flexchat.UserMessage)
    if not question.content.strip() and not question.media:
        raise refused(f"{name}[{at}].content", "the last message of the user is empty")
    instructions = [message for message in after if isinstance(message, flexchat.SystemMessage)]
    _, *continuation = repair_history((question, *dialogue))[0]
    return Dialogue(question, (*history[:at], *instructions), tuple(continuation))


def unread_message(messages: Any) -> str | None:
    """Return the sentence that refuses a part of a kind that is not read, or has another role; None if all are."""
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        if not isinstance(message, dict):
            continue
        place = f"messages[{index}].content"
        if unread := unread_part(message.get("content"), place):
            return unread
        if message.get("role") != "user" and has_media(message):
            return f"{place}: only messages of the user have images, sounds and files"
    return None


def has_media(message: Mapping[str, Any]) -> bool:
    """Return whether a message has a part that is not a text."""
    content = message.get("content")
    return isinstance(content, list) and any(
        isinstance(part, dict) and part.get("type") in [*MEDIA] for part in content
    )


Calls = Callable[[Turn], Awaitable[list[tuple[str, flexchat.ToolCall]]]]
"""Returns the calls with which a turn ended, with their ids for the client."""


def completion(
    turn: Turn, model: str, warnings: tuple[str, ...], calls: Sequence[tuple[str, flexchat.ToolCall]] = ()
) -> dict[str, Any]:
    """Return a turn as a completion."""
    text = turn.content + waits_for(turn)
    message: dict[str, Any] = {"role": "assistant", "content": text if text or not calls else None, "refusal": None}
    if calls:
        message["tool_calls"] = [*map(_call, calls)]
    return {
        "id": f"chatcmpl-{turn.id}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": _finish_reason(turn),
            }
        ],
        "usage": _usage(turn.response.usage),
        "flexchat": turn_with(turn, warnings),
    }


async def chunks(
    turn: AsyncGenerator[StreamEvent, None],
    model: str,
    warnings: tuple[str, ...],
    calls: Calls,
    *,
    include_usage: bool,
) -> AsyncGenerator[Event, None]:
    """Yield a turn as chunks, and ``[DONE]``.

    The client sees no calls of tools that run in this server, only a comment for each step of one: without these, a
    client or a proxy would close the silent connection. Text beside a call is sent, separated from the next answer by
    an empty line. The calls of the client's own tools come whole, at the end.
    """
    base = {"id": f"chatcmpl-{secrets.token_hex(16)}", "object": "chat.completion.chunk", "created": int(time.time())}

    def chunk(delta: dict[str, Any], finish_reason: str | None = None, **more: Any) -> Event:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        usage = {"usage": None} if include_usage else {}
        return Event(None, {**base, "model": model, "choices": [choice], **usage, **more})

    begun = has_text = between = False
    async with aclosing(turn):
        async for happened in turn:
            if not begun and not isinstance(happened, TurnEvent):  # errors before the model's answer have a status
                begun = True
                yield chunk({"role": "assistant", "content": "", "refusal": None})
            match happened:
                case flexchat.TextDelta(text=text) if text:
                    yield chunk({"content": f"\n\n{text}" if between else text})
                    has_text, between = True, False
                case flexchat.ReasoningDelta(text=text) if text:
                    yield chunk({"reasoning_content": text})
                case flexchat.ToolStarted(call=call) if begun:
                    yield Event(None, None, comment=f"the tool {call.name} runs")
                case flexchat.ToolProgress(tool=name) if begun:
                    yield Event(None, None, comment=f"the tool {name} goes on")
                case flexchat.ToolFinished(record=record) if begun:
                    yield Event(None, None, comment=f"the tool {record.tool} has finished")
                case flexchat.AnswerEnd(result=result):
                    between = has_text and not result.is_paused
                case flexchat.TurnFinished(turn=ended) | flexchat.TurnSuspended(turn=ended):
                    if text := waits_for(ended):
                        yield chunk({"content": text})
                    for index, identified in enumerate(await calls(ended)):
                        yield chunk({"tool_calls": [{"index": index, **_call(identified)}]})
                    yield chunk({}, _finish_reason(ended), flexchat=turn_with(ended, warnings))
                    if include_usage:
                        usage = _usage(ended.response.usage)
                        yield Event(None, {**base, "model": model, "choices": [], "usage": usage})
    yield Event(None, "[DONE]")


def waits_for(turn: Turn) -> str:
    """Return the end of a text that has no end yet: which replies its turn waits for; empty for one that has ended."""
    if turn.status == "accepted":
        return "This message is accepted, and answered later."
    questions = [f"- {each.question.tool}: {each.question.message} (question {each.id})" for each in turn.pending]
    lines = ["This answer is suspended until there is a reply to:", *questions]
    return "\n\n" * bool(turn.content) + "\n".join(lines) if questions else ""


def _call(identified: tuple[str, flexchat.ToolCall]) -> dict[str, Any]:
    id, call = identified
    return {"id": id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_text}}


def _finish_reason(turn: Turn) -> str:
    if turn.response.calls:
        return "tool_calls"
    return _REASONS.get(turn.response.finish_reason or "", "stop")


def _usage(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens or 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
    }


def turn_with(turn: Turn, warnings: tuple[str, ...]) -> dict[str, Any]:
    """Return a turn's data for clients, with further warnings."""
    if warnings:
        turn = attrs.evolve(turn, response=attrs.evolve(turn.response, warnings=(*warnings, *turn.response.warnings)))
    return turn_data(turn)
