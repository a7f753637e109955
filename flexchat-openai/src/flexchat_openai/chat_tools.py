"""Converts tool definitions to the Chat Completions format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flexchat.plugin import ToolDefinition

from .schemas import sent_parameters


def encode_tools(tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
    """Return the ``tools`` array of a request. ``strict`` is sent only for tools that ask for it.

    Raises:
        ProviderRequestError: A schema cannot be expressed; kind "invalid_schema".

    Source: OpenAI tool format of the specification.
    """
    return [{"type": "function", "function": _function(tool)} for tool in tools]


def _function(tool: ToolDefinition) -> dict[str, Any]:
    schema, strict = sent_parameters(tool, bool(tool.strict))
    function = {"name": tool.name, "description": tool.description, "parameters": schema}
    return {**function, "strict": True} if strict else function
