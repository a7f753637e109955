"""flexchat rag delete: documents, sources, or a whole collection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import click
from flexchat_cli import CommandContext

from .opening import (
    OpenStore,
    RagCommandError,
    all_documents,
    choose_store,
    format_count,
    store_options,
    where_option,
    with_chat,
)


@attrs.frozen(kw_only=True)
class Doomed:
    """Options that select what to delete: the whole collection, or documents that match all criteria."""

    collection: str
    source: Sequence[str] = ()
    ids: Sequence[str] = ()
    where: Any = None
    all: bool = False


@click.command
@store_options("from where; always needed")
@click.option("--source", multiple=True, metavar="NAME", help="everything from this source; repeatable")
@click.option("--id", "ids", multiple=True, metavar="ID", help="one document; repeatable")
@where_option('all with matching metadata: {"year": {"$lt": 2020}}')
@click.option("--all", is_flag=True, help="the collection with all its documents")
@click.option("--yes", is_flag=True, help="do not ask for confirmation")
@click.pass_obj
def delete(context: CommandContext, /, store: str | None, collection: str | None, yes: bool, **fits: Any) -> None:
    """Delete documents, sources or a collection.

    Documents that match all given options are deleted, after confirmation.
    """
    terminal = context.terminal
    if collection is None:
        raise click.UsageError("--collection NAME is required")
    doomed = Doomed(collection=collection, **fits)
    narrowed = bool(doomed.source or doomed.ids or doomed.where is not None)
    if narrowed == doomed.all:
        raise click.UsageError("nothing to delete: give --source, --id or --where, or --all for the whole collection")
    if not yes and not terminal.interactive():
        raise RagCommandError("cannot ask for confirmation here: --yes deletes without asking")
    deleted = with_chat(context, lambda chat: _delete(chat, context, store, doomed, yes=yes))
    if deleted is None:
        terminal.say("nothing was deleted")
    elif context.json:
        terminal.json({"collection": collection, "deleted": deleted})
    else:
        terminal.out(f"{collection}: {format_count(deleted, 'passage')} deleted")


async def _delete(
    chat: Any, context: CommandContext, store_name: str | None, doomed: Doomed, *, yes: bool
) -> int | None:
    chosen = await choose_store(chat, store_name, doomed.collection, fillable=True)
    store, collection = chosen.fillable(), await chosen.collection(doomed.collection)
    count = collection.documents if doomed.all else await _count(chosen, doomed)
    what = f"{'the collection and ' if doomed.all else ''}{format_count(count, 'passage')} of '{doomed.collection}'"
    if not yes and not context.terminal.confirm(f"delete {what}?"):
        return None
    if doomed.all:
        await store.delete_collection(collection.name)
        return count
    names = {"ids": [*doomed.ids] or None, "sources": [*doomed.source] or None}
    return await store.delete(collection=collection.name, where=doomed.where, **names)


async def _count(chosen: OpenStore, doomed: Doomed) -> int:
    count = 0
    async for document in all_documents(chosen.fillable(), doomed.collection, doomed.where):
        fits_source = not doomed.source or document.source in doomed.source
        count += fits_source and (not doomed.ids or document.id in doomed.ids)
    return count
