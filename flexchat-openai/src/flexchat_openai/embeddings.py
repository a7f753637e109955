"""Texts as vectors: ``POST /embeddings`` in as many requests as it takes."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flexchat.http.answer_shape import known_count
from flexchat.http.wire_json import from_bytes, to_bytes, utf8
from flexchat.plugin import Embeddings, ProviderProtocolError, Usage

# OpenAI's limits for one request.
_MOST_TEXTS = 2048
_MOST_TOKENS = 300_000
# For an estimate that is rather too high: English has four letters a token, other scripts up to a token for each
# letter, of two or three bytes.
_BYTES_PER_TOKEN = 2.5
# What HttpClient reads of one answer, and what a number takes of that when it is written out in full.
_MOST_BYTES = 16 * 2**20
_BYTES_PER_NUMBER = 24
_LONGEST_VECTOR = 4096


def embeddings_body(texts: Sequence[str], model: str, dimensions: int | None) -> bytes:
    """Return the body of one request. ``float`` is said because some servers know nothing else."""
    body: dict[str, Any] = {"model": model, "input": texts, "encoding_format": "float"}
    if dimensions is not None:
        body["dimensions"] = dimensions
    return to_bytes(body)


class Vectors:
    """The vectors that have come so far.

    Args:
        unreadable: Makes the error for what makes no sense; its text begins with a verb.
    """

    def __init__(self, unreadable: Callable[[str], ProviderProtocolError]) -> None:
        self._unreadable = unreadable
        self._vectors: list[Sequence[float]] = []
        self._usage: Usage | None = None
        self._model: str | None = None

    @property
    def length(self) -> int | None:
        """How many numbers a vector has; None before the first one."""
        return len(self._vectors[0]) if self._vectors else None

    def add(self, body: bytes, expected: int) -> None:
        """Take one answer.

        Raises:
            ProviderProtocolError: It does not hold so many vectors, all of one length.
        """
        try:
            answer = from_bytes(body)
        except ValueError as error:
            raise self._unreadable(f"sent embeddings that are not JSON, or were cut off: {error}") from error
        if isinstance(answer, list):
            answer = {"data": answer}
        items = answer.get("data") if isinstance(answer, dict) else None
        vectors = _in_order(items) if isinstance(items, list) else []
        if len(vectors) != expected:
            raise self._unreadable(f"sent {len(vectors)} embeddings that can be read for {expected} texts")
        self._vectors += vectors
        if len({len(vector) for vector in vectors} | {self.length}) > 1:
            raise self._unreadable("sent embeddings of different lengths")
        if isinstance(model := answer.get("model"), str) and model:
            self._model = model
        if isinstance(raw := answer.get("usage"), dict):
            usage = Usage(input_tokens=known_count(raw, "prompt_tokens"), raw=raw)
            self._usage = usage if self._usage is None else self._usage + usage

    def result(self) -> Embeddings:
        """Return all of them."""
        return Embeddings(vectors=tuple(self._vectors), model=self._model, usage=self._usage)


def batches(texts: Sequence[str], vectors: Vectors, dimensions: int | None) -> Iterator[list[str]]:
    """Yield texts in portions a service takes, and whose answer can be read; vectors tells how long they are."""
    batch: list[str] = []
    tokens = 0.0
    for text in texts:
        cost = len(utf8(text)) / _BYTES_PER_TOKEN + 1
        length = vectors.length or dimensions or _LONGEST_VECTOR
        most = min(_MOST_TEXTS, max(1, _MOST_BYTES // (_BYTES_PER_NUMBER * length)))
        if batch and (len(batch) >= most or tokens + cost > _MOST_TOKENS):
            yield batch
            batch, tokens = [], 0.0
        batch.append(text)
        tokens += cost
    if batch:
        yield batch


def _in_order(items: list[Any]) -> list[Sequence[float]]:
    """Return the vectors by their index, or as they stand where a server gives none; those that can be read."""
    found = [item for item in items if isinstance(item, dict)]
    if all(type(item.get("index")) is int for item in found) and len({item["index"] for item in found}) == len(found):
        found.sort(key=lambda item: item["index"])
    vectors = [_vector(item.get("embedding")) for item in found]
    return [vector for vector in vectors if vector]


def _vector(value: object) -> Sequence[float] | None:
    """Return a list of numbers, or the little-endian floats that a text is in base64; None for anything else."""
    if isinstance(value, str):
        try:
            data = base64.b64decode(value, validate=True)
            value = [*struct.unpack(f"<{len(data) // 4}f", data)]
        except (ValueError, struct.error):
            return None
    if not isinstance(value, list) or not set(map(type, value)) <= {float, int}:
        return None
    try:
        return value if math.isfinite(math.fsum(value)) else None
    except (OverflowError, ValueError):
        return None
