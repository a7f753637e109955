"""flexchat rag delete: documents, sources, or a whole collection."""

from __future__ import annotations

from typing import Any

from .opening import (
    OpenStore,
    RagCommandError,
    add_store_arguments,
    all_documents,
    choose_store,
    spoken_count,
    where_of,
    with_chat,
)


def add_arguments(parser: Any) -> None:
    """Say what rag delete takes."""
    add_store_arguments(parser, "from where; always needed")
    parser.add_argument("--source", action="append", metavar="NAME", help="everything from this source; repeatable")
    parser.add_argument("--id", action="append", dest="ids", metavar="ID", help="one document; repeatable")
    parser.add_argument("--where", metavar="JSON", help='all with matching metadata: {"year": {"$lt": 2020}}')
    parser.add_argument("--all", action="store_true", help="the collection with all its documents")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def run(args: Any) -> int:
    """Delete what fits all that is said, after asking."""
    if args.collection is None:
        args.refuse("--collection NAME is required")
    narrowed = bool(args.source or args.ids or args.where is not None)
    if narrowed == args.all:
        args.refuse("say what to delete: --source, --id or --where, or --all for the whole collection")
    where = where_of(args)
    if not args.yes and not args.terminal.interactive():
        raise RagCommandError("cannot ask for confirmation here: --yes deletes without asking")
    deleted = with_chat(args, lambda chat: _delete(chat, args, where))
    if deleted is None:
        args.terminal.say("nothing was deleted")
    elif args.json:
        args.terminal.json({"collection": args.collection, "deleted": deleted})
    else:
        args.terminal.out(f"{args.collection}: {spoken_count(deleted, 'passage')} deleted")
    return 0


async def _delete(chat: Any, args: Any, where: Any) -> int | None:
    chosen = await choose_store(chat, args.store, args.collection, fillable=True)
    store, collection = chosen.fillable(), await chosen.collection(args.collection)
    count = collection.documents if args.all else await _count(chosen, args, where)
    if not args.yes and not _agrees(args, count):
        return None
    if args.all:
        await store.delete_collection(collection.name)
        return count
    return await store.delete(collection=collection.name, ids=args.ids, sources=args.source, where=where)


async def _count(chosen: OpenStore, args: Any, where: Any) -> int:
    count = 0
    async for document in all_documents(chosen.fillable(), args.collection, where):
        fits_source = not args.source or document.source in args.source
        count += fits_source and (not args.ids or document.id in args.ids)
    return count


def _agrees(args: Any, count: int) -> bool:
    what = f"{'the collection and ' if args.all else ''}{spoken_count(count, 'passage')} of '{args.collection}'"
    try:
        return input(f"delete {what}? [y/N] ").strip().casefold() in ("y", "yes")
    except EOFError:
        return False


PARTS: Any = {"add_arguments": add_arguments, "run": run}
