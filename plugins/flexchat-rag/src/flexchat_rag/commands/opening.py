"""Selection of the document store and the collection that a command works on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click
from flexchat.plugin import FlexChatError
from flexchat.store import Collection, Document, DocumentStore, Retriever, UnknownCollectionError

if TYPE_CHECKING:
    from flexchat_cli import CommandContext

T = TypeVar("T")

_PAGE = 500


class RagCommandError(FlexChatError):
    """A command cannot be carried out; the text advises what to do instead."""

    exit_status = 2


@attrs.frozen(kw_only=True)
class OpenStore:
    """The store a command works with.

    Attributes:
        entry: Its entry in the config.
    """

    name: str
    store: Retriever
    entry: Any

    @property
    def emptiness(self) -> str:
        """Message for an empty result."""
        return f"the store '{self.name}' is empty: flexchat rag add PATH fills it"

    def fillable(self) -> DocumentStore:
        """Return the store as a DocumentStore, for adding, listing and deleting.

        Raises:
            RagCommandError: The store is read-only.
        """
        if not _is_fillable(self.store):
            provider = getattr(self.entry, "provider", "")
            kind = f" (provider {provider})" if provider else ""
            raise RagCommandError(
                f"the document store '{self.name}'{kind} can be searched, but not filled or listed by commands; "
                'a store with provider = "sqlite" can'
            )
        return self.store  # type: ignore[return-value]  # checked by its methods

    async def collection(self, name: str | None) -> Collection:
        """Return the collection named *name*, else the configured one, else the only one.

        Raises:
            UnknownCollectionError: The named collection does not exist.
            RagCommandError: None is named, and there are several.
        """
        there = {collection.name: collection for collection in await self.store.collections()}
        name = getattr(self.entry, "collection", None) if name is None else name
        if name is None:
            if len(there) == 1:
                return next(iter(there.values()))
            if not there:
                raise RagCommandError(self.emptiness)
            raise RagCommandError(
                f"which collection? --collection NAME says it (there are: {', '.join(sorted(there))})"
            )
        if name not in there:
            raise UnknownCollectionError(name, there)
        return there[name]


def with_chat(context: CommandContext, work: Callable[[Any], Awaitable[T]]) -> T:
    """Run *work* with the configured FlexChat, and close it afterwards."""

    async def run() -> T:
        async with context.open_chat() as chat:
            return await work(chat)

    return asyncio.run(run())


async def choose_store(
    chat: Any, store_name: str | None, collection: str | None, *, fillable: bool = False
) -> OpenStore:
    """Select the named store, else the only one, else the only one with the collection.

    Args:
        fillable: Consider writable stores only.

    Raises:
        RagCommandError: No store matches, several do, or a name is empty.
    """
    for option, name in (("--store", store_name), ("--collection", collection)):
        if name is not None and not name.strip():  # Usually an unset shell variable.
            raise RagCommandError(f"{option} is empty: name one, or leave the option out")
    stores: dict[str, Retriever] = dict(chat.stores)
    listed = ", ".join(sorted(stores))
    if store_name is not None and store_name not in stores:
        raise RagCommandError(f"no document store is called '{store_name}' (there are: {listed or 'none'})")
    if not stores:
        raise RagCommandError(
            'no document store is configured: write [stores.documents] with provider = "sqlite" into the config'
        )
    names = [store_name] if store_name is not None else list(stores)
    if len(names) > 1 and fillable:
        names = [name for name in names if _is_fillable(stores[name])] or names
    if len(names) > 1 and collection is not None:
        names = [name for name in names if await _has(stores[name], collection)] or names
    if len(names) > 1:
        raise RagCommandError(f"which document store? --store NAME says it (there are: {listed})")
    return OpenStore(name=names[0], store=stores[names[0]], entry=chat.config.stores.get(names[0]))


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


def as_data(document: Document) -> dict[str, Any]:
    """Convert a document to the JSON form of ``rag export``."""
    data = {name: getattr(document, name) for name in ("id", "title", "text", "source")}
    return {**data, "metadata": dict(document.metadata)}


def format_count(number: int, noun: str) -> str:
    """Format a count with its noun: "1 passage", "1,440 passages"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_seconds(seconds: float) -> str:
    """Format a duration: "40 ms", "6.0 s", "3 min 20 s"."""
    if seconds < 0.95:
        return f"{max(1, round(seconds * 1000))} ms"
    if seconds < 119.5:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:,} min {rest} s"


def place_of(document: Document) -> str:
    """Format a document's source and position: "docs/guide.md, line 12"."""
    metadata = document.metadata
    near = [f"{name} {metadata[name]}" for name in ("page", "line") if isinstance(metadata.get(name), int)]
    return ", ".join([document.source or "no source", *near[:1]])


def store_options(collection_help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options ``--store`` and ``--collection``."""

    def added(command: Callable[..., Any]) -> Callable[..., Any]:
        command = click.option("--collection", metavar="NAME", help=collection_help)(command)
        return click.option("--store", metavar="NAME", help="the document store: its name in stores")(command)

    return added


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


def _is_fillable(store: Retriever) -> bool:
    return all(hasattr(store, name) for name in ("add", "delete", "list", "sources"))


async def _has(store: Retriever, collection: str) -> bool:
    return any(each.name == collection for each in await store.collections())
