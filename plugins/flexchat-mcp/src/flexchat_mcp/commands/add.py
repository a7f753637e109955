"""flexchat mcp add: one server into the config."""

from __future__ import annotations

import re
from typing import Any

import click
from flexchat_cli import CommandContext, UsageError, argument

from .adding import add as add_entries
from .entries import Entry


@click.command
@argument("name", metavar="NAME", help="what to call it: letters, digits, _ and -")
@argument("target", metavar="URL|COMMAND", nargs=-1, required=True, help="its URL; or -- and its command")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="a variable of the command; repeatable")
@click.option("--header", multiple=True, metavar="NAME=VALUE", help="a header for the URL; repeatable")
@click.option("--sse", is_flag=True, help="the URL is that of an older SSE server")
@click.option("--oauth", is_flag=True, help="sign in at the URL, with a browser")
@click.option("--yes", is_flag=True, help="do not ask")
@click.option("--later", is_flag=True, help="do not start it now: its tools are accepted when somebody needs them")
@click.pass_obj
def add(
    context: CommandContext,
    name: str,
    target: tuple[str, ...],
    env: tuple[str, ...],
    header: tuple[str, ...],
    sse: bool,
    oauth: bool,
    yes: bool,
    later: bool,
) -> int:
    """Add an MCP server to the configuration, and accept its tools.

    What will run is shown first. Then the server is started once, to list its tools.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise UsageError(f"'{name}' is not 1 to 64 letters, digits, _ and -")
    is_url = target[0].startswith(("http://", "https://"))
    if not is_url and re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", target[0]):
        raise UsageError(f"'{target[0]}' is no URL that can be reached: it begins with http:// or https://")
    if is_url and (len(target) > 1 or env):
        raise UsageError("a URL has neither arguments nor variables")
    if not is_url and (header or sse or oauth):
        raise UsageError("--header, --sse and --oauth are for a URL")
    table: dict[str, Any] = {"url": target[0]} if is_url else {"command": [*target]}
    table |= {"transport": "sse"} if sse else {}
    table |= {"auth": {"oauth": True}} if oauth else {}
    table |= {"env": _pairs(env, "--env")} if env else {}
    table |= {"headers": _pairs(header, "--header")} if header else {}
    return add_entries(context, [Entry(name=name, table=table)], is_agreed=yes, starts=not later)


def _pairs(words: tuple[str, ...], option: str) -> dict[str, str]:
    pairs = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator or not name:
            raise UsageError(f"{option} {word}: write NAME=VALUE")
        pairs[name] = value
    return pairs
