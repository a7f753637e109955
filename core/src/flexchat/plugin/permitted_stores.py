"""Document stores of a chat whose plugins decide who may search which collections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from ..domain import Collection, CollectionChoice, Document, RetrievalHits, Source, TurnInfo, Where
from ..errors import NotPermittedError
from .call import current_info
from .contracts import DocumentStore, Retriever

Refusal = Callable[[TurnInfo, Any], str | None]

_FILLABLE = ("add", "delete", "list", "sources", "save_collection", "delete_collection")


def restrict_store(name: str, store: Any, refusal_of: Refusal) -> Retriever:
    """Return the store, limited to the collections of the principal on whose behalf the code that uses it runs.

    Every entrance searches through it, so that none can forget to ask.
    """
    is_fillable = all(hasattr(store, method) for method in _FILLABLE)
    return (PermittedDocumentStore if is_fillable else PermittedRetriever)(name, store, refusal_of)


class PermittedRetriever:
    """A Retriever that raises NotPermittedError for a collection the principal may not search, and lists no such one.

    Attributes that are not methods of a document store are those of the store.
    """

    def __init__(self, name: str, store: Any, refusal_of: Refusal) -> None:
        self.name, self._store, self._refusal_of = name, store, refusal_of

    def __getattr__(self, attribute: str) -> Any:
        if attribute in _FILLABLE:
            raise AttributeError(attribute)
        return getattr(self._store, attribute)

    async def query(
        self, text: str, *, collection: str | None, top_k: int, where: Where | None = None
    ) -> RetrievalHits:
        """Return the best passages of the collection, or of all permitted ones; see Retriever."""
        if collection is not None:
            self._check(collection)
            hits: RetrievalHits = await self._store.query(text, collection=collection, top_k=top_k, where=where)
            return hits
        existing: Sequence[Collection] = await self._store.collections()
        names = [each.name for each in existing if self._refusal(each.name) is None]
        if len(names) == len(existing):
            return self._merge([await self._store.query(text, collection=None, top_k=top_k, where=where)], top_k)
        queries = (self._store.query(text, collection=name, top_k=top_k, where=where) for name in names)
        return self._merge(await asyncio.gather(*queries), top_k)

    async def collections(self) -> Sequence[Collection]:
        """Return the permitted collections, by name."""
        existing: Sequence[Collection] = await self._store.collections()
        return [each for each in existing if self._refusal(each.name) is None]

    async def aclose(self) -> None:
        """Close the store."""
        await self._store.aclose()

    def _refusal(self, collection: str) -> str | None:
        return self._refusal_of(current_info(), CollectionChoice(store=self.name, collection=collection))

    def _check(self, collection: str) -> None:
        # Before the store is asked: a refusal must not depend on whether there is such a collection.
        if (why := self._refusal(collection)) is not None:
            raise NotPermittedError(why)

    def _merge(self, answers: Sequence[RetrievalHits], top_k: int) -> RetrievalHits:
        """Return the nearest passages of several answers of one store.

        Those of a collection that came into being after the listing, and that is not permitted, are left out.
        """
        passages = [
            (document, distance)
            for hits in answers
            for document, distance in zip(hits.documents, hits.distances, strict=True)
            if document.collection is None or self._refusal(document.collection) is None
        ]
        if len(answers) > 1:
            passages = sorted(passages, key=lambda pair: pair[1])[:top_k]
        common = answers[0] if answers else RetrievalHits(documents=(), distances=())
        documents, distances = tuple(each for each, _ in passages), tuple(distance for _, distance in passages)
        return attrs.evolve(common, documents=documents, distances=distances)


class PermittedDocumentStore(PermittedRetriever):
    """The same for a DocumentStore; what is not permitted can also not be filled or deleted."""

    _store: DocumentStore

    async def add(self, documents: Sequence[Document], *, collection: str, source: Source | None = None) -> int:
        """See DocumentStore."""
        self._check(collection)
        return await self._store.add(documents, collection=collection, source=source)

    async def delete(self, *, collection: str, **criteria: Any) -> int:
        """See DocumentStore."""
        self._check(collection)
        return await self._store.delete(collection=collection, **criteria)

    async def list(self, *, collection: str, **options: Any) -> Sequence[Document]:
        """See DocumentStore."""
        self._check(collection)
        return await self._store.list(collection=collection, **options)

    async def sources(self, *, collection: str, **options: Any) -> Sequence[Source]:
        """See DocumentStore."""
        self._check(collection)
        return await self._store.sources(collection=collection, **options)

    async def save_collection(self, collection: Collection) -> None:
        """See DocumentStore."""
        self._check(collection.name)
        await self._store.save_collection(collection)

    async def delete_collection(self, name: str) -> None:
        """See DocumentStore."""
        self._check(name)
        await self._store.delete_collection(name)
