"""flexchat tools record: a mock, from one call of the real tool."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

from flexchat import FlexChat
from flexchat.host import FAILED, OK, PluginHost, Terminal, UsageError, is_there, named_tool, open_tools, read_arguments
from flexchat.plugin import ToolDefinition, ToolResult
from flexchat.store import replacing

from ..recording import recorded


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what tools record takes."""
    parser.add_argument("name", help="the tool's name")
    parser.add_argument(
        "arguments", nargs="*", help="key=value, with the types of the tool's schema; or one JSON object"
    )
    parser.add_argument("--yes", action="store_true", help="call it without asking, even if it changes something")
    parser.add_argument("--out", metavar="FILE", help="a new .toml or .json file; default: print TOML")


def run(args: argparse.Namespace) -> int:
    """Call a tool once, and print the mock that answers as it did."""
    terminal: Terminal = args.terminal
    chat, host = open_tools(args)
    out = _new_file(args.out)
    tool, result = asyncio.run(_call(chat, host, args))
    if result is None:
        terminal.say("nothing was called", "dim")
        return FAILED
    if not result.success:
        terminal.error(f"{tool.name}: {result.explained()}")
        return FAILED
    found = recorded(tool, result.result, chat.mask)
    is_json = args.json or (out is not None and out.suffix == ".json")
    text = None if is_json else _toml(found.entry)
    if text is None and not is_json:
        if out is not None:
            raise UsageError(f"the answer has a null, which TOML cannot express: name a .json file instead of {out}")
        terminal.say("note: the answer has a null, which TOML cannot express: this is JSON", "dim")
    text = text or json.dumps({"tools": {"registry": [found.entry]}}, ensure_ascii=False, indent=2) + "\n"
    if out is None:
        terminal.write(text)
    else:
        with replacing(out) as file:
            file.write(text)
        terminal.say(f"{out}: the mock of {tool.name}")
    if found.masked:
        terminal.say(f"masked, since it looks like a secret: {', '.join(found.masked)}")
    return OK


async def _call(chat: FlexChat, host: PluginHost, args: argparse.Namespace) -> tuple[ToolDefinition, ToolResult | None]:
    """Return the tool and its result, None if it was not to be called."""
    async with chat:
        tool = await named_tool(chat, host, args.name)
        arguments = read_arguments(args.arguments, tool)
        if tool.effect != "read" and not args.yes and not _agreed(tool, args):
            return tool, None
        return tool, await chat.call_tool(tool.name, arguments, origin="command line")


def _new_file(name: str | None) -> Path | None:
    if name is None:
        return None
    out = Path(name)
    if out.suffix not in (".toml", ".json"):
        raise UsageError(f"--out {name}: a config is a .toml or a .json file")
    if is_there(out):
        raise UsageError(f"--out {name}: the file exists already; leave --out away, and copy what is printed")
    return out


def _agreed(tool: ToolDefinition, args: argparse.Namespace) -> bool:
    if not args.terminal.interactive():
        raise UsageError(f"{tool.name} changes something, and there is no terminal to ask at: --yes calls it")
    with args.terminal.lent():
        try:
            answer = input(f"{tool.name} changes something, for real. Call it? [y/N] ")
        except EOFError:
            return False
    return answer.strip().lower() in ("y", "yes")


def _toml(entry: dict[str, Any]) -> str | None:
    """Return a config with this tool; None if there is a null in it, which TOML cannot express."""
    import tomli_w  # only here

    if _has_null(entry):
        return None
    return tomli_w.dumps({"tools": {"registry": [entry]}})


def _has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_null, value.values()))
    return value is None or (isinstance(value, (list, tuple)) and any(map(_has_null, value)))
