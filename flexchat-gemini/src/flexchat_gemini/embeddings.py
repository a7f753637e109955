"""Texts as vectors: the bodies of the requests, and what comes back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from flexchat_sdk import Batches, Embeddings, Usage, known_count, vector_of

BATCHES = Batches(most_texts=100, most_tokens=math.inf)
"""What batchEmbedContents takes; the service refuses more."""
ONE_BY_ONE = Batches(most_texts=1, most_tokens=math.inf)

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


def read_embeddings(body: object) -> Embeddings:
    """Read an answer, for several texts or for one.

    Raises:
        WrongShape: It holds something else.
    """
    table = body if isinstance(body, dict) else {}
    rows = table.get("embeddings", table.get("embedding"))
    items = rows if isinstance(rows, list) else [rows]
    tokens = known_count(table.get("usageMetadata"), "promptTokenCount")
    usage = Usage(input_tokens=tokens) if tokens is not None else None
    tables = [item if isinstance(item, dict) else {} for item in items]
    vectors = [vector_of(table.get("values"), f"embeddings[{at}].values") for at, table in enumerate(tables)]
    return Embeddings(vectors=tuple([tuple(map(float, vector)) for vector in vectors]), usage=usage)


def normalised(vector: Sequence[float]) -> tuple[float, ...]:
    """Return the vector with length 1. The service does so only for vectors of full size."""
    length = math.hypot(*vector)
    return tuple(value / length for value in vector) if length > 0 and math.isfinite(length) else tuple(vector)
