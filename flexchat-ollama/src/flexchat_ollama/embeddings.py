"""Texts to vectors: the bodies of ``/api/embed``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
from flexchat.provider import ProviderRequestError, to_bytes

from .config import OllamaConfig

BATCH = 256
"""Texts a request. The server computes them one by one; more would only make its answers long."""


@attrs.frozen
class Vectors:
    """What one request gave."""

    vectors: tuple[tuple[float, ...], ...]
    model: str | None
    input_tokens: int | None


def batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the texts in pieces of at most BATCH."""
    for at in range(0, len(texts), BATCH):
        yield texts[at : at + BATCH]


def embed_body(texts: Sequence[str], model: str, dimensions: int | None, config: OllamaConfig) -> bytes:
    """Return the body of a request.

    Raises:
        ProviderRequestError: extra_body cannot be written as JSON.
    """
    options: dict[str, Any] = {} if config.num_ctx is None else {"num_ctx": config.num_ctx}
    extra = config.extra_body
    more = extra.get("options")
    options |= more if isinstance(more, Mapping) else {}
    body: dict[str, Any] = {"model": model, "input": list(texts), "truncate": config.truncate}
    if dimensions is not None:
        body["dimensions"] = dimensions
    if config.keep_alive is not None:
        body["keep_alive"] = config.keep_alive
    body.update({name: value for name, value in extra.items() if name != "options"})
    try:
        return to_bytes({**body, "options": options} if options else body)
    except (TypeError, ValueError, RecursionError) as error:
        raise ProviderRequestError(f"the request cannot be written as JSON: {error}", provider="ollama") from error


def read_embeddings(body: object, count: int) -> Vectors:
    """Read an answer.

    Raises:
        ValueError: It does not hold one vector for each of count texts, all of one length and finite.
    """
    rows = body.get("embeddings") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(rows, list):
        raise ValueError("no vectors")
    if len(rows) != count:
        raise ValueError(f"{len(rows)} vectors for {count} texts")
    vectors = tuple(tuple(map(_number, row)) for row in rows if isinstance(row, list) and row)
    if len(vectors) != count or len({len(vector) for vector in vectors}) > 1:
        raise ValueError("vectors that are empty or not of one length")
    model, tokens = body.get("model"), body.get("prompt_eval_count")
    return Vectors(vectors, model if isinstance(model, str) else None, tokens if type(tokens) is int else None)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e308:
        raise ValueError("a vector that holds something else than numbers")
    return float(value)
