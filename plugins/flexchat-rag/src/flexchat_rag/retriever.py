"""The document store "sqlite": word and vector search in one file."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import logging
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Literal

import attrs
from flexchat.store import (
    Collection,
    Document,
    DocumentStoreContext,
    RetrievalError,
    RetrievalHits,
    Source,
    Where,
    data_folder,
    error_text,
    located,
    read_filter,
    reranked,
    storable,
)

from .config import SqliteConfig
from .store import database
from .store.search import SearchQuery, filter_sql, search, terms_of

if TYPE_CHECKING:
    from .store.vectors import Floats, Matrices


class Lane:
    """Admits a limited number of searches at a time; those with the fewest words wait least.

    First come, first served would let one client's burst of long questions delay all others.
    """

    def __init__(self, width: int) -> None:
        self._free = width
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = itertools.count()

    @contextlib.asynccontextmanager
    async def turn(self, words: int) -> AsyncIterator[None]:
        """Wait until a search of *words* words may run, and hold its slot."""
        if self._free:
            self._free -= 1
        else:
            admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (words, next(self._arrivals), admitted))
            try:
                await admitted
            except asyncio.CancelledError:
                if not admitted.cancelled():  # Cancelled while being admitted: pass the slot on, or it is lost.
                    self._release()
                raise
        try:
            yield
        finally:
            self._release()

    def _release(self) -> None:
        while self._waiting:
            admitted = heapq.heappop(self._waiting)[2]
            if not admitted.done():
                admitted.set_result(None)
                return
        self._free += 1


BATCH = 256
"""Texts an embedder is given at once."""

FEW_TERMS = 8
"""Words of a question up to which two searches run at once; longer ones wait for each other."""

RERANKED = 50
"""Hits a reranker reads again; those behind keep their order."""

_log = logging.getLogger("flexchat.documents")


class SqliteStore:
    """A DocumentStore in one SQLite file; see store/__init__.py for its parts.

    A collection has vectors for all of its documents or for none; its first documents decide which. A collection filled
    without an embedder is searched by words until it is emptied.
    """

    def __init__(self, config: SqliteConfig, context: DocumentStoreContext) -> None:
        path = located(config.path, context.folder) if config.path else data_folder() / "documents.db"
        self.database = database.open_database(path)
        self._config = config
        self._name = context.name
        self._embedder = context.embedder
        self._reranker = context.reranker
        self._matrices: Matrices | None = None
        self._warned: set[str] = set()
        self._few, self._many = Lane(2), Lane(1)  # readers are left for lists and documents

    async def query(
        self, text: str, *, collection: str | None, top_k: int, where: Where | None = None
    ) -> RetrievalHits:
        """Return the best matching passages; see Retriever.

        The order does not depend on top_k up to 100. If the embedder fails, the search is by words only, and a warning
        is logged.

        Raises:
            RetrievalError: search is "vector" and there is nothing to compare, or the embedder fails.
        """
        text = storable(text)
        condition = read_filter(where)
        vector = await self._vector_of(text)
        if vector is not None and self._matrices is None:
            from .store.vectors import Matrices

            self._matrices = Matrices()
        question = SearchQuery(
            text=text,
            collection=None if collection is None else storable(collection),
            top_k=max(top_k, RERANKED if self._reranker is not None else 0),
            condition=condition,
            by_words=self._config.search != "vector",
            vector=vector,
            embedder=self._embedder.name if self._embedder is not None else None,
        )
        matrices = self._matrices
        # Cost grows with the number of words: long questions must not occupy all readers.
        words = len(terms_of(text))
        async with (self._few if words <= FEW_TERMS else self._many).turn(words):
            collections, hits = await self.database.read(lambda connection: search(connection, matrices, question))
        self._check_vectors(collections, question)
        if self._reranker is not None:
            passages = [database.read_as(hit.title, hit.text) for hit, _ in hits[:RERANKED]]
            order = await reranked(self._reranker, text, passages, store=self._name)
            hits = [*(hits[place] for place in order), *hits[RERANKED:]]
        best = hits[: max(0, top_k)]
        about = collections[0] if collection is not None else Collection(name="")
        return RetrievalHits(
            documents=tuple(document for document, _ in best),
            distances=tuple(distance for _, distance in best),
            description=about.description,
            match_threshold=about.match_threshold,
            partial_threshold=about.partial_threshold,
            embedding=about.embedding if vector is not None and about.embedding == question.embedder else None,
        )

    async def collections(self) -> Sequence[Collection]:
        """Return the collections, by name."""
        return tuple((await self.database.read(database.read_collections)).values())

    async def add(self, documents: Sequence[Document], *, collection: str, source: Source | None = None) -> int:
        """Store documents, all or none; see DocumentStore. Embedding precedes any lock.

        Raises:
            RetrievalError: A document or a vector cannot be stored, or the collection has vectors of another embedder.
            ProviderError: The embedder's service did not answer.
        """
        name = database.checked_name(collection, "the collection's name")
        if source is not None:
            source_name = database.checked_name(source.name, "the source's name")
            source = attrs.evolve(source, name=source_name, digest=storable(source.digest))
        fields = await self.database.read(lambda connection: database.metadata_fields(connection, name))
        made_from = source.name if source is not None else None
        by_id = {row.id: row for row in (database.row_of(document, made_from, *fields) for document in documents)}
        rows = tuple(by_id.values())
        embedder = self._embedder.name if self._embedder is not None and self._config.search != "keyword" else None
        if rows:
            self._check_embedder()
        if embedder is None and self._embedder is not None:
            there = {each.name: each for each in await self.collections()}
            if name in there and there[name].embedding is not None and there[name].documents:
                embedder = self._embedder.name
        plan = await self.database.read(lambda connection: database.plan_adding(connection, name, rows, embedder))
        vectors: dict[str, bytes] = {}

        def work(connection: database.Connection) -> int:
            return database.add_documents(connection, name, rows, source=source, embedder=embedder, vectors=vectors)

        while True:
            texts = [text for text in plan.missing if text not in vectors]
            for start in range(0, len(texts), BATCH):
                batch = texts[start : start + BATCH]
                embedded = await self._embed(batch, "document")
                vectors.update((text, row.tobytes()) for text, row in zip(batch, embedded, strict=True))
            try:
                return await self.database.write(work)
            except database.VectorsMissing as missing:
                plan = missing.plan

    async def delete(
        self,
        *,
        collection: str,
        ids: Sequence[str] | None = None,
        sources: Sequence[str] | None = None,
        where: Where | None = None,
    ) -> int:
        """Delete the documents that match all given criteria; see DocumentStore."""
        condition = filter_sql(read_filter(where))
        chosen_ids, chosen_sources = (None if names is None else [*map(storable, names)] for names in (ids, sources))
        return await self.database.write(
            lambda connection: database.delete_documents(
                connection, storable(collection), chosen_ids, chosen_sources, condition
            )
        )

    async def list(
        self, *, collection: str, where: Where | None = None, limit: int = 100, after: str | None = None
    ) -> Sequence[Document]:
        """Return documents in the order of their ids; see DocumentStore."""
        condition = filter_sql(read_filter(where))
        behind = None if after is None else storable(after)
        return await self.database.read(
            lambda connection: database.list_documents(connection, storable(collection), condition, limit, behind)
        )

    async def sources(self, *, collection: str, limit: int = 1000, after: str | None = None) -> Sequence[Source]:
        """Return sources in the order of their names; see DocumentStore."""
        behind = None if after is None else storable(after)
        return await self.database.read(
            lambda connection: database.list_sources(connection, storable(collection), limit, behind)
        )

    async def save_collection(self, collection: Collection) -> None:
        """Create a collection, or update its description and settings; see DocumentStore."""
        name = database.checked_name(collection.name, "the collection's name")
        metadata = database.metadata_json(collection.metadata, f"metadata of the collection {name[:100]!r}")
        settings = {field: getattr(collection, field) for field in database.SETTINGS}
        settings |= {field: storable(value) for field, value in settings.items() if isinstance(value, str)}
        settings |= {"name": name, "metadata": metadata}
        await self.database.write(lambda connection: database.save_collection(connection, settings))

    async def delete_collection(self, name: str) -> None:
        """Delete a collection with all that is in it; see DocumentStore."""
        await self.database.write(lambda connection: database.delete_collection(connection, storable(name)))

    async def aclose(self) -> None:
        """Close the file and release the vectors."""
        await self.database.aclose()
        if self._matrices is not None:
            self._matrices.clear()

    async def _embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Floats:
        assert self._embedder is not None
        vectors = await self._embedder.embed(texts, purpose=purpose)
        return await asyncio.to_thread(_normalize, vectors, len(texts), self._embedder.name)

    async def _vector_of(self, text: str) -> Floats | None:
        """Embed the question; None if the search has to be by words only."""
        if self._config.search == "keyword" or not text.strip():
            return None
        self._check_embedder()
        if self._embedder is None:
            return None
        try:
            vector: Floats = (await self._embed([text], "query"))[0]
        except Exception as error:  # whatever an embedder raises
            if self._config.search == "vector" or not terms_of(text):
                raise RetrievalError(
                    f"{self._name}: the question could not be embedded: {error_text(error)}"
                ) from error
            _log.warning("%s: searched for words alone, as no vector could be made: %s", self._name, error_text(error))
            return None
        return vector

    def _check_embedder(self) -> None:
        if self._config.search == "vector" and self._embedder is None:
            raise RetrievalError(f"{self._name}: search = 'vector' needs an embedding; name one in the config")

    def _check_vectors(self, collections: Sequence[Collection], question: SearchQuery) -> None:
        """Log, once, the collections whose vectors are from a different embedder than the question's."""
        if question.vector is None:
            return
        own = (question.embedder, len(question.vector))
        other = [c for c in collections if c.documents and (c.embedding, c.dimensions) != own]
        is_useless = question.collection is not None or len(other) == len(collections)
        if other and is_useless and not question.by_words:
            has = other[0].embedding or "no embedder"
            raise RetrievalError(
                f"{self._name}: the collection '{other[0].name}' has vectors of {has}, not of {question.embedder}:"
                f" configure that embedding, or delete its documents and add them again"
            )
        for collection in other:
            if collection.name not in self._warned:
                self._warned.add(collection.name)
                has = f"vectors of {collection.embedding}" if collection.embedding else "no vectors"
                _log.warning(
                    "%s: the collection '%s' is searched for words alone: it has %s, and questions have those of %s",
                    *(self._name, collection.name[:100], has, question.embedder),
                )


def _normalize(vectors: Sequence[Sequence[float]], texts: int, embedder: str) -> Floats:
    from .store.vectors import unit_vectors

    return unit_vectors(vectors, texts, embedder)
