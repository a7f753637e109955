"""flexchat mcp list: the configured servers; none is started."""

from __future__ import annotations

from typing import Any

import click
from flexchat_cli import CommandContext

from .opening import choose_servers, target_of


@click.command
@click.pass_obj
def list_(context: CommandContext) -> None:
    """List the configured MCP servers.

    None is started: the tools are those that were accepted.
    """
    terminal, chat = context.terminal, context.open_tools()[0]
    rows: list[dict[str, Any]] = []
    for name in choose_servers(chat, None):
        state, live = chat.tools.sources.state(name), chat.tools.sources.by_name[name]
        rows.append(
            {
                "name": name,
                "runs": target_of(live.settings),
                "accepted": state.accepted,
                "tools": {tool.name: tool.effect for tool in state.tools},
                "left_out": dict(state.left_out),
            }
        )
    if context.json:
        terminal.json(rows)
        return
    table = []
    for row in rows:
        writes = sum(effect == "write" for effect in row["tools"].values())
        count = f"{len(row['tools'])} tools, {writes} of them write" if row["accepted"] else "tools not known yet"
        table.append((row["name"], count, row["runs"]))
    terminal.table(("server", "tools", "runs"), table)
    if not all(row["accepted"] for row in rows):
        terminal.say("flexchat mcp inspect shows what a server has, flexchat tools accept NAME accepts it", "dim")
