"""Messages, arguments, results and documents as attributes: opted in per kind of span, without secrets, shortened.

Their form is that of the conventions' JSON schemas for input messages, output messages and retrieved documents.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from flexchat import AssistantMessage, SystemMessage, ToolMessage
from flexchat.host import ReasoningPart, TextPart
from flexchat.plugin import MediaPart, ToolCall

MAX_ITEMS = 100
"""Messages, documents, and items of a list or table."""


def shortened(value: Any, max_chars: int, depth: int = 0) -> Any:
    """Return JSON data whose texts and lists have a limited length."""
    if isinstance(value, str):
        return value if len(value) <= max_chars else f"{value[:max_chars]}…"
    if isinstance(value, (int, float)) or value is None:
        return value
    if depth > 16:
        return "…"
    if isinstance(value, Mapping):
        pairs = list(value.items())[:MAX_ITEMS]
        return {str(key)[:max_chars]: shortened(item, max_chars, depth + 1) for key, item in pairs}
    if isinstance(value, (list, tuple)):
        return [shortened(item, max_chars, depth + 1) for item in value[:MAX_ITEMS]]
    return shortened(str(value), max_chars)


class Content:
    """Makes attributes of what a span is about.

    Args:
        mask: Returns JSON data without secrets.
    """

    def __init__(self, max_chars: int, mask: Callable[[Any], Any]) -> None:
        self._max_chars, self.mask = max_chars, mask

    def text(self, text: str) -> Any:
        """Return a text."""
        return shortened(self.mask(text), self._max_chars)

    def json(self, value: Any) -> str:
        """Return a value as JSON."""
        # Masked before it is shortened: half a secret would not be recognised.
        return json.dumps(shortened(self.mask(value), self._max_chars), ensure_ascii=False)

    def messages(self, messages: Sequence[Any]) -> str:
        """Return messages as JSON; of many, the last."""
        return self.json([_message(message) for message in messages[-MAX_ITEMS:]])

    def documents(self, hits: Iterable[Any]) -> str:
        """Return retrieved documents as JSON: their ids, and their scores, of which 1 is the nearest."""
        return self.json(
            [
                {"id": document.id or document.source or document.title or "", "score": round(1 - distance, 6)}
                for each in hits
                for document, distance in zip(each.documents, each.distances, strict=False)
            ]
        )


def _message(message: Any) -> dict[str, Any]:
    if isinstance(message, AssistantMessage):
        return {"role": "assistant", "parts": [part for each in message.parts if (part := _part(each))]}
    if isinstance(message, ToolMessage):
        response = {"type": "tool_call_response", "id": message.tool_call_id, "response": message.content}
        return {"role": "tool", "parts": [response]}
    role = "system" if isinstance(message, SystemMessage) else "user"
    parts = [{"type": "text", "content": message.content}]
    return {"role": role, "parts": [*parts, *filter(None, map(_part, getattr(message, "media", ())))]}


def _part(part: Any) -> dict[str, Any] | None:
    match part:
        case TextPart(text=text):
            return {"type": "text", "content": text}
        case ReasoningPart(text=text):
            return {"type": "reasoning", "content": text}
        case ToolCall():
            arguments = part.raw_arguments if part.arguments is None else dict(part.arguments)
            return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": arguments}
        case MediaPart():  # never their bytes
            return {"type": part.kind, "mime_type": part.mime_type, "name": part.name or ""}
    return None
