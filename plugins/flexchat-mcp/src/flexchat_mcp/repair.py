"""Repairs what servers list and answer, part by part, before the SDK checks it as a whole.

An odd tool costs that tool, an odd key that key, an odd part of an answer that part's form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types as types
from mcp_types import methods
from pydantic import ValidationError

from .settings import MODERN

LISTED = "flexchat/listed"
"""Key in _meta of a repaired list: the tools as the server defines them, and the reasons for those left out."""

MAX_TRIED = 1_000
"""Parts of an answer that are tried one by one; of the rest, only texts keep their form."""
MAX_ERRORS = 100
"""Errors in one tool that are looked at; a tool with more keeps what it needs."""

_NEEDED = ("name", "inputSchema", "description")
_MODERN_RESULT = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}


def repair_list(result: dict[str, Any], version: str) -> dict[str, Any]:
    """Return a page of a server's tools of which the SDK accepts every one; LISTED holds the tools themselves.

    Args:
        version: Of the protocol.
    """
    items = result.get("tools")
    if not isinstance(items, list):
        return result
    tools: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    for index, item in enumerate(items):
        tool = _tool(item)
        if isinstance(tool, dict):
            tools.append(tool)
        else:
            left_out[_name_of(item, index)] = tool
    for_sdk = [_for_sdk(tool, version) for tool in tools]
    meta = result["_meta"] if isinstance(result.get("_meta"), Mapping) else {}
    repaired = {**result, "tools": for_sdk, "_meta": {**meta, LISTED: {"tools": tools, "left_out": left_out}}}
    if result.get("nextCursor") in ("", None):  # some servers write the end of the list so
        repaired.pop("nextCursor", None)
    return repaired


def repair_call(result: dict[str, Any], version: str) -> dict[str, Any]:
    """Return a call's result that the SDK accepts: a part of no known form becomes a text with its JSON."""
    if result.get("resultType", "complete") != "complete" or ("task" in result and "content" not in result):
        return result  # a task, or a question
    repaired = {key: value for key, value in result.items() if value is not None}
    structured = repaired.get("structuredContent")
    if structured is not None and not isinstance(structured, Mapping) and version < MODERN:
        del repaired["structuredContent"]  # earlier versions have objects only
    content = repaired.get("content", [])
    parts = [content] if isinstance(content, (str, Mapping)) else content
    if not isinstance(parts, list):
        return result  # it is no answer
    if "structuredContent" not in repaired and structured is not None and not parts:
        parts = [structured]
    if "content" in repaired or "structuredContent" in result:
        repaired["content"] = _parts(parts, version)
    is_error = repaired.get("isError", False)
    if not isinstance(is_error, bool):
        repaired["isError"] = str(is_error).lower() not in ("false", "0", "")
    if "_meta" in repaired and not isinstance(repaired["_meta"], Mapping):
        del repaired["_meta"]
    return repaired


def _parts(parts: list[Any], version: str) -> list[Any]:
    # Nearly every answer is plain texts, which each version accepts: the SDK checks them a second time.
    if all(_is_plain_text(part) for part in parts):
        return parts
    if all(isinstance(part, dict) for part in parts) and _are_accepted(parts, version):
        return parts
    there = [part for part in parts if part is not None]
    repaired: list[Any] = []
    is_made = False  # texts made in a row are one part, as the model reads them: the SDK takes long over many parts
    for index, part in enumerate(there):
        repaired_part = _part(part, version if index < MAX_TRIED else None)
        was_made, is_made = is_made, repaired_part is not part
        if was_made and is_made:
            repaired[-1].append(repaired_part["text"])
        else:
            repaired.append([repaired_part["text"]] if is_made else part)
    return [{"type": "text", "text": "\n".join(part)} if isinstance(part, list) else part for part in repaired]


def _is_plain_text(part: Any) -> bool:
    return isinstance(part, dict) and len(part) == 2 and part.get("type") == "text" and type(part.get("text")) is str


def _are_accepted(parts: list[Any], version: str) -> bool:
    """Whether the SDK accepts these parts; found out piece by piece, because it lists the faults of all it is given."""
    pieces = (parts[start : start + MAX_TRIED] for start in range(0, len(parts), MAX_TRIED))
    return all(_is_accepted("tools/call", version, {"content": piece}) for piece in pieces)


def _tool(item: Any) -> dict[str, Any] | str:
    """Return a tool without the keys whose values are of no use, or the reason it cannot be one."""
    if not isinstance(item, Mapping):
        return f"it is {_kind(item)}, and not an object"
    fields = {str(key): value for key, value in item.items() if value is not None}
    if not isinstance(fields.get("name"), str) or not fields["name"]:
        return "it has no name"
    if "inputSchema" not in fields:
        return "it has no inputSchema"
    if not isinstance(fields["inputSchema"], Mapping):
        return f"its inputSchema is {_kind(fields['inputSchema'])}, and not an object"
    for _ in range(3):  # unchanged; without the invalid parts; only the required parts
        try:
            tool = types.Tool.model_validate(fields, by_name=False)
            return tool.model_dump(mode="json", by_alias=True, exclude_none=True)
        except ValidationError as error:
            fields = _without(fields, _places(error))
    return "it is not what MCP says"


def _without(tool: Mapping[str, Any], places: Sequence[Sequence[int | str]]) -> dict[str, Any]:
    """Return a tool without what is wrong in it: a key, or a key of its annotations; with what it needs if all may be.

    Args:
        places: Where it is wrong; empty for too many places.
    """
    if not places:
        return {key: tool[key] for key in _NEEDED if isinstance(tool.get(key), (str, Mapping))}
    fields = dict(tool)
    for place in places:
        key = str(place[0])
        annotations = fields.get(key)
        if key == "annotations" and len(place) > 1 and isinstance(annotations, Mapping):
            fields[key] = {name: value for name, value in annotations.items() if name != place[1]}
        else:
            fields.pop(key, None)
    return fields


def _places(error: ValidationError) -> list[tuple[int | str, ...]]:
    if error.error_count() > MAX_ERRORS:
        return []
    return [each["loc"] for each in error.errors(include_url=False, include_input=False, include_context=False)]


def _for_sdk(tool: dict[str, Any], version: str) -> dict[str, Any]:
    """Return a tool in a form its version of the protocol allows; calls are checked by the schema the server lists."""
    if _is_accepted("tools/list", version, {"tools": [tool]}):
        return tool
    return {"name": tool["name"], "inputSchema": {"type": "object"}}


def _part(part: Any, version: str | None) -> dict[str, Any]:
    if version is not None and isinstance(part, dict) and _is_accepted("tools/call", version, {"content": [part]}):
        return part
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    return {"type": "text", "text": part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)}


def _is_accepted(method: str, version: str, result: Mapping[str, Any]) -> bool:
    """Whether the SDK accepts a result in a version of the protocol."""
    data = {**result, **(_MODERN_RESULT if version >= MODERN else {})}
    try:
        methods.validate_server_result(method, version, data)
        if method == "tools/call":  # the newest version also allows other answers, of any content
            types.CallToolResult.model_validate(data, by_name=False)
    except (ValueError, KeyError):  # pydantic's errors are values; a version the SDK does not check is a key
        return False
    return True


def _name_of(item: Any, index: int) -> str:
    name = item.get("name") if isinstance(item, Mapping) else None
    return name if isinstance(name, str) and name else f"tool {index + 1}"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    return {str: "a text", bool: "a boolean", list: "a list"}.get(type(value), "a number")
