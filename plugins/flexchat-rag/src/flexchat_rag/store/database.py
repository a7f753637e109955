"""The tables of the file, documents as rows, and what is read from and written to them within one transaction."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
from flexchat.store import Collection, Document, RetrievalError, Source, UnknownCollectionError, storable
from flexchat_sqlite import Database

Connection = sqlite3.Connection
Sql = tuple[str, list[Any]]
"""A condition on documents, aliased d, and its parameters."""

APPLICATION_ID = 0x46436472  # "FCdr"

# Row ids only increase, and a changed vector gets a new one: documents added since an id are those with a higher id.
# `version` counts the changes of a collection's vectors, `removals` those that removed some.
_TABLES = """
CREATE TABLE collections (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL DEFAULT '',
    match_threshold REAL,
    partial_threshold REAL,
    title_field TEXT NOT NULL DEFAULT 'title',
    source_field TEXT NOT NULL DEFAULT 'source',
    metadata TEXT NOT NULL DEFAULT '{}',
    embedding TEXT,
    dimensions INTEGER,
    version INTEGER NOT NULL DEFAULT 0,
    removals INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE documents (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    collection INTEGER NOT NULL REFERENCES collections ON DELETE CASCADE,
    id TEXT NOT NULL,
    source TEXT,
    digest TEXT,
    metadata TEXT NOT NULL,
    title TEXT NOT NULL,
    text TEXT NOT NULL,
    UNIQUE (collection, id)
);
CREATE INDEX documents_by_source ON documents (collection, source);
CREATE TABLE vectors (
    number INTEGER PRIMARY KEY REFERENCES documents ON DELETE CASCADE,
    collection INTEGER NOT NULL,
    vector BLOB NOT NULL
);
CREATE INDEX vectors_by_collection ON vectors (collection);
CREATE TABLE sources (
    collection INTEGER NOT NULL REFERENCES collections ON DELETE CASCADE,
    name TEXT NOT NULL,
    digest TEXT NOT NULL,
    complete INTEGER NOT NULL,
    added_at TEXT,
    PRIMARY KEY (collection, name)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5(
    title, text, collection, content = 'documents', content_rowid = 'number', tokenize = 'porter unicode61'
);
CREATE TRIGGER words_added AFTER INSERT ON documents BEGIN
    INSERT INTO words (rowid, title, text, collection) VALUES (new.number, new.title, new.text, new.collection);
END;
CREATE TRIGGER words_removed AFTER DELETE ON documents BEGIN
    INSERT INTO words (words, rowid, title, text, collection)
        VALUES ('delete', old.number, old.title, old.text, old.collection);
END;
"""


def open_database(path: Path) -> Database:
    """Create a Database for a file, without opening it yet."""
    return Database(path, kind="documents", application_id=APPLICATION_ID, migrations=(_TABLES,), prepare=_prepare)


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA cache_size = -16000")  # 16 MB, so that frequent words stay in memory


MAX_NAME_CHARS = 4096
"""Characters of an id, of a source, or of a collection's name; as many as Linux allows a path."""
MAX_TEXT_CHARS = 10_000_000
MAX_METADATA_CHARS = 1_000_000
MAX_METADATA_DEPTH = 50
UNTITLED = "Untitled"
TITLE_FIELD, SOURCE_FIELD = "title", "source"
SETTINGS = ("name", "description", "match_threshold", "partial_threshold", "title_field", "source_field", "metadata")
"""Fields of a collection that its owner sets, each a column."""


@attrs.frozen(kw_only=True)
class Row:
    """The stored form of a document."""

    id: str
    source: str | None
    metadata: str
    title: str
    text: str


def read_as(title: str, text: str) -> str:
    """Join title and text for embedding, because a heading carries much of the meaning of its text.

    On Cranfield, whose texts already begin with their titles, this raises recall@10 of vectors from 0.36 to 0.42.
    """
    return text if title == UNTITLED else f"{title}\n{text}"


def row_of(document: Document, taken_from: str | None, title_field: str, source_field: str) -> Row:
    """Convert a document to a row.

    Args:
        taken_from: The source it comes from. It takes precedence over source_field, because a source replaces its
            documents by name.
        title_field, source_field: Metadata fields to read title and source from, if they are not the default ones.

    Raises:
        RetrievalError: The document cannot be stored; the text names it and the reason.
    """
    place = f"the document {str(document.id or document.title)[:100]!r}"
    text = storable(document.text)
    title = storable(_text_in(document.metadata, title_field, TITLE_FIELD) or document.title)
    if len(text) > MAX_TEXT_CHARS or len(title) > MAX_TEXT_CHARS:
        raise RetrievalError(f"{place} has more than {MAX_TEXT_CHARS:,} characters: split it")
    source = document.source if document.source is not None else taken_from
    id = storable(document.id or "") or hashlib.sha256(f"{storable(source or '')}\0{text}".encode()).hexdigest()
    if taken_from is None:
        source = _text_in(document.metadata, source_field, SOURCE_FIELD) or source
    return Row(
        id=checked_name(id, f"the id of {place}"),
        source=None if source is None else checked_name(source, f"the source of {place}", empty=True),
        metadata=metadata_json(document.metadata, f"metadata of {place}"),
        title=title,
        text=text,
    )


def checked_name(name: str, what: str, *, empty: bool = False) -> str:
    """Validate a name and replace characters that cannot be stored.

    Raises:
        RetrievalError: The name is empty or too long.
    """
    name = storable(name)
    if not name and not empty:
        raise RetrievalError(f"{what} is empty")
    if len(name) > MAX_NAME_CHARS:
        raise RetrievalError(f"{what} has {len(name):,} characters; {MAX_NAME_CHARS:,} are the most")
    return name


def metadata_json(metadata: Mapping[str, Any], place: str) -> str:
    """Encode metadata as JSON text.

    Raises:
        RetrievalError: The metadata are not JSON data, or too large.
    """
    text = json.dumps(_clean(metadata, place, 0), ensure_ascii=False)
    if len(text) > MAX_METADATA_CHARS:
        raise RetrievalError(f"{place} have more than {MAX_METADATA_CHARS:,} characters")
    return text


def _text_in(metadata: Mapping[str, Any], field: str, usual: str) -> str | None:
    value = metadata.get(field)
    return value if field != usual and isinstance(value, str) and value.strip() else None


def _clean(value: Any, place: str, depth: int) -> Any:
    if depth > MAX_METADATA_DEPTH:
        raise RetrievalError(f"{place} are nested more than {MAX_METADATA_DEPTH} deep")
    if isinstance(value, str):
        return storable(value)
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, list | tuple):
        return [_clean(item, place, depth + 1) for item in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {storable(key): _clean(item, place, depth + 1) for key, item in value.items()}
    raise RetrievalError(f"{place} must be JSON data, got {str(value)[:50]!r} ({type(value).__name__})")


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


@attrs.frozen(kw_only=True)
class Plan:
    """Requirements for adding some documents.

    Attributes:
        embeds: The collection stores vectors.
        missing: Texts to embed: those of documents that are new, or whose title or text has changed.
        dimensions: Required length of the vectors; None for the first ones of a collection.
    """

    embeds: bool
    missing: tuple[str, ...]
    dimensions: int | None = None


class VectorsMissing(Exception):
    """A concurrent writer changed documents after the texts were embedded: more vectors are needed."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan


def plan_adding(connection: sqlite3.Connection, name: str, rows: Sequence[Row], embedder: str | None) -> Plan:
    """Determine which texts have to be embedded to add *rows*. The collection need not exist.

    A collection has vectors for all of its documents or for none; its first documents decide which.

    Args:
        embedder: Name of the embedder for new collections; None if they get no vectors.

    Raises:
        RetrievalError: The collection has vectors of another embedder.
    """
    row = connection.execute(
        "SELECT number, embedding, dimensions, EXISTS (SELECT 1 FROM documents WHERE collection = c.number)"
        " FROM collections AS c WHERE name = ?",
        (name,),
    ).fetchone()
    number, embedding, dimensions, filled = row or (None, None, None, False)
    if not filled:
        embedding, dimensions = embedder, None
    if embedding is None:
        return Plan(embeds=False, missing=())
    if rows and embedding != embedder:
        raise RetrievalError(
            f"the collection '{name}' has vectors of {embedding}, which do not compare with those of"
            f" {embedder or 'no embedder'}: configure that embedding, or delete its documents and add them again"
        )
    there = _there(connection, number, rows) if filled and number is not None else {}
    new = (row for row in rows if row.id not in there or there[row.id][1:3] != (row.title, row.text))
    missing = dict.fromkeys(read_as(row.title, row.text) for row in new)
    return Plan(embeds=True, missing=tuple(missing), dimensions=dimensions)


def add_documents(
    connection: sqlite3.Connection,
    name: str,
    rows: Sequence[Row],
    *,
    source: Source | None,
    embedder: str | None,
    vectors: Mapping[str, bytes],
) -> int:
    """Store rows with unique ids. Returns the number of new and changed ones.

    Args:
        vectors: Normalized float32 vectors by embedded text.

    Raises:
        VectorsMissing: A required vector is not in *vectors*.
        RetrievalError: The vectors are incompatible with the stored ones.
    """
    plan = plan_adding(connection, name, rows, embedder)
    if any(text not in vectors for text in plan.missing):
        raise VectorsMissing(plan)
    lengths = {len(vectors[text]) // 4 for text in plan.missing}
    if plan.dimensions is not None:
        lengths.add(plan.dimensions)
    if len(lengths) > 1:
        raise RetrievalError(
            f"the collection '{name}': {embedder} gave vectors of different lengths ({sorted(lengths)}); "
            "if its model has changed, delete the documents and add them again"
        )
    connection.execute("INSERT OR IGNORE INTO collections (name) VALUES (?)", (name,))
    number = collection_number(connection, name)
    if rows:
        embedding = (embedder, *lengths) if plan.embeds else (None, None)
        connection.execute(
            "UPDATE collections SET embedding = ?, dimensions = ? WHERE number = ?", (*embedding, number)
        )
    changed, removed = _store(connection, number, rows, source, vectors if plan.embeds else None)
    if source is not None:
        removed |= _finish(connection, number, source)
    _count_change(connection, number, removed=removed)
    return changed


def _store(
    connection: sqlite3.Connection,
    collection: int,
    rows: Sequence[Row],
    source: Source | None,
    vectors: Mapping[str, bytes] | None,
) -> tuple[int, bool]:
    there = _there(connection, collection, rows)
    digest = source.digest if source is not None else None
    changed, removed = 0, False
    for row in rows:
        old = there.get(row.id)
        if old is not None and old[1:3] == (row.title, row.text):
            changed += old[3:5] != (row.source, row.metadata)
            connection.execute(
                "UPDATE documents SET source = ?, metadata = ?, digest = ? WHERE number = ?",
                (row.source, row.metadata, digest, old[0]),
            )
            continue
        if old is not None:
            connection.execute("DELETE FROM documents WHERE number = ?", (old[0],))
            removed = True
        added = connection.execute(
            "INSERT INTO documents (collection, id, source, digest, metadata, title, text)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (collection, row.id, row.source, digest, row.metadata, row.title, row.text),
        )
        if vectors is not None:
            connection.execute(
                "INSERT INTO vectors (number, collection, vector) VALUES (?, ?, ?)",
                (added.lastrowid, collection, vectors[read_as(row.title, row.text)]),
            )
        changed += 1
    return changed, removed


def _finish(connection: sqlite3.Connection, collection: int, source: Source) -> bool:
    """Record a source and delete documents of its earlier digest. Returns True if there were any."""
    deleted = 0
    if source.complete:
        deleted = connection.execute(
            "DELETE FROM documents WHERE collection = ? AND source = ? AND digest IS NOT ?",
            (collection, source.name, source.digest),
        ).rowcount
    added_at = datetime.now(UTC).isoformat(timespec="seconds") if source.complete else None
    connection.execute(
        "INSERT OR REPLACE INTO sources (collection, name, digest, complete, added_at) VALUES (?, ?, ?, ?, ?)",
        (collection, source.name, source.digest, source.complete, added_at),
    )
    return deleted > 0


def delete_documents(
    connection: sqlite3.Connection, name: str, ids: Sequence[str] | None, sources: Sequence[str] | None, where: Sql
) -> int:
    """Delete documents that match all criteria, and sources left without documents. Returns the number of documents."""
    collection = collection_number(connection, name)
    test, parameters = f"d.collection = ? AND {where[0]}", [collection, *where[1]]
    for column, values in (("id", ids), ("source", sources)):
        if values is not None:
            test += f" AND d.{column} IN (SELECT value FROM json_each(?))"
            parameters.append(json.dumps(values))
    documents = connection.execute(f"SELECT d.number, d.source FROM documents AS d WHERE {test}", parameters).fetchall()
    connection.executemany("DELETE FROM documents WHERE number = ?", ((number,) for number, _ in documents))
    names = {source for _, source in documents if source is not None} | set(sources or ())
    connection.execute(
        "DELETE FROM sources AS s WHERE collection = ? AND name IN (SELECT value FROM json_each(?)) AND NOT EXISTS"
        " (SELECT 1 FROM documents AS d WHERE d.collection = s.collection AND d.source = s.name)",
        (collection, json.dumps([*names])),
    )
    if documents:
        _count_change(connection, collection, removed=True)
    return len(documents)


def save_collection(connection: sqlite3.Connection, settings: Mapping[str, Any]) -> None:
    """Create a collection, or update its description and settings.

    Args:
        settings: A value for each of SETTINGS.
    """
    values, changes = (", ".join(pattern.format(name) for name in SETTINGS) for pattern in (":{}", "{0} = :{0}"))
    connection.execute(
        f"INSERT INTO collections ({', '.join(SETTINGS)}) VALUES ({values}) ON CONFLICT (name) DO UPDATE SET {changes}",
        settings,
    )


def delete_collection(connection: sqlite3.Connection, name: str) -> None:
    """Delete a collection with all that is in it."""
    connection.execute("DELETE FROM collections WHERE number = ?", (collection_number(connection, name),))


def _there(
    connection: sqlite3.Connection, collection: int, rows: Sequence[Row]
) -> dict[str, tuple[int, str, str, str | None, str]]:
    cursor = connection.execute(
        "SELECT id, number, title, text, source, metadata FROM documents"
        " WHERE collection = ? AND id IN (SELECT value FROM json_each(?))",
        (collection, json.dumps([row.id for row in rows])),
    )
    return {row[0]: row[1:] for row in cursor}


def _count_change(connection: sqlite3.Connection, collection: int, *, removed: bool) -> None:
    connection.execute(
        "UPDATE collections SET version = version + 1, removals = removals + ? WHERE number = ?", (removed, collection)
    )
