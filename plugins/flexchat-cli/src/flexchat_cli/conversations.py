"""flexchat conversations … and logs: list, show, rename, export and delete kept conversations; their last turns."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from flexchat.conversations.view import Conversations, to_the_minute
from flexchat.domain import ConversationInfo, ConversationTurn, UserMessage
from flexchat.domain.text import counted

from .context import CommandContext, UsageError
from .conversations_store import (
    complete_conversation,
    every,
    find_conversation,
    open_conversations,
    short_id,
    tenant_option,
    unfinished_first_turns,
)
from .models import saved_names
from .parameters import FILE_NAME, TEXT, argument, command, limit_option
from .terminal import one_line

_HELP = "its id, or the start of it"
_id = argument("id", metavar="ID", shell_complete=complete_conversation, help=_HELP)


@command
@click.option("--search", metavar="WORDS", help="only those with all these words in one turn or in the title")
@limit_option(50)
@tenant_option
async def list_(context: CommandContext, search: str | None, limit: int, tenant: str) -> None:
    """List kept conversations, most recently used first.

    Those whose first turn has not ended come before the others.
    """
    async with open_conversations(context, tenant) as conversations:
        infos = [*map(ConversationInfo.begun_by, await unfinished_first_turns(conversations, search or ""))][:limit]
        if len(infos) < limit:
            async for info in every(conversations, search):
                infos.append(info)
                if len(infos) == limit:
                    break
    rows = []
    for info in infos:
        when, turns = to_the_minute(info.used_at), counted(info.turns, "turn")
        ended = {"done": "", "cancelled": "(stopped) "}.get(info.status, f"({info.status}) ")
        cost = str(info.cost) if info.cost is not None and info.cost.amount is not None else ""
        rows.append((short_id(info), when, turns, cost, f"{ended}{info.title or '(no title)'}"))
    empty = "no conversation is kept" + (" that contains these words" if search else "")
    context.show_rows([info.to_dict() for info in infos], ("id", "last used", "turns", "cost", "title"), rows, empty)


@command
@argument(
    "id", metavar="ID", required=False, shell_complete=complete_conversation, help=f"{_HELP} (default: the last one)"
)
@tenant_option
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


@command
@_id
@argument("title", metavar="TITLE", nargs=-1, required=True, type=TEXT, help="its new title")
@tenant_option
async def rename(context: CommandContext, id: str, title: tuple[str, ...], tenant: str) -> None:
    """Give a conversation another title."""
    words = " ".join(" ".join(title).split())
    async with open_conversations(context, tenant) as conversations:
        info = await find_conversation(conversations, id)
        if not words:
            raise UsageError("the title is empty")
        await conversations.rename(info.id, words)
    context.show({"id": info.id, "title": words}, f"{short_id(info)} is called: {one_line(words, 80)}")


@command
@argument("ids", metavar="ID", nargs=-1, required=True, shell_complete=complete_conversation, help=_HELP)
@click.option("--yes", is_flag=True, help="do not ask")
@tenant_option
async def delete(context: CommandContext, ids: tuple[str, ...], yes: bool, tenant: str) -> None:
    """Delete conversations permanently."""
    terminal = context.terminal
    async with open_conversations(context, tenant) as conversations:
        infos = {
            info.id: info for info in [await find_conversation(conversations, id, may_be_unfinished=True) for id in ids]
        }
        for info in infos.values():
            terminal.say(f"{short_id(info)}  {one_line(info.title, 80)}")
        if not yes and not terminal.interactive():
            raise UsageError("there is no terminal to ask at: --yes deletes without asking")
        which = "this conversation" if len(infos) == 1 else f"these {len(infos)} conversations"
        deleted = [*infos] if yes or terminal.confirm(f"Delete {which}?") else []
        for id in deleted:
            await conversations.delete(id)
    context.show({"deleted": deleted}, "deleted" if deleted else "nothing was deleted")


@command
@argument("ids", metavar="ID", nargs=-1, shell_complete=complete_conversation, help=_HELP)
@click.option("--all", "all_", is_flag=True, help="every conversation of the tenant")
@click.option("--output", metavar="FILE", type=FILE_NAME, help="where to write (default: standard output)")
@tenant_option
async def export(context: CommandContext, ids: tuple[str, ...], all_: bool, output: str | None, tenant: str) -> None:
    """Write conversations as Markdown, or as lines of JSON.

    With --json and --output FILE, images and other media are files in the folder FILE.media, named by the sha256 that
    the JSON has in their place; without --output, they are in the JSON, as Base64.
    """
    if bool(ids) == all_:
        raise UsageError("export takes ids, or --all")
    async with open_conversations(context, tenant) as conversations:
        exported = [info.id async for info in every(conversations)] if all_ else []
        exported += [(await find_conversation(conversations, id)).id for id in ids]
        with _writer(context, output) as write:
            for number, id in enumerate(exported):
                if context.json:  # one line each
                    media: dict[str, bytes] = {}
                    data = await conversations.export_json(id, media=None if output is None else media)
                    write(json.dumps(data) + "\n")
                    _write_media(Path(f"{output}.media"), media)
                else:
                    write(("\n" if number else "") + await conversations.export_markdown(id))
    if output is not None:
        context.terminal.say(f"{counted(len(exported), 'conversation')} written to {output}", "dim")


def _write_media(folder: Path, media: Mapping[str, bytes]) -> None:
    if media:
        folder.mkdir(exist_ok=True)
    for sha256, data in media.items():
        (folder / sha256).write_bytes(data)


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


@command
@limit_option(3, "-n", "--limit", "--count", noun=" of turns")
@click.option("-r", "--response", is_flag=True, help="print the last answer, and nothing else")
@click.option(
    "--conversation",
    metavar="ID",
    shell_complete=complete_conversation,
    help="only this conversation; the start of its id is enough",
)
@click.option("-q", "--search", metavar="WORDS", type=TEXT, help="only turns that contain all these words")
@click.option("-m", "--model", metavar="NAME", help="only turns that this model answered: LLM/MODEL, or one of the two")
@tenant_option
async def logs(
    context: CommandContext,
    limit: int,
    response: bool,
    conversation: str | None,
    search: str | None,
    model: str | None,
    tenant: str,
) -> None:
    """Print the last turns of kept conversations.

    The newest one comes last, as in a conversation.
    """
    if conversation is not None and search is not None:
        raise UsageError("--conversation names one conversation, --search looks in all: use only one of them")
    limit = 1 if response else limit
    async with open_conversations(context, tenant) as conversations:
        if conversation is not None:
            info = await find_conversation(conversations, conversation)
            turns = await conversations.turns(info.id, last=limit if model is None else None)
            entries = [(info, turn) for turn in turns if _is_of(turn, model)][-limit:]
        else:
            entries = await _last(conversations, limit, search, model)
    terminal = context.terminal
    if context.json:
        terminal.json([_as_data(info, turn) for info, turn in entries])
        return
    if not entries:
        which = (" that contains these words" if search else "") + (" of this model" if model else "")
        terminal.say(f"no turn is kept{which}", "dim")
    for number, (info, turn) in enumerate(entries):
        if response:
            terminal.out(turn.answer)
            continue
        if number:
            terminal.out()
        tokens = sum(count or 0 for count in (turn.usage.input_tokens, turn.usage.output_tokens)) if turn.usage else 0
        about = [f"{turn.llm}/{turn.model}", *([counted(tokens, "token")] if tokens else [])]
        ended = "" if turn.status == "done" else f", {turn.status}"
        terminal.out(f"{to_the_minute(turn.at)}  {short_id(info)}  {', '.join(about)}{ended}", "dim")
        terminal.out(f"> {_user_message(turn)}", "bold")
        terminal.write_markdown(turn.answer or turn.error)
        terminal.end_line()


async def _last(
    conversations: Conversations, limit: int, search: str | None, model: str | None
) -> list[tuple[ConversationInfo, ConversationTurn]]:
    """Return the newest turns, oldest first. A conversation last used before all of them cannot have one of them."""
    entries: list[tuple[ConversationInfo, ConversationTurn]] = []
    async for info in every(conversations, search):
        if len(entries) == limit and info.used_at < entries[0][1].at:
            break
        turns = await conversations.turns(info.id, last=limit if search is None and model is None else None)
        entries += [(info, turn) for turn in turns if _has_words(turn, search or "") and _is_of(turn, model)]
        entries = sorted(entries, key=lambda pair: pair[1].at)[-limit:]
    return entries


def _has_words(turn: ConversationTurn, words: str) -> bool:
    """Return whether a turn contains all these words; the store's search knows only which conversations do."""
    text = turn.text.casefold()
    return all(word in text for word in words.casefold().split())


def _is_of(turn: ConversationTurn, model: str | None) -> bool:
    """Return whether *model*, with or without its llm, or the model of that alias, answered a turn."""
    if model is None:
        return True
    full_model = saved_names().aliases.get(model, model)
    return full_model in (turn.llm, turn.model, f"{turn.llm}/{turn.model}")


def _user_message(turn: ConversationTurn) -> str:
    return next((message.content for message in turn.messages if isinstance(message, UserMessage)), "")


def _as_data(info: ConversationInfo, turn: ConversationTurn) -> dict[str, Any]:
    data = {name: getattr(turn, name) for name in ("at", "status", "answer", "llm", "model")}
    data |= {"conversation": info.id, "turn": turn.id, "message": _user_message(turn), "error": turn.error or None}
    return {**data, "usage": turn.usage.to_dict() if turn.usage else None}
