"""flexchat mcp call: a tool of a server, called as the server knows it."""

from __future__ import annotations

import asyncio
import json
import mimetypes
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from flexchat import FlexChat, NotPermittedError
from flexchat.host import checked_media, current_info, did_you_mean, in_brief
from flexchat.plugin import MediaPart, ToolSourceError, WithMedia
from flexchat_cli import FAILED, OK, TEXT, CommandContext, Terminal, UsageError, argument, read_arguments

from ..errors import ServerError
from ..listing import to_sourced_tool
from ..results import value_of
from .opening import choose_servers, converting_refusals, open_server, server_argument, tenant_option


@click.command
@server_argument
@argument("tool", metavar="TOOL", help="the server's name for the tool")
@argument("arguments", metavar="KEY=VALUE", nargs=-1, help="its arguments; or one JSON object")
@click.option(
    "--answer",
    "answers",
    metavar="KEY=VALUE",
    multiple=True,
    help="answers what the tool asks; without it, a terminal asks you, and it is declined elsewhere; repeatable",
)
@click.option("--defaults", is_flag=True, help="answer the tool's questions with their defaults")
@tenant_option
@click.option("--save", metavar="FOLDER", type=TEXT, help="write images, sounds and files to this folder")
@click.pass_obj
def call(
    context: CommandContext,
    server: str,
    tool: str,
    arguments: tuple[str, ...],
    answers: tuple[str, ...],
    defaults: bool,
    tenant: str | None,
    save: str | None,
) -> int:
    """Call a tool of an MCP server, whether it was accepted or not.

    For trying out a server: the call is not in the ledger, and no plugin is asked about it, except whether the
    principal may use the tool. flexchat tools call makes a call as a model would.
    """
    terminal, chat = context.terminal, context.open_tools()[0]
    (name,) = choose_servers(chat, server, tenant)
    if save is not None:
        _make(Path(save))  # before the call, which may change something
    said_before = answers if answers or defaults else None
    try:
        result, output = asyncio.run(_call_tool(chat, name, tool, arguments, terminal, said_before, tenant))
    except (ServerError, ToolSourceError) as error:
        raise UsageError(f"{name}: {error}") from None
    if context.json:
        terminal.json(result)
    else:
        value = value_of(result, output)
        value, came = (value.value, value.media) if isinstance(value, WithMedia) else (value, ())
        media, left_out = checked_media(came, sys.maxsize)
        if value != "" or not came:
            terminal.out(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2))
        for number, part in enumerate(media, 1):
            terminal.out(in_brief(part) if save is None else f"{in_brief(part)} {_save(part, Path(save), number)}")
        for each in left_out:
            terminal.out(f"[{each}]")
        if media and save is None:
            terminal.say("--save FOLDER writes what is not text", "dim")
    return FAILED if result.get("isError") else OK


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--save {folder}: this folder cannot be made: {error.strerror or error}") from None


def _save(part: MediaPart, folder: Path, number: int) -> str:
    """Write a part to a new file, and return a sentence that names it."""
    ending = mimetypes.guess_extension(part.mime_type) or ".bin"
    path = folder / f"{number}{ending}"
    while os.path.lexists(path):
        number += 1
        path = folder / f"{number}{ending}"
    try:
        with path.open("xb") as file:
            file.write(part.data or b"")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from None
    return f"written to {path}"


async def _call_tool(
    chat: FlexChat,
    name: str,
    tool: str,
    words: Sequence[str],
    terminal: Terminal,
    answers: Sequence[str] | None,
    tenant: str | None,
) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    """Return the result, and the schema that the tool names for it."""
    async with chat, open_server(chat, name, terminal, answers, tenant=tenant) as source:
        tools = {each["name"]: each for each in (await source.listing()).tools}
        if tool not in tools:
            names = ", ".join(tools) or "none"
            raise UsageError(f"{name} has no tool '{tool}'{did_you_mean(tool, tools)}; it has: {names}")
        definition = to_sourced_tool(tools[tool], source.config).definition(name)
        if (why := chat.tools.refusal(current_info(), definition)) is not None:
            raise NotPermittedError(f"this call is not permitted: {why}")
        arguments = read_arguments(words, definition)
        from ..tasks import cancel, outcome, task_of
        from ..tool_call import call_tool

        assert source.person is not None, "there is a terminal"
        answer = source.person.answer
        with converting_refusals(name):
            result = await source.server.ask(
                lambda client: call_tool(client, tool, arguments, answer=answer, definition=tools[tool]), answer=answer
            )
            if (task := task_of(result)) is not None:
                try:
                    result = await outcome(source.server.ask, task, answer=answer)
                except asyncio.CancelledError:
                    source.server.notify(lambda client: cancel(client, task))
                    raise
        if problem := source.person.problem:
            raise UsageError(problem)
        return result, tools[tool].get("outputSchema")
