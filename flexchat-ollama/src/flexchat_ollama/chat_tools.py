"""Tool definitions in Ollama's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flexchat.plugin import ToolDefinition
from flexchat_sdk import ProviderRequestError

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
            "function": {"name": tool.name, "description": tool.description, "parameters": _parameters(tool)},
        }
        for tool in tools
    ]


def _parameters(tool: ToolDefinition) -> dict[str, Any]:
    from flexchat_sdk import rewrite  # every command loads this module; few need that one

    made = rewrite(tool.parameters, TOOLS)
    if made.schema is None:
        reasons = "; ".join(note.message for note in made.notes if note.severity == "error")
        raise ProviderRequestError(
            f"Ollama cannot be told the parameters of tool {tool.name}: {reasons}",
            provider="ollama",
            kind="invalid_schema",
        )
    return dict(made.schema)
