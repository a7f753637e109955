"""flexchat conversations …: list, show, rename, export and delete kept conversations."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import attrs

from ..conversations.export import to_the_minute
from ..conversations.view import Conversations
from ..domain import ConversationInfo
from ..domain.text import counted
from ..plugin.contracts import Command
from .conversations_store import add_tenant_argument, conversation_store, every, find, short_id
from .terminal import one_line
from .usage import OK, UsageError

_MOST = 50


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--search", metavar="WORDS", help="only those with all these words in one turn or in the title")
    parser.add_argument("--limit", metavar="N", type=int, default=_MOST, help=f"maximum number (default: {_MOST})")
    add_tenant_argument(parser)


async def _list(conversations: Conversations, args: argparse.Namespace) -> None:
    if args.limit < 1:
        raise UsageError(f"--limit is at least 1, not {args.limit}")
    found: list[ConversationInfo] = []
    async with contextlib.aclosing(every(conversations, args.search)) as infos:
        async for info in infos:
            if len(found) >= args.limit:
                break
            found.append(info)
    if args.json:
        args.terminal.json([attrs.asdict(info) for info in found])
        return
    width = max([len(short_id(info)) for info in found], default=0)
    for info in found:
        when, turns = to_the_minute(info.used_at), counted(info.turns, "turn")
        ended = {"done": "", "cancelled": "(stopped) ", "failed": "(failed) "}[info.status]
        line = f"{short_id(info):{width}}  {when}  {turns:9}  {ended}{info.title or '(no title)'}"
        args.terminal.out(_cut(line, args.terminal.width))
    if not found:
        args.terminal.say("no conversation is kept" + (" that contains these words" if args.search else ""), "dim")


def _cut(line: str, width: int) -> str:
    """Return a line of a table cut to the width, keeping its columns."""
    return line if len(line) <= width else line[: width - 2] + " …"


def _show_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="its id, or the start of it")
    add_tenant_argument(parser)


async def _show(conversations: Conversations, args: argparse.Namespace) -> None:
    info = await find(conversations, args.id)
    if args.json:
        args.terminal.json(await conversations.export_json(info.id))
    else:
        args.terminal.write(await conversations.export_markdown(info.id))


def _rename_arguments(parser: argparse.ArgumentParser) -> None:
    _show_arguments(parser)
    parser.add_argument("title", metavar="TITLE", nargs="+", help="its new title")


async def _rename(conversations: Conversations, args: argparse.Namespace) -> None:
    info = await find(conversations, args.id)
    title = " ".join(" ".join(args.title).split())
    if not title:
        raise UsageError("the title is empty")
    await conversations.rename(info.id, title)
    if args.json:
        args.terminal.json({"id": info.id, "title": title})
    else:
        args.terminal.say(f"{short_id(info)} is called: {one_line(title, 80)}", "dim")


def _delete_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+", help="its id, or the start of it")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_tenant_argument(parser)


async def _delete(conversations: Conversations, args: argparse.Namespace) -> None:
    found = {info.id: info for info in [await find(conversations, id) for id in args.ids]}
    for info in found.values():
        args.terminal.say(f"{short_id(info)}  {one_line(info.title, 80)}")
    agreed = args.yes or _confirmed(len(found), args)
    for id in found if agreed else ():
        await conversations.delete(id)
    if args.json:
        args.terminal.json({"deleted": [*found] if agreed else []})
    else:
        args.terminal.say("deleted" if agreed else "nothing was deleted", "dim")


def _confirmed(count: int, args: argparse.Namespace) -> bool:
    if not args.terminal.interactive():
        raise UsageError("there is no terminal to ask at: --yes deletes without asking")
    with args.terminal.lent():
        try:
            answer = input(f"Delete {'this conversation' if count == 1 else f'these {count} conversations'}? [y/N] ")
        except EOFError:
            return False
    return answer.strip().lower() in ("y", "yes")


def _export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="*", help="its id, or the start of it")
    parser.add_argument("--all", action="store_true", help="every conversation of the tenant")
    parser.add_argument("--output", metavar="FILE", help="where to write (default: standard output)")
    add_tenant_argument(parser)


async def _export(conversations: Conversations, args: argparse.Namespace) -> None:
    if bool(args.ids) == args.all:
        raise UsageError("export takes ids, or --all")
    ids = [info.id async for info in every(conversations)] if args.all else []
    ids += [(await find(conversations, id)).id for id in args.ids]
    with _writer(args) as write:
        for number, id in enumerate(ids):
            if args.json:  # one line each
                write(json.dumps(await conversations.export_json(id)) + "\n")
            else:
                write(("\n" if number else "") + await conversations.export_markdown(id))
    if args.output is not None:
        count = "1 conversation" if len(ids) == 1 else f"{len(ids):,} conversations"
        args.terminal.say(f"{count} written to {args.output}", "dim")


@contextlib.contextmanager
def _writer(args: argparse.Namespace) -> Iterator[Callable[[str], object]]:
    if args.output is None:
        yield args.terminal.write
        return
    try:
        with Path(args.output).open("x", encoding="utf-8", errors="replace") as file:
            yield file.write
    except FileExistsError:
        raise UsageError(f"--output: '{args.output}' already exists") from None
    except OSError as error:
        raise UsageError(f"--output: '{args.output}' cannot be written: {error.strerror or error}") from None


def _command(
    name: str,
    summary: str,
    add_arguments: Callable[[argparse.ArgumentParser], None],
    work: Callable[[Conversations, argparse.Namespace], Awaitable[None]],
) -> Command:
    async def on_the_store(args: argparse.Namespace) -> None:
        store, _ = conversation_store(args)
        try:
            await work(Conversations(store, args.tenant), args)
        finally:
            await store.aclose()

    def run(args: argparse.Namespace) -> int:
        asyncio.run(on_the_store(args))
        return OK

    return Command(name=f"conversations {name}", summary=summary, add_arguments=add_arguments, run=run)


COMMANDS = (
    _command("list", "list kept conversations, most recently used first", _list_arguments, _list),
    _command("show", "print a conversation", _show_arguments, _show),
    _command("rename", "give a conversation another title", _rename_arguments, _rename),
    _command("delete", "delete conversations for good", _delete_arguments, _delete),
    _command("export", "write conversations as Markdown, or as lines of JSON", _export_arguments, _export),
)
