"""flexchat conversations …: list, show, rename, export and delete kept conversations."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from flexchat.conversations.export import to_the_minute
from flexchat.domain import ConversationInfo
from flexchat.domain.text import counted

from .context import CommandContext
from .conversations_store import (
    complete_conversation,
    every,
    find_conversation,
    open_conversations,
    short_id,
    tenant_option,
)
from .parameters import FILE_NAME, TEXT, argument, limit_option, run_async
from .terminal import one_line
from .usage import UsageError

_HELP = "its id, or the start of it"
_id = argument("id", metavar="ID", shell_complete=complete_conversation, help=_HELP)


@click.command
@click.option("--search", metavar="WORDS", help="only those with all these words in one turn or in the title")
@limit_option(50)
@tenant_option
@click.pass_obj
@run_async
async def list_(context: CommandContext, search: str | None, limit: int, tenant: str) -> None:
    """List kept conversations, most recently used first."""
    infos: list[ConversationInfo] = []
    async with open_conversations(context, tenant) as conversations:
        async for info in every(conversations, search):
            infos.append(info)
            if len(infos) == limit:
                break
    rows = []
    for info in infos:
        when, turns = to_the_minute(info.used_at), counted(info.turns, "turn")
        ended = {"done": "", "cancelled": "(stopped) ", "failed": "(failed) "}[info.status]
        cost = str(info.cost) if info.cost is not None and info.cost.amount is not None else ""
        rows.append((short_id(info), when, turns, cost, f"{ended}{info.title or '(no title)'}"))
    empty = "no conversation is kept" + (" that contains these words" if search else "")
    data = [info.to_dict() for info in infos]
    context.show_rows(data, ("id", "last used", "turns", "cost", "title"), rows, empty)


@click.command
@argument(
    "id", metavar="ID", required=False, shell_complete=complete_conversation, help=f"{_HELP} (default: the last one)"
)
@tenant_option
@click.pass_obj
@run_async
async def show(context: CommandContext, id: str | None, tenant: str) -> None:
    """Print a conversation."""
    async with open_conversations(context, tenant) as conversations:
        if id is not None:
            id = (await find_conversation(conversations, id)).id
        elif last := await conversations.list(limit=1):
            id = last[0].id
        else:
            raise UsageError("no conversation is kept yet: flexchat ask --keep keeps one")
        if context.json:
            context.terminal.json(await conversations.export_json(id))
        else:
            context.terminal.write_markdown(await conversations.export_markdown(id))
            context.terminal.end_line()


@click.command
@_id
@argument("title", metavar="TITLE", nargs=-1, required=True, type=TEXT, help="its new title")
@tenant_option
@click.pass_obj
@run_async
async def rename(context: CommandContext, id: str, title: tuple[str, ...], tenant: str) -> None:
    """Give a conversation another title."""
    words = " ".join(" ".join(title).split())
    async with open_conversations(context, tenant) as conversations:
        info = await find_conversation(conversations, id)
        if not words:
            raise UsageError("the title is empty")
        await conversations.rename(info.id, words)
    context.show({"id": info.id, "title": words}, f"{short_id(info)} is called: {one_line(words, 80)}")


@click.command
@argument("ids", metavar="ID", nargs=-1, required=True, shell_complete=complete_conversation, help=_HELP)
@click.option("--yes", is_flag=True, help="do not ask")
@tenant_option
@click.pass_obj
@run_async
async def delete(context: CommandContext, ids: tuple[str, ...], yes: bool, tenant: str) -> None:
    """Delete conversations permanently."""
    terminal = context.terminal
    async with open_conversations(context, tenant) as conversations:
        infos = {info.id: info for info in [await find_conversation(conversations, id) for id in ids]}
        for info in infos.values():
            terminal.say(f"{short_id(info)}  {one_line(info.title, 80)}")
        if not yes and not terminal.interactive():
            raise UsageError("there is no terminal to ask at: --yes deletes without asking")
        which = "this conversation" if len(infos) == 1 else f"these {len(infos)} conversations"
        deleted = [*infos] if yes or terminal.confirm(f"Delete {which}?") else []
        for id in deleted:
            await conversations.delete(id)
    context.show({"deleted": deleted}, "deleted" if deleted else "nothing was deleted")


@click.command
@argument("ids", metavar="ID", nargs=-1, shell_complete=complete_conversation, help=_HELP)
@click.option("--all", "all_", is_flag=True, help="every conversation of the tenant")
@click.option("--output", metavar="FILE", type=FILE_NAME, help="where to write (default: standard output)")
@tenant_option
@click.pass_obj
@run_async
async def export(context: CommandContext, ids: tuple[str, ...], all_: bool, output: str | None, tenant: str) -> None:
    """Write conversations as Markdown, or as lines of JSON."""
    if bool(ids) == all_:
        raise UsageError("export takes ids, or --all")
    async with open_conversations(context, tenant) as conversations:
        exported = [info.id async for info in every(conversations)] if all_ else []
        exported += [(await find_conversation(conversations, id)).id for id in ids]
        with _writer(context, output) as write:
            for number, id in enumerate(exported):
                if context.json:  # one line each
                    write(json.dumps(await conversations.export_json(id)) + "\n")
                else:
                    write(("\n" if number else "") + await conversations.export_markdown(id))
    if output is not None:
        context.terminal.say(f"{counted(len(exported), 'conversation')} written to {output}", "dim")


@contextlib.contextmanager
def _writer(context: CommandContext, output: str | None) -> Iterator[Callable[[str], object]]:
    if output is None:
        yield context.terminal.write
        return
    try:
        with Path(output).open("x", encoding="utf-8", errors="replace") as file:
            yield file.write
    except FileExistsError:
        raise UsageError(f"--output: '{output}' already exists") from None
    except OSError as error:
        raise UsageError(f"--output: '{output}' cannot be written: {error.strerror or error}") from None
