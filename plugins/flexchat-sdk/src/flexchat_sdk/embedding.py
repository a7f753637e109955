"""Texts as vectors, in as many requests as it takes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence

import attrs
from flexchat.domain.chat import Embeddings
from flexchat.domain.prices import Usage
from flexchat.errors import ProviderProtocolError

from .http.answer_shape import WrongShape
from .http.deadline import TimeLeft
from .http.wire_json import utf8

# For an estimate on the high side: English has four letters per token, other scripts up to one token per letter of
# two or three bytes.
_BYTES_PER_TOKEN = 2.5
# The most HttpClient reads of one answer.
_MAX_ANSWER_BYTES = 16 * 2**20
_MAX_VECTOR_LENGTH = 4096


def vector_of(value: object, where: str) -> Sequence[float]:
    """Return a vector of an answer: a list of finite numbers, of one at least.

    Args:
        where: Its place in the answer, for the error.

    Raises:
        WrongShape: It is something else.
    """
    if isinstance(value, list) and value and set(map(type, value)) <= {float, int}:
        with contextlib.suppress(OverflowError, ValueError):
            if math.isfinite(math.fsum(value)):
                return value
    raise WrongShape(where, "a list of numbers", value)


@attrs.frozen(kw_only=True)
class Batches:
    """What a service accepts in one request.

    Attributes:
        most_texts: Maximum number of texts.
        most_tokens: Maximum number of tokens in total, estimated.
        bytes_per_number: The most bytes a number of a vector takes in the answer, on average.
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
            ask: Embeds one batch, within the given seconds.
            unreadable: Makes an error from a text that starts with a verb: Service.unreadable.
            dimensions: Length of the vectors, if known: more short ones fit into one answer.

        Raises:
            ProviderError: As for ask; or an answer is not one vector of numbers per text, all of the same length.
        """
        time_left = TimeLeft(timeout_s)
        vectors: list[Sequence[float]] = []
        usage: Usage | None = None
        model: str | None = None
        for batch in self._cut(texts, vectors, dimensions):
            answer = await ask(batch, time_left())
            if len(answer.vectors) != len(batch):
                raise unreadable(f"sent {len(answer.vectors)} embeddings for {len(batch)} texts")
            kinds = {
                kind for vector in answer.vectors if isinstance(vector, list | tuple) for kind in map(type, vector)
            }
            if not kinds <= {float, int}:
                raise unreadable("sent embeddings that contain more than numbers")
            vectors += answer.vectors
            if len({len(vector) for vector in (*answer.vectors, vectors[0])}) > 1:
                raise unreadable("sent embeddings of different lengths")
            model = answer.model or model
            if answer.usage is not None:
                usage = answer.usage if usage is None else usage + answer.usage
        return Embeddings(vectors=tuple(vectors), model=model, usage=usage)

    def _cut(
        self, texts: Sequence[str], vectors: Sequence[Sequence[float]], dimensions: int | None
    ) -> Iterator[list[str]]:
        """Yield texts in batches whose answers can be read, judging by the length of the vectors so far."""
        batch: list[str] = []
        tokens = 0.0
        for text in texts:
            cost = len(utf8(text)) / _BYTES_PER_TOKEN + 1
            length = len(vectors[0]) if vectors else dimensions or _MAX_VECTOR_LENGTH
            readable = max(1, _MAX_ANSWER_BYTES // (self.bytes_per_number * max(length, 1)))
            if batch and (len(batch) >= min(self.most_texts, readable) or tokens + cost > self.most_tokens):
                yield batch
                batch, tokens = [], 0.0
            batch.append(text)
            tokens += cost
        if batch:
            yield batch
