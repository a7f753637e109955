"""Conversion of documents, collections and filters to and from the wrapper's.

A document is a text with flat metadata.

Title and source are stored in the metadata fields that the collection names. "flexchat_id" repeats the id, which query
results lack; the other "flexchat_" fields store the source, for which the wrapper has no resource.

Chroma distinguishes integers from floats, orders numbers only, requires lists to be of one type, and accepts several
conditions only under an explicit $and (1.5.9). One comparison may therefore translate to several.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import attrs
from flexchat.store import AllOf, Collection, Compare, Condition, Document, RetrievalError, storable

_MAX_EXACT = 2.0**53


@attrs.frozen
class ChromaFilter:
    """A filter in Chroma's query language.

    Attributes:
        where: The query; None matches everything.
        is_exact: True if it matches exactly the same documents; False if it matches these and others.
    """

    where: dict[str, Any] | None
    is_exact: bool


def chroma_filter(condition: Condition) -> ChromaFilter:
    """Translate a filter to the narrowest one in Chroma's language that matches all of its documents."""
    if isinstance(condition, Compare):
        return _comparison(condition)
    parts = [chroma_filter(part) for part in condition.conditions]
    queries = [part.where for part in parts if part.where is not None]
    is_exact = all(part.is_exact for part in parts)
    if isinstance(condition, AllOf):
        return ChromaFilter(_joined("$and", queries), is_exact)
    if len(queries) < len(parts):
        return ChromaFilter(None, is_exact)  # One alternative matches everything.
    return ChromaFilter(_joined("$or", queries), is_exact)


def _comparison(condition: Compare) -> ChromaFilter:
    field, operator, value = condition.field, condition.operator, condition.value
    if not field or field.startswith(("$", "#")):
        return ChromaFilter(None, is_exact=False)  # Names with a special meaning in Chroma.
    if operator in ("$in", "$nin"):
        if not value:
            return ChromaFilter(None, is_exact=operator == "$nin")
        parts = [_equality(field, "$eq" if operator == "$in" else "$ne", item) for item in value]
        return ChromaFilter(_joined("$or" if operator == "$in" else "$and", parts), is_exact=True)
    if operator in ("$eq", "$ne"):
        return ChromaFilter(_equality(field, operator, value), is_exact=True)
    if isinstance(value, str):
        return ChromaFilter(None, is_exact=False)  # Chroma does not order strings.
    return ChromaFilter(_ordered(field, operator, value), is_exact=True)


def _equality(field: str, operator: str, value: Any) -> dict[str, Any]:
    """Build an $eq or $ne condition; a number matches both as integer and as float."""
    if isinstance(value, bool | str) or not float(value).is_integer():
        return {field: {operator: value}}
    both: list[dict[str, Any]] = [{field: {operator: int(value)}}]
    if abs(value) <= _MAX_EXACT:
        both.append({field: {operator: float(value)}})
    return _joined("$or" if operator == "$eq" else "$and", both) or {}


def _ordered(field: str, operator: str, value: float) -> dict[str, Any]:
    is_up = operator in ("$gte", "$lt")  # For integers, x >= 3.5 means x >= 4 and x > 3.5 means x > 3.
    whole = math.ceil(value) if is_up else math.floor(value)
    return {"$or": [{field: {operator: whole}}, {field: {operator: float(value)}}]}


def _joined(word: str, parts: list[dict[str, Any]]) -> dict[str, Any] | None:
    if len(parts) > 1:
        return {word: parts}
    return parts[0] if parts else None


ID_FIELD = "flexchat_id"
DIGEST_FIELD = "flexchat_digest"
ADDED_FIELD = "flexchat_added_at"
"""Only on documents that were added with the last part of their source."""

_FIELDS = (ID_FIELD, DIGEST_FIELD, ADDED_FIELD)
_COLLECTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,510}[A-Za-z0-9]")
_OWN = ("description", "match_threshold", "partial_threshold", "title_field", "source_field", "embedding_model")
_SPACE = "hnsw:space"


def checked_name(name: str) -> str:
    """Validate the name of a collection and return it.

    Raises:
        RetrievalError: Chroma does not accept the name.
    """
    if not _COLLECTION.fullmatch(name):
        raise RetrievalError(
            f"Chroma refuses the collection name {name[:60]!r}: a name has 3 to 512 of a-z A-Z 0-9 . _ - and begins "
            "and ends with a letter or digit"
        )
    return name


