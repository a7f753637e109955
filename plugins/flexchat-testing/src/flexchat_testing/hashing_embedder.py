"""An embedder without a model: texts that share words have near vectors, the same in every process."""

from __future__ import annotations

import asyncio
import math
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Literal

_WORD = re.compile(r"[^\W_]+")


class HashingEmbedder:
    """Counts words into the components of a vector, and records what it is asked.

    Attributes:
        asked: Every text it was given, in order, with its purpose.
        spoil: If set, called with each batch of vectors before they are returned: to change them, or to raise.
    """

    def __init__(self, name: str = "kit/hashing", dimensions: int = 256) -> None:
        self.name = name
        self.dimensions = dimensions
        self.asked: list[tuple[str, str]] = []
        self.spoil: Callable[[Sequence[str], list[list[float]]], list[list[float]]] | None = None

    async def embed(self, texts: Sequence[str], *, purpose: Literal["query", "document"]) -> Sequence[Sequence[float]]:
        """Return one vector of length 1 for each text."""
        self.asked += [(purpose, text) for text in texts]
        await asyncio.sleep(0)  # like a real one, it lets others run
        vectors = [self._vector(text) for text in texts]
        return self.spoil(texts, vectors) if self.spoil else vectors

    def count(self, purpose: str = "document") -> int:
        """Count the texts embedded for this purpose."""
        return sum(1 for one, _ in self.asked if one == purpose)

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.dimensions
        vector[0] = 0.25  # a text without words has a direction too
        for word in _WORD.findall(text.casefold()):
            vector[zlib.crc32(word.encode("utf-8", "replace")) % self.dimensions] += 1.0
        length = math.sqrt(sum(value * value for value in vector))
        return [value / length for value in vector]
