"""The configuration of someone who has none: the rehearsal model, and every ready-made tool that works by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..app import FlexChat
from ..assembly import Parts, require_gates
from ..calls.manager import ToolManager
from ..llms.llm import Llms
from ..plugin.host import PluginHost
from ..tools.settings import tool_trouble
from .usage import UsageError

_CASES: tuple[Mapping[str, Any], ...] = (
    {
        "name": "a sum",
        "message": "What is 12.5 * 8?",
        "calls": [{"tool": "calculator", "check": {"expression": {"regex": r"12\.5\s*\*\s*8"}}}],
        "answer": {"contains": ["100"]},
    },
    {
        "name": "time in Tokyo",
        "message": "What time is it in Tokyo?",
        "calls": [{"tool": "get_current_datetime", "arguments": {"timezone": "Asia/Tokyo"}}],
    },
    {
        "name": "two questions at once",
        "message": "What time is it in Paris, and what is 3 + 4?",
        "calls": [
            {"tool": "get_current_datetime", "arguments": {"timezone": "Europe/Paris"}},
            {"tool": "calculator", "check": {"expression": {"regex": r"3\s*\+\s*4"}}},
        ],
    },
    {
        "name": "a word replaced",
        "message": "Replace 'cat' by 'dog' in the text 'the cat sat'",
        "calls": [{"tool": "text_replace", "arguments": {"text": "the cat sat", "find": "cat", "replace": "dog"}}],
    },
    {"name": "nothing to call for", "message": "Thanks, that was helpful.", "no_call": True},
    {"name": "no tool knows this", "message": "Who wrote Hamlet?", "no_call": True},
)
"""What models are tried with where nobody has said: a case for each thing a case can show."""


def zero_config(host: PluginHost) -> dict[str, Any]:
    """Return a configuration that needs no key and no network.

    Raises:
        UsageError: No installed plugin offers the rehearsal model.
    """
    if "rehearsal" not in host.providers.by_name:
        raise UsageError(
            "without a configuration (flexchat init writes one, --config FILE names one) the rehearsal model answers, "
            f"and it is missing: {host.providers.missing('rehearsal')}"
        )
    tools = _usable_tools(host)
    stores = {"documents": {"provider": "sqlite"}} if "sqlite" in host.document_stores.by_name else {}
    return {
        "stores": stores,
        "llms": {"rehearsal": {"provider": "rehearsal"}},
        "responses": [{"llm": "rehearsal", "model": "rehearsal", "tools": {"enabled": True}}],
        "tools": {"registry": [{"name": name} for name in tools], "at_limit": "answer"},
        "validation": {"cases": [case for case in _CASES if _tools_of(case) <= {*tools}]},
    }


def without_model(host: PluginHost) -> FlexChat:
    """Return a chat that has the same tools and cannot answer.

    Raises:
        ConfigError: A gate is not active.
    """
    from ..config.model import Config, ToolEntry, ToolsTable

    require_gates(host)
    table = ToolsTable(registry=tuple(ToolEntry(name=name) for name in _usable_tools(host)))
    tools = ToolManager.from_plugins(host, table)
    tools.load_tools()
    return FlexChat(Parts(config=Config(tools=table), llms=Llms(), tools=tools))


def _tools_of(case: Mapping[str, Any]) -> set[str]:
    return {call["tool"] for call in case.get("calls", ())}


def _usable_tools(host: PluginHost) -> list[str]:
    # Internal tools look into the document stores of the configuration, of which there are none.
    return [
        name
        for name, tool in host.tools.by_name.items()
        if tool.implementation.type != "internal" and tool_trouble(tool, host) is None
    ]
