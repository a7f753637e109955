"""What ``flexchat check`` notes about [mcp_server]: names and patterns that fit no tool."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from flexchat.host import did_you_mean
from flexchat.plugin import CheckedConfig

from .settings import TABLE, McpServerConfig


def review_server(read: CheckedConfig, parts: Any) -> None:
    """Note entries of ``tools`` and ``tasks`` that fit no tool, as far as the tools are known."""
    config: McpServerConfig = parts.config.tables[TABLE]
    if not (config.tools or config.tasks):
        return  # nothing is read of sources
    registry, sources = parts.tools.get_registry(), parts.tools.sources.by_name
    tools = registry.list()
    known = {tool.name for tool in tools} | {f"{tool.source}/*" for tool in tools if tool.source is not None}
    unread = {f"{name}/*" for name in sources} - known
    for index, name in enumerate(config.tools or ()):
        # A source that was never opened may have a tool of any name.
        if name not in known | unread and (not unread or "*" in name):
            hint = did_you_mean(name, sorted(known | unread)) or " (names of tools, or SOURCE/* for all of a source)"
            read.note((TABLE, "tools", index), f"no tool is called '{name}'{hint}")
    served = sorted({"ask", *(tool.name for tool in tools), *(registry.wire_name(tool.name) for tool in tools)})
    for pattern in () if unread else config.tasks:
        if not any(fnmatchcase(name, pattern) for name in served):
            read.note((TABLE, "tasks", pattern), f"no tool fits '{pattern}'{did_you_mean(pattern, served)}")
