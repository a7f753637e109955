"""Texts as vectors: ``POST /embeddings`` in as many requests as it takes."""

from __future__ import annotations

import base64
import contextlib
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flexchat.http.answer_shape import WrongShape, known_count, known_text, list_in, number_in, objects_of
from flexchat.http.answer_stream import wrong_shape
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
        try:
            vectors = _in_order([*objects_of(list_in(_table(answer), "data"), "data")])
        except WrongShape as error:
            raise wrong_shape(error, self._unreadable) from error
        if len(vectors) != expected:
            raise self._unreadable(f"sent {len(vectors)} embeddings for {expected} texts")
        self._vectors += vectors
        if len({len(vector) for vector in vectors} | {self.length}) > 1:
            raise self._unreadable("sent embeddings of different lengths")
        self._model = known_text(_table(answer).get("model")) or self._model
        if isinstance(raw := _table(answer).get("usage"), dict):
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


def _table(answer: Any) -> dict[str, Any]:
    """Return an answer as OpenAI writes it; some servers send the list alone."""
    return answer if isinstance(answer, dict) else {"data": answer}


def _in_order(items: list[tuple[str, dict[str, Any]]]) -> list[Sequence[float]]:
    """Return the vectors by their index, or as they stand where a server gives none, or the same one to all.

    Raises:
        WrongShape: Something is not a vector, or does not say where it belongs.
    """
    if len({str(item.get("index")) for _, item in items}) > 1:
        numbers = {number_in(item, "index", path): (path, item) for path, item in items}
        if None in numbers or len(numbers) < len(items):
            raise WrongShape("data[].index", "a number of its own for each embedding", [])
        items = [numbers[number] for number in sorted(numbers, key=lambda number: number or 0)]
    return [_vector(path, item.get("embedding")) for path, item in items]


def _vector(path: str, value: object) -> Sequence[float]:
    """Return a list of numbers, or the little-endian floats that a text is in base64."""
    found = value
    if isinstance(found, str):
        try:
            data = base64.b64decode(found, validate=True)
            found = [*struct.unpack(f"<{len(data) // 4}f", data)]
        except (ValueError, struct.error):
            found = None
    if isinstance(found, list) and found and set(map(type, found)) <= {float, int}:
        with contextlib.suppress(OverflowError, ValueError):
            if math.isfinite(math.fsum(found)):
                return found
    raise WrongShape(f"{path}.embedding", "a list of numbers", value)
