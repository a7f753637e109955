"""Adding, replacing and deleting. Every function here runs within one transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import attrs
from flexchat.store import RetrievalError, Source

from .filters import Sql
from .reading import collection_number
from .rows import SETTINGS, Row


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
    if filled and embedding is None:
        return Plan(embeds=False, missing=())
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
    missing = dict.fromkeys(
        row.read_as for row in rows if row.id not in there or there[row.id][1:3] != (row.title, row.text)
    )
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
            f"if its model has changed, delete the documents and add them again"
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
                (added.lastrowid, collection, vectors[row.read_as]),
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
