"""Converts tool definitions to the Responses API format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flexchat.plugin import ToolDefinition

from .schemas import sent_parameters


def encode_tools(tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
    """Return the ``tools`` array of a request. ``strict`` is always sent: here, omitting it means "try it".

    Raises:
        ProviderRequestError: A schema cannot be expressed; kind "invalid_schema".
    """
    return [_function(tool) for tool in tools]


def _function(tool: ToolDefinition) -> dict[str, Any]:
    schema, strict = sent_parameters(tool, tool.strict)
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": schema,
        "strict": strict,
    }
