"""Messages in the shape of OpenAI's Chat Completions, in which most programs keep their histories.

Source: platform.openai.com/docs/api-reference/chat, "messages"; deviations of Ollama and vLLM (arguments as an
object, no ids, reasoning_content) are read as well.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, NoReturn

from ..errors import ChatRequestError
from .media import with_accepted_media
from .messages import (
    AssistantMessage,
    AssistantPart,
    MediaPart,
    Message,
    ReasoningPart,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)

TEXT_PARTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
"""Kinds of text parts, and the key each keeps its text under."""


def refuse(place: str, why: str) -> NoReturn:
    """Raise ChatRequestError for a message that cannot be read."""
    raise ChatRequestError(f"{place}: {why}")


def read_text(content: Any, place: str) -> str:
    """Return a content's text: the text itself, or its parts' texts, joined without a separator.

    Raises:
        ChatRequestError: It is not text.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        type_name = "null" if content is None else type(content).__name__
        refuse(place, f"the content must be a text or a list of parts, not {type_name}")
    return "".join([_part_text(part, f"{place}[{index}]") for index, part in enumerate(content)])


def read_user(content: Any, place: str) -> UserMessage:
    """Return a user's message: text and pictures.

    Raises:
        ChatRequestError: It contains anything else.
    """
    if not isinstance(content, list | tuple):
        return UserMessage(content=read_text(content, place))
    texts, media = [], []
    for index, part in enumerate(content):
        if isinstance(part, Mapping) and part.get("type") == "image_url":
            media.append(_image(part.get("image_url"), f"{place}[{index}].image_url"))
        else:
            texts.append(_part_text(part, f"{place}[{index}]"))
    return UserMessage(content="".join(texts), media=tuple(media))


def read_assistant(entry: Mapping[str, Any], place: str) -> tuple[AssistantMessage, tuple[str | None, ...]]:
    """Return a model's message, and the ids of its calls. Each call gets a new id: some clients count from 0.

    Raises:
        ChatRequestError: Something in it cannot be read.
    """
    reasoning, refusal, listed = (entry.get(key) for key in ("reasoning_content", "refusal", "tool_calls"))
    if entry.get("function_call"):
        refuse(f"{place}.function_call", "this old form of a call is not read; give it as tool_calls")
    for key, text in (("reasoning_content", reasoning), ("refusal", refusal)):
        if not isinstance(text, str | None):
            refuse(f"{place}.{key}", f"a text was expected, got {type(text).__name__}")
    if not isinstance(listed, list | tuple | None):
        refuse(f"{place}.tool_calls", f"a list of calls was expected, got {type(listed).__name__}")
    calls = [_call(call, f"{place}.tool_calls[{index}]") for index, call in enumerate(listed or ())]
    content = entry.get("content", entry.get("text"))
    if content is None and not (calls or refusal):
        refuse(place, "it has no content (or text), and no tool_calls")
    said = "" if content is None else read_text(content, f"{place}.content")
    parts: list[AssistantPart] = [ReasoningPart(text=reasoning)] if reasoning else []
    if said or not (calls or refusal):
        parts.append(TextPart(text=said))
    if refusal:
        parts.append(RefusalPart(text=refusal))
    message = AssistantMessage(parts=(*parts, *[call for call, _ in calls]))
    return message, tuple(id for _, id in calls)


def _call(data: Any, place: str) -> tuple[ToolCall, str | None]:
    function = data.get("function") if isinstance(data, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    arguments = function.get("arguments") if isinstance(function, Mapping) else None
    if not (isinstance(name, str) and name and isinstance(arguments, str | Mapping | None)):
        refuse(place, "a tool call is a function with a name, and arguments as text")
    id = data.get("id")
    if not isinstance(id, str | None):
        refuse(f"{place}.id", f"a text was expected, got {type(id).__name__}")
    if isinstance(arguments, Mapping):
        return ToolCall.from_object(name, arguments), id
    return ToolCall.from_text(name, arguments), id


def _part_text(part: Any, place: str) -> str:
    kind = part.get("type") if isinstance(part, Mapping) else None
    key = TEXT_PARTS.get(kind) if isinstance(kind, str) else None
    if key is None:
        refuse(place, f"a history takes text only, not {kind if isinstance(part, Mapping) else part!r:.40}")
    if not isinstance(part.get(key), str):
        refuse(place, f"a part of type {kind} has its text under '{key}'")
    return str(part[key])


def _image(found: Any, place: str) -> MediaPart:
    url = found.get("url") if isinstance(found, Mapping) else found
    if not isinstance(url, str) or not url:
        refuse(place, "a picture has a url")
    if not url.startswith("data:"):
        return MediaPart(kind="image", mime_type="image/*", url=url)
    head, comma, body = url.removeprefix("data:").partition(",")
    mime_type, base64_mark, _ = head.partition(";base64")
    try:
        if not (comma and base64_mark and mime_type.startswith("image/")):
            raise ValueError
        return MediaPart(kind="image", mime_type=mime_type, data=base64.b64decode(body, validate=True))
    except (ValueError, binascii.Error):
        refuse(place, "this data: URL is not a picture in Base64")


def to_openai(message: Message) -> dict[str, Any]:
    """Return a message in OpenAI's shape. Thoughts, and data only a provider can read, do not fit into it.

    Raises:
        ChatRequestError: A file is not a picture.
    """
    match message:
        case SystemMessage():
            return {"role": "system", "content": message.content}
        case UserMessage():
            if not message.media:
                return {"role": "user", "content": message.content}
            parts = [{"type": "text", "text": message.content}, *map(_picture, message.media)]
            return {"role": "user", "content": parts}
        case ToolMessage():
            content = with_accepted_media(message, lambda part: False).content  # a tool's message takes text only
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": content}
    data: dict[str, Any] = {"role": "assistant", "content": message.content}
    if message.refusal is not None:
        data["refusal"] = message.refusal
    if message.tool_calls:
        data["tool_calls"] = [_call_to_dict(call) for call in message.tool_calls]
    elif data["content"] is None and message.refusal is None:
        data["content"] = ""
    return data


def _call_to_dict(call: ToolCall) -> dict[str, Any]:
    text = call.raw_arguments
    if text is None:
        text = json.dumps(dict(call.arguments or {}), ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}}


def _picture(part: MediaPart) -> dict[str, Any]:
    if part.kind != "image":
        raise ChatRequestError(f"OpenAI's shape of a history has no place for a file of kind '{part.kind}'")
    url = part.url or f"data:{part.mime_type};base64,{base64.b64encode(part.data or b'').decode()}"
    return {"type": "image_url", "image_url": {"url": url}}
