"""Adding documents: embed first, outside any transaction, then store everything in one."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import attrs
import psycopg
from flexchat.plugin import FlexChatError
from flexchat.store import Embedder, RetrievalError, Source, UnknownCollectionError
from flexchat_postgresql import Connection, Connections
from psycopg import sql

from .tables import Row, StoredCollection, known_collection, lock_collection, stored_name, vector_texts

_LOG = logging.getLogger(__name__)

BATCH = 256
"""Texts that are given to the embedder at once."""
WORDS_OF = 200_000
"""Characters of a text whose words can be searched: a tsvector holds a megabyte."""
MAX_INDEXED = 4000
"""Dimensions an index of pgvector takes, as half precision."""


class Adder:
    """Adds documents and their vectors to collections."""

    def __init__(self, connections: Connections, embedder: Embedder | None, language: str, *, indexed: bool) -> None:
        self._connections, self._embedder, self._language, self._indexed = connections, embedder, language, indexed
        self._seen_indexes: set[int] = set()

    async def add(self, rows: Mapping[str, Row], collection: str, source: Source | None) -> int:
        """Store documents, all or none. Returns the number of new and changed ones."""
        vectors: dict[str, str] = {}  # by text
        while True:
            missing = await self._without_vectors(rows, collection)
            await self._embed([text for text in missing if text not in vectors], collection, vectors)
            async with self._connections.transaction(write=True) as connection:
                stored = await lock_collection(connection, collection, self._language)
                changed = await self._store(connection, stored, rows, source, vectors)
            if changed is not None:
                break  # Otherwise a concurrent add replaced a text whose stored vector was to be reused: embed again.
        if self._indexed and changed:
            await self._index(stored.id)
        return changed

    async def _without_vectors(self, rows: Mapping[str, Row], collection: str) -> list[str]:
        async with self._connections.transaction() as connection:
            try:
                stored = await known_collection(connection, collection)
            except UnknownCollectionError:
                return list({row.read_as: None for row in rows.values()}) if self._embedder else []
            if not self._makes_vectors(stored):
                return []
            hashes = await self._stored_hashes(connection, stored.id, rows)
        return list({r.read_as: None for r in rows.values() if hashes.get(r.id, (b"", b""))[0] != r.text_hash})

    def _makes_vectors(self, collection: StoredCollection) -> bool:
        """Return True if this collection stores vectors: for all of its documents, or for none."""
        about, name = collection.about, self._embedder.name if self._embedder else None
        if about.embedding == name:
            return name is not None
        if about.embedding is not None:
            now = f"is configured now is {name}" if name else "is configured now is no embedding"
            raise RetrievalError(
                f"the collection '{about.name}' has vectors made by {about.embedding}, and what {now}: "
                f"configure {about.embedding} again, or delete the collection and add its documents anew"
            )
        if about.documents:
            _LOG.warning(
                "the collection '%s' was begun without an embedder and stays so: it is searched by words; delete it "
                "and add its documents anew to have vectors",
                about.name,
            )
        return not about.documents

    async def _embed(self, texts: Sequence[str], collection: str, vectors: dict[str, str]) -> None:
        if self._embedder is None or not texts:
            return
        dimensions = None
        for start in range(0, len(texts), BATCH):
            batch = texts[start : start + BATCH]
            try:
                embedded = await self._embedder.embed(batch, purpose="document")
            except RetrievalError:
                raise
            except FlexChatError as error:
                raise RetrievalError(f"no vectors for the collection '{collection}': {error}") from error
            dimensions = dimensions or (len(embedded[0]) if embedded else None)
            vectors.update(zip(batch, vector_texts(embedded, len(batch), dimensions, self._embedder.name), strict=True))

    async def _stored_hashes(
        self, connection: Connection, collection_id: int, rows: Mapping[str, Row]
    ) -> dict[str, tuple[bytes, bytes]]:
        query = "SELECT id, text_hash, hash FROM {s}.documents WHERE collection_id = %s AND id = ANY(%s)"
        stored = await connection.rows(query, (collection_id, [*rows]))
        return {id: (text_hash, hash) for id, text_hash, hash in stored}

    async def _store(
        self,
        connection: Connection,
        collection: StoredCollection,
        rows: Mapping[str, Row],
        source: Source | None,
        vectors: Mapping[str, str],
    ) -> int | None:
        """Store everything in this transaction; return None and store nothing if a vector is missing."""
        hashes = await self._stored_hashes(connection, collection.id, rows)
        changed = [row for row in rows.values() if hashes.get(row.id, (b"", b""))[1] != row.hash]
        new = [row for row in changed if hashes.get(row.id, (b"", b""))[0] != row.text_hash]
        if self._makes_vectors(collection):
            if any(row.read_as not in vectors for row in new):
                return None
        else:
            vectors = {}
        if vectors and new and self._embedder is not None:
            about, dimensions = collection.about, vectors[new[0].read_as].count(",") + 1
            if about.dimensions is None:
                statement = "UPDATE {s}.collections SET embedding = %s, dimensions = %s WHERE id = %s"
                await connection.execute(statement, (self._embedder.name, dimensions, collection.id))
            elif dimensions != about.dimensions:
                raise RetrievalError(
                    f"{self._embedder.name} makes vectors of length {dimensions}, and those of the collection "
                    f"'{about.name}' have {about.dimensions}: delete the collection and add its documents anew"
                )
        common = {"collection": collection.id, "digest": source and source.digest, "language": collection.language}
        values = [{**attrs.asdict(row), **common, "words": row.read_as[:WORDS_OF]} for row in changed]
        async with connection.raw.cursor() as cursor:
            await cursor.executemany(connection.compose(_UPSERT), values)
            if vectors:
                pairs = [(vectors[row.read_as], collection.id, row.id) for row in new]
                await cursor.executemany(connection.compose(_UPSERT_VECTOR), pairs)
        delta = sum(row.id not in hashes for row in changed)
        if source is not None:
            delta -= await self._finish_source(connection, collection.id, source, [*rows])
        if delta:
            counted = "UPDATE {s}.collections SET documents = documents + %s WHERE id = %s"
            await connection.execute(counted, (delta, collection.id))
        return len(changed)

    async def _finish_source(
        self, connection: Connection, collection_id: int, source: Source, ids: Sequence[str]
    ) -> int:
        """Record the source and, if it is complete, delete the documents it no longer has.

        Returns:
            The number of deleted documents.
        """
        name = stored_name("source", source.name)
        touched = "UPDATE {s}.documents SET digest = %s WHERE collection_id = %s AND id = ANY(%s)"
        await connection.execute(touched, (source.digest, collection_id, list(ids)))
        await connection.execute(_UPSERT_SOURCE, (collection_id, name, source.digest, source.complete, source.complete))
        if not source.complete:
            return 0
        statement = "DELETE FROM {s}.documents WHERE collection_id = %s AND source = %s AND digest IS DISTINCT FROM %s"
        return (await connection.execute(statement, (collection_id, name, source.digest))).rowcount

    async def _index(self, collection_id: int) -> None:
        """Create the collection's vector index if missing. It only affects speed."""
        if collection_id in self._seen_indexes:
            return
        try:
            async with self._connections.transaction(write=True) as connection:
                query = "SELECT dimensions FROM {s}.collections WHERE id = %s FOR UPDATE"
                dimensions = [row[0] for row in await connection.rows(query, (collection_id,)) if row[0] is not None]
                if not dimensions or dimensions[0] > MAX_INDEXED:
                    return
                await connection.execute(
                    "CREATE INDEX IF NOT EXISTS {index} ON {s}.vectors "
                    "USING hnsw ((embedding::halfvec({dimensions})) halfvec_cosine_ops) "
                    "WHERE collection_id = {collection}",
                    index=sql.Identifier(index_name(collection_id)),
                    dimensions=sql.Literal(dimensions[0]),
                    collection=sql.Literal(collection_id),
                )
        except RetrievalError as error:
            if not isinstance(error.__cause__, psycopg.Error):
                raise
            # The documents are already stored, so a missing index must not fail the add.
            _LOG.warning("no index: %s", error)
        else:
            self._seen_indexes.add(collection_id)


