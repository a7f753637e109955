"""Conversion between FlexChat's and LangChain's messages: of a conversation that is sent, and of those programs store.

In the latter, data without an equivalent in LangChain's messages (signatures, ids of services, the raw text of a call)
is embedded in the AIMessage, and used again if the message has not been changed since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, assert_never

from flexchat.host import message_from_dict, message_to_dict
from flexchat.plugin import ToolCall
from flexchat_sdk import (
    AssistantMessage,
    AssistantPart,
    MediaPart,
    Message,
    ProviderData,
    ReasoningPart,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
    finite,
    from_bytes,
    to_bytes,
    with_accepted_media,
)
from langchain_core import messages as lc

from .answers import assistant_message
from .blocks import SCOPE, content_parts, media_block, result_content, sendable, text_of, user_content

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
            text, media = content_parts(message.content, "")
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
    text, media = content_parts(content, "\n")
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


def as_sent(messages: Sequence[Message], origin: str) -> list[lc.BaseMessage]:
    """Convert a conversation for the model with this origin.

    The model's own answers are sent back unchanged; from answers of other models only texts and calls are sent. An
    unreadable call is sent without arguments: integrations drop or reject invalid calls, which would orphan their
    results. System messages in the middle are moved to the start, because some integrations accept them only there.
    """
    instructions = [message.content for message in messages if isinstance(message, SystemMessage) and message.content]
    sent: list[lc.BaseMessage] = [lc.SystemMessage(content=sendable("\n\n".join(instructions)))] if instructions else []
    ids: dict[str, str] = {}
    for message in messages:
        match message:
            case SystemMessage():
                continue
            case UserMessage():
                sent.append(lc.HumanMessage(content=user_content(message.content, message.media)))
            case AssistantMessage():
                for call in message.tool_calls:
                    ids[call.id] = _wire_id(call, origin, ids.values())
                answer = _sent_assistant(message, origin, ids)
                sent += [answer] if answer.content or answer.tool_calls else []
            case ToolMessage():
                sent.append(
                    lc.ToolMessage(
                        content=sendable(with_accepted_media(message, _nothing).content),
                        tool_call_id=ids.get(message.tool_call_id, message.tool_call_id),
                        name=message.name,
                        status="error" if message.is_error else "success",
                    )
                )
            case _:
                assert_never(message)
    return sent


def _nothing(part: MediaPart) -> bool:
    # Whether an integration accepts images in results is not detectable; if it does not, the service answers 400.
    return False


def _sent_assistant(message: AssistantMessage, origin: str, ids: Mapping[str, str]) -> lc.AIMessage:
    blocks = [block for part in message.parts if (block := _sent_block(part, origin, ids)) is not None]
    has_blocks = any("block" in _ours(part.provider_data, origin) for part in message.parts)
    beside = _ours(message.provider_data, origin)
    return lc.AIMessage(
        content=blocks if has_blocks else "".join(block["text"] for block in blocks),
        tool_calls=[
            {
                "type": "tool_call",
                "id": ids[call.id],
                "name": call.name,
                "args": from_bytes(to_bytes(finite(dict(call.arguments or {})))),
            }
            for call in message.tool_calls
        ],
        additional_kwargs=dict(beside.get("additional_kwargs", {})),
        response_metadata=dict(beside.get("response_metadata", {})),
    )


def _sent_block(part: AssistantPart, origin: str, ids: Mapping[str, str]) -> Any:
    data = _ours(part.provider_data, origin)
    if "block" in data:
        block = data["block"]
        if isinstance(part, ToolCall) and ids[part.id] != part.wire_id:
            return {key: ids[part.id] if value == part.wire_id else value for key, value in block.items()}
        return block
    if isinstance(part, TextPart | RefusalPart) and part.text:
        return {"type": "text", "text": sendable(part.text)}
    return None


def _wire_id(call: ToolCall, origin: str, used: Collection[str]) -> str:
    # Without an id, or with a repeated one, send FlexChat's id: results refer to calls by id.
    is_ours = call.provider_data is not None and _is_ours(call.provider_data, origin)
    return call.wire_id if call.wire_id and is_ours and call.wire_id not in used else call.id


def _ours(data: ProviderData | None, origin: str) -> Mapping[str, Any]:
    return data.data if data is not None and _is_ours(data, origin) else {}


def _is_ours(data: ProviderData, origin: str) -> bool:
    return data.scope == SCOPE and data.origin == origin
