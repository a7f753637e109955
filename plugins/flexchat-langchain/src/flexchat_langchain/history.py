"""Conversion of a conversation to the messages sent to a LangChain model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, assert_never

from flexchat.plugin import ToolCall
from flexchat_sdk import (
    AssistantMessage,
    AssistantPart,
    MediaPart,
    Message,
    ProviderData,
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

from .blocks import SCOPE, sendable, user_content


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
                answer = _assistant(message, origin, ids)
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


def _assistant(message: AssistantMessage, origin: str, ids: Mapping[str, str]) -> lc.AIMessage:
    blocks = [block for part in message.parts if (block := _block(part, origin, ids)) is not None]
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


def _block(part: AssistantPart, origin: str, ids: Mapping[str, str]) -> Any:
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
