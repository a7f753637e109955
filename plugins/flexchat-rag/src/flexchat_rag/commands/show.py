"""flexchat rag show: the passages of a source, or the one of an id."""

from __future__ import annotations

from typing import Any

from flexchat.store import Document

from .opening import RagCommandError, add_store_arguments, all_documents, as_data, choose_store, place_of, with_chat


def add_arguments(parser: Any) -> None:
    """Say what rag show takes."""
    parser.add_argument("name", metavar="SOURCE|ID", help="a source as rag list names it, or a document's id")
    add_store_arguments(parser, "look only there")


def run(args: Any) -> int:
    """Print the passages in the order they have in the source."""
    documents = with_chat(args, lambda chat: _find(chat, args))
    if args.json:
        args.terminal.json([{**as_data(document), "collection": document.collection} for document in documents])
        return 0
    for number, document in enumerate(documents):
        if number:
            args.terminal.out()
        args.terminal.out(document.title, "bold")
        args.terminal.out(f"{place_of(document)}  [{document.id}]", "dim")
        args.terminal.out(document.text)
    return 0


async def _find(chat: Any, args: Any) -> list[Document]:
    chosen = await choose_store(chat, args.store, args.collection, fillable=True)
    store = chosen.fillable()
    there = [await chosen.collection(args.collection)] if args.collection is not None else await store.collections()
    found = []
    for collection in there:
        async for document in all_documents(store, collection.name):
            if args.name in (document.id, document.source):
                found.append(document)
    if not found:
        raise RagCommandError(
            f"'{args.name}' is neither a source nor an id; flexchat rag list --collection NAME lists sources"
        )
    return sorted(found, key=_order)


def _order(document: Document) -> tuple[str, int, int]:
    place = [document.metadata.get(name) for name in ("page", "line")]
    page, line = (value if isinstance(value, int) else 0 for value in place)
    return document.collection or "", page, line


PARTS: Any = {"add_arguments": add_arguments, "run": run}
