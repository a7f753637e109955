"""Which of the offered tools a model may or must call, in the terms of both APIs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flexchat_sdk import ChatOptions, ProviderRequestError


def tool_name(tool: Mapping[str, Any]) -> Any:
    """Return the name of a tool in either wire format."""
    function = tool.get("function")
    return function.get("name") if isinstance(function, dict) else tool.get("name")


def shown_tools(options: ChatOptions, is_openai: bool) -> tuple[str, ...] | None:
    """Return the names of the tools that are sent; None for all.

    OpenAI gets all of them and a list of those it may call, which preserves its prompt cache. Other servers refuse or
    ignore that list (OpenRouter, xAI) and get only the allowed tools.

    Raises:
        ProviderRequestError: None of the allowed tools is offered.
    """
    allowed = options.allowed_tools
    if not allowed or options.tool_choice == "none":
        return None
    offered = {tool_name(tool) for tool in options.tools}
    if offered.isdisjoint(allowed):
        raise ProviderRequestError(f"none of the allowed tools is offered: {', '.join(allowed)}")
    if is_openai or (options.tool_choice == "required" and len(allowed) == 1):
        return None
    return allowed


def tool_fields(options: ChatOptions, is_openai: bool, parallel: bool | None, *, flat: bool) -> dict[str, Any]:
    """Return the fields about tools, for a request with tools; ``flat`` as for tool_choice.

    Args:
        parallel: Whether one answer may have several calls, if the options leave it open; None: the server decides.
    """
    parallel = parallel if options.parallel_tool_calls is None else options.parallel_tool_calls
    fields = {"tool_choice": tool_choice(options, is_openai, flat=flat)}
    return fields if parallel is None else {**fields, "parallel_tool_calls": parallel}


def tool_choice(options: ChatOptions, is_openai: bool, *, flat: bool) -> str | dict[str, Any]:
    """Return the value of ``tool_choice``.

    Args:
        flat: Name a tool as the Responses API does: without a ``function`` table.
    """
    mode, allowed = options.tool_choice, options.allowed_tools
    if not allowed or mode == "none":
        return mode
    if mode == "required" and len(allowed) == 1:
        return _choose(allowed[0], flat)
    if not is_openai:
        return mode
    choice = {"mode": mode, "tools": [_choose(name, flat) for name in allowed]}
    return {"type": "allowed_tools", **choice} if flat else {"type": "allowed_tools", "allowed_tools": choice}


def _choose(name: str, flat: bool) -> dict[str, Any]:
    return {"type": "function", "name": name} if flat else {"type": "function", "function": {"name": name}}
