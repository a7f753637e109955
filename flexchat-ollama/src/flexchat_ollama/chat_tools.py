"""Tool definitions in Ollama's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flexchat.plugin import ToolDefinition
from flexchat_sdk import require_parameters

from .dialects import TOOLS


def encode_tools(tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
    """Build the ``tools`` array of a request, with parameters in the subset of JSON Schema that the server supports.

    Raises:
        ProviderRequestError: A schema cannot be expressed; kind "invalid_schema".

    Source: requirement TC-33; ToolFunctionParameters and ToolProperty in api/types.go of the server, which drop what
    they do not know.
    """
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": require_parameters(tool, TOOLS),
            },
        }
        for tool in tools
    ]
