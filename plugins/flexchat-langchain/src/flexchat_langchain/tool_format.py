"""Tool definitions as every LangChain integration takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flexchat.plugin import ToolDefinition


def encode_tools(tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
    """Return tools for bind_tools. The schema goes whole: what a service does not take, its integration rewrites.

    Source: langchain_core.utils.function_calling.convert_to_openai_tool, which leaves this form as it is.
    """
    return [{"type": "function", "function": _function(tool)} for tool in tools]


def _function(tool: ToolDefinition) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {**function, "strict": True} if tool.strict else function
