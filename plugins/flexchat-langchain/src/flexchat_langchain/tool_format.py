"""Tool definitions in the format that all LangChain integrations accept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flexchat.plugin import ToolDefinition


def encode_tools(tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
    """Encode tools for bind_tools. Schemas are passed unchanged: integrations rewrite unsupported keywords.

    Source: langchain_core.utils.function_calling.convert_to_openai_tool, which does not change this form.
    """
    return [{"type": "function", "function": _function(tool)} for tool in tools]


def _function(tool: ToolDefinition) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {**function, "strict": True} if tool.strict else function
