"""The implementation type "langchain", a LangChain tool run by FlexChat, and the format of tools for LangChain models.

Does not import LangChain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from flexchat.plugin import (
    ImplementationType,
    MediaPart,
    ToolContext,
    ToolDefinition,
    ToolHandler,
    WithMedia,
    run_in_thread,
)

from .blocks import apart


@attrs.frozen(kw_only=True)
class LangChainTool:
    """Settings of a definition created by flexchat_tool. Not available in configuration files.

    Attributes:
        tool: The BaseTool.
        blocks: The tool has no coroutine, so it runs in a thread.
        injected: Arguments supplied by the program rather than the model, by name.
    """

    tool: Any
    blocks: bool = True
    injected: Mapping[str, Any] = attrs.field(factory=dict)


async def _run(settings: LangChainTool, params: Mapping[str, Any], context: ToolContext) -> Any:
    # Invoked with a tool call, so that InjectedToolCallId is filled in and failures have status "error".
    id = context.call_id or "call"
    call = {"type": "tool_call", "id": id, "name": settings.tool.name, "args": {**params, **settings.injected}}
    answer = await run_in_thread(settings.tool.invoke, call) if settings.blocks else await settings.tool.ainvoke(call)
    if not hasattr(answer, "tool_call_id"):
        raise TypeError(f"the tool returned a {type(answer).__name__}, which only LangGraph can use")
    content, media = _value(answer.content)
    if answer.status == "error":
        raise RuntimeError(content if isinstance(content, str) else str(content))
    return WithMedia(content, media) if media else content


def _value(content: Any) -> tuple[Any, tuple[MediaPart, ...]]:
    """Split a tool message's content into a value and media; text-only content becomes a string."""
    if isinstance(content, str):
        return content, ()
    content, media = apart(content, inline=True)
    texts = [block if isinstance(block, str) else block.get("text") for block in content]
    plain = all(isinstance(block, str) or block.get("type") == "text" for block in content)
    return "\n".join(map(str, texts)) if plain else content, media


def _check(settings: Any, tool: ToolDefinition, handlers: Mapping[tuple[str, str], ToolHandler]) -> str | None:
    if hasattr(settings.tool, "invoke"):
        return None
    return "a tool of LangChain's is given in code: FlexChat.from_config(..., tools=[flexchat_tool(tool)])"


LANGCHAIN = ImplementationType(
    name="langchain",
    settings_class=LangChainTool,
    run=_run,
    check=_check,
    summary="a tool of LangChain's, given in code: flexchat_langchain.tools.flexchat_tool",
)
"""The implementation type this package brings."""


def encode_tools(tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
    """Encode tools for bind_tools. Schemas are passed unchanged: integrations rewrite unsupported keywords.

    Source: langchain_core.utils.function_calling.convert_to_openai_tool, which does not change this form.
    """
    return [{"type": "function", "function": _function(tool)} for tool in tools]


def _function(tool: ToolDefinition) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {**function, "strict": True} if tool.strict else function