def read_collection(answer: Mapping[str, Any]) -> Collection:
    """Read a collection from {name, count, metadata}, ignoring invalid metadata."""
    metadata, count = _metadata(answer), answer.get("count")
    return Collection(
        name=str(answer.get("name", "")),
        description=_text(metadata.get("description")) or "",
        match_threshold=_distance(metadata.get("match_threshold")),
        partial_threshold=_distance(metadata.get("partial_threshold")),
        title_field=_text(metadata.get("title_field")) or "title",
        source_field=_text(metadata.get("source_field")) or "source",
        embedding=_text(metadata.get("embedding_model")),
        documents=count if isinstance(count, int) and count >= 0 else 0,
        metadata={k: v for k, v in metadata.items() if k not in _OWN and k != _SPACE},
    )


def collection_metadata(collection: Collection) -> dict[str, Any]:
    """Encode a collection's description and settings as wrapper metadata."""
    settings = {
        **_plain(collection.metadata),
        "description": storable(collection.description),
        "match_threshold": collection.match_threshold,
        "partial_threshold": collection.partial_threshold,
        "title_field": storable(collection.title_field),
        "source_field": storable(collection.source_field),
    }
    return {name: value for name, value in settings.items() if value is not None and name != _SPACE}


@attrs.frozen(kw_only=True)
class Stored:
    """A document with the stored data of its source.

    Attributes:
        digest: The source's digest when the document was added; None for documents added by other clients.
        added_at: Time the source was completed; None for documents from its earlier parts.
    """

    document: Document
    digest: str | None = None
    added_at: str | None = None


def read_stored(answer: Mapping[str, Any], collection: Collection) -> Stored:
    """Read a document and its source's data from {id?, text, metadata}."""
    marks = _metadata(answer)
    digest, added_at = _text(marks.get(DIGEST_FIELD)), _text(marks.get(ADDED_FIELD))
    return Stored(document=read_document(answer, collection), digest=digest, added_at=added_at)


def read_document(answer: Mapping[str, Any], collection: Collection) -> Document:
    """Read a document from {id?, text, metadata}."""
    metadata = _metadata(answer)
    id = _text(answer.get("id")) or _text(metadata.get(ID_FIELD))
    for field in _FIELDS:
        metadata.pop(field, None)
    title, source = metadata.pop(collection.title_field, None), metadata.pop(collection.source_field, None)
    return Document(
        id=id,
        text=str(answer.get("text", "")),
        title=_text(title) or "Untitled",
        source=_text(source),
        collection=collection.name,
        metadata=metadata,
    )


def prepared(document: Document, collection: Collection) -> Document:
    """Normalize a document to the form in which it will be read back.

    Raises:
        RetrievalError: Its metadata are not JSON data.
    """
    text, source = storable(document.text), storable(document.source) if document.source else None
    digest = hashlib.sha256(f"{source or ''}\0{text}".encode()).hexdigest()
    reserved = (*_FIELDS, collection.title_field, collection.source_field)
    return attrs.evolve(
        document,
        id=storable(document.id or "") or digest,
        text=text,
        title=storable(document.title) or "Untitled",
        source=source,
        collection=collection.name,
        metadata={k: v for k, v in _plain(document.metadata).items() if k not in reserved},
    )


def wire_document(stored: Stored, collection: Collection) -> dict[str, Any]:
    """Encode a prepared document for the wrapper."""
    document = stored.document
    fields = {
        ID_FIELD: document.id,
        DIGEST_FIELD: stored.digest,
        ADDED_FIELD: stored.added_at,
        collection.title_field: document.title,
        collection.source_field: document.source,
    }
    present = {name: value for name, value in fields.items() if value is not None}
    return {"id": document.id, "text": document.text, "metadata": {**document.metadata, **present}}


def _metadata(answer: Mapping[str, Any]) -> dict[str, Any]:
    metadata = answer.get("metadata")
    return dict(metadata) if isinstance(metadata, Mapping) else {}


def _plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten metadata for Chroma as the original does: lists and objects become JSON text, nulls are omitted."""
    flat: dict[str, Any] = {}
    for name, value in metadata.items():
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise RetrievalError(f"the metadata {str(name)[:60]!r} are not JSON data: {error}") from None
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise RetrievalError(f"the metadata {str(name)[:60]!r}: {value} has more than 64 bits")
        if isinstance(value, str):
            flat[storable(str(name))] = storable(value)
        elif value is not None:
            flat[storable(str(name))] = value if isinstance(value, bool | int | float) else storable(text)
    return flat


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int | float) and str(value).strip() else None


def _distance(value: Any) -> float | None:
    """Parse a threshold; the original's web interface stores some as strings."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        distance = float(value)
    except (ValueError, OverflowError):
        return None
    return distance if 0 <= distance <= 2 else None
