"""The laws of a provider that only embeds, with its own model and no network."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Sequence
from typing import ClassVar

from flexchat_sdk import (
    ChatOptions,
    EmbeddingProvider,
    Embeddings,
    ModelInfo,
    ModelNotFoundError,
    ProviderError,
    ProviderRequestError,
    UserMessage,
)

from .law import Conformance, law, refused, require, show

_TEXTS = (
    "The cat sleeps on the warm windowsill.",
    "A kitten is dozing beside the sunny window.",
    "Quarterly revenue rose by eleven percent.",
    "Die Straße ist gesperrt.",
    "print('hello')",
)
_HOSTILE = (
    "\ud800 half a character",
    "a\0b",
    "\N{ZERO WIDTH SPACE}",
    "\x1b[31m",
    "e\u0301" * 3000,
    "x" * 100_000,
    "🧵" * 500,
)
_CLOSE = 1e-3
_PATIENCE_S = 0.5


class LocalEmbeddingsConformance(Conformance):
    """The laws of a provider whose type names a model as ``local_embeddings``.

    Document stores use such a model if a config names none, so it must work without settings, key or network.

    Attributes:
        model: The model that is asked: the ProviderType's local_embeddings.
    """

    model: ClassVar[str]

    def make_provider(self) -> EmbeddingProvider:
        """Return the provider."""
        raise NotImplementedError(f"{type(self).__name__} must write make_provider")

    def opened(self) -> contextlib.aclosing[EmbeddingProvider]:
        """Open the provider for the length of a law."""
        return contextlib.aclosing(self.make_provider())

    @law()
    async def test_vectors_keep_order_and_count(self) -> None:
        """One vector for each text, in their order, all of one length; nothing asked gives nothing back."""
        vectors = await self._embed(_TEXTS)
        require(isinstance(vectors, Embeddings), f"embed returns Embeddings, got {show(vectors)}")
        require(len(vectors.vectors) == len(_TEXTS), f"{len(_TEXTS)} texts, {len(vectors.vectors)} vectors")
        lengths = {len(vector) for vector in vectors.vectors}
        require(len(lengths) == 1, f"vectors of one model have one length, got {sorted(lengths)}")
        turned = await self._embed(_TEXTS[::-1])
        wrong = [i for i, vector in enumerate(turned.vectors[::-1]) if not _same(vector, vectors.vectors[i])]
        require(not wrong, f"asked in another order, these texts have another vector: {wrong}")
        require(not (await self._embed(())).vectors, "no texts, no vectors")

    @law()
    async def test_a_text_has_one_vector(self) -> None:
        """A vector depends on its text alone: neither on the texts beside it nor on when it is made."""
        together = (await self._embed(_TEXTS)).vectors
        for text, vector in zip(_TEXTS, together, strict=True):
            alone = (await self._embed((text,))).vectors[0]
            require(_same(alone, vector), f"alone and among others {text!r} has different vectors")

    @law()
    async def test_nearness_is_meaning(self) -> None:
        """A paraphrase is nearer than a stranger."""
        cat, kitten, revenue, *_ = (await self._embed(_TEXTS)).vectors
        near, far = _cosine(cat, kitten), _cosine(cat, revenue)
        require(near > far, f"a paraphrase has cosine {near:.3f}, a sentence on something else {far:.3f}")

    @law()
    async def test_any_text_has_a_vector(self) -> None:
        """Halves of characters, NUL, control characters and texts without end: finite numbers, not all of them 0."""
        vectors = await self._embed(_HOSTILE)
        for text, vector in zip(_HOSTILE, vectors.vectors, strict=True):
            fits = all(map(math.isfinite, vector)) and any(vector)
            require(fits, f"{show(text, 40)} has the vector {show(list(vector)[:5])}")

    @law()
    async def test_a_cut_is_told(self) -> None:
        """A text that the model truncates causes a warning; a short one does not."""
        require((await self._embed(("word " * 50_000,))).warnings, "250,000 letters were read without a warning")
        require(not (await self._embed(_TEXTS[:1])).warnings, "a short sentence gave a warning")

    @law()
    async def test_the_event_loop_stays_free(self, provider: EmbeddingProvider) -> None:
        """While the model computes, other tasks run; and a task that is cancelled ends."""
        await provider.embed(_TEXTS[:1], self.model)  # loads
        task = asyncio.create_task(provider.embed(["word " * 200] * 200, self.model))
        clock = asyncio.get_running_loop()
        started = clock.time()
        for _ in range(20):
            await asyncio.sleep(0)
        require(clock.time() - started < _PATIENCE_S, "embed holds the event loop while it computes")
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=_PATIENCE_S)
        require(done and task.cancelled(), "a cancelled embed does not end")
        again = await asyncio.gather(*(provider.embed((text,), self.model) for text in _TEXTS))
        alone = (await self._embed(_TEXTS)).vectors
        mixed = [i for i, one in enumerate(again) if not _same(one.vectors[0], alone[i])]
        require(not mixed, f"side by side, these texts got another's vector: {mixed}")

    @law()
    async def test_what_it_cannot_do_is_a_provider_error(self, provider: EmbeddingProvider) -> None:
        """Chat is an unsupported feature, another model is not found, and other dimensions are refused or kept."""
        chat = provider.generate_chat((UserMessage(content="Hello"),), self.model, ChatOptions())
        error = await refused(chat, ProviderRequestError, "a chat with a model for embeddings")
        require(error.kind == "unsupported_feature", f'kind is "unsupported_feature", got {error.kind!r}')
        await refused(provider.embed(_TEXTS[:1], "kit-model"), ModelNotFoundError, "an unknown model")
        with contextlib.suppress(ProviderError):
            vectors = await provider.embed(_TEXTS[:1], self.model, dimensions=7)
            require(len(vectors.vectors[0]) == 7, "dimensions=7 was neither kept nor refused")

    @law()
    async def test_the_model_is_listed(self, provider: EmbeddingProvider) -> None:
        """list_models has the model, as one for embeddings."""
        models: Sequence[ModelInfo] = await provider.list_models()
        matching = [model for model in models if model.id == self.model]
        require(matching and "embedding" in matching[0].capabilities, f"{self.model} is not listed: {show(models)}")

    async def _embed(self, texts: Sequence[str]) -> Embeddings:
        async with self.opened() as provider:
            return await provider.embed(texts, self.model)


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.hypot(*a) / math.hypot(*b)


def _same(a: Sequence[float], b: Sequence[float]) -> bool:
    return len(a) == len(b) and max(abs(x - y) for x, y in zip(a, b, strict=True)) < _CLOSE
