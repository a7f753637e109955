"""What a tool's answer is to us. Pure: from the protocol's JSON to a value."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any


def value_of(result: Mapping[str, Any], output: Mapping[str, Any] | None = None) -> Any:
    """Return the value of a result.

    Text alone is a text. Structured content is the value if there is any, and the text that repeats it is left out;
    if the text says something else, both are there. What is neither (an image, a file) is described: results hold no
    bytes.

    Args:
        result: As the protocol writes it: content, structuredContent.
        output: The tool's outputSchema.
    """
    texts = [text for block in result.get("content", ()) if (text := text_of(block)) is not None]
    if "structuredContent" not in result:
        return "\n".join(texts)
    structured = result["structuredContent"]
    plain = _unwrapped(structured, output)
    if all(_repeats(text, (structured, plain)) for text in texts) or _listed(texts, plain):
        return plain
    return {"text": "\n".join(texts), "structured": plain}


def text_of(block: Mapping[str, Any]) -> str | None:
    """Return a part of an answer as a text; None if it is not for models."""
    audience = (block.get("annotations") or {}).get("audience")
    if audience and "assistant" not in audience:
        return None
    match block.get("type"):
        case "text":
            return str(block.get("text", ""))
        case "image" | "audio" as kind:
            return f"[{kind} {block.get('mimeType', '')}, {_size(block.get('data', '')):,} bytes: not shown]"
        case "resource_link":
            about = f" ({block['description']})" if block.get("description") else ""
            return f"{block.get('title') or block.get('name', 'resource')}: {block.get('uri', '')}{about}"
        case "resource":
            inside = block.get("resource") or {}
            if "text" in inside:
                return str(inside["text"])
            kind, uri = inside.get("mimeType", ""), inside.get("uri", "")
            return f"[resource {uri} {kind}, {_size(inside.get('blob', '')):,} bytes: not shown]"
    return json.dumps(block, ensure_ascii=False)


def _unwrapped(structured: Any, output: Mapping[str, Any] | None) -> Any:
    """Return what an SDK's server has put into {"result": …}, because only objects were allowed."""
    properties = (output or {}).get("properties")
    if not isinstance(structured, Mapping) or not isinstance(properties, Mapping):
        return structured
    return structured["result"] if list(structured) == list(properties) == ["result"] else structured


def _repeats(text: str, values: Sequence[Any]) -> bool:
    if any(isinstance(value, str) and value == text for value in values):
        return True
    try:
        return json.loads(text) in values
    except (ValueError, RecursionError):
        return text.strip() == "" or text in [str(value) for value in values if isinstance(value, (bool, int, float))]


def _listed(texts: Sequence[str], value: Any) -> bool:
    """Whether each text is one item of a list: SDK servers write lists so."""
    if not isinstance(value, list) or len(value) != len(texts):
        return False
    return all(_repeats(text, (item,)) for text, item in zip(texts, value, strict=True))


def _size(data: Any) -> int:
    try:
        return len(base64.b64decode(str(data), validate=False))
    except ValueError:
        return len(str(data))
