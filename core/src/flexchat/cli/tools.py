"""flexchat tools: see the tools, and run one by hand."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from ..app import FlexChat
from ..domain import ToolDefinition, ToolResult
from ..errors import did_you_mean
from ..plugin.contracts import Command
from ..plugin.host import PluginHost
from .opening import open_tools
from .terminal import Terminal
from .tool_arguments import read_arguments
from .tool_text import signature
from .usage import FAILED, OK, UsageError


def add_no_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: tools list has no arguments of its own."""


def add_name(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of tools show."""
    parser.add_argument("name", help="the tool's name")


def add_call(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of tools call."""
    add_name(parser)
    parser.add_argument(
        "arguments", nargs="*", help="key=value, with the types of the tool's schema; or one JSON object"
    )
    parser.add_argument(
        "--key", metavar="TEXT", help="for a tool that changes something: a repeated key returns the first result"
    )


def run_list(args: argparse.Namespace) -> int:
    """Print every tool as a signature with its description."""
    terminal: Terminal = args.terminal
    chat, _ = open_tools(args)
    tools = _tools(chat)
    if args.json:
        terminal.json([_as_data(tool) for tool in tools])
        return OK
    for tool in tools:
        terminal.out(signature(tool), "bold")
        terminal.paragraph(f"{tool.description} [{tool.implementation.type}]", indent="    ")
    if not tools:
        terminal.say("no tools: the configuration has none, or tools.enabled is false")
    return OK


def run_show(args: argparse.Namespace) -> int:
    """Print a tool's definition as JSON."""
    args.terminal.json(_as_data(_tool(*open_tools(args), args.name)))
    return OK


def run_call(args: argparse.Namespace) -> int:
    """Run a tool and print its result as JSON; with --json, the whole envelope."""
    terminal: Terminal = args.terminal
    chat, host = open_tools(args)
    tool = _tool(chat, host, args.name)
    arguments = read_arguments(args.arguments, tool)
    result = asyncio.run(_call(chat, tool.name, arguments, args.key))
    for note in result.notes:
        terminal.say(f"note: {note}", "dim")
    if args.json:
        terminal.json(result.to_dict())
    elif result.success:
        terminal.json(result.result)
    if not result.success:
        terminal.error(f"{tool.name}: {result.explained()}")
    return OK if result.success else FAILED


async def _call(chat: FlexChat, name: str, arguments: dict[str, Any], key: str | None) -> ToolResult:
    async with chat:
        return await chat.call_tool(name, arguments, origin="command line", key=key)


def _tools(chat: FlexChat) -> list[ToolDefinition]:
    return chat.tools.get_registry().list()


def _tool(chat: FlexChat, host: PluginHost, name: str) -> ToolDefinition:
    found = chat.tools.get_registry().get(name)
    if found is None and name in host.tools.conflicts:
        raise UsageError(host.tools.missing(name))
    if found is None:
        names = [tool.name for tool in _tools(chat)]
        raise UsageError(
            f"no tool is called '{name}'{did_you_mean(name, names)}; there are: {', '.join(names) or 'none'}"
        )
    return found


def _as_data(tool: ToolDefinition) -> dict[str, Any]:
    data = {
        "name": tool.name,
        "description": tool.description,
        "implementation": tool.implementation.type,
        "parameters": tool.parameters,
        "timeout_ms": tool.timeout_ms,
        "exclusive": tool.exclusive or None,
        "repeatable": tool.repeatable or None,
    }
    return {key: value for key, value in data.items() if value is not None}


COMMANDS = (
    Command(name="tools list", summary="list the tools", add_arguments=add_no_arguments, run=run_list),
    Command(name="tools show", summary="print a tool's definition", add_arguments=add_name, run=run_show),
    Command(name="tools call", summary="run a tool: NAME key=value …", add_arguments=add_call, run=run_call),
)
