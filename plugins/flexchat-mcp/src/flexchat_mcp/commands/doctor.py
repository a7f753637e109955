"""flexchat mcp doctor: starts each server, and reports what works and what does not."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import click
from flexchat import FlexChat
from flexchat.host import counted
from flexchat.plugin import ToolSourceError
from flexchat_cli import FAILED, OK, CommandContext, Terminal

from ..listing import remarks
from .opening import choose_servers, open_server, optional_server_argument, target_of, tenant_option

_LAST_LINES = 5


@click.command
@optional_server_argument
@tenant_option
@click.pass_obj
def doctor(context: CommandContext, server: str | None, tenant: str | None) -> int:
    """Start MCP servers and report what works and what does not.

    No tool is called. The exit status is 1 if something does not work.
    """
    terminal, chat = context.terminal, context.open_tools()[0]
    reports = asyncio.run(_examine_all(chat, choose_servers(chat, server, tenant), tenant))
    if context.json:
        terminal.json(reports)
    else:
        for each in reports:
            _show(terminal, each)
    return FAILED if any(each["trouble"] for each in reports) else OK


async def _examine_all(chat: FlexChat, names: list[str], tenant: str | None) -> list[dict[str, Any]]:
    async with chat:
        return await asyncio.gather(*(_examine(chat, name, tenant) for name in names))


async def _examine(chat: FlexChat, name: str, tenant: str | None) -> dict[str, Any]:
    live = chat.tools.sources.by_name[name]
    async with open_server(chat, name, tenant=tenant) as source:
        started, trouble, tools, notes = time.monotonic(), "", 0, []
        try:
            listing = await source.listing()
            tools = len(listing.tools)
            notes += remarks(listing, source.config)
        except ToolSourceError as error:
            trouble = str(error)
        took_ms = round((time.monotonic() - started) * 1000)
        if not trouble and took_ms / 1000 > live.timeout_s:
            notes.append(f"it took longer than its timeout_ms of {live.timeout_s * 1000:g}: raise that")
        state = source.server.state
        return {
            "server": name,
            "runs": target_of(source.config),
            "trouble": trouble,
            "version": state.version,
            "tools": tools,
            "took_ms": took_ms,
            "notes": notes,
            "stderr": list(state.last_lines),
        }


def _show(terminal: Terminal, report: dict[str, Any]) -> None:
    if report["trouble"]:
        terminal.out(f"{report['server']}: {report['trouble']}", "red")
        is_url = report["runs"].startswith(("http://", "https://"))
        terminal.out(f"  {'it is at' if is_url else 'it runs'}: {report['runs']}")
    else:
        tools = counted(report["tools"], "tool")
        terminal.out(f"{report['server']}: works; {tools}, MCP {report['version']}, after {report['took_ms']:,} ms")
    for note in report["notes"]:
        terminal.out(f"  {note}")
    if report["trouble"] or terminal.verbose:
        for line in report["stderr"][-_LAST_LINES:]:
            terminal.out(f"  stderr: {line}", "dim")
