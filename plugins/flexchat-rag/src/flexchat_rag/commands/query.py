"""flexchat rag query: what a search finds, as phase 2 would see it."""

from __future__ import annotations

from typing import Any

from flexchat.store import RetrievalHits

from .opening import add_store_arguments, as_data, choose_store, place_of, where_of, with_chat

_EXCERPT = 240


def add_arguments(parser: Any) -> None:
    """Say what rag query takes."""
    parser.add_argument("text", metavar="TEXT", help="the question")
    add_store_arguments(parser, "search only there")
    parser.add_argument("--top-k", type=int, default=5, metavar="N", help="passages at most (5)")
    parser.add_argument("--where", metavar="JSON", help='only documents with matching metadata: {"lang": "en"}')


def run(args: Any) -> int:
    """Print the hits, best first."""
    if args.top_k < 1:
        args.refuse(f"--top-k is at least 1, not {args.top_k}")
    if not args.text.strip():
        args.refuse("the question is empty")
    where = where_of(args)

    async def work(chat: Any) -> tuple[RetrievalHits, str]:
        chosen = await choose_store(chat, args.store, args.collection)
        collection = args.collection or getattr(chosen.entry, "collection", None)
        hits = await chosen.store.query(args.text, collection=collection, top_k=args.top_k, where=where)
        empty = not hits.documents and not any(there.documents for there in await chosen.store.collections())
        return hits, chosen.emptiness if empty else "nothing found"

    hits, nothing = with_chat(args, work)
    pairs = list(zip(hits.documents, hits.distances, strict=True))
    if args.json:
        args.terminal.json(
            [{**as_data(document), "collection": document.collection, "distance": d} for document, d in pairs]
        )
        return 0
    for number, (document, distance) in enumerate(pairs, 1):
        args.terminal.out(f"{number}. {document.title}", "bold")
        where_from = f"{place_of(document)}{f'  [{document.collection}]' if document.collection else ''}"
        args.terminal.out(f"   distance {distance:.3f}  {where_from}", "dim")
        text = " ".join(document.text.split())
        args.terminal.paragraph(text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]} …", indent="   ")
    if not pairs:
        args.terminal.say(nothing)
    return 0


PARTS: Any = {"add_arguments": add_arguments, "run": run}
