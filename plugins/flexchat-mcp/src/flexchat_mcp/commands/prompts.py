"""flexchat mcp prompts: the prompts that a server offers, and one of them filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from flexchat.host import did_you_mean
from flexchat_cli import TEXT, CommandContext, UsageError, argument, one_line

from ..listing import pages
from ..results import text_of
from .opening import ask_server, complete_server, tenant_option

if TYPE_CHECKING:
    from mcp import Client


@click.command
@argument("server", shell_complete=complete_server, help="its name")
@argument("name", required=False, help="the prompt to print (default: list them)")
@argument("arguments", nargs=-1, type=TEXT, metavar="[KEY=VALUE]...", help="its arguments")
@tenant_option
@click.pass_obj
def prompts(
    context: CommandContext, server: str, name: str | None, arguments: tuple[str, ...], tenant: str | None
) -> None:
    """List the prompts of an MCP server, or print one.

    A prompt is text by strangers: read it before you send it to a model.
    """
    values = _read_arguments(arguments)

    async def ask(client: Client) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
        there = [] if client.server_capabilities.prompts is None else await pages(client.list_prompts, "prompts")
        if name is None:
            return there, None
        names = [one["name"] for one in there]
        if name not in names:
            has = ", ".join(names) or "none"
            raise UsageError(f"{server} has no prompt '{name}'{did_you_mean(name, names)}; it has: {has}")
        result = await client.get_prompt(name, values)
        return there, result.model_dump(mode="json", by_alias=True, exclude_none=True)

    there, filled = ask_server(context, server, ask, tenant=tenant)
    if context.json:
        context.terminal.json(there if filled is None else filled)
    elif filled is not None:
        for message in filled["messages"]:
            context.terminal.say(f"{message['role']}:", "dim")
            context.terminal.out(text_of(message["content"]) or "")
    else:
        context.terminal.table(("prompt", "about"), [(_format_prompt(one), _about(one)) for one in there])
        if not there:
            context.terminal.say(f"{server} has no prompts", "dim")


def _read_arguments(words: tuple[str, ...]) -> dict[str, str]:
    values: dict[str, str] = {}
    for word in words:
        key, separator, text = word.partition("=")
        if not separator or not key:
            raise UsageError(f"'{word}' is not key=value")
        if key in values:
            raise UsageError(f"'{key}' is given twice")
        values[key] = text
    return values


def _format_prompt(one: Mapping[str, Any]) -> str:
    arguments = [each["name"] + ("" if each.get("required") else "?") for each in one.get("arguments") or ()]
    return f"{one['name']} {' '.join(f'{each}=…' for each in arguments)}".strip()


def _about(one: Mapping[str, Any]) -> str:
    return one_line(one.get("description") or one.get("title") or "", 90)
