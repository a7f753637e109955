"""The tables of a schema, their migrations, transactions on them, and the collections."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, LiteralString

import attrs
from flexchat.store import Collection, RetrievalError, UnknownCollectionError
from flexchat_postgresql import Connection, Connections
from psycopg import AsyncCursor, sql

from .rows import SOURCE_FIELD, TITLE_FIELD

# Names are compared by code point (COLLATE "C"), as everywhere in FlexChat. Vectors are stored apart from the texts, so
# that a vector search reads nothing else; tsvectors stay in the document's row, because each ranking reads both. One
# column holds vectors of any length: each index is for one length and one collection.
DOCUMENTS: tuple[LiteralString, ...] = (
    """
    CREATE EXTENSION IF NOT EXISTS vector;
    CREATE TABLE {s}.collections (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text COLLATE "C" NOT NULL UNIQUE,
        description text NOT NULL,
        match_threshold double precision,
        partial_threshold double precision,
        title_field text NOT NULL,
        source_field text NOT NULL,
        metadata text NOT NULL,
        language text NOT NULL,
        embedding text,
        dimensions int,
        documents bigint NOT NULL DEFAULT 0
    );
    CREATE TABLE {s}.documents (
        key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        collection_id bigint NOT NULL REFERENCES {s}.collections ON DELETE CASCADE,
        id text COLLATE "C" NOT NULL,
        title text NOT NULL,
        source text COLLATE "C",
        text text NOT NULL,
        metadata text NOT NULL,
        facts jsonb NOT NULL,
        text_hash bytea NOT NULL,
        hash bytea NOT NULL,
        digest text,
        words tsvector NOT NULL,
        UNIQUE (collection_id, id)
    );
    ALTER TABLE {s}.documents ALTER COLUMN words SET STORAGE MAIN;
    CREATE INDEX documents_source ON {s}.documents (collection_id, source) WHERE source IS NOT NULL;
    CREATE INDEX documents_words ON {s}.documents USING gin (words);
    CREATE TABLE {s}.vectors (
        key bigint PRIMARY KEY REFERENCES {s}.documents ON DELETE CASCADE,
        collection_id bigint NOT NULL,
        embedding vector NOT NULL
    );
    ALTER TABLE {s}.vectors ALTER COLUMN embedding SET STORAGE MAIN;
    CREATE INDEX vectors_collection ON {s}.vectors (collection_id);
    CREATE TABLE {s}.sources (
        collection_id bigint NOT NULL REFERENCES {s}.collections ON DELETE CASCADE,
        name text COLLATE "C" NOT NULL,
        digest text NOT NULL,
        complete boolean NOT NULL,
        added_at timestamptz,
        PRIMARY KEY (collection_id, name)
    )
    """,
)


_FIELDS = (
    *("name", "description", "match_threshold", "partial_threshold", "title_field", "source_field", "metadata"),
    *("embedding", "dimensions", "documents"),
)
_COLUMNS: LiteralString = f"""
    SELECT id, language, {", ".join(_FIELDS)}
    FROM {{s}}.collections"""


@attrs.frozen(kw_only=True)
class StoredCollection:
    """A collection with its columns that are internal to this store."""

    id: int
    language: str
    about: Collection


@attrs.frozen
class Tables:
    """The tables of a schema, in one transaction."""

    connections: Connections
    connection: Connection

    async def execute(
        self, statement: LiteralString, values: Sequence[Any] = (), **parts: sql.Composable
    ) -> AsyncCursor[Any]:
        """Execute a statement, in which {s} is the schema."""
        return await self.connection.execute(self.connections.sql(statement, **parts), values)

    async def rows(
        self, statement: LiteralString, values: Sequence[Any] = (), **parts: sql.Composable
    ) -> list[tuple[Any, ...]]:
        """Execute a statement and return its rows."""
        return await (await self.execute(statement, values, **parts)).fetchall()


@contextlib.asynccontextmanager
async def open_tables(connections: Connections, *, write: bool = False) -> AsyncIterator[Tables]:
    """Begin a transaction, and end it with the block."""
    async with connections.transaction(write=write) as connection:
        yield Tables(connections, connection)


async def all_collections(tables: Tables) -> dict[str, StoredCollection]:
    """Return all collections by name, sorted."""
    return {stored.about.name: stored for stored in map(_stored, await tables.rows(_COLUMNS + " ORDER BY name"))}


async def known_collection(tables: Tables, name: str) -> StoredCollection:
    """Return the collection *name*.

    Raises:
        UnknownCollectionError: It does not exist.
    """
    rows = await tables.rows(_COLUMNS + " WHERE name = %s", (name,))
    if not rows:
        raise UnknownCollectionError(name, await all_collections(tables))
    return _stored(rows[0])


async def metadata_fields(tables: Tables, name: str) -> tuple[str, str]:
    """Return a collection's title_field and source_field; the defaults if it does not exist."""
    rows = await tables.rows("SELECT title_field, source_field FROM {s}.collections WHERE name = %s", (name,))
    return (rows[0][0], rows[0][1]) if rows else (TITLE_FIELD, SOURCE_FIELD)


async def lock_collection(tables: Tables, name: str, language: str | None = None) -> StoredCollection:
    """Return the collection *name*, locked against changes until the transaction ends.

    Args:
        language: If given, a missing collection is created with this language.

    Raises:
        UnknownCollectionError: It does not exist and *language* is None.
    """
    locked = _COLUMNS + " WHERE name = %s FOR UPDATE"
    rows = await tables.rows(locked, (name,))
    if not rows and language is not None:
        created = """
            INSERT INTO {s}.collections (name, description, title_field, source_field, metadata, language)
            VALUES (%s, '', 'title', 'source', '{{}}', %s) ON CONFLICT DO NOTHING"""
        await tables.execute(created, (name, language))
        rows = await tables.rows(locked, (name,))
        if not rows:  # Another process created and deleted it between the two statements.
            raise RetrievalError(f"the collection '{name}' is being deleted: try again")
    if not rows:
        raise UnknownCollectionError(name, await all_collections(tables))
    return _stored(rows[0])


def _stored(row: tuple[Any, ...]) -> StoredCollection:
    id, language, *values = row
    fields = dict(zip(_FIELDS, values, strict=True))
    about = Collection(**{**fields, "metadata": json.loads(fields["metadata"])})
    return StoredCollection(id=id, language=language, about=about)