def index_name(collection_id: int) -> str:
    """Name of a collection's vector index."""
    return f"vectors_hnsw_{collection_id}"


_UPSERT = """
    INSERT INTO {s}.documents
        (collection_id, id, title, source, text, metadata, facts, text_hash, hash, digest, words)
    VALUES (
        %(collection)s, %(id)s, %(title)s, %(source)s, %(text)s, %(metadata)s, %(facts)s, %(text_hash)s, %(hash)s,
        %(digest)s, to_tsvector(%(language)s::regconfig, %(words)s)
    )
    ON CONFLICT (collection_id, id) DO UPDATE SET
        title = excluded.title, source = excluded.source, text = excluded.text, metadata = excluded.metadata,
        facts = excluded.facts, text_hash = excluded.text_hash, hash = excluded.hash, digest = excluded.digest,
        words = excluded.words"""
_UPSERT_VECTOR = """
    INSERT INTO {s}.vectors (key, collection_id, embedding)
    SELECT key, collection_id, %s::vector FROM {s}.documents WHERE collection_id = %s AND id = %s
    ON CONFLICT (key) DO UPDATE SET embedding = excluded.embedding"""
_UPSERT_SOURCE = """
    INSERT INTO {s}.sources (collection_id, name, digest, complete, added_at)
    VALUES (%s, %s, %s, %s, CASE WHEN %s THEN now() END)
    ON CONFLICT (collection_id, name) DO UPDATE SET
        digest = excluded.digest, complete = excluded.complete, added_at = excluded.added_at"""
