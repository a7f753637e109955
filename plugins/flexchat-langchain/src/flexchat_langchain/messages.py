"""Conversion between FlexChat's and LangChain's messages, for programs that store conversations as the latter.

Data without an equivalent in LangChain's messages (signatures, ids of services, the raw text of a call) is embedded in
the AIMessage, and used again if the message has not been changed since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, assert_never

from flexchat.host import message_from_dict, message_to_dict
from flexchat.plugin import ToolCall
from flexchat_sdk import (
    AssistantMessage,
    MediaPart,
    Message,
    ReasoningPart,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
    finite,
)
from langchain_core import messages as lc

from .answers import assistant_message
from .blocks import media_block, result_content, result_parts, text_of, user_content, user_parts

CARRIED = "flexchat_message"
"""Key in an AIMessage's additional_kwargs: our message, whole, as message_to_dict has it."""


def to_langchain(messages: Iterable[Message]) -> list[lc.BaseMessage]:
    """Convert messages to LangChain's. Calls keep their ids."""
    return [_convert(message) for message in messages]


def from_langchain(messages: Iterable[lc.BaseMessage]) -> tuple[Message, ...]:
    """Convert LangChain's messages. Calls keep their ids; those without one get a new id.

    Raises:
        TypeError: A message has a type that is not sent to models.
    """
    read: list[Message] = []
    names: dict[str, str] = {}
    for index, message in enumerate(messages):
        try:
            ours = _read(message, names)
        except TypeError as error:
            raise TypeError(f"messages[{index}]: {error}") from None
        if isinstance(ours, AssistantMessage):
            names.update({call.id: call.name for call in ours.tool_calls})
        read.append(ours)
    return tuple(read)


def ai_message(message: AssistantMessage, **rest: Any) -> lc.AIMessage:
    """Convert an assistant message; *rest* is passed to AIMessage: usage_metadata, response_metadata."""
    blocks = [block for part in message.parts if (block := _block(part)) is not None]
    is_text = all(set(block) == {"type", "text"} for block in blocks)
    return lc.AIMessage(
        content="".join(block["text"] for block in blocks) if is_text else [*blocks],
        tool_calls=[
            {"type": "tool_call", "id": call.id, "name": call.name, "args": finite(dict(call.arguments))}
            for call in message.tool_calls
            if call.arguments is not None
        ],
        invalid_tool_calls=[
            {"type": "invalid_tool_call", "id": c.id, "name": c.name, "args": c.raw_arguments, "error": c.error}
            for c in message.tool_calls
            if c.arguments is None
        ],
        additional_kwargs={CARRIED: message_to_dict(message)},
        **rest,
    )


def tool_message(message: ToolMessage) -> lc.ToolMessage:
    """Convert a tool message."""
    return lc.ToolMessage(
        content=result_content(message.content, message.media),
        tool_call_id=message.tool_call_id,
        name=message.name,
        status="error" if message.is_error else "success",
    )


def _convert(message: Message) -> lc.BaseMessage:
    match message:
        case SystemMessage():
            return lc.SystemMessage(content=message.content)
        case UserMessage():
            return lc.HumanMessage(content=user_content(message.content, message.media))
        case AssistantMessage():
            return ai_message(message)
        case ToolMessage():
            return tool_message(message)
        case _:
            assert_never(message)


def _block(part: Any) -> dict[str, Any] | None:
    match part:
        case TextPart() | RefusalPart():
            return {"type": "text", "text": part.text} if part.text else None
        case ReasoningPart():
            return {"type": "reasoning", "reasoning": part.text} if part.text else None
        case MediaPart():
            return media_block(part)
        case ToolCall():
            return None
    return None  # opaque: meaningful to its own service only


def _read(message: lc.BaseMessage, names: Mapping[str, str]) -> Message:
    match message:
        case lc.SystemMessage():
            return SystemMessage(content=text_of(message.content))
        case lc.HumanMessage():
            return _user(message.content)
        case lc.AIMessage():
            return _carried(message) or assistant_message(message, keep_ids=True)
        case lc.ToolMessage():
            text, media = result_parts(message.content)
            return ToolMessage(
                tool_call_id=message.tool_call_id,
                name=message.name or names.get(message.tool_call_id, ""),
                content=text,
                is_error=message.status == "error",
                media=media,
            )
        case lc.ChatMessage() if message.role in ("system", "developer"):
            return SystemMessage(content=text_of(message.content))
        case lc.ChatMessage() if message.role in ("assistant", "ai", "model"):
            return assistant_message(lc.AIMessage(content=message.content))
        case lc.ChatMessage() if message.role in ("user", "human"):
            return _user(message.content)
        case lc.ChatMessage():
            raise TypeError(f"no model reads a message with the role {message.role!r}: give user, assistant or system")
    raise TypeError(f"no model reads a {type(message).__name__}: give system, human, AI and tool messages")


def _user(content: Any) -> UserMessage:
    text, media = user_parts(content)
    return UserMessage(content=text, media=media)


def _carried(message: lc.AIMessage) -> AssistantMessage | None:
    """Return the embedded message; None if there is none, or the AIMessage has been changed since."""
    inside = message.additional_kwargs.get(CARRIED)
    if inside is None:
        return None
    try:
        carried = message_from_dict(inside)
    except (TypeError, ValueError):
        return None
    if not isinstance(carried, AssistantMessage):
        return None
    converted = ai_message(carried)
    same = (converted.text, _call_fields(converted)) == (message.text, _call_fields(message))
    return carried if same else None


def _call_fields(message: lc.AIMessage) -> list[tuple[Any, ...]]:
    return [
        *((call["id"], call["name"], call["args"]) for call in message.tool_calls),
        *((call["id"], call["name"], call["args"]) for call in message.invalid_tool_calls),
    ]
