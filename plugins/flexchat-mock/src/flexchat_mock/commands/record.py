"""``flexchat tools record``: create a mock from one call of the real tool."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from flexchat import FlexChat
from flexchat.host import PluginHost, path_exists
from flexchat.plugin import ToolDefinition, ToolResult
from flexchat.store import replacing
from flexchat_cli import (
    FAILED,
    FILE_NAME,
    OK,
    CommandContext,
    Terminal,
    UsageError,
    call_arguments,
    find_tool,
    read_arguments,
    tool_name,
)

from ..recording import record_mock


@click.command
@tool_name
@call_arguments
@click.option("--yes", is_flag=True, help="call it without asking, even if it changes something")
@click.option("--out", metavar="FILE", type=FILE_NAME, help="a new .toml or .json file; default: print TOML")
@click.pass_obj
def record(context: CommandContext, name: str, words: tuple[str, ...], yes: bool, out: str | None) -> int:
    """Call a tool once and print a mock that returns the same result."""
    terminal = context.terminal
    chat, host = context.open_tools()
    path = _new_file(out)
    tool, result = asyncio.run(_call(chat, host, name, words, terminal, yes=yes))
    if result is None:
        terminal.say("nothing was called", "dim")
        return FAILED
    if not result.success:
        terminal.error(f"{tool.name}: {result.explained()}")
        return FAILED
    mock = record_mock(tool, result.result, chat.mask)
    is_json = context.json or (path is not None and path.suffix == ".json")
    text = None if is_json else _toml(mock.entry)
    if text is None and not is_json:
        if path is not None:
            raise UsageError(f"the answer has a null, which TOML cannot express: name a .json file instead of {path}")
        terminal.say("note: the answer has a null, which TOML cannot express: this is JSON", "dim")
    text = text or json.dumps({"tools": {"registry": [mock.entry]}}, ensure_ascii=False, indent=2) + "\n"
    if path is None:
        terminal.write(text)
    else:
        with replacing(path) as file:
            file.write(text)
        terminal.say(f"{path}: the mock of {tool.name}")
    if mock.masked:
        terminal.say(f"masked, since it looks like a secret: {', '.join(mock.masked)}")
    return OK


async def _call(
    chat: FlexChat, host: PluginHost, name: str, words: Sequence[str], terminal: Terminal, *, yes: bool
) -> tuple[ToolDefinition, ToolResult | None]:
    """Call the tool after confirmation. Returns the tool and its result; None if the user declined."""
    async with chat:
        tool = await find_tool(chat, host, name)
        arguments = read_arguments(words, tool)
        if tool.effect != "read" and not yes and not _is_confirmed(tool, terminal):
            return tool, None
        return tool, await chat.call_tool(tool.name, arguments, origin="command line")


def _new_file(name: str | None) -> Path | None:
    if name is None:
        return None
    out = Path(name)
    if out.suffix not in (".toml", ".json"):
        raise UsageError(f"--out {name}: a config is a .toml or a .json file")
    if path_exists(out):
        raise UsageError(f"--out {name}: the file exists already; leave --out away, and copy what is printed")
    return out


def _is_confirmed(tool: ToolDefinition, terminal: Terminal) -> bool:
    if not terminal.interactive():
        raise UsageError(f"{tool.name} changes something, and there is no terminal to ask at: --yes calls it")
    return terminal.confirm(f"{tool.name} changes something, for real. Call it?")


def _toml(entry: dict[str, Any]) -> str | None:
    """Format a config with this tool as TOML; None if it contains a null, which TOML cannot express."""
    import tomli_w  # only here

    return None if _has_null(entry) else tomli_w.dumps({"tools": {"registry": [entry]}})


def _has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_null, value.values()))
    return value is None or (isinstance(value, (list, tuple)) and any(map(_has_null, value)))
