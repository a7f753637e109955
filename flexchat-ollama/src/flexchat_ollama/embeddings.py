"""Texts as vectors: what ``POST /api/embed`` takes and gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flexchat_sdk import Batches, Embeddings, Reported, Usage, vector_of

from .config import OllamaConfig

BATCHES = Batches(most_texts=256, bytes_per_number=15)
"""The server computes texts one by one: more would only make its answers long. It writes numbers of 32 bits."""


def embed_fields(texts: Sequence[str], model: str, dimensions: int | None, config: OllamaConfig) -> dict[str, Any]:
    """Return the fields of one request."""
    options: dict[str, Any] = {} if config.num_ctx is None else {"num_ctx": config.num_ctx}
    extra = config.extra_body
    more = extra.get("options")
    options |= more if isinstance(more, Mapping) else {}
    fields: dict[str, Any] = {"model": model, "input": list(texts), "truncate": config.truncate}
    if dimensions is not None:
        fields["dimensions"] = dimensions
    if config.keep_alive is not None:
        fields["keep_alive"] = config.keep_alive
    fields |= {name: value for name, value in extra.items() if name != "options"}
    return {**fields, "options": options} if options else fields


def read_embeddings(body: object) -> Embeddings:
    """Read an answer.

    Raises:
        Reported: It is an error.
        ValueError: It does not hold vectors of finite numbers.
    """
    if isinstance(body, dict) and body.get("error"):
        raise Reported(body)
    rows = body.get("embeddings") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(rows, list):
        raise ValueError("there are no vectors")
    model, tokens = body.get("model"), body.get("prompt_eval_count")
    return Embeddings(
        vectors=tuple([tuple(map(float, vector_of(row, f"embeddings[{at}]"))) for at, row in enumerate(rows)]),
        model=model if isinstance(model, str) else None,
        usage=Usage(input_tokens=tokens) if type(tokens) is int else None,
    )
