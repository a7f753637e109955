"""Schemas that the operations on the configuration share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flexchat import FlexChat, Problem

TEXT = {"type": "string"}
FORMAT = {"enum": ["toml", "yaml", "json"]}
FLAW = {
    "type": "object",
    "description": "A problem or note, with its place.",
    "properties": {"path": TEXT, "text": TEXT, "line": {"type": ["integer", "null"]}},
    "required": ["path", "text", "line"],
}
FLAWS = {"type": "array", "items": FLAW}
STATUS = {
    "type": "object",
    "properties": {
        "config_loaded": {"type": "boolean"},
        "ai_providers": {"type": "array", "items": TEXT},
        "rag_providers": {"type": "array", "items": TEXT},
    },
    "required": ["config_loaded", "ai_providers", "rag_providers"],
}


def an_object(required: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the schema of a closed object."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": [*required],
        "additionalProperties": False,
    }


def flaws_as_data(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    """Return problems as JSON data."""
    return [{"path": each.path, "text": each.text, "line": each.line} for each in problems]


def status_of(chat: FlexChat) -> dict[str, Any]:
    """List the names of the current configuration's services."""
    config = chat.config
    return {"config_loaded": True, "ai_providers": [*config.llms], "rag_providers": [*config.stores]}
