"""What an output item of the Responses API says: pure functions that take any JSON object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flexchat.plugin import MediaPart, OpaquePart, ReasoningPart, RefusalPart, TextPart, ToolCall

Part = TextPart | ReasoningPart | RefusalPart | MediaPart | ToolCall | OpaquePart

SCOPE = "openai.responses"
"""Who may get back what this API received: see ProviderData."""


def text_of(item: Mapping[str, Any]) -> str:
    """Return the text of a message item."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    return "".join(_texts(content, "text", ("output_text", "text")))


def refusal_of(item: Mapping[str, Any]) -> str:
    """Return the words for "no" of a message item."""
    return "".join(_texts(item.get("content"), "refusal", ("refusal",)))


def thought_of(item: Mapping[str, Any]) -> str:
    """Return what a reasoning item tells of the thought: its summary, else the thought itself."""
    parts = [*_texts(item.get("summary"), "text", None)] or [*_texts(item.get("content"), "text", None)]
    return "\n\n".join(parts)


def annotations_of(item: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the citations in a message item."""
    found: list[Mapping[str, Any]] = []
    content = item.get("content")
    for part in content if isinstance(content, list) else ():
        annotations = part.get("annotations") if isinstance(part, dict) else None
        if isinstance(annotations, list):
            found.extend(a for a in annotations if isinstance(a, dict))
    return tuple(found)


def _texts(parts: object, key: str, types: tuple[str, ...] | None) -> Iterator[str]:
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and (types is None or part.get("type") in types):
            text = part.get(key)
            if isinstance(text, str) and text:
                yield text
