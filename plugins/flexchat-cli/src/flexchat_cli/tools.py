"""flexchat tools: see the tools, and run one by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import click
from flexchat.domain import ToolDefinition
from flexchat.errors import did_you_mean

from .context import CommandContext
from .parameters import TEXT, argument, run_async
from .questions import Questions
from .tool_arguments import read_arguments, signature
from .usage import FAILED, OK, UsageError

if TYPE_CHECKING:
    from flexchat.app import FlexChat
    from flexchat.plugin.host import PluginHost


def complete_tool(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of tools that begin like this, for a shell."""
    chat, _ = ctx.obj.open_tools()
    return [tool.name for tool in _tools(chat) if tool.name.startswith(incomplete)]


tool_name = argument("name", metavar="NAME", shell_complete=complete_tool, help="the tool's name")
"""The argument that names a tool."""

call_arguments = argument(
    "words",
    metavar="KEY=VALUE",
    nargs=-1,
    type=TEXT,
    help="its arguments, with the types of the tool's schema; or one JSON object",
)
"""The arguments of a call; ``read_arguments`` reads them."""


@click.command
@click.pass_obj
def list_(context: CommandContext) -> None:
    """List the tools.

    Every tool is shown as a signature, with its description.
    """
    terminal = context.terminal
    chat, _ = context.open_tools()
    tools = _tools(chat)
    if context.json:
        terminal.json([_as_data(tool) for tool in tools])
        return
    for tool in tools:
        terminal.out(signature(tool), "bold")
        source = f", from {tool.source}" if tool.source is not None else ""
        terminal.paragraph(f"{tool.description} [{tool.implementation.type}{source}]", indent="    ")
    if not tools and not chat.tools.sources.by_name:
        terminal.say("no tools: the configuration has none, or tools.enabled is false")
    for state in chat.tools.sources.states():
        if not state.accepted:
            terminal.say(f"source '{state.name}' was never opened: flexchat tools accept {state.name} does it", "dim")


@click.command
@tool_name
@click.pass_obj
@run_async
async def show(context: CommandContext, name: str) -> None:
    """Print a tool's definition."""
    chat, host = context.open_tools()
    async with chat:
        context.terminal.json(_as_data(await find_tool(chat, host, name)))


@click.command
@tool_name
@call_arguments
@click.option(
    "--key", metavar="TEXT", help="for a tool that changes something: a repeated key returns the first result"
)
@click.pass_obj
@run_async
async def call(context: CommandContext, name: str, words: tuple[str, ...], key: str | None) -> int:
    """Run a tool: NAME key=value ….

    Its result is printed as JSON; with --json, together with the record of the call.
    """
    terminal = context.terminal
    chat, host = context.open_tools()
    async with chat:
        tool = await find_tool(chat, host, name)
        arguments, person = read_arguments(words, tool), Questions(context.terminal)
        result = await chat.call_tool(
            tool.name, arguments, origin="command line", idempotency_key=key, on_question=person
        )
    for note in result.notes:
        terminal.say(f"note: {note}", "dim")
    if context.json:
        terminal.json(result.to_dict())
    elif result.success:
        terminal.json(result.result)
    if not result.success:
        terminal.error(f"{name}: {result.explained()}")
    return OK if result.success else FAILED


def _tools(chat: FlexChat) -> list[ToolDefinition]:
    return chat.tools.get_registry().list()


async def find_tool(chat: FlexChat, host: PluginHost, name: str) -> ToolDefinition:
    """Find a tool of the chat by its name, opening the tool sources that may have it.

    Raises:
        UsageError: There is no such tool; the text lists the others, and the sources that could not be opened.
    """
    tool = chat.tools.get_registry().get(name)
    if tool is None and name in host.tools.conflicts:
        raise UsageError(host.tools.missing(name))
    sources = chat.tools.sources
    if tool is None and not all(state.accepted for state in sources.states()):
        tool = await sources.find(name)
    if tool is None:
        names = [tool.name for tool in _tools(chat)]
        text = f"no tool is called '{name}'{did_you_mean(name, names)}; there are: {', '.join(names) or 'none'}"
        raise UsageError("; ".join([text, *sources.missing()]))
    return tool


def _as_data(tool: ToolDefinition) -> dict[str, Any]:
    data = {
        "name": tool.name,
        "description": tool.description,
        "implementation": tool.implementation.type,
        "source": tool.source,
        "effect": tool.effect,
        "approve": tool.approve or None,
        "parameters": tool.parameters,
        "timeout_ms": tool.timeout_ms,
        "retry": attrs.asdict(tool.retry) if tool.retry is not None else None,
        "exclusive": tool.exclusive or None,
        "repeatable": tool.repeatable or None,
    }
    return {key: value for key, value in data.items() if value is not None}
