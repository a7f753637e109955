"""The tables of a schema, and documents, collections, vectors and filters as rows of them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, LiteralString

import attrs
from flexchat.store import (
    AllOf,
    AnyOf,
    Collection,
    Compare,
    Condition,
    Document,
    RetrievalError,
    Source,
    UnknownCollectionError,
    storable,
)
from flexchat_postgresql import Connection
from psycopg import sql

_OPERATORS = {"$gt": sql.SQL(">"), "$gte": sql.SQL(">="), "$lt": sql.SQL("<"), "$lte": sql.SQL("<=")}
_EQUAL = sql.SQL("=")
# CASE guarantees the order of evaluation, AND does not, and the cast fails for a text.
_OF_TEXT = sql.SQL(
    "CASE jsonb_typeof(d.facts -> %s) WHEN 'string' THEN convert_to(d.facts ->> %s, 'UTF8') {} %s ELSE false END"
)
_OF_NUMBER = sql.SQL(
    "CASE jsonb_typeof(d.facts -> %s) WHEN 'number' THEN (d.facts ->> %s)::numeric {} %s::numeric ELSE false END"
)
_NEVER, _ALWAYS = sql.SQL("false"), sql.SQL("true")


def facts(metadata: Mapping[str, Any]) -> str:
    """Encode the metadata that filters can test as JSON: strings, numbers and booleans; no objects or arrays."""
    return json.dumps({k: _exact(v) for k, v in metadata.items() if isinstance(v, str | int | float)})


def condition_sql(condition: Condition) -> tuple[sql.Composable, list[Any]]:
    """Compile a condition to SQL and its parameters."""
    if isinstance(condition, Compare):
        return _comparison(condition)
    parts = [condition_sql(part) for part in condition.conditions]
    parameters = [parameter for _, values in parts for parameter in values]
    if not parts:
        return (_ALWAYS if isinstance(condition, AllOf) else _NEVER), []
    word = " OR " if isinstance(condition, AnyOf) else " AND "
    return sql.SQL("({})").format(sql.SQL(word).join([part for part, _ in parts])), parameters


def _comparison(condition: Compare) -> tuple[sql.Composable, list[Any]]:
    field, operand = condition.field, condition.value
    is_negated = condition.operator in ("$ne", "$nin")
    if storable(field) != field:  # No stored field can have this name, because PostgreSQL could not hold it.
        return (_ALWAYS if is_negated else _NEVER), []
    values = operand if condition.operator in ("$in", "$nin") else (operand,)
    operator = _OPERATORS.get(condition.operator, _EQUAL)
    tests: list[sql.Composable] = []
    parameters: list[Any] = []
    for value in values:
        test, test_values = _test(field, operator, value)
        tests.append(test)
        parameters += test_values
    either = sql.SQL("({})").format(sql.SQL(" OR ").join(tests)) if tests else _NEVER
    return (sql.SQL("NOT {}").format(either) if is_negated else either), parameters


def _test(field: str, operator: sql.SQL, value: Any) -> tuple[sql.Composable, list[Any]]:
    if isinstance(value, bool):
        test = "coalesce(d.facts -> %s = %s::jsonb, false)"
        return sql.SQL(test), [field, json.dumps(value)]
    if isinstance(value, str):
        return _OF_TEXT.format(operator), [field, field, value.encode("utf-8", "surrogatepass")]
    return _OF_NUMBER.format(operator), [field, field, repr(_exact(value))]


def _exact(value: Any) -> Any:
    """Convert an integral float to int: the shortest decimal of 2.0**60 denotes a different number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


UNTITLED = "Untitled"
TITLE_FIELD, SOURCE_FIELD = "title", "source"
MAX_NAME_BYTES = 2000
"""Bytes of a name, an id or a source: an entry of an index holds some 2,700."""


@attrs.frozen(kw_only=True)
class Row:
    """The stored form of a document.

    Attributes:
        text_hash: Digest of the text that is embedded.
        hash: Digest of all stored columns.
    """

    id: str
    title: str
    source: str | None
    text: str
    metadata: str
    facts: str
    text_hash: bytes
    hash: bytes

    @property
    def read_as(self) -> str:
        """The text that is embedded and indexed for word search."""
        return read_as(self.title, self.text)


def read_as(title: str, text: str) -> str:
    """Join title, if any, and text into the passage that is embedded and searched."""
    return text if title in ("", UNTITLED) else f"{title}\n{text}"


def rows_of(
    documents: Sequence[Document],
    source: Source | None,
    title_field: str = TITLE_FIELD,
    source_field: str = SOURCE_FIELD,
) -> dict[str, Row]:
    """Convert documents to rows by id; the last document with an id wins.

    Args:
        source: The source the documents come from. It takes precedence over source_field, because a source replaces
            its documents by name.
        title_field, source_field: Metadata fields to read title and source from, if they are not the default ones.

    Raises:
        RetrievalError: A document cannot be stored.
    """
    rows = {}
    for document in documents:
        name = document.source if source is None else source.name
        text = storable(document.text)
        title = storable(_text_in(document.metadata, title_field, TITLE_FIELD) or document.title)
        digest = hashlib.sha256(f"{storable(name or '')}\0{text}".encode()).hexdigest()[:32]
        if source is None:
            name = _text_in(document.metadata, source_field, SOURCE_FIELD) or name
        name = None if name is None else storable(name)
        if name and len(name.encode()) > MAX_NAME_BYTES:
            raise RetrievalError(f"the source '{name[:50]}…' is longer than {MAX_NAME_BYTES} bytes: shorten it")
        id = digest if document.id is None else stored_name("document id", document.id)
        metadata, metadata_json = metadata_text(document.metadata, f"document '{id[:80]}'")
        rows[id] = Row(
            id=id,
            title=title,
            source=name,
            text=text,
            metadata=metadata_json,
            facts=facts(metadata),
            text_hash=hashlib.sha256(read_as(title, text).encode()).digest(),
            hash=hashlib.sha256(json.dumps([title, name, text, metadata_json]).encode()).digest(),
        )
    return rows


