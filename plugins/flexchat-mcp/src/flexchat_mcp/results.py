"""What a tool's answer is to us. Pure: from the protocol's JSON to a value."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from flexchat.plugin import MediaPart, WithMedia

UNKNOWN = {"flexchat.dev/effect": "unknown"}
"""In the _meta of a result, or the data of a task's error: it is unknown whether the tool took effect."""

_FENCED = re.compile(r"```[a-z]*\n(.*)```", re.DOTALL)


def value_of(result: Mapping[str, Any], output: Mapping[str, Any] | None = None) -> Any:
    """Return the value of a result.

    Text alone is a text. Structured content is the value if there is any, and texts that repeat it are left out;
    if one differs, both are included. Images, sounds and files come beside it; a text replaces unreadable bytes.

    Args:
        result: As the protocol writes it: content, structuredContent.
        output: The tool's outputSchema.
    """
    read = [part for block in result.get("content", ()) if (part := _read(block)) is not None]
    media = [part for part in read if isinstance(part, MediaPart)]
    value = _value(result, [part for part in read if isinstance(part, str)], output)
    return WithMedia(value, media) if media else value


def _value(result: Mapping[str, Any], texts: Sequence[str], output: Mapping[str, Any] | None) -> Any:
    if "structuredContent" not in result:
        return "\n".join(texts)
    structured = result["structuredContent"]
    plain = _unwrap(structured, output)
    more = _beyond(texts, structured, plain)
    return {"text": "\n".join(more), "structured": plain} if more else plain


def error_of(result: Mapping[str, Any]) -> str:
    """Return the text of a result that is an error, with the details that only its structured content has."""
    texts = [text for block in result.get("content", ()) if (text := text_of(block)) is not None and text.strip()]
    structured = result.get("structuredContent")
    if structured in (None, {}, [], "") or (texts and not _beyond(texts, structured, structured)):
        return "\n".join(texts)  # in the server's words
    details = structured if isinstance(structured, str) else json.dumps(structured, ensure_ascii=False)
    return "\n".join([*texts, details])


def _beyond(texts: Sequence[str], structured: Any, plain: Any) -> list[str]:
    """Return the texts that differ from the structured content, wrapped and unwrapped."""
    only = [*plain.values()] if isinstance(plain, Mapping) and len(plain) == 1 else []
    if any(_listed(texts, value) for value in (plain, *only)):
        return []
    return [text for text in texts if not _repeats(text, (structured, plain))]


def marks_unknown(facts: Any) -> bool:
    """Return whether a server has marked an outcome as unknown, in its _meta or the data of its error."""
    return isinstance(facts, Mapping) and facts.items() >= UNKNOWN.items()


def text_of(block: Mapping[str, Any]) -> str | None:
    """Return a part of an answer as a text, for where only texts can go; None if it is not for models."""
    part = _read(block)
    if not isinstance(part, MediaPart):
        return part
    what = f"resource {part.name}" if part.name else part.kind
    return f"[{what} {part.mime_type}, {len(part.data or b''):,} bytes: not shown]"


def _read(block: Mapping[str, Any]) -> str | MediaPart | None:
    """Return a part of an answer: a text or a medium; None if it is not for models."""
    audience = (block.get("annotations") or {}).get("audience")
    if audience and "assistant" not in audience:
        return None
    match block.get("type"):
        case "text":
            return str(block.get("text", ""))
        case "image" | "audio" as kind:
            return _medium(block.get("data"), str(block.get("mimeType") or ""), kind, None)
        case "resource_link":
            about = f" ({block['description']})" if block.get("description") else ""
            return f"{block.get('title') or block.get('name', 'resource')}: {block.get('uri', '')}{about}"
        case "resource":
            inside = block.get("resource") or {}
            if "text" in inside:
                return str(inside["text"])
            mime_type = str(inside.get("mimeType") or "application/octet-stream")
            return _medium(inside.get("blob"), mime_type, "document", str(inside.get("uri") or "") or None)
    return json.dumps(block, ensure_ascii=False)


def _unwrap(structured: Any, output: Mapping[str, Any] | None) -> Any:
    """Unwrap a value that an SDK's server has put into {"result": …}, because only objects were allowed."""
    properties = (output or {}).get("properties")
    if not isinstance(structured, Mapping) or not isinstance(properties, Mapping):
        return structured
    return structured["result"] if list(structured) == list(properties) == ["result"] else structured


def _repeats(text: str, values: Sequence[Any]) -> bool:
    if any(isinstance(value, str) and value == text for value in values):
        return True
    fenced = _FENCED.fullmatch(text.strip())
    try:
        return json.loads(fenced[1] if fenced else text) in values
    except (ValueError, RecursionError):
        return text.strip() == "" or text in [str(value) for value in values if isinstance(value, (bool, int, float))]


def _listed(texts: Sequence[str], value: Any) -> bool:
    """Whether each text is one item of a list: SDK servers write lists so."""
    if not isinstance(value, list) or len(value) != len(texts):
        return False
    return all(_repeats(text, (item,)) for text, item in zip(texts, value, strict=True))


def _medium(
    encoded: Any, mime_type: str, kind: Literal["image", "audio", "document"], name: str | None
) -> MediaPart | str:
    try:
        data = base64.b64decode(str(encoded or ""), validate=True)
    except ValueError:
        return f"[{name or kind} {mime_type}: not shown, its data are not Base64]"
    return MediaPart(kind=kind, mime_type=mime_type, data=data, name=name)
