"""flexchat mcp serve: FlexChat as an MCP server over stdin and stdout, and the lines that make a client start it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import click
from flexchat import FlexChat
from flexchat.host import DEFAULT_TENANT
from flexchat_cli import CommandContext

QUESTIONS_EXPIRE_S = 7 * 86_400.0
"""How long a question of a kept call is open, unless the configuration has questions.expires; as in flexchat serve."""

FILES = {
    "claude": ("mcpServers", "claude_desktop_config.json of Claude Desktop (Settings, Developer, Edit Config)"),
    "vscode": ("servers", ".vscode/mcp.json of a workspace, or the user's mcp.json (MCP: Open User Configuration)"),
    "cursor": ("mcpServers", "~/.cursor/mcp.json, or .cursor/mcp.json of a project"),
}


@click.command
@click.option("--tenant", metavar="NAME", default=DEFAULT_TENANT, help="for whom it works; default: the default tenant")
@click.option(
    "--print-config",
    "client",
    type=click.Choice([*FILES]),
    help="print the lines that make a client start this server, and end; no file is changed",
)
@click.pass_obj
def serve(context: CommandContext, tenant: str, client: str | None) -> None:
    """Serve FlexChat's tools and chat to an MCP client that starts this program.

    It speaks over stdin and stdout, until stdin ends. The config's table [mcp_server] decides what is offered.
    """
    if client is not None:
        _print_config(context, client, tenant)
        return
    asyncio.run(_serve(context.open_chat(), tenant))


async def _serve(chat: FlexChat, tenant: str) -> None:
    from mcp.server.stdio import stdio_server

    from ..serve.lines import input_lines
    from ..serve.server import McpServer
    from ..serve.settings import McpServerConfig

    @contextlib.asynccontextmanager
    async def lend() -> AsyncIterator[FlexChat]:
        yield chat

    if chat.config.questions.expires_s is None:
        chat.questions_expire_s = QUESTIONS_EXPIRE_S
    async with chat:
        settings = chat.config.tables.get("mcp_server") or McpServerConfig()
        server = McpServer(lend, settings, tenant=tenant)
        try:
            async with stdio_server(stdin=input_lines(settings.max_bytes)) as (reading, writing):
                await server.server.run(reading, writing, server.server.create_initialization_options())
        finally:
            await server.aclose()


def _print_config(context: CommandContext, client: str, tenant: str) -> None:
    program = Path(sys.executable).with_name("flexchat")
    command = [str(program)] if program.exists() else [sys.executable, "-m", "flexchat"]
    context.read_config()  # lines with a file that is missing or cannot be read would fail in the client
    file = context.config_file()
    words = [*command[1:], *(["--config", os.path.realpath(file)] if file is not None else []), "mcp", "serve"]
    words += ["--tenant", tenant] if tenant != DEFAULT_TENANT else []
    kind = {"type": "stdio"} if client == "vscode" else {}
    key, place = FILES[client]
    entry = {**kind, "command": command[0], "args": words}
    context.terminal.out(json.dumps({key: {"flexchat": entry}}, indent=2))
    context.terminal.say(f'Add this to {place}. Variables that the config uses go into its "env".', "dim")
