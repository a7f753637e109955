"""Filters to try a store with, made of the metadata its documents have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from flexchat.store import Document, Where

_ELSEWHERE = "no such field"
_OF_ALL_KINDS: tuple[Any, ...] = (True, 1, 1.5, "1")


def filters_about(documents: Iterable[Document]) -> Iterator[Where]:
    """Yield filters: every operator for every value there is and some of other kinds, then some of these combined."""
    values: dict[str, list[Any]] = {_ELSEWHERE: []}
    for document in documents:
        for field, value in document.metadata.items():
            samples = values.setdefault(field, [])
            if isinstance(value, str | int | float) and value not in samples:
                samples.append(value)
    single = [
        condition
        for field, samples in values.items()
        for value in (*samples[:8], *_OF_ALL_KINDS)
        for condition in _about(field, value)
    ]
    yield {}
    yield from single
    for first, second in pairwise(single[::7]):
        yield {"$or": [first, second]}
        yield {"$and": [first, {"$or": [second, {_ELSEWHERE: {"$ne": 1}}]}]}
        yield {**first, **second}
    for field, samples in values.items():
        numbers = sorted(v for v in samples if isinstance(v, int | float) and not isinstance(v, bool))
        if len(numbers) > 1:
            yield {field: {"$gte": numbers[0], "$lt": numbers[-1]}}
        texts = [v for v in samples if isinstance(v, str)]
        yield {field: {"$in": texts or ["x", "y"]}}
        yield {field: {"$nin": texts or ["x", "y"]}}


def _about(field: str, value: Any) -> Iterator[Where]:
    yield {field: value}
    yield {field: {"$ne": value}}
    yield {field: {"$in": [value]}}
    yield {field: {"$nin": [value]}}
    if not isinstance(value, bool):
        for operator in ("$gt", "$gte", "$lt", "$lte"):
            yield {field: {operator: value}}
