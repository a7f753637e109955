"""flexchat mcp login and logout: the tokens of a server over HTTP."""

from __future__ import annotations

import asyncio

import click
from flexchat import FlexChat
from flexchat.host import DEFAULT_TENANT, counted
from flexchat.plugin import ToolSourceError
from flexchat_cli import CommandContext, Terminal, UsageError

from ..settings import McpConfig
from ..tokens import TokenFile
from .opening import choose_servers, open_server, server_argument, tenant_option


@click.command
@server_argument
@tenant_option
@click.pass_obj
def login(context: CommandContext, server: str, tenant: str | None) -> None:
    """Sign in at an MCP server, with a browser.

    The browser opens a page of the server, and comes back to this machine. The tokens are kept in a file that only you
    can read; turns use and renew them.
    """
    chat = context.open_tools()[0]
    (name,) = choose_servers(chat, server, tenant)
    file = _file_of(chat, name, tenant)
    try:
        count = asyncio.run(_sign_in_anew(chat, name, file, context.terminal, tenant))
    except ToolSourceError as error:
        raise UsageError(f"{name}: {error}") from None
    tools = counted(count, "tool")
    if not file.read().get("tokens"):
        context.terminal.say(f"{name} did not ask anybody to sign in; it has {tools}", "dim")
        return
    if context.json:
        context.terminal.json({"server": name, "tools": count})
    else:
        context.terminal.say(f"signed in at {name}; it has {tools}")


@click.command
@server_argument
@tenant_option
@click.pass_obj
def logout(context: CommandContext, server: str, tenant: str | None) -> None:
    """Forget the tokens of an MCP server."""
    chat = context.open_tools()[0]
    (name,) = choose_servers(chat, server, tenant)
    was_there = asyncio.run(_file_of(chat, name, tenant).forget())
    if context.json:
        context.terminal.json({"server": name, "was_signed_in": was_there})
    else:
        context.terminal.say(f"signed out of {name}" if was_there else f"nobody was signed in at {name}", "dim")


def _file_of(chat: FlexChat, name: str, tenant: str | None) -> TokenFile:
    config: McpConfig = chat.tools.sources.by_name[name].settings
    if config.url is None or config.auth is None or not config.auth.oauth:
        raise UsageError(f"{name} needs no signing in: its table has no url with auth = {{ oauth = true }}")
    return TokenFile(config.url, tenant or DEFAULT_TENANT)


async def _sign_in_anew(chat: FlexChat, name: str, file: TokenFile, terminal: Terminal, tenant: str | None) -> int:
    await file.forget()
    async with chat, open_server(chat, name, terminal, tenant=tenant) as source:
        return len((await source.listing(fresh=True)).tools)
