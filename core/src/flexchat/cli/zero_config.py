"""The configuration of someone who has none: the rehearsal model, and every ready-made tool that works by itself."""

from __future__ import annotations

from typing import Any

from ..app import FlexChat
from ..plugin.host import PluginHost
from ..tools.manager import ToolManager
from .usage import UsageError


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
    stores = {"documents": {"provider": "sqlite"}} if "sqlite" in host.retrievers.by_name else {}
    return {
        "rag_services": stores,
        "llms": {"rehearsal": {"provider": "rehearsal"}},
        "responses": [{"llm": "rehearsal", "model": "rehearsal", "tools": {"enabled": True}}],
        "tools": {"registry": [{"name": name} for name in _usable_tools(host)], "at_limit": "answer"},
    }


def without_model(host: PluginHost) -> FlexChat:
    """Return a chat that has the same tools and cannot answer."""
    from ..config.model import Config, ToolEntry, ToolsTable

    table = ToolsTable(registry=tuple(ToolEntry(name=name) for name in _usable_tools(host)))
    tools = ToolManager(
        table,
        implementation_types=host.implementation_types.by_name,
        handlers=host.handlers.by_name,
        offered=host.tools.by_name,
        events=host.events(),
    )
    tools.load_tools()
    return FlexChat(Config(tools=table), providers={}, tools=tools)


def _usable_tools(host: PluginHost) -> list[str]:
    # Internal tools look into the document stores of the configuration, of which there are none.
    return [name for name, tool in host.tools.by_name.items() if tool.implementation.type != "internal"]
