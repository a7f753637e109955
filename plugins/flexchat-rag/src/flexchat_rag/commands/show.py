"""``flexchat rag show``: show the passages of a source, or one passage by id."""

from __future__ import annotations

from typing import Any

import click
from flexchat.store import Document
from flexchat_cli import CommandContext, argument

from .opening import RagCommandError, all_documents, as_data, choose_store, place_of, store_options, with_chat


@click.command
@argument("name", metavar="SOURCE|ID", help="a source as rag list names it, or a document's id")
@store_options("look only there")
@click.pass_obj
def show(context: CommandContext, name: str, store: str | None, collection: str | None) -> None:
    """Show the passages of a source, or one by its id.

    They come in the order they have in the source.
    """
    terminal = context.terminal
    documents = with_chat(context, lambda chat: _find(chat, name, store, collection))
    if context.json:
        terminal.json([{**as_data(document), "collection": document.collection} for document in documents])
        return
    for number, document in enumerate(documents):
        if number:
            terminal.out()
        terminal.out(document.title, "bold")
        terminal.out(f"{place_of(document)}  [{document.id}]", "dim")
        terminal.out(document.text)


async def _find(chat: Any, name: str, store_name: str | None, collection_name: str | None) -> list[Document]:
    chosen = await choose_store(chat, store_name, collection_name, fillable=True)
    store = chosen.fillable()
    there = [await chosen.collection(collection_name)] if collection_name is not None else await store.collections()
    documents = []
    for collection in there:
        async for document in all_documents(store, collection.name):
            if name in (document.id, document.source):
                documents.append(document)
    if not documents:
        raise RagCommandError(
            f"'{name}' is neither a source nor an id; flexchat rag list --collection NAME lists sources"
        )
    return sorted(documents, key=_order)


def _order(document: Document) -> tuple[str, int, int]:
    place = [document.metadata.get(name) for name in ("page", "line")]
    page, line = (value if isinstance(value, int) else 0 for value in place)
    return document.collection or "", page, line
