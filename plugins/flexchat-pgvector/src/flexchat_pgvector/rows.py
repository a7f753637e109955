"""Documents, names and vectors as the tables take them, and as they come back."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from flexchat.store import Document, RetrievalError, Source, storable

from .filters import facts

UNTITLED = "Untitled"
TITLE_FIELD, SOURCE_FIELD = "title", "source"
LONGEST_NAME = 2000
"""Bytes of a name, an id or a source: an entry of an index holds some 2,700."""


@attrs.frozen(kw_only=True)
class Row:
    """A document as it is stored.

    Attributes:
        text_hash: Of what its vector is made of.
        hash: Of all that is stored of it.
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
        """What is searched for words, and what its vector is made of."""
        return read_as(self.title, self.text)


def read_as(title: str, text: str) -> str:
    """Return a passage as models and searches read it: under its title, if it has one."""
    return text if title in ("", UNTITLED) else f"{title}\n{text}"


def rows_of(
    documents: Sequence[Document],
    source: Source | None,
    title_field: str = TITLE_FIELD,
    source_field: str = SOURCE_FIELD,
) -> dict[str, Row]:
    """Return the documents by their ids; of those with the same id the last one.

    Args:
        title_field, source_field: Metadata whose texts are title and source instead of the document's own, unless
            they are the usual fields. What was taken from a source keeps it: that is what it is replaced by.

    Raises:
        RetrievalError: One cannot be stored.
    """
    rows = (_row(document, source, title_field, source_field) for document in documents)
    return {row.id: row for row in rows}


def stored_name(what: str, value: str) -> str:
    """Return a name as it is stored.

    Raises:
        RetrievalError: It is empty or too long.
    """
    name = storable(value)
    if not name:
        raise RetrievalError(f"the {what} has no name: write one")
    if len(name.encode()) > LONGEST_NAME:
        raise RetrievalError(f"the {what} '{name[:50]}…' is longer than {LONGEST_NAME} bytes: shorten it")
    return name


def metadata_text(metadata: Mapping[str, Any], what: str) -> tuple[dict[str, Any], str]:
    """Return metadata as they are stored, and as JSON text.

    Raises:
        RetrievalError: They are not JSON data.
    """
    try:
        data = _storable(dict(metadata))
        return data, json.dumps(data, allow_nan=False, ensure_ascii=False, sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise RetrievalError(f"the metadata of {what} are not JSON data: {error}") from None


def vector_texts(vectors: Sequence[Sequence[float]], count: int, dimensions: int | None, name: str) -> list[str]:
    """Return vectors, scaled to length 1, as pgvector reads them.

    Args:
        count: How many there must be.
        dimensions: How long each must be; None if that is not known yet.
        name: Of the embedder, for errors.

    Raises:
        RetrievalError: They cannot be right.
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
        if not length:  # it has no direction, so that nothing would ever be near it
            raise RetrievalError(f"{name} made a vector of zeros for text {len(texts) + 1} of {count}")
        texts.append("[" + ",".join([format(value / length, ".9g") for value in vector]) + "]")
    return texts


def document_of(collection: str, id: str, title: str, source: str | None, text: str, metadata: str) -> Document:
    """Return what was stored."""
    return Document(id=id, collection=collection, title=title, source=source, text=text, metadata=json.loads(metadata))


def _row(document: Document, source: Source | None, title_field: str, source_field: str) -> Row:
    name = document.source if source is None else source.name
    text = storable(document.text)
    title = storable(_text_in(document.metadata, title_field, TITLE_FIELD) or document.title)
    made = hashlib.sha256(f"{storable(name or '')}\0{text}".encode()).hexdigest()[:32]
    if source is None:
        name = _text_in(document.metadata, source_field, SOURCE_FIELD) or name
    name = None if name is None else storable(name)
    if name and len(name.encode()) > LONGEST_NAME:
        raise RetrievalError(f"the source '{name[:50]}…' is longer than {LONGEST_NAME} bytes: shorten it")
    id = made if document.id is None else stored_name("document id", document.id)
    metadata, written = metadata_text(document.metadata, f"document '{id[:80]}'")
    return Row(
        id=id,
        title=title,
        source=name,
        text=text,
        metadata=written,
        facts=facts(metadata),
        text_hash=hashlib.sha256(read_as(title, text).encode()).digest(),
        hash=hashlib.sha256(json.dumps([title, name, text, written]).encode()).digest(),
    )


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
