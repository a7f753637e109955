"""Selection of the document store and the collection that a command works on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click
from flexchat.plugin import FlexChatError
from flexchat.store import Collection, DocumentStore, Retriever, UnknownCollectionError

if TYPE_CHECKING:
    from flexchat_cli import CommandContext

T = TypeVar("T")


class RagCommandError(FlexChatError):
    """A command cannot be carried out; the text advises what to do instead."""

    exit_status = 2


@attrs.frozen(kw_only=True)
class OpenStore:
    """The store a command works with.

    Attributes:
        store: Only a Retriever, unless the command needs a fillable store.
        entry: Its entry in the config.
    """

    name: str
    store: DocumentStore
    entry: Any

    @property
    def emptiness(self) -> str:
        """Message for an empty result."""
        return f"the store '{self.name}' is empty: flexchat rag add PATH fills it"

    async def collection(self, name: str | None) -> Collection:
        """Return the collection named *name*, else the configured one, else the only one.

        Raises:
            UnknownCollectionError: The named collection does not exist.
            RagCommandError: None is named, and there are several.
        """
        there = {collection.name: collection for collection in await self.store.collections()}
        name = getattr(self.entry, "collection", None) if name is None else name
        if name is None and len(there) == 1:
            return next(iter(there.values()))
        if name is None:
            names = ", ".join(sorted(there))
            problem = f"which collection? --collection NAME says it (there are: {names})" if names else self.emptiness
            raise RagCommandError(problem)
        if name not in there:
            raise UnknownCollectionError(name, there)
        return there[name]

    async def collections(self, name: str | None) -> Sequence[Collection]:
        """Return all collections, or the named one; see collection."""
        return await self.store.collections() if name is None else [await self.collection(name)]


def with_chat(context: CommandContext, work: Callable[[Any], Awaitable[T]]) -> T:
    """Run *work* with the configured FlexChat, and close it afterwards."""

    async def run() -> T:
        async with context.open_chat() as chat:
            return await work(chat)

    return asyncio.run(run())


def with_store(
    context: CommandContext, store: str | None, collection: str | None, work: Callable[[OpenStore], Awaitable[T]]
) -> T:
    """Run *work* with the fillable store that choose_store selects, as with_chat does."""

    async def choose(chat: Any) -> T:
        return await work(await choose_store(chat, store, collection, fillable=True))

    return with_chat(context, choose)


async def choose_store(
    chat: Any, store_name: str | None, collection: str | None, *, fillable: bool = False
) -> OpenStore:
    """Select the named store, else the only one, else the only one with the collection.

    Args:
        fillable: Consider stores only that can be filled, listed and emptied.

    Raises:
        RagCommandError: No store matches, several do, or a name is empty.
    """
    for option, name in (("--store", store_name), ("--collection", collection)):
        if name is not None and not name.strip():  # Usually an unset shell variable.
            raise RagCommandError(f"{option} is empty: name one, or leave the option out")
    stores: dict[str, DocumentStore] = dict(chat.stores)
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
        holders = {name for name in names for each in await stores[name].collections() if each.name == collection}
        names = sorted(holders) or names
    if len(names) > 1:
        raise RagCommandError(f"which document store? --store NAME says it (there are: {listed})")
    name, entry = names[0], chat.config.stores.get(names[0])
    if fillable and not _is_fillable(stores[name]):
        provider = getattr(entry, "provider", "")
        kind = f" (provider {provider})" if provider else ""
        raise RagCommandError(
            f"the document store '{name}'{kind} can be searched, but not filled or listed by commands; "
            'a store with provider = "sqlite" can'
        )
    return OpenStore(name=name, store=stores[name], entry=entry)


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


def store_options(collection_help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options ``--store`` and ``--collection``."""

    def added(command: Callable[..., Any]) -> Callable[..., Any]:
        command = click.option("--collection", metavar="NAME", help=collection_help)(command)
        return click.option("--store", metavar="NAME", help="the document store: its name in stores")(command)

    return added


def _is_fillable(store: Retriever) -> bool:
    return all(hasattr(store, name) for name in ("add", "delete", "list", "sources"))
