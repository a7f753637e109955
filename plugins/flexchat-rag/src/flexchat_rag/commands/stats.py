"""flexchat rag stats: how much there is."""

from __future__ import annotations

from typing import Any

from flexchat.store import Collection, DocumentStore

from .opening import add_store_arguments, all_documents, choose_store, with_chat


def add_arguments(parser: Any) -> None:
    """Say what rag stats takes."""
    add_store_arguments(parser, "count only this one")


def run(args: Any) -> int:
    """Print the figures of each collection."""
    counted, nothing = with_chat(args, lambda chat: _count(chat, args))
    if args.json:
        args.terminal.json(counted)
        return 0
    for name, figures in counted.items():
        args.terminal.out(name, "bold")
        for key, value in figures.items():
            shown = f"{value:,}" if isinstance(value, int) else "none" if value is None else value
            args.terminal.out(f"  {key.replace('_', ' '):20}{shown}")
    if not counted:
        args.terminal.say(nothing)
    return 0


async def _count(chat: Any, args: Any) -> tuple[dict[str, dict[str, Any]], str]:
    chosen = await choose_store(chat, args.store, args.collection, fillable=True)
    store = chosen.fillable()
    there = [await chosen.collection(args.collection)] if args.collection is not None else await store.collections()
    return {collection.name: await _figures(store, collection) for collection in there}, chosen.emptiness


async def _figures(store: DocumentStore, collection: Collection) -> dict[str, Any]:
    from ..ingest.pipeline import all_sources

    lengths = [len(document.text) async for document in all_documents(store, collection.name)]
    complete = [source.complete async for source in all_sources(store, collection.name)]
    return {
        "passages": len(lengths),
        "characters": sum(lengths),
        "longest_passage": max(lengths, default=0),
        "sources": len(complete),
        "incomplete_sources": complete.count(False),
        "embedding": collection.embedding,
        "dimensions": collection.dimensions,
        "match_threshold": collection.match_threshold,
        "partial_threshold": collection.partial_threshold,
    }


PARTS: Any = {"add_arguments": add_arguments, "run": run}
