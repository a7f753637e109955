"""Tool format of the rehearsal model: the common format, introduced by OpenAI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flexchat.plugin import ToolDefinition


def encode_tools(tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
    """Encode each tool as ``{"type": "function", "function": {name, description, parameters}}``, schema unchanged."""
    return [
        {
            "type": "function",
            "function": {"name": t.name, "description": t.description, "parameters": dict(t.parameters)},
        }
        for t in tools
    ]
