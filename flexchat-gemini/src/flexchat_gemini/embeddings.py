"""Texts as vectors: the bodies of the requests, and what comes back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

BATCH = 100
"""Most texts in one batchEmbedContents request; the service refuses more."""

_TASKS = {"query": "RETRIEVAL_QUERY", "document": "RETRIEVAL_DOCUMENT"}


def embed_request(
    text: str, resource: str, purpose: Literal["query", "document"] | None, dimensions: int | None
) -> dict[str, Any]:
    """Return the request for one text: the body of embedContent, or an item of batchEmbedContents.

    Args:
        resource: The model with "models/" before it, which every item must repeat.
    """
    request: dict[str, Any] = {"model": resource, "content": {"parts": [{"text": text}]}}
    if purpose is not None:
        request["taskType"] = _TASKS[purpose]
    if dimensions is not None:
        request["outputDimensionality"] = dimensions
    return request


def read_embeddings(body: object) -> tuple[tuple[float, ...], ...]:
    """Return the vectors of an answer, whole or single.

    Raises:
        ValueError: It holds something else.
    """
    found = body.get("embeddings", body.get("embedding")) if isinstance(body, dict) else None
    items = found if isinstance(found, list) else [found]
    return tuple(_vector(item) for item in items)


def tokens_of(body: object) -> int | None:
    """Return how many tokens an answer says were read."""
    usage = body.get("usageMetadata") if isinstance(body, dict) else None
    count = usage.get("promptTokenCount") if isinstance(usage, dict) else None
    return count if type(count) is int else None


def normalised(vector: Sequence[float]) -> tuple[float, ...]:
    """Return the vector with length 1. The service does so only for vectors of full size."""
    length = math.hypot(*vector)
    return tuple(value / length for value in vector) if length > 0 and math.isfinite(length) else tuple(vector)


def _vector(item: object) -> tuple[float, ...]:
    values = item.get("values") if isinstance(item, dict) else None
    if not isinstance(values, list) or not values or not all(type(value) in (int, float) for value in values):
        raise ValueError("no vector")
    try:
        vector = tuple(float(value) for value in values)
    except OverflowError as error:
        raise ValueError("a number beyond all numbers") from error
    if not all(map(math.isfinite, vector)):
        raise ValueError("a number that is not finite")
    return vector
