"""flexchat rag list: stores and their collections, or the sources of one collection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs
import click
from flexchat.store import Collection, DocumentStore, Source
from flexchat_cli import CommandContext

from .opening import all_documents, choose_store, format_count, store_options, with_chat


@click.command
@store_options("list the sources of this one")
@click.pass_obj
def list_(context: CommandContext, store: str | None, collection: str | None) -> None:
    """List collections, or the sources of one."""
    if collection is not None:
        with_chat(context, lambda chat: _sources(chat, context, store, collection))
    else:
        with_chat(context, lambda chat: _collections(chat, context, store))


async def _collections(chat: Any, context: CommandContext, store_name: str | None) -> None:
    terminal = context.terminal
    if store_name is not None or not chat.stores:
        chosen = await choose_store(chat, store_name, None)
        stores = {chosen.name: chosen.store}
    else:
        stores = dict(chat.stores)
    collections = {name: await store.collections() for name, store in sorted(stores.items())}
    if context.json:
        terminal.json({name: [attrs.asdict(collection) for collection in there] for name, there in collections.items()})
        return
    for name, there in collections.items():
        terminal.out(name, "bold")
        for collection in there:
            about = f"  {collection.description}" if collection.description else ""
            terminal.out(f"  {collection.name}  ({format_count(collection.documents, 'passage')}){about}")
        if not there:
            terminal.out("  (empty: flexchat rag add PATH fills it)")


async def _sources(chat: Any, context: CommandContext, store_name: str | None, collection_name: str) -> None:
    from ..ingest.pipeline import all_sources

    terminal = context.terminal
    chosen = await choose_store(chat, store_name, collection_name, fillable=True)
    store, collection = chosen.fillable(), await chosen.collection(collection_name)
    sources = [source async for source in all_sources(store, collection.name)]
    if context.json:
        terminal.json([attrs.asdict(source) for source in sources])
        return
    for source in sources:
        part = "" if source.complete else ", incomplete"
        terminal.out(f"{source.name}  ({format_count(source.documents, 'passage')}{part})")
    others = await _others(store, collection, sources)
    for name, count in sorted(others.items()):
        terminal.out(f"{name}  ({format_count(count, 'passage')}, not added as a file)")
    if not sources and not others:
        terminal.say("no sources")


async def _others(store: DocumentStore, collection: Collection, sources: Sequence[Source]) -> Counter[str]:
    """Count passages whose source is not registered in the store: from records or from a program."""
    if collection.documents <= sum(source.documents for source in sources):
        return Counter()
    names = {source.name for source in sources}
    counts = Counter([document.source or "(no source)" async for document in all_documents(store, collection.name)])
    return Counter({name: count for name, count in counts.items() if name not in names})
