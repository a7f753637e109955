"""Exact vector search with NumPy over normalized vectors in memory."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
from flexchat.store import RetrievalError

Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.int64]

_SLACK = 1.25
"""How much more is reserved than is there: memory that is not written to is not taken."""
_MIN_ALIVE = 0.75
"""Share of living vectors below which the dead ones are cleared away."""
_ROWS = 2048


def unit_vectors(vectors: Sequence[Sequence[float]], texts: int, embedder: str) -> Floats:
    """Validate an embedder's vectors and normalize them to length 1, one row per text.

    Raises:
        RetrievalError: The number of vectors differs from *texts*, their lengths differ, or one is zero or not finite.
    """
    try:
        rows = np.asarray(vectors, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise RetrievalError(
            f"{embedder} gave vectors of different lengths, or something other than numbers"
        ) from error
    if rows.ndim != 2 or len(rows) != texts or not rows.shape[1]:
        raise RetrievalError(f"{embedder} must give one vector for each of {texts} texts, got the shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise RetrievalError(f"{embedder} gave a vector with NaN or infinity")
    largest = np.abs(rows).max(axis=1, keepdims=True)
    if not largest.all():  # A zero vector has no direction: no query would ever be near it.
        raise RetrievalError(f"{embedder} gave a vector of zeros for text {int(np.argmin(largest)) + 1} of {texts}")
    rows = rows / largest  # Scale first: squares of large numbers would overflow.
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


@attrs.frozen(kw_only=True)
class Similarities:
    """Cosine similarity of each vector of a collection to a question.

    Attributes:
        numbers: Row ids of the documents, ascending.
        cosines: -1 to 1; minus infinity for deleted documents.
    """

    numbers: Numbers
    cosines: Floats

    def nearest(self, top: int, passing: Callable[[list[int] | None], Iterable[int]] | None) -> list[tuple[int, float]]:
        """Return row ids and cosines of the nearest documents, nearest first.

        Args:
            passing: Filters row ids; called with None, it filters all documents. None for no filter.
        """
        if passing is None:
            return self._pairs(self._best(self.cosines, top))
        # Most filters match a large share of documents: testing the nearest ones is enough, and far cheaper than all.
        near = self._pairs(self._best(self.cosines, 16 * top))
        allowed = set(passing([number for number, _ in near]))
        passed = [pair for pair in near if pair[0] in allowed]
        if len(passed) >= top or len(near) < 16 * top:
            return passed[:top]
        places = self._places(sorted(passing(None)))
        cosines = np.full_like(self.cosines, -np.inf)
        cosines[places] = self.cosines[places]
        return self._pairs(self._best(cosines, top))

    def of(self, numbers: Iterable[int]) -> dict[int, float]:
        """Return the cosines of those documents that have vectors."""
        places = self._places(sorted(numbers))
        return {number: cosine for number, cosine in self._pairs(places) if np.isfinite(cosine)}

    def _places(self, numbers: Sequence[int]) -> Numbers:
        targets = np.asarray(numbers, dtype=np.int64)
        places: Numbers = np.searchsorted(self.numbers, targets)
        inside = places < len(self.numbers)
        places, targets = places[inside], targets[inside]
        there: Numbers = places[self.numbers[places] == targets]
        return there

    @staticmethod
    def _best(cosines: Floats, top: int) -> Numbers:
        places = np.argpartition(-cosines, top)[:top] if top < len(cosines) else np.arange(len(cosines))
        places = places[np.isfinite(cosines[places])]
        ordered: Numbers = places[np.lexsort((places, -cosines[places]))]
        return ordered

    def _pairs(self, places: Numbers) -> list[tuple[int, float]]:
        return list(zip(self.numbers[places].tolist(), self.cosines[places].tolist(), strict=True))


@attrs.define
class _Matrix:
    """The vectors of one collection at one version."""

    rows: Floats
    numbers: Numbers
    alive: npt.NDArray[np.bool_] | None
    count: int = 0
    version: int = -1
    removals: int = 0


class Matrices:
    """In-memory vectors of the searched collections, updated from the file before each search."""

    def __init__(self) -> None:
        self._kept: dict[int, _Matrix] = {}
        self._lock = threading.Lock()

    def compare(self, connection: sqlite3.Connection, collection: int, question: Floats) -> Similarities:
        """Compare a collection's vectors with the question's."""
        with self._lock:
            matrix = self._up_to_date(connection, collection, len(question))
            # Views stay valid without the lock: appends write behind them, and removals create new arrays.
            rows, numbers, alive = matrix.rows[: matrix.count], matrix.numbers[: matrix.count], matrix.alive
        cosines = rows @ question
        if alive is not None:
            cosines[~alive] = -np.inf
        return Similarities(numbers=numbers, cosines=cosines)

    def clear(self) -> None:
        """Release the memory."""
        with self._lock:
            self._kept.clear()

    def _up_to_date(self, connection: sqlite3.Connection, collection: int, dimensions: int) -> _Matrix:
        matrix = self._kept.get(collection)
        version, removals = connection.execute(
            "SELECT version, removals FROM collections WHERE number = ?", (collection,)
        ).fetchone()
        if matrix is not None and matrix.rows.shape[1] != dimensions:
            matrix = None  # The collection was emptied, then filled by another embedder.
        if matrix is None:
            there = {number for (number,) in connection.execute("SELECT number FROM collections")}
            self._kept = {number: each for number, each in self._kept.items() if number in there}
            matrix = _Matrix(np.empty((0, dimensions), np.float32), np.empty(0, np.int64), None, removals=removals)
            self._kept[collection] = matrix
        # Otherwise another thread has already loaded a newer version than this transaction sees.
        if version > matrix.version:
            if removals != matrix.removals:
                _remove(matrix, connection, collection)
            _append(matrix, connection, collection)
            matrix.version, matrix.removals = version, removals
        return matrix


def _append(matrix: _Matrix, connection: sqlite3.Connection, collection: int) -> None:
    last = int(matrix.numbers[matrix.count - 1]) if matrix.count else 0
    which = "FROM vectors WHERE collection = ? AND number > ?"
    new = connection.execute(f"SELECT count(*) {which}", (collection, last)).fetchone()[0]
    if not new:
        return
    dimensions, end = matrix.rows.shape[1], matrix.count + new
    if end > len(matrix.rows):
        room = int(end * _SLACK)
        rows, numbers = np.empty((room, dimensions), np.float32), np.empty(room, np.int64)
        rows[: matrix.count], numbers[: matrix.count] = matrix.rows[: matrix.count], matrix.numbers[: matrix.count]
        matrix.rows, matrix.numbers = rows, numbers
    place = matrix.count
    cursor = connection.execute(f"SELECT number, vector {which} ORDER BY number", (collection, last))
    while some := cursor.fetchmany(_ROWS):
        behind = place + len(some)
        matrix.numbers[place:behind] = [number for number, _ in some]
        joined = b"".join(vector for _, vector in some)
        matrix.rows[place:behind] = np.frombuffer(joined, "<f4").reshape(len(some), dimensions)
        place = behind
    if matrix.alive is not None:
        matrix.alive = np.concatenate((matrix.alive, np.ones(new, np.bool_)))
    matrix.count = end


def _remove(matrix: _Matrix, connection: sqlite3.Connection, collection: int) -> None:
    there = connection.execute("SELECT number FROM vectors WHERE collection = ?", (collection,))
    remaining: Any = np.fromiter((number for (number,) in there), np.int64)
    alive = np.isin(matrix.numbers[: matrix.count], remaining)
    if alive.sum() >= _MIN_ALIVE * matrix.count:
        matrix.alive = alive
        return
    matrix.rows, matrix.numbers = matrix.rows[: matrix.count][alive], matrix.numbers[: matrix.count][alive]
    matrix.alive, matrix.count = None, len(matrix.numbers)
