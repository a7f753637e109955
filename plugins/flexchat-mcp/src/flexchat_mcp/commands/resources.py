"""flexchat mcp resources: what a server has to read, and reading it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from flexchat_cli import TEXT, CommandContext, UsageError, argument, one_line

from ..resources import contents_of, resources_of
from ..results import text_of
from .opening import ask_server, complete_server, tenant_option

if TYPE_CHECKING:
    from mcp import Client


@click.command
@argument("server", shell_complete=complete_server, help="its name")
@argument("uri", required=False, type=TEXT, help="the resource to print (default: list them)")
@click.option("--save", metavar="FILE", type=TEXT, help="write the resource to a file, whatever it is")
@tenant_option
@click.pass_obj
def resources(context: CommandContext, server: str, uri: str | None, save: str | None, tenant: str | None) -> None:
    """List the resources of an MCP server, or print one."""
    if uri is None:
        if save is not None:
            raise UsageError("--save needs the URI of a resource")
        _list(context, server, tenant)
        return

    async def read(client: Client) -> list[dict[str, Any]]:
        return await contents_of(client, uri)

    contents = ask_server(context, server, read, tenant=tenant)
    if save is not None:
        data = b"".join(map(_bytes_of, contents))
        try:
            Path(save).write_bytes(data)
        except OSError as error:
            raise UsageError(f"{save} cannot be written: {error.strerror or error}") from None
        context.terminal.say(f"{len(data):,} bytes written to {save}", "dim")
    elif context.json:
        context.terminal.json(contents)
    else:
        for each in contents:
            context.terminal.out(text_of({"type": "resource", "resource": each}) or "")
        if any("blob" in each for each in contents):
            context.terminal.say("--save FILE writes what is not text", "dim")


def _list(context: CommandContext, server: str, tenant: str | None) -> None:
    resources, templates = ask_server(context, server, resources_of, tenant=tenant)
    if context.json:
        context.terminal.json({"resources": resources, "resourceTemplates": templates})
        return
    rows = [(one["uri"], _about(one)) for one in resources] + [(one["uriTemplate"], _about(one)) for one in templates]
    context.terminal.table(("uri", "about"), rows)
    if not rows:
        context.terminal.say(f"{server} has no resources", "dim")


def _about(one: Mapping[str, Any]) -> str:
    kind = f" ({one['mimeType']})" if one.get("mimeType") else ""
    return one_line(one.get("description") or one.get("title") or one.get("name", ""), 90) + kind


def _bytes_of(content: Mapping[str, Any]) -> bytes:
    if "text" in content:
        return str(content["text"]).encode()
    try:
        return base64.b64decode(content.get("blob", ""), validate=True)
    except ValueError:
        raise UsageError("the server's answer cannot be read: its bytes are not base64") from None
