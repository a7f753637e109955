"""Queries that list and fetch documents, sources and collections."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

from flexchat.store import Collection, Document, Source, UnknownCollectionError

from .filters import Sql
from .rows import SETTINGS, SOURCE_FIELD, TITLE_FIELD

_DOCUMENT = "d.number, d.id, d.title, d.text, d.source, d.metadata, c.name"
_COLLECTION = (*SETTINGS, "embedding", "dimensions")
_FROM = "FROM documents AS d JOIN collections AS c ON c.number = d.collection"


def collection_number(connection: sqlite3.Connection, name: str) -> int:
    """Return the row id of a collection.

    Raises:
        UnknownCollectionError: It does not exist.
    """
    row = connection.execute("SELECT number FROM collections WHERE name = ?", (name,)).fetchone()
    if row is None:
        names = [names for (names,) in connection.execute("SELECT name FROM collections ORDER BY name LIMIT 1000")]
        raise UnknownCollectionError(name[:200], names)
    return int(row[0])


def read_collections(
    connection: sqlite3.Connection, name: str | None = None, *, counted: bool = True
) -> dict[int, Collection]:
    """Return all collections, or the named one, by row id, ordered by name.

    Args:
        counted: Count the documents, 3 ms for 100,000; otherwise ``documents`` is 1 if there are any.

    Raises:
        UnknownCollectionError: The named collection does not exist.
    """
    only = "" if name is None else "WHERE number = ?"
    how_many = "SELECT count(*)" if counted else "SELECT EXISTS (SELECT 1"
    rows = connection.execute(
        f"SELECT number, {', '.join(_COLLECTION)},"
        f" ({how_many} FROM documents WHERE collection = c.number{'' if counted else ')'})"
        f" FROM collections AS c {only} ORDER BY name",
        () if name is None else (collection_number(connection, name),),
    )
    collections = {}
    for number, *values, documents in rows:
        fields = dict(zip(_COLLECTION, values, strict=True))
        fields["metadata"] = json.loads(fields["metadata"])
        collections[number] = Collection(**fields, documents=documents)
    return collections


def metadata_fields(connection: sqlite3.Connection, name: str) -> tuple[str, str]:
    """Return a collection's title_field and source_field; the defaults if it does not exist."""
    row = connection.execute("SELECT title_field, source_field FROM collections WHERE name = ?", (name,)).fetchone()
    return row or (TITLE_FIELD, SOURCE_FIELD)


def fetch_documents(connection: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, Document]:
    """Return the documents with these row ids; missing ones are omitted."""
    rows = connection.execute(
        f"SELECT {_DOCUMENT} {_FROM} WHERE d.number IN (SELECT value FROM json_each(?))", (json.dumps([*numbers]),)
    )
    return {row[0]: _document(row) for row in rows}


def list_documents(
    connection: sqlite3.Connection, collection: str, where: Sql, limit: int, after: str | None
) -> list[Document]:
    """Return at most ``limit`` documents in order of their ids, starting after the id ``after``."""
    rows = connection.execute(
        f"SELECT {_DOCUMENT} {_FROM} WHERE d.collection = ? AND d.id > ? AND {where[0]} ORDER BY d.id LIMIT ?",
        (collection_number(connection, collection), after or "", *where[1], max(0, limit)),
    )
    return [_document(row) for row in rows]


def list_sources(connection: sqlite3.Connection, collection: str, limit: int, after: str | None) -> list[Source]:
    """Return at most *limit* sources ordered by name, starting after the name *after*."""
    rows = connection.execute(
        "SELECT name, digest, complete, added_at, (SELECT count(*) FROM documents AS d"
        " WHERE d.collection = s.collection AND d.source = s.name) FROM sources AS s"
        " WHERE collection = ? AND (? IS NULL OR name > ?) ORDER BY name LIMIT ?",
        (collection_number(connection, collection), after, after, max(0, limit)),
    )
    return [
        Source(name=name, digest=digest, complete=bool(complete), added_at=added_at, documents=documents)
        for name, digest, complete, added_at, documents in rows
    ]


def _document(row: tuple[int, str, str, str, str | None, str, str]) -> Document:
    _, id, title, text, source, metadata, collection = row
    return Document(id=id, title=title, text=text, source=source, metadata=json.loads(metadata), collection=collection)
