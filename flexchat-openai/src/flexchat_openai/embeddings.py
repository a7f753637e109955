"""Embeddings: the requests and answers of ``POST /embeddings``."""

from __future__ import annotations

import base64
import contextlib
import struct
from collections.abc import Sequence
from typing import Any

from flexchat_sdk import (
    Batches,
    Embeddings,
    Usage,
    WrongShape,
    known_count,
    known_text,
    list_in,
    number_in,
    objects_of,
    vector_of,
)

BATCHES = Batches(most_texts=2048, most_tokens=300_000)
"""OpenAI's limits for one request."""


def embeddings_fields(texts: Sequence[str], model: str, dimensions: int | None) -> dict[str, Any]:
    """Return the fields of one request. ``float`` is explicit because some servers support nothing else."""
    fields: dict[str, Any] = {"model": model, "input": texts, "encoding_format": "float"}
    return fields if dimensions is None else {**fields, "dimensions": dimensions}


def read_embeddings(answer: Any) -> Embeddings:
    """Read one answer.

    Raises:
        WrongShape: An item is not a vector, or its place is unclear.
    """
    answer = answer if isinstance(answer, dict) else {"data": answer}  # some servers send the list alone
    vectors = _in_order([*objects_of(list_in(answer, "data"), "data")])
    raw = answer.get("usage")
    usage = Usage(input_tokens=known_count(raw, "prompt_tokens"), raw=raw) if isinstance(raw, dict) else None
    return Embeddings(vectors=tuple(vectors), model=known_text(answer.get("model")), usage=usage)


def _in_order(items: list[tuple[str, dict[str, Any]]]) -> list[Sequence[float]]:
    """Return the vectors by index, or in their order if a server gives no index or the same one to all.

    Raises:
        WrongShape: An item is not a vector, or its place is unclear.
    """
    if len({str(item.get("index")) for _, item in items}) > 1:
        numbers = {number_in(item, "index", path): (path, item) for path, item in items}
        if None in numbers or len(numbers) < len(items):
            raise WrongShape("data[].index", "a different number for each embedding", [])
        items = [numbers[number] for number in sorted(numbers, key=lambda number: number or 0)]
    return [_vector(path, item.get("embedding")) for path, item in items]


def _vector(path: str, value: object) -> Sequence[float]:
    """Return a list of numbers, or the little-endian floats in a base64 text."""
    vector = value
    if isinstance(vector, str):
        with contextlib.suppress(ValueError, struct.error):
            data = base64.b64decode(vector, validate=True)
            vector = [*struct.unpack(f"<{len(data) // 4}f", data)]
    return vector_of(vector, f"{path}.embedding")
