"""Texts as vectors, in as many requests as it takes."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Sequence

import attrs

from ..domain.chat import Embeddings, Usage
from ..errors import ProviderProtocolError
from ..http.time_left import TimeLeft
from ..http.wire_json import utf8

# For an estimate that is rather too high: English has four letters a token, other scripts up to a token for each
# letter, of two or three bytes.
_BYTES_PER_TOKEN = 2.5
# What HttpClient reads of one answer.
_MOST_BYTES = 16 * 2**20
_LONGEST_VECTOR = 4096


@attrs.frozen(kw_only=True)
class Batches:
    """What a service takes in one request.

    Attributes:
        most_texts: How many texts.
        most_tokens: How many tokens in all; estimated.
        bytes_per_number: What a number of a vector takes in the answer, on average at most.
    """

    most_texts: int
    most_tokens: float = math.inf
    bytes_per_number: int = 24

    async def embed(
        self,
        texts: Sequence[str],
        ask: Callable[[Sequence[str], float | None], Awaitable[Embeddings]],
        unreadable: Callable[[str], ProviderProtocolError],
        *,
        dimensions: int | None = None,
        timeout_s: float | None = None,
    ) -> Embeddings:
        """Return one vector for each text.

        Args:
            ask: Embeds one batch, in so many seconds.
            unreadable: Makes the error for what makes no sense, of a text that begins with a verb: Service.unreadable.
            dimensions: How long the vectors will be, where it is known: of shorter ones, more go into one answer.

        Raises:
            ProviderError: As ask; or an answer has other than one vector of numbers a text, all of one length.
        """
        left = TimeLeft(timeout_s)
        vectors: list[Sequence[float]] = []
        usage: Usage | None = None
        model: str | None = None
        for batch in self._cut(texts, vectors, dimensions):
            made = await ask(batch, left())
            if len(made.vectors) != len(batch):
                raise unreadable(f"sent {len(made.vectors)} embeddings for {len(batch)} texts")
            if not all(
                {*map(type, vector)} <= {float, int} for vector in made.vectors if isinstance(vector, list | tuple)
            ):
                raise unreadable("sent embeddings that are not numbers alone")
            vectors += made.vectors
            if len({len(vector) for vector in (*made.vectors, vectors[0])}) > 1:
                raise unreadable("sent embeddings of different lengths")
            model = made.model or model
            if made.usage is not None:
                usage = made.usage if usage is None else usage + made.usage
        return Embeddings(vectors=tuple(vectors), model=model, usage=usage)

    def _cut(
        self, texts: Sequence[str], vectors: Sequence[Sequence[float]], dimensions: int | None
    ) -> Iterator[list[str]]:
        """Yield texts in portions whose answer can be read: the vectors that have come tell how long they are."""
        batch: list[str] = []
        tokens = 0.0
        for text in texts:
            cost = len(utf8(text)) / _BYTES_PER_TOKEN + 1
            length = len(vectors[0]) if vectors else dimensions or _LONGEST_VECTOR
            readable = max(1, _MOST_BYTES // (self.bytes_per_number * max(length, 1)))
            if batch and (len(batch) >= min(self.most_texts, readable) or tokens + cost > self.most_tokens):
                yield batch
                batch, tokens = [], 0.0
            batch.append(text)
            tokens += cost
        if batch:
            yield batch
