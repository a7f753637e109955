"""``flexchat rag`` with what is stored: list, show, query, stats, export, delete."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import click
from flexchat.store import Collection, Document, DocumentStore, RetrievalHits, Source
from flexchat_cli import FILE_NAME, TEXT, CommandContext, argument

from .opening import OpenStore, RagCommandError, choose_store, format_count, store_options, with_chat, with_store

_PAGE = 500
_EXCERPT = 240


async def all_documents(store: DocumentStore, collection: str, where: Any = None) -> AsyncIterator[Document]:
    """Yield the documents of a collection, ordered by id."""
    after: str | None = None
    while True:
        page = await store.list(collection=collection, where=where, limit=_PAGE, after=after)
        for document in page:
            yield document
        if len(page) < _PAGE:
            return
        after = page[-1].id


def as_data(document: Document, **more: Any) -> dict[str, Any]:
    """Convert a document to the JSON form of ``rag export``."""
    data = {name: getattr(document, name) for name in ("id", "title", "text", "source")}
    return {**data, "metadata": dict(document.metadata), **more}


def place_of(document: Document) -> str:
    """Format a document's source and position: "docs/guide.md, line 12"."""
    metadata = document.metadata
    near = [f"{name} {metadata[name]}" for name in ("page", "line") if isinstance(metadata.get(name), int)]
    return ", ".join([document.source or "no source", *near[:1]])


def _read_where(ctx: click.Context, param: click.Parameter, text: str | None) -> Any:
    if text is None:
        return None
    try:
        where = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(
            f'--where is not JSON ({error}); an example: \'{{"year": {{"$gte": 2024}}}}\'', ctx
        ) from None
    if not isinstance(where, dict):
        raise click.UsageError('--where takes a JSON object: {"lang": "en"}', ctx)
    return where


