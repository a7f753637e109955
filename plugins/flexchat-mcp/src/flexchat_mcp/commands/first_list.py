"""The first list of servers that were just added: shown, and accepted unless something in it is suspicious."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import attrs
from flexchat import FlexChat, ToolChangedError
from flexchat.plugin import ToolSourceError
from flexchat_cli import FAILED, OK, CommandContext, Terminal

from ..inspect import findings
from ..listing import select_tools, to_sourced_tool
from ..settings import McpConfig
from ..source import McpSource
from .inspect_ import show
from .opening import open_server, servers


def accept_first(context: CommandContext, names: Sequence[str]) -> int:
    """Start the servers, show what they list, and accept it; a person has to look at what is suspicious first.

    Raises:
        ConfigError: The config, which now has the servers, cannot be used.
        ToolsLockError: What is accepted cannot be kept.
    """
    terminal, chat = context.terminal, attrs.evolve(context).open_tools()[0]  # a copy has read no config yet
    if not {*names} <= {*servers(chat)}:
        terminal.say("tools.enabled is false, so nothing was started", "dim")
        return OK
    works = asyncio.run(_accept_all(chat, names, terminal))
    offered = {name for rule in chat.config.responses for name in chat.tools.offered_to(rule)}
    tools = [tool for tool in chat.tools.get_registry().list() if tool.source in names]
    if tools and not any(tool.name in offered for tool in tools):
        patterns = ", ".join(f'"{name}/*"' for name in names)
        terminal.say(f"no rule offers their tools yet; one does with tools = {{ allowed_tools = [{patterns}] }}", "dim")
    return OK if works else FAILED


async def _accept_all(chat: FlexChat, names: Sequence[str], terminal: Terminal) -> bool:
    works = True
    async with chat:
        for name in names:
            try:
                works = await _accept(chat, name, terminal) and works
            except (ToolSourceError, ToolChangedError) as error:
                terminal.error(f"{name}: {error}")
                terminal.say(f"it is in the config all the same; flexchat mcp doctor {name} tries it again", "dim")
                works = False
    return works


async def _accept(chat: FlexChat, name: str, terminal: Terminal) -> bool:
    """Accept what a server lists; return False, and leave it, if something in it is suspicious.

    Raises:
        ToolSourceError: The server cannot be started, or does not list its tools, or not the same ones twice.
        ToolsLockError: What is accepted cannot be kept.
    """
    sources = chat.tools.sources
    config: McpConfig = sources.by_name[name].settings
    tools = await _list_tools(chat, name, terminal)
    suspicious = findings(tools, others=sources.others(name))
    show(terminal, name, tools, config, suspicious)
    if suspicious:
        terminal.say(f"none of its tools were accepted; if they are as they should be: flexchat tools accept {name}")
        return False
    digests = {tool["name"]: to_sourced_tool(tool, config).digest for tool in tools}
    state = await sources.look(name, accept_first=False)
    now = {change.name: change.now.digest for change in state.changes if change.now is not None}
    if any(digests.get(tool) != digest for tool, digest in now.items()):
        raise ToolSourceError("it lists something else than it did a moment ago, so nothing was accepted")
    await sources.accept(name, seen=now)
    for tool, why in state.left_out.items():
        terminal.say(f"{tool} is left out: {why}")
    terminal.say(f"accepted into {sources.lock_path.name}", "dim")
    return True


async def _list_tools(chat: FlexChat, name: str, terminal: Terminal) -> Sequence[Mapping[str, Any]]:
    live = chat.tools.sources.by_name[name]
    config: McpConfig = live.settings
    if config.auth is not None and config.auth.oauth and terminal.interactive():
        async with open_server(chat, name, terminal) as signed_in:
            return select_tools((await signed_in.listing()).tools, config)
    source = cast(McpSource, await live.opened())  # the one that is looked at afterwards: it is started once
    return select_tools((await source.listing()).tools, config)