def stored_name(what: str, value: str) -> str:
    """Validate a name and replace characters PostgreSQL cannot store.

    Raises:
        RetrievalError: The name is empty or too long.
    """
    name = storable(value)
    if not name:
        raise RetrievalError(f"the {what} has no name: write one")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise RetrievalError(f"the {what} '{name[:50]}…' is longer than {MAX_NAME_BYTES} bytes: shorten it")
    return name


def metadata_text(metadata: Mapping[str, Any], what: str) -> tuple[dict[str, Any], str]:
    """Normalize metadata for storage. Returns the data and their JSON text.

    Raises:
        RetrievalError: The metadata are not JSON data.
    """
    try:
        data = _storable(dict(metadata))
        return data, json.dumps(data, allow_nan=False, ensure_ascii=False, sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise RetrievalError(f"the metadata of {what} are not JSON data: {error}") from None


def vector_texts(vectors: Sequence[Sequence[float]], count: int, dimensions: int | None, name: str) -> list[str]:
    """Normalize vectors to length 1 and format them as pgvector literals.

    Args:
        count: Expected number of vectors.
        dimensions: Expected length of each vector; None to accept any common length.
        name: The embedder's name, for error texts.

    Raises:
        RetrievalError: The number, a length or a value is invalid.
    """
    if len(vectors) != count:
        raise RetrievalError(f"{name} made {len(vectors)} vectors of {count} texts")
    texts: list[str] = []
    for vector in vectors:
        dimensions = dimensions or len(vector)
        if not vector or len(vector) != dimensions:
            raise RetrievalError(f"{name} made a vector of length {len(vector)} where {dimensions} is expected")
        length = math.hypot(*vector)
        if not math.isfinite(length):
            raise RetrievalError(f"{name} made a vector with a number that is not finite")
        if not length:  # A zero vector has no direction: no query would ever be near it.
            raise RetrievalError(f"{name} made a vector of zeros for text {len(texts) + 1} of {count}")
        texts.append("[" + ",".join([format(value / length, ".9g") for value in vector]) + "]")
    return texts


def document_of(collection: str, id: str, title: str, source: str | None, text: str, metadata: str) -> Document:
    """Build a document from its columns."""
    return Document(id=id, collection=collection, title=title, source=source, text=text, metadata=json.loads(metadata))


def _text_in(metadata: Mapping[str, Any], field: str, usual: str) -> str | None:
    value = metadata.get(field)
    return value if field != usual and isinstance(value, str) and value.strip() else None


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("a key is not a text")
        return {storable(key): _storable(item) for key, item in value.items()}
    return [_storable(item) for item in value] if isinstance(value, list | tuple) else value


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


async def all_collections(connection: Connection) -> dict[str, StoredCollection]:
    """Return all collections by name, sorted."""
    return {stored.about.name: stored for stored in map(_stored, await connection.rows(_COLUMNS + " ORDER BY name"))}


async def known_collection(connection: Connection, name: str) -> StoredCollection:
    """Return the collection *name*.

    Raises:
        UnknownCollectionError: It does not exist.
    """
    rows = await connection.rows(_COLUMNS + " WHERE name = %s", (name,))
    if not rows:
        raise UnknownCollectionError(name, await all_collections(connection))
    return _stored(rows[0])


async def metadata_fields(connection: Connection, name: str) -> tuple[str, str]:
    """Return a collection's title_field and source_field; the defaults if it does not exist."""
    rows = await connection.rows("SELECT title_field, source_field FROM {s}.collections WHERE name = %s", (name,))
    return (rows[0][0], rows[0][1]) if rows else (TITLE_FIELD, SOURCE_FIELD)


async def lock_collection(connection: Connection, name: str, language: str | None = None) -> StoredCollection:
    """Return the collection *name*, locked against changes until the transaction ends.

    Args:
        language: If given, a missing collection is created with this language.

    Raises:
        UnknownCollectionError: It does not exist and *language* is None.
    """
    locked = _COLUMNS + " WHERE name = %s FOR UPDATE"
    rows = await connection.rows(locked, (name,))
    if not rows and language is not None:
        created = """
            INSERT INTO {s}.collections (name, description, title_field, source_field, metadata, language)
            VALUES (%s, '', 'title', 'source', '{{}}', %s) ON CONFLICT DO NOTHING"""
        await connection.execute(created, (name, language))
        rows = await connection.rows(locked, (name,))
        if not rows:  # Another process created and deleted it between the two statements.
            raise RetrievalError(f"the collection '{name}' is being deleted: try again")
    if not rows:
        raise UnknownCollectionError(name, await all_collections(connection))
    return _stored(rows[0])


def _stored(row: tuple[Any, ...]) -> StoredCollection:
    id, language, *values = row
    fields = dict(zip(_FIELDS, values, strict=True))
    about = Collection(**{**fields, "metadata": json.loads(fields["metadata"])})
    return StoredCollection(id=id, language=language, about=about)
