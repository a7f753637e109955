"""flexchat mcp inspect: what servers list now, and what of that is suspicious."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import click
from flexchat import FlexChat, FlexChatError
from flexchat.host import counted
from flexchat.plugin import ToolSourceError
from flexchat_cli import FAILED, OK, CommandContext, Terminal
from flexchat_sdk import clean_text

from ..inspect import Finding, findings
from ..listing import effect_of, select_tools
from ..settings import McpConfig
from .opening import choose_servers, open_server, optional_server_argument, tenant_option

_MAX_NOTE_CHARS = 110


@click.command
@optional_server_argument
@tenant_option
@click.pass_obj
def inspect_(context: CommandContext, server: str | None, tenant: str | None) -> int:
    """Show the current tools of MCP servers, and what is suspicious about them.

    It finds hidden characters, instructions to the model, and names that imitate other tools. Nothing is accepted.
    The exit status is 1 if something was found.
    """
    terminal, chat = context.terminal, context.open_tools()[0]
    names = choose_servers(chat, server, tenant)
    inspected = asyncio.run(_look_all(chat, names, tenant))
    data: list[dict[str, Any]] = []
    failed = False
    for name in names:
        results = inspected[name]
        if isinstance(results, FlexChatError):
            failed = True
            terminal.error(f"{name}: {results}")
            data.append({"server": name, "error": str(results)})
            continue
        config = chat.tools.sources.by_name[name].settings
        suspicious = findings(results, others=_others(chat, name, inspected))
        failed = failed or bool(suspicious)
        tools = [
            {"name": tool["name"], "effect": effect_of(tool, config.effects), "definition": tool} for tool in results
        ]
        problems = [{"tool": each.tool, "place": each.place, "what": each.what} for each in suspicious]
        data.append({"server": name, "tools": tools, "findings": problems})
        if not context.json:
            show(terminal, name, results, config, suspicious)
    if context.json:
        terminal.json(data)
    return FAILED if failed else OK


Looked = Mapping[str, "Sequence[Mapping[str, Any]] | FlexChatError"]


async def _look_all(chat: FlexChat, names: Sequence[str], tenant: str | None) -> Looked:
    async def look(name: str) -> Sequence[Mapping[str, Any]] | FlexChatError:
        async with open_server(chat, name, tenant=tenant) as source:
            try:
                return select_tools((await source.listing()).tools, source.config)
            except ToolSourceError as error:
                return error

    async with chat:
        return dict(zip(names, await asyncio.gather(*map(look, names)), strict=True))


def _others(chat: FlexChat, name: str, inspected: Looked) -> dict[str, list[str]]:
    """Return ToolSources.others with what the other servers have now in place of what was accepted of them."""
    sources = chat.tools.sources
    prefix, others = sources.state(name).prefix, sources.others(name)
    for other, other_tools in inspected.items():
        if other != name and not isinstance(other_tools, FlexChatError):
            called = [sources.state(other).prefix + tool["name"] for tool in other_tools]
            others[other] = [each.removeprefix(prefix) for each in called if each.startswith(prefix)]
    return others


def show(
    terminal: Terminal, name: str, tools: Sequence[Mapping[str, Any]], config: McpConfig, results: Sequence[Finding]
) -> None:
    """Print a server's tools, and what is suspicious about them."""
    terminal.out(f"{name}: {counted(len(tools), 'tool')}", "bold")
    width = max((len(tool["name"]) for tool in tools), default=0)
    for tool in tools:
        about = " ".join(clean_text(tool.get("description") or "").split())
        line = f"  {tool['name']:{width}}  {effect_of(tool, config.effects):10}  {about}"
        terminal.out(line if len(line) <= _MAX_NOTE_CHARS else line[: _MAX_NOTE_CHARS - 1] + "…")
    for each in results:
        terminal.out(f"  {each.tool}: {each.place} {each.what}", "red")
    if not results:
        terminal.say("nothing suspicious was found, which proves nothing about what the server does", "dim")