def where_option(help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the option ``--where``; the command receives the parsed filter as ``where``."""
    return click.option("--where", metavar="JSON", callback=_read_where, help=help)


@click.command
@store_options("list the sources of this one")
@click.pass_obj
def list_(context: CommandContext, store: str | None, collection: str | None) -> None:
    """List collections, or the sources of one."""
    if collection is not None:
        with_store(context, store, collection, lambda chosen: _list_sources(context, chosen, collection))
    else:
        with_chat(context, lambda chat: _list_collections(chat, context, store))


async def _list_collections(chat: Any, context: CommandContext, store_name: str | None) -> None:
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


async def _list_sources(context: CommandContext, chosen: OpenStore, name: str) -> None:
    from ..ingest.pipeline import all_sources

    terminal, collection = context.terminal, await chosen.collection(name)
    sources = [source async for source in all_sources(chosen.store, collection.name)]
    if context.json:
        terminal.json([attrs.asdict(source) for source in sources])
        return
    for source in sources:
        part = "" if source.complete else ", incomplete"
        terminal.out(f"{source.name}  ({format_count(source.documents, 'passage')}{part})")
    others = await _other_sources(chosen.store, collection, sources)
    for name, count in sorted(others.items()):
        terminal.out(f"{name}  ({format_count(count, 'passage')}, not added as a file)")
    if not sources and not others:
        terminal.say("no sources")


async def _other_sources(store: DocumentStore, collection: Collection, sources: Sequence[Source]) -> Counter[str]:
    """Count passages whose source is not registered in the store: from records or from a program."""
    if collection.documents <= sum(source.documents for source in sources):
        return Counter()
    counts = Counter([document.source or "(no source)" async for document in all_documents(store, collection.name)])
    for source in sources:
        counts.pop(source.name, None)
    return counts


@click.command
@argument("name", metavar="SOURCE|ID", help="a source as rag list names it, or a document's id")
@store_options("look only there")
@click.pass_obj
def show(context: CommandContext, name: str, store: str | None, collection: str | None) -> None:
    """Show the passages of a source, or one by its id.

    They come in the order they have in the source.
    """

    async def find(chosen: OpenStore) -> list[Document]:
        there = await chosen.collections(collection)
        return [
            document
            for each in there
            async for document in all_documents(chosen.store, each.name)
            if name in (document.id, document.source)
        ]

    terminal = context.terminal
    documents = sorted(with_store(context, store, collection, find), key=_order)
    if not documents:
        raise RagCommandError(
            f"'{name}' is neither a source nor an id; flexchat rag list --collection NAME lists sources"
        )
    if context.json:
        terminal.json([as_data(document, collection=document.collection) for document in documents])
        return
    for number, document in enumerate(documents):
        if number:
            terminal.out()
        terminal.out(document.title, "bold")
        terminal.out(f"{place_of(document)}  [{document.id}]", "dim")
        terminal.out(document.text)


def _order(document: Document) -> tuple[str, int, int]:
    place = [document.metadata.get(name) for name in ("page", "line")]
    page, line = (value if isinstance(value, int) else 0 for value in place)
    return document.collection or "", page, line


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
        terminal.json([as_data(document, collection=document.collection, distance=d) for document, d in pairs])
        return
    for number, (document, distance) in enumerate(pairs, 1):
        terminal.out(f"{number}. {document.title}", "bold")
        where_from = f"{place_of(document)}{f'  [{document.collection}]' if document.collection else ''}"
        terminal.out(f"   distance {distance:.3f}  {where_from}", "dim")
        passage = " ".join(document.text.split())
        terminal.paragraph(passage if len(passage) <= _EXCERPT else f"{passage[:_EXCERPT]} …", indent="   ")
    if not pairs:
        terminal.say(nothing)


@click.command
@store_options("count only this one")
@click.pass_obj
def stats(context: CommandContext, store: str | None, collection: str | None) -> None:
    """Count passages, sources and characters.

    Of each collection.
    """

    async def count(chosen: OpenStore) -> tuple[dict[str, dict[str, Any]], str]:
        there = await chosen.collections(collection)
        return {each.name: await _figures(chosen.store, each) for each in there}, chosen.emptiness

    terminal = context.terminal
    counted, nothing = with_store(context, store, collection, count)
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


async def _figures(store: DocumentStore, collection: Collection) -> dict[str, Any]:
    from ..ingest.pipeline import all_sources

    lengths = [len(document.text) async for document in all_documents(store, collection.name)]
    complete = [source.complete async for source in all_sources(store, collection.name)]
    about = ("embedding", "dimensions", "match_threshold", "partial_threshold")
    return {
        "passages": len(lengths),
        "characters": sum(lengths),
        "longest_passage": max(lengths, default=0),
        "sources": len(complete),
        "incomplete_sources": complete.count(False),
        **{name: getattr(collection, name) for name in about},
    }


@click.command
@store_options("which collection (default: the only one)")
@click.option(
    "--output",
    metavar="FILE",
    type=FILE_NAME,
    help="a .jsonl file, replaced once everything is written (default: print)",
)
@click.pass_obj
def export(context: CommandContext, store: str | None, collection: str | None, output: str | None) -> None:
    """Write a collection as JSON lines, which rag add reads.

    A line for each document.
    """

    def write_to(write: Callable[[str], Any]) -> tuple[str, int]:
        async def work(chosen: OpenStore) -> tuple[str, int]:
            name, count = (await chosen.collection(collection)).name, 0
            async for document in all_documents(chosen.store, name):
                write(json.dumps(as_data(document), ensure_ascii=False) + "\n")
                count += 1
            return name, count

        return with_store(context, store, collection, work)

    if output is None:
        write_to(context.terminal.write)
        return
    if Path(output).suffix not in (".jsonl", ".ndjson"):
        raise click.UsageError(f"--output {output}: name it .jsonl, so that rag add knows how to read it")
    from flexchat.store import replacing  # loads SQLite

    try:
        with replacing(Path(output)) as file:
            name, count = write_to(file.write)
    except OSError as error:
        raise RagCommandError(f"'{output}' cannot be written: {error.strerror or error}") from None
    if context.json:
        context.terminal.json({"collection": name, "documents": count, "output": output})
    else:
        context.terminal.say(f"{format_count(count, 'passage')} of '{name}' written to {output}")


@click.command
@store_options("from where; always needed")
@click.option("--source", "sources", multiple=True, metavar="NAME", help="everything from this source; repeatable")
@click.option("--id", "ids", multiple=True, metavar="ID", help="one document; repeatable")
@where_option('all with matching metadata: {"year": {"$lt": 2020}}')
@click.option("--all", "is_whole", is_flag=True, help="the collection with all its documents")
@click.option("--yes", is_flag=True, help="do not ask for confirmation")
@click.pass_obj
def delete(
    context: CommandContext, /, store: str | None, collection: str | None, *, is_whole: bool, yes: bool, **criteria: Any
) -> None:
    """Delete documents, sources or a collection.

    Documents that match all given options are deleted, after confirmation.
    """
    terminal = context.terminal
    if collection is None:
        raise click.UsageError("--collection NAME is required")
    ids, sources, where = (criteria[name] for name in ("ids", "sources", "where"))
    if is_whole == bool(ids or sources or where is not None):
        raise click.UsageError("nothing to delete: give --source, --id or --where, or --all for the whole collection")
    if not yes and not terminal.interactive():
        raise RagCommandError("cannot ask for confirmation here: --yes deletes without asking")

    async def work(chosen: OpenStore) -> int | None:
        info, documents = await chosen.collection(collection), all_documents(chosen.store, collection, where)
        count = info.documents
        if not is_whole:
            keys = [(document.id, document.source) async for document in documents]
            count = sum((not ids or id in ids) and (not sources or source in sources) for id, source in keys)
        what = f"{'the collection and ' if is_whole else ''}{format_count(count, 'passage')} of '{collection}'"
        if not yes and not terminal.confirm(f"delete {what}?"):
            return None
        if is_whole:
            await chosen.store.delete_collection(collection)
            return count
        chosen_ids, chosen_sources = [*ids] or None, [*sources] or None
        return await chosen.store.delete(collection=collection, ids=chosen_ids, sources=chosen_sources, where=where)

    deleted = with_store(context, store, collection, work)
    if deleted is None:
        terminal.say("nothing was deleted")
    elif context.json:
        terminal.json({"collection": collection, "deleted": deleted})
    else:
        terminal.out(f"{collection}: {format_count(deleted, 'passage')} deleted")
