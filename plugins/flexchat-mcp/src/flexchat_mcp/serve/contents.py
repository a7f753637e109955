"""What a tool returned, in the words of the protocol. Pure: from values to JSON data."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from flexchat.host import as_json
from flexchat.plugin import MediaPart, ToolResult

from ..results import UNKNOWN

JSON_TYPES = ("application/json", "application/xml")


def call_result(result: ToolResult, *, output: Mapping[str, Any] | None = None, is_modern: bool) -> dict[str, Any]:
    """Return the result of tools/call.

    Args:
        output: The tool's outputSchema, if it has one.
        is_modern: Whether structured content may be any JSON value, and not only an object.
    """
    if not result.success:
        meta = {"_meta": dict(UNKNOWN)} if result.is_unknown else {}  # the SDK adds to it
        return {"content": [_text(result.explained())], "isError": True, **meta}
    value, blocks = result.result, content_of(result)
    wraps = output is not None and [*output.get("properties", ())] == ["result"]
    if wraps and not (isinstance(value, Mapping) and [*value] == ["result"]):
        value = {"result": value}  # as SDK servers wrap plain values; our client has unwrapped it
    answer: dict[str, Any] = {"content": blocks, "isError": False}
    if isinstance(value, Mapping) or (is_modern and output is not None):
        answer["structuredContent"] = value
    return answer


def content_of(result: ToolResult) -> list[dict[str, Any]]:
    """Return a successful result as blocks of content: its text, its media, what was left out of it."""
    blocks = [] if result.result is None and result.media else [_text(text_of(result))]
    blocks += map(block_of, result.media)
    return blocks + [_text(f"[{each}]") for each in (*((result.hint,) if result.hint else ()), *result.left_out)]


def text_of(result: ToolResult) -> str:
    """Return the value of a result as a text: itself, or JSON."""
    if isinstance(result.result, str):
        return result.result
    return result.encoded if result.encoded is not None else as_json(result.result)[1]


def block_of(part: MediaPart) -> dict[str, Any]:
    """Return a medium as a block of content."""
    if part.kind in ("image", "audio"):
        return {"type": part.kind, "data": _encoded(part.data), "mimeType": part.mime_type}
    name = part.name or "file"
    uri = name if "://" in name else f"flexchat://media/{quote(name)}"
    return {"type": "resource", "resource": resource_content(uri, part.mime_type, part.data or b"")}


def resource_content(uri: str, mime_type: str | None, data: bytes | str) -> dict[str, Any]:
    """Return the content of a resource: as a text if it is one, else as Base64."""
    kind = {"mimeType": mime_type} if mime_type else {}
    is_text = mime_type is None or mime_type.startswith("text/") or mime_type in JSON_TYPES
    if isinstance(data, bytes) and is_text:
        try:
            data = data.decode()
        except UnicodeDecodeError:
            return {"uri": uri, **kind, "blob": _encoded(data)}
    return {"uri": uri, **kind, **({"text": data} if isinstance(data, str) else {"blob": _encoded(data)})}


def messages_of(result: ToolResult) -> list[dict[str, Any]]:
    """Return a result as the messages of a prompt: media first, so that the text can be about them."""
    blocks: Sequence[dict[str, Any]] = sorted(content_of(result), key=lambda block: block["type"] == "text")
    return [{"role": "user", "content": block} for block in blocks]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _encoded(data: bytes | str | None) -> str:
    return base64.b64encode(data.encode() if isinstance(data, str) else data or b"").decode()
