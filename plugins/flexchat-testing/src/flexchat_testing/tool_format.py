"""The tool format of the scripted model: the shape that OpenAI made common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flexchat.plugin import ToolDefinition


def encode_tools(tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
    """Return one ``{"type": "function", "function": {name, description, parameters}}`` per tool, schema unchanged."""
    return [
        {
            "type": "function",
            "function": {"name": t.name, "description": t.description, "parameters": dict(t.parameters)},
        }
        for t in tools
    ]
