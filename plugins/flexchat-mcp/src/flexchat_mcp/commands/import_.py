"""flexchat mcp import: the servers of another program's file into the config."""

from __future__ import annotations

from pathlib import Path

import click
from flexchat.host import read_file
from flexchat_cli import FILE_NAME, CommandContext, UsageError, argument

from .add import add_entries, escape
from .entries import EntriesError, read_entries

_MAX_BYTES = 4 * 2**20


@click.command
@argument("file", metavar="FILE", type=FILE_NAME, help="claude_desktop_config.json, .cursor/mcp.json, .vscode/mcp.json")
@click.option("--only", multiple=True, metavar="NAME", help="only this server; repeatable")
@click.option("--yes", is_flag=True, help="do not ask")
@click.option("--later", is_flag=True, help="do not start them now: their tools are accepted when somebody needs them")
@click.pass_obj
def import_(context: CommandContext, file: str, only: tuple[str, ...], yes: bool, later: bool) -> int:
    """Add the MCP servers of another program's file to the configuration, and accept their tools.

    It reads the files of Claude Desktop, Cursor and VS Code. What will run is shown first. Then each server is started
    once, to list its tools.
    """
    try:
        text = read_file(Path(file), most=_MAX_BYTES).decode("utf-8-sig")
        entries, left_out = read_entries(text)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file}: it is not UTF-8") from None
    except EntriesError as error:
        raise UsageError(f"{file}: {error}") from None
    for reason in left_out:
        context.terminal.say(escape(reason))
    if unknown := [name for name in only if name not in {entry.name for entry in entries}]:
        raise UsageError(f"{file} has no server '{unknown[0]}'; it has: {', '.join(e.name for e in entries) or 'none'}")
    chosen = [entry for entry in entries if not only or entry.name in only]
    return add_entries(context, chosen, is_agreed=yes, starts=not later)
