"""The collections of a schema."""

from __future__ import annotations

import json
from typing import Any

import attrs
from flexchat.store import Collection, RetrievalError, UnknownCollectionError
from flexchat_postgresql import Connection, Connections

from .rows import SOURCE_FIELD, TITLE_FIELD

_COLUMNS = """
    SELECT id, language, name, description, match_threshold, partial_threshold, title_field, source_field, metadata,
        embedding, dimensions, documents
    FROM {s}.collections"""


@attrs.frozen(kw_only=True)
class StoredCollection:
    """A collection with its columns that are internal to this store."""

    id: int
    language: str
    about: Collection


async def all_collections(connections: Connections, connection: Connection) -> dict[str, StoredCollection]:
    """Return all collections by name, sorted."""
    cursor = await connection.execute(connections.sql(_COLUMNS + " ORDER BY name"))
    return {stored.about.name: stored for stored in map(_stored, await cursor.fetchall())}


async def known_collection(connections: Connections, connection: Connection, name: str) -> StoredCollection:
    """Return the collection *name*.

    Raises:
        UnknownCollectionError: It does not exist.
    """
    cursor = await connection.execute(connections.sql(_COLUMNS + " WHERE name = %s"), (name,))
    row = await cursor.fetchone()
    if row is None:
        raise UnknownCollectionError(name, await all_collections(connections, connection))
    return _stored(row)


async def metadata_fields(connections: Connections, connection: Connection, name: str) -> tuple[str, str]:
    """Return a collection's title_field and source_field; the defaults if it does not exist."""
    query = connections.sql("SELECT title_field, source_field FROM {s}.collections WHERE name = %s")
    row = await (await connection.execute(query, (name,))).fetchone()
    return row or (TITLE_FIELD, SOURCE_FIELD)


async def lock_collection(
    connections: Connections, connection: Connection, name: str, language: str | None = None
) -> StoredCollection:
    """Return the collection *name*, locked against changes until the transaction ends.

    Args:
        language: If given, a missing collection is created with this language.

    Raises:
        UnknownCollectionError: It does not exist and *language* is None.
    """
    locked = connections.sql(_COLUMNS + " WHERE name = %s FOR UPDATE")
    row = await (await connection.execute(locked, (name,))).fetchone()
    if row is None and language is not None:
        created = """
            INSERT INTO {s}.collections (name, description, title_field, source_field, metadata, language)
            VALUES (%s, '', 'title', 'source', '{{}}', %s) ON CONFLICT DO NOTHING"""
        await connection.execute(connections.sql(created), (name, language))
        row = await (await connection.execute(locked, (name,))).fetchone()
    if row is None:
        if language is not None:  # Another process created and deleted it between the two statements.
            raise RetrievalError(f"the collection '{name}' is being deleted: try again")
        raise UnknownCollectionError(name, await all_collections(connections, connection))
    return _stored(row)


def _stored(row: tuple[Any, ...]) -> StoredCollection:
    id, language, name, description, match, partial, title_field, source_field, metadata, *vectors, documents = row
    about = Collection(
        name=name,
        description=description,
        match_threshold=match,
        partial_threshold=partial,
        title_field=title_field,
        source_field=source_field,
        metadata=json.loads(metadata),
        embedding=vectors[0],
        dimensions=vectors[1],
        documents=documents,
    )
    return StoredCollection(id=id, language=language, about=about)
