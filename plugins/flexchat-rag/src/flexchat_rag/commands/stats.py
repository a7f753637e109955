"""``flexchat rag stats``: count the contents of collections."""

from __future__ import annotations

from typing import Any

import click
from flexchat.store import Collection, DocumentStore
from flexchat_cli import CommandContext

from .opening import all_documents, choose_store, store_options, with_chat


@click.command
@store_options("count only this one")
@click.pass_obj
def stats(context: CommandContext, store: str | None, collection: str | None) -> None:
    """Count passages, sources and characters.

    Of each collection.
    """
    terminal = context.terminal
    counted, nothing = with_chat(context, lambda chat: _count(chat, store, collection))
    if context.json:
        terminal.json(counted)
        return
    for name, figures in counted.items():
        terminal.out(name, "bold")
        for key, value in figures.items():
            text = f"{value:,}" if isinstance(value, int) else "none" if value is None else value
            terminal.out(f"  {key.replace('_', ' '):20}{text}")
    if not counted:
        terminal.say(nothing)


async def _count(
    chat: Any, store_name: str | None, collection_name: str | None
) -> tuple[dict[str, dict[str, Any]], str]:
    chosen = await choose_store(chat, store_name, collection_name, fillable=True)
    store = chosen.fillable()
    there = [await chosen.collection(collection_name)] if collection_name is not None else await store.collections()
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
