"""The default configuration for a user without one: the rehearsal model, and all self-contained ready-made tools."""

from __future__ import annotations

from typing import Any

from flexchat.app import FlexChat
from flexchat.assembly import Parts, create_fetcher, require_gates
from flexchat.calls.manager import ToolManager
from flexchat.domain.masking import Mask
from flexchat.llms.llm import Llms
from flexchat.plugin.host import PluginHost
from flexchat.tools.settings import tool_trouble

from .usage import UsageError


def zero_config(host: PluginHost) -> dict[str, Any]:
    """Return a configuration that needs no key and no network.

    Raises:
        UsageError: No installed plugin offers the rehearsal model.
    """
    if "rehearsal" not in host.providers.by_name:
        raise UsageError(
            "the rehearsal model, which answers without a configuration, is not there: "
            f"{host.providers.missing('rehearsal')}; "
            "flexchat init openai (or ollama, gemini, anthropic, local) writes a configuration"
        )
    tools = _usable_tools(host)
    stores = {"documents": {"provider": "sqlite"}} if "sqlite" in host.document_stores.by_name else {}
    return {
        "stores": stores,
        "llms": {"rehearsal": {"provider": "rehearsal"}},
        "responses": [{"llm": "rehearsal", "model": "rehearsal", "tools": {"enabled": True}}],
        "tools": {"registry": [{"name": name} for name in tools], "at_limit": "answer"},
        **{name: table.demo(tools) for name, table in host.config_tables.by_name.items() if table.demo is not None},
    }


def without_model(host: PluginHost) -> FlexChat:
    """Return a chat that has the same tools but cannot answer.

    Raises:
        ConfigError: A gate is inactive.
    """
    from flexchat.config.model import Config, ToolEntry, ToolsTable

    require_gates(host)
    table = ToolsTable(registry=tuple(ToolEntry(name=name) for name in _usable_tools(host)))
    config = Config(tools=table)
    fetcher = create_fetcher(host, config, Mask())
    tools = ToolManager.from_plugins(host, table, fetcher=fetcher)
    tools.load_tools()
    return FlexChat(Parts(config=config, llms=Llms(), tools=tools, fetcher=fetcher))


def _usable_tools(host: PluginHost) -> list[str]:
    # Internal tools search the configuration's document stores, and there are none.
    return [
        name
        for name, tool in host.tools.by_name.items()
        if tool.implementation.type != "internal" and tool_trouble(tool, host) is None
    ]
