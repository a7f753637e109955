"""flexchat conversations …: list, show, rename, export and delete kept conversations."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import click
from flexchat.conversations.export import to_the_minute
from flexchat.conversations.view import Conversations
from flexchat.domain import ConversationInfo
from flexchat.domain.text import counted

from .context import CommandContext
from .conversations_store import (
    complete_conversation,
    conversation_store,
    every,
    find_conversation,
    short_id,
    tenant_option,
)
from .parameters import FILE_NAME, TEXT, argument
from .terminal import one_line
from .usage import UsageError

_MOST = 50
_id = argument("id", metavar="ID", shell_complete=complete_conversation, help="its id, or the start of it")


@click.command
@click.option("--search", metavar="WORDS", help="only those with all these words in one turn or in the title")
@click.option("--limit", metavar="N", type=int, default=_MOST, help=f"maximum number (default: {_MOST})")
@tenant_option
@click.pass_obj
def list_(context: CommandContext, search: str | None, limit: int, tenant: str) -> None:
    """List kept conversations, most recently used first."""
    if limit < 1:
        raise UsageError(f"--limit is at least 1, not {limit}")

    async def work(conversations: Conversations) -> None:
        found: list[ConversationInfo] = []
        async with contextlib.aclosing(every(conversations, search)) as infos:
            async for info in infos:
                if len(found) >= limit:
                    break
                found.append(info)
        if context.json:
            context.terminal.json([info.to_dict() for info in found])
            return
        rows = []
        for info in found:
            when, turns = to_the_minute(info.used_at), counted(info.turns, "turn")
            ended = {"done": "", "cancelled": "(stopped) ", "failed": "(failed) "}[info.status]
            cost = str(info.cost) if info.cost is not None and info.cost.amount is not None else ""
            rows.append((short_id(info), when, turns, cost, f"{ended}{info.title or '(no title)'}"))
        context.terminal.table(("id", "last used", "turns", "cost", "title"), rows)
        if not found:
            context.terminal.say("no conversation is kept" + (" that contains these words" if search else ""), "dim")

    _with_store(context, tenant, work)


@click.command
@argument(
    "id",
    metavar="ID",
    required=False,
    shell_complete=complete_conversation,
    help="its id, or the start of it (default: the last one)",
)
@tenant_option
@click.pass_obj
def show(context: CommandContext, id: str | None, tenant: str) -> None:
    """Print a conversation."""

    async def work(conversations: Conversations) -> None:
        info = await find_conversation(conversations, id) if id is not None else await _last(conversations)
        if context.json:
            context.terminal.json(await conversations.export_json(info.id))
        else:
            context.terminal.write_markdown(await conversations.export_markdown(info.id))
            context.terminal.end_line()

    _with_store(context, tenant, work)


@click.command
@_id
@argument("title", metavar="TITLE", nargs=-1, required=True, type=TEXT, help="its new title")
@tenant_option
@click.pass_obj
def rename(context: CommandContext, id: str, title: tuple[str, ...], tenant: str) -> None:
    """Give a conversation another title."""
    words = " ".join(" ".join(title).split())

    async def work(conversations: Conversations) -> None:
        info = await find_conversation(conversations, id)
        if not words:
            raise UsageError("the title is empty")
        await conversations.rename(info.id, words)
        if context.json:
            context.terminal.json({"id": info.id, "title": words})
        else:
            context.terminal.say(f"{short_id(info)} is called: {one_line(words, 80)}", "dim")

    _with_store(context, tenant, work)


@click.command
@argument(
    "ids",
    metavar="ID",
    nargs=-1,
    required=True,
    shell_complete=complete_conversation,
    help="its id, or the start of it",
)
@click.option("--yes", is_flag=True, help="do not ask")
@tenant_option
@click.pass_obj
def delete(context: CommandContext, ids: tuple[str, ...], yes: bool, tenant: str) -> None:
    """Delete conversations permanently."""
    terminal = context.terminal

    async def work(conversations: Conversations) -> None:
        found = {info.id: info for info in [await find_conversation(conversations, id) for id in ids]}
        for info in found.values():
            terminal.say(f"{short_id(info)}  {one_line(info.title, 80)}")
        if not yes and not terminal.interactive():
            raise UsageError("there is no terminal to ask at: --yes deletes without asking")
        which = "this conversation" if len(found) == 1 else f"these {len(found)} conversations"
        agreed = yes or terminal.confirm(f"Delete {which}?")
        for id in found if agreed else ():
            await conversations.delete(id)
        if context.json:
            terminal.json({"deleted": [*found] if agreed else []})
        else:
            terminal.say("deleted" if agreed else "nothing was deleted", "dim")

    _with_store(context, tenant, work)


@click.command
@argument("ids", metavar="ID", nargs=-1, shell_complete=complete_conversation, help="its id, or the start of it")
@click.option("--all", "all_", is_flag=True, help="every conversation of the tenant")
@click.option("--output", metavar="FILE", type=FILE_NAME, help="where to write (default: standard output)")
@tenant_option
@click.pass_obj
def export(context: CommandContext, ids: tuple[str, ...], all_: bool, output: str | None, tenant: str) -> None:
    """Write conversations as Markdown, or as lines of JSON."""
    if bool(ids) == all_:
        raise UsageError("export takes ids, or --all")

    async def work(conversations: Conversations) -> None:
        wanted = [info.id async for info in every(conversations)] if all_ else []
        wanted += [(await find_conversation(conversations, id)).id for id in ids]
        with _writer(context, output) as write:
            for number, id in enumerate(wanted):
                if context.json:  # one line each
                    write(json.dumps(await conversations.export_json(id)) + "\n")
                else:
                    write(("\n" if number else "") + await conversations.export_markdown(id))
        if output is not None:
            count = "1 conversation" if len(wanted) == 1 else f"{len(wanted):,} conversations"
            context.terminal.say(f"{count} written to {output}", "dim")

    _with_store(context, tenant, work)


async def _last(conversations: Conversations) -> ConversationInfo:
    found = await conversations.list(limit=1)
    if not found:
        raise UsageError("no conversation is kept yet: flexchat ask --keep keeps one")
    return found[0]


def _with_store(context: CommandContext, tenant: str, work: Callable[[Conversations], Awaitable[None]]) -> None:
    async def on_the_store() -> None:
        store, _ = conversation_store(context)
        try:
            await work(Conversations(store, tenant))
        finally:
            await store.aclose()

    asyncio.run(on_the_store())


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
