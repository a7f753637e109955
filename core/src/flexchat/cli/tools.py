"""flexchat tools: see the tools, and run one by hand."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import attrs

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
        source = f", from {tool.source}" if tool.source is not None else ""
        terminal.paragraph(f"{tool.description} [{tool.implementation.type}{source}]", indent="    ")
    if not tools and not chat.tools.sources.by_name:
        terminal.say("no tools: the configuration has none, or tools.enabled is false")
    for state in chat.tools.sources.states():
        if not state.accepted:
            terminal.say(f"source '{state.name}' was never opened: flexchat tools accept {state.name} does it", "dim")
    return OK


def run_show(args: argparse.Namespace) -> int:
    """Print a tool's definition as JSON."""
    chat, host = open_tools(args)
    args.terminal.json(_as_data(asyncio.run(_found(chat, host, args.name))))
    return OK


def run_call(args: argparse.Namespace) -> int:
    """Run a tool and print its result as JSON; with --json, the whole envelope."""
    terminal: Terminal = args.terminal
    chat, host = open_tools(args)
    result = asyncio.run(_call(chat, host, args))
    for note in result.notes:
        terminal.say(f"note: {note}", "dim")
    if args.json:
        terminal.json(result.to_dict())
    elif result.success:
        terminal.json(result.result)
    if not result.success:
        terminal.error(f"{args.name}: {result.explained()}")
    return OK if result.success else FAILED


async def _found(chat: FlexChat, host: PluginHost, name: str) -> ToolDefinition:
    async with chat:
        return await named_tool(chat, host, name)


async def _call(chat: FlexChat, host: PluginHost, args: argparse.Namespace) -> ToolResult:
    async with chat:
        tool = await named_tool(chat, host, args.name)
        arguments = read_arguments(args.arguments, tool)
        return await chat.call_tool(tool.name, arguments, origin="command line", key=args.key)


def _tools(chat: FlexChat) -> list[ToolDefinition]:
    return chat.tools.get_registry().list()


async def named_tool(chat: FlexChat, host: PluginHost, name: str) -> ToolDefinition:
    """Return the chat's tool of that name.

    Sources that nobody has opened yet are opened if it may be theirs.

    Raises:
        UsageError: There is none; the text says what there is, and which sources could not be opened.
    """
    found = chat.tools.get_registry().get(name)
    if found is None and name in host.tools.conflicts:
        raise UsageError(host.tools.missing(name))
    sources = chat.tools.sources
    if found is None and not all(state.accepted for state in sources.states()):
        found = await sources.find(name)
    if found is None:
        names = [tool.name for tool in _tools(chat)]
        there = f"; there are: {', '.join(names) or 'none'}"
        text = f"no tool is called '{name}'{did_you_mean(name, names)}{there}"
        raise UsageError("; ".join([text, *sources.missing()]))
    return found


def _as_data(tool: ToolDefinition) -> dict[str, Any]:
    data = {
        "name": tool.name,
        "description": tool.description,
        "implementation": tool.implementation.type,
        "source": tool.source,
        "effect": tool.effect,
        "parameters": tool.parameters,
        "timeout_ms": tool.timeout_ms,
        "retry": attrs.asdict(tool.retry) if tool.retry is not None else None,
        "exclusive": tool.exclusive or None,
        "repeatable": tool.repeatable or None,
    }
    return {key: value for key, value in data.items() if value is not None}


COMMANDS = (
    Command(name="tools list", summary="list the tools", add_arguments=add_no_arguments, run=run_list),
    Command(name="tools show", summary="print a tool's definition", add_arguments=add_name, run=run_show),
    Command(name="tools call", summary="run a tool: NAME key=value …", add_arguments=add_call, run=run_call),
)
