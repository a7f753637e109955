"""flexchat rag list: stores and their collections, or the sources of one collection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs
from flexchat.store import Collection, DocumentStore, Source

from .opening import add_store_arguments, all_documents, choose_store, spoken_count, with_chat


def add_arguments(parser: Any) -> None:
    """Say what rag list takes."""
    add_store_arguments(parser, "list the sources of this one")


def run(args: Any) -> int:
    """Print collections, or sources."""
    return with_chat(
        args, lambda chat: _sources(chat, args) if args.collection is not None else _collections(chat, args)
    )


async def _collections(chat: Any, args: Any) -> int:
    if args.store is not None or not chat.stores:
        stores = {args.store: (await choose_store(chat, args.store, None)).store}
    else:
        stores = dict(chat.stores)
    found = {name: await store.collections() for name, store in sorted(stores.items())}
    if args.json:
        args.terminal.json({name: [attrs.asdict(collection) for collection in there] for name, there in found.items()})
        return 0
    for name, there in found.items():
        args.terminal.out(name, "bold")
        for collection in there:
            said = f"  {collection.description}" if collection.description else ""
            args.terminal.out(f"  {collection.name}  ({spoken_count(collection.documents, 'passage')}){said}")
        if not there:
            args.terminal.out("  (empty: flexchat rag add PATH fills it)")
    return 0


async def _sources(chat: Any, args: Any) -> int:
    from ..ingest.pipeline import all_sources

    chosen = await choose_store(chat, args.store, args.collection, fillable=True)
    store, collection = chosen.fillable(), await chosen.collection(args.collection)
    sources = [source async for source in all_sources(store, collection.name)]
    if args.json:
        args.terminal.json([attrs.asdict(source) for source in sources])
        return 0
    for source in sources:
        part = "" if source.complete else ", incomplete"
        args.terminal.out(f"{source.name}  ({spoken_count(source.documents, 'passage')}{part})")
    others = await _others(store, collection, sources)
    for name, count in sorted(others.items()):
        args.terminal.out(f"{name}  ({spoken_count(count, 'passage')}, not added as a file)")
    if not sources and not others:
        args.terminal.say("no sources")
    return 0


async def _others(store: DocumentStore, collection: Collection, sources: Sequence[Source]) -> Counter[str]:
    """Count the passages of what the store does not keep as a source: records that name theirs, and a program's."""
    if collection.documents <= sum(source.documents for source in sources):
        return Counter()
    named = {source.name for source in sources}
    found = Counter([document.source or "(no source)" async for document in all_documents(store, collection.name)])
    return Counter({name: count for name, count in found.items() if name not in named})


PARTS: Any = {"add_arguments": add_arguments, "run": run}
