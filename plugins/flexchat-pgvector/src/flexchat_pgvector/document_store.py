"""The document store "pgvector"."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import attrs
from flexchat.store import (
    Collection,
    Document,
    DocumentStoreContext,
    RetrievalError,
    RetrievalHits,
    Source,
    Where,
    fused,
    read_filter,
    reranked,
    storable,
)
from flexchat_postgresql import Connections
from psycopg import sql

from . import tables
from .adding import Adder, index_name
from .config import PgvectorConfig
from .searching import DEPTH, SearchQuery, by_vector, by_words, hits_of, question_vector

_LOG = logging.getLogger(__name__)

RERANKED = 30
"""Best hits a reranker reads again."""


class PgvectorStore:
    """Documents in PostgreSQL; see DocumentStore. Connects on first use."""

    def __init__(self, config: PgvectorConfig, context: DocumentStoreContext) -> None:
        self._config, self._name, self._reranker = config, context.name, context.reranker
        self._embedder = context.embedder if config.search != "keyword" else None
        self.database = self._connections = Connections(
            config, name=context.name, part="documents", steps=tables.DOCUMENTS, error=RetrievalError
        )
        self._adder = Adder(self._connections, self._embedder, config.language, indexed=config.index == "hnsw")

    async def query(
        self, text: str, *, collection: str | None, top_k: int, where: Where | None = None
    ) -> RetrievalHits:
        """Return the passages that best match *text*; see Retriever.

        The distance of a hit is the cosine distance or, without vectors, the weighted share of the question's words
        that it lacks, from 0 to 1.
        """
        condition = tables.condition_sql(read_filter(where))
        text = storable(text)
        async with self._connections.transaction() as connection:
            if collection is None:
                among = [*(await tables.all_collections(connection)).values()]
            else:
                among = [await tables.known_collection(connection, storable(collection))]
        self._check_embedder()
        is_vector, is_keyword = self._config.search == "vector", self._config.search == "keyword"
        vector, compared = None, list[int]()
        if not is_keyword:  # Outside any transaction: a network call must not hold locks or a connection.
            vector, compared = await question_vector(self._embedder, text, among, required=is_vector)
        question = SearchQuery(
            text=text,
            vector=vector,
            compared=compared,
            collections=among,
            filter=condition,
            depth=max(DEPTH, top_k),
        )
        async with self._connections.transaction() as connection:
            near = await by_vector(connection, question, indexed=self._config.index == "hnsw")
            words = {} if is_vector else await by_words(connection, question)
            keys = fused([[*near], [*words]])
            best = keys[: max(top_k, RERANKED) if self._reranker else top_k]
            rows = await hits_of(connection, question, best)
        hits = [
            (tables.document_of(*fields), words.get(key, 1.0) if distance is None else distance)
            for key in best
            if key in rows
            for distance, *fields in [rows[key]]
        ]
        if self._reranker is not None:
            passages = [tables.read_as(document.title, document.text) for document, _ in hits[:RERANKED]]
            order = await reranked(self._reranker, text, passages, store=self._name)
            hits = [*(hits[place] for place in order), *hits[RERANKED:]]
        hits = hits[:top_k]
        about = among[0].about if collection is not None else Collection(name="")
        return RetrievalHits(
            documents=tuple(document for document, _ in hits),
            distances=tuple(distance for _, distance in hits),
            description=about.description,
            match_threshold=about.match_threshold,
            partial_threshold=about.partial_threshold,
            embedding=about.embedding if compared else None,
        )

    async def collections(self) -> Sequence[Collection]:
        """Return all collections, sorted by name."""
        async with self._connections.transaction() as connection:
            return [stored.about for stored in (await tables.all_collections(connection)).values()]

    async def add(self, documents: Sequence[Document], *, collection: str, source: Source | None = None) -> int:
        """Store documents, all or none; see DocumentStore.

        A collection has vectors for all of its documents or for none; its first documents decide which.
        """
        self._check_embedder()
        if source is not None:
            source = attrs.evolve(
                source, name=tables.stored_name("source", source.name), digest=storable(source.digest)
            )
        name = tables.stored_name("collection", collection)
        async with self._connections.transaction() as connection:
            fields = await tables.metadata_fields(connection, name)
        return await self._adder.add(tables.rows_of(documents, source, *fields), name, source)

    async def delete(
        self,
        *,
        collection: str,
        ids: Sequence[str] | None = None,
        sources: Sequence[str] | None = None,
        where: Where | None = None,
    ) -> int:
        """Delete the documents that match all given criteria. Returns their number."""
        condition, parameters = tables.condition_sql(read_filter(where))
        async with self._connections.transaction(write=True) as connection:
            stored = await tables.lock_collection(connection, storable(collection))
            statement = """
                WITH gone AS (
                    DELETE FROM {s}.documents d WHERE d.collection_id = %s AND {condition}
                        AND (%s::text[] IS NULL OR d.id = ANY(%s::text[]))
                        AND (%s::text[] IS NULL OR d.source = ANY(%s::text[]))
                    RETURNING source
                ) SELECT source, count(*) FROM gone GROUP BY source"""
            names = [None if values is None else [*map(storable, values)] for values in (ids, sources)]
            values = (stored.id, *parameters, names[0], names[0], names[1], names[1])
            deleted = await connection.rows(statement, values, condition=condition)
            count = sum(number for _, number in deleted)
            touched = [source for source, _ in deleted if source is not None]
            await connection.execute(
                """
                DELETE FROM {s}.sources s WHERE s.collection_id = %s
                AND (s.name = ANY(%s::text[]) OR s.name = ANY(%s::text[])) AND NOT EXISTS (
                    SELECT FROM {s}.documents d WHERE d.collection_id = s.collection_id AND d.source = s.name
                )""",
                (stored.id, touched, names[1] if ids is None and where is None else []),
            )
            counted = "UPDATE {s}.collections SET documents = documents - %s WHERE id = %s"
            await connection.execute(counted, (count, stored.id))
        return int(count)

    async def list(
        self, *, collection: str, where: Where | None = None, limit: int = 100, after: str | None = None
    ) -> Sequence[Document]:
        """Return at most ``limit`` documents in order of their ids, starting after the id ``after``."""
        condition, parameters = tables.condition_sql(read_filter(where))
        async with self._connections.transaction() as connection:
            stored = await tables.known_collection(connection, storable(collection))
            statement = """
                SELECT id, title, source, text, metadata FROM {s}.documents d
                WHERE collection_id = %s AND id > %s AND {condition} ORDER BY id LIMIT %s"""
            values = (stored.id, storable(after or ""), *parameters, max(limit, 0))
            rows = await connection.rows(statement, values, condition=condition)
        return [tables.document_of(stored.about.name, *row) for row in rows]

    async def sources(self, *, collection: str, limit: int = 1000, after: str | None = None) -> Sequence[Source]:
        """Return at most ``limit`` sources in order of their names, starting after the name ``after``."""
        async with self._connections.transaction() as connection:
            stored = await tables.known_collection(connection, storable(collection))
            statement = """
                SELECT name, digest, complete, added_at AT TIME ZONE 'UTC', (
                    SELECT count(*) FROM {s}.documents d WHERE d.collection_id = s.collection_id AND d.source = s.name
                ) FROM {s}.sources s WHERE collection_id = %s AND name > %s ORDER BY name LIMIT %s"""
            rows = await connection.rows(statement, (stored.id, storable(after or ""), max(limit, 0)))
        return [
            Source(
                name=name,
                digest=digest,
                complete=complete,
                added_at=None if at is None else f"{at.isoformat(timespec='seconds')}+00:00",
                documents=documents,
            )
            for name, digest, complete, at, documents in rows
        ]

    async def save_collection(self, collection: Collection) -> None:
        """Create a collection, or update its description and settings."""
        name = tables.stored_name("collection", collection.name)
        _, metadata = tables.metadata_text(collection.metadata, f"the collection '{name}'")
        async with self._connections.transaction(write=True) as connection:
            stored = await tables.lock_collection(connection, name, self._config.language)
            statement = """
                UPDATE {s}.collections SET description = %s, title_field = %s, source_field = %s,
                    match_threshold = %s, partial_threshold = %s, metadata = %s WHERE id = %s"""
            texts = map(storable, (collection.description, collection.title_field, collection.source_field))
            thresholds = (collection.match_threshold, collection.partial_threshold)
            await connection.execute(statement, (*texts, *thresholds, metadata, stored.id))

    async def delete_collection(self, name: str) -> None:
        """Delete a collection with all its documents."""
        async with self._connections.transaction(write=True) as connection:
            stored = await tables.lock_collection(connection, storable(name))
            await connection.execute("DELETE FROM {s}.collections WHERE id = %s", (stored.id,))
            await connection.execute("DROP INDEX IF EXISTS {s}.{index}", index=sql.Identifier(index_name(stored.id)))

    async def aclose(self) -> None:
        """Close all connections."""
        await self._connections.aclose()

    def _check_embedder(self) -> None:
        if self._config.search == "vector" and self._embedder is None:
            raise RetrievalError(
                f"{self._name}: search = \"vector\" needs vectors, and nothing makes them: configure 'embedding', "
                f'install flexchat-minilm, or write search = "keyword"'
            )
