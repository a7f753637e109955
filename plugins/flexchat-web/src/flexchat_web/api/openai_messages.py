"""OpenAI's messages as FlexChat's: the last one is the question, those before it are the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flexchat import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from flexchat.domain import TextPart
from flexchat.domain.messages import new_call_id

from ..problems import ApiError


def read_messages(messages: Sequence[Mapping[str, Any]]) -> tuple[str, tuple[Message, ...]]:
    """Return what the user asks, and what was said before, instructions of the client included.

    Tool calls and their results are taken as they are; what does not belong together is repaired by the turn.

    Raises:
        ApiError: 400: a message is no text, or the user does not have the last word.

    Source: wire format of Chat Completions, "messages".
    """
    found: list[Message] = []
    calls: dict[str, ToolCall] = {}
    for index, message in enumerate(messages):
        found.append(_message(message, f"messages[{index}]", calls))
    asked = next((i for i in range(len(found) - 1, -1, -1) if not isinstance(found[i], SystemMessage)), None)
    if asked is None or not isinstance(last := found.pop(asked), UserMessage):
        raise refused("the last message must be the user's", "messages")
    if not last.content.strip():
        raise refused("the last message is empty", f"messages[{asked}].content")
    return last.content, tuple(found)


def _message(message: Mapping[str, Any], place: str, calls: dict[str, ToolCall]) -> Message:
    role, text = message["role"], _text(message.get("content"), f"{place}.content")
    if role in ("system", "developer"):
        return SystemMessage(content=text)
    if role == "user":
        return UserMessage(content=text)
    if role == "tool":
        id = message.get("tool_call_id") or ""
        call = calls.pop(id, None)
        if call is None:
            return ToolMessage(tool_call_id=new_call_id(), name=message.get("name") or id or "a tool", content=text)
        return ToolMessage(tool_call_id=call.id, name=call.name, content=text)
    made = [_call(call, f"{place}.tool_calls[{i}]", calls) for i, call in enumerate(message.get("tool_calls") or ())]
    text = text or message.get("refusal") or ""
    return AssistantMessage(parts=(*([TextPart(text=text)] if text else []), *made))


def _call(data: Any, place: str, calls: dict[str, ToolCall]) -> ToolCall:
    function = data.get("function") if isinstance(data, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    arguments = function.get("arguments") if isinstance(function, Mapping) else None
    if not (isinstance(name, str) and name and isinstance(arguments, str | None)):
        raise refused("a tool call is a function with a name, and arguments as text", place)
    # Clients count their ids from 0 again and again: each call gets one of our own.
    call = ToolCall.from_text(name, arguments)
    calls[str(data.get("id"))] = call
    return call


def _text(content: Any, place: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    texts = []
    for index, part in enumerate(content):
        kind = part.get("type")
        if kind not in ("text", "refusal") or not isinstance(part.get(kind), str):
            raise refused(f"this server reads text only, not {kind!r:.40}", f"{place}[{index}]")
        texts.append(part[kind])
    return "\n".join(texts)


def unread_part(messages: Any) -> str | None:
    """Return the sentence that refuses a message which is no text; None if all are, as far as can be seen."""
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, list) and all(isinstance(part, dict) for part in content):
            try:
                _text(content, f"messages[{index}].content")
            except ApiError as error:
                return error.detail
    return None


def refused(text: str, param: str, *, code: str | None = None) -> ApiError:
    """Return the error for a request that cannot be answered as it is."""
    return ApiError(400, f"{param}: {text}", kind="request", param=param, code=code)
