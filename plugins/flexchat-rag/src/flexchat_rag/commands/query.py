"""``flexchat rag query``: show the results of a search as phase 2 would receive them."""

from __future__ import annotations

from typing import Any

import click
from flexchat.store import RetrievalHits
from flexchat_cli import TEXT, CommandContext, argument

from .opening import as_data, choose_store, place_of, store_options, where_option, with_chat

_EXCERPT = 240


@click.command
@argument("text", metavar="TEXT", type=TEXT, help="the question")
@store_options("search only there")
@click.option("--top-k", type=int, default=5, metavar="N", help="passages at most (5)")
@where_option('only documents with matching metadata: {"lang": "en"}')
@click.pass_obj
def query(
    context: CommandContext, text: str, store: str | None, collection: str | None, top_k: int, where: Any
) -> None:
    """Search, and show what is found.

    The best hits come first.
    """
    terminal = context.terminal
    if top_k < 1:
        raise click.UsageError(f"--top-k is at least 1, not {top_k}")
    if not text.strip():
        raise click.UsageError("the question is empty")

    async def work(chat: Any) -> tuple[RetrievalHits, str]:
        chosen = await choose_store(chat, store, collection)
        collection_name = collection or getattr(chosen.entry, "collection", None)
        hits = await chosen.store.query(text, collection=collection_name, top_k=top_k, where=where)
        empty = not hits.documents and not any(there.documents for there in await chosen.store.collections())
        return hits, chosen.emptiness if empty else "nothing found"

    hits, nothing = with_chat(context, work)
    pairs = list(zip(hits.documents, hits.distances, strict=True))
    if context.json:
        terminal.json(
            [{**as_data(document), "collection": document.collection, "distance": d} for document, d in pairs]
        )
        return
    for number, (document, distance) in enumerate(pairs, 1):
        terminal.out(f"{number}. {document.title}", "bold")
        where_from = f"{place_of(document)}{f'  [{document.collection}]' if document.collection else ''}"
        terminal.out(f"   distance {distance:.3f}  {where_from}", "dim")
        passage = " ".join(document.text.split())
        terminal.paragraph(passage if len(passage) <= _EXCERPT else f"{passage[:_EXCERPT]} …", indent="   ")
    if not pairs:
        terminal.say(nothing)
