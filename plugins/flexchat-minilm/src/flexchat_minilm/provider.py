"""The provider: runs the model in threads, so that it does not block the event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from flexchat.plugin import ChatResult
from flexchat_sdk import (
    ChatOptions,
    Embeddings,
    Message,
    ModelInfo,
    ModelNotFoundError,
    ProviderError,
    ProviderRequestError,
    ProviderTimeoutError,
    Usage,
    error_name,
)

from .config import DIMENSIONS, MAX_TOKENS, MODEL
from .model import Encoded, loaded_model, request_error

_THREADS = min(4, os.cpu_count() or 1)


class MiniLMProvider:
    """Provides embeddings only. All instances in a process share the model."""

    name = "minilm"

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="flexchat minilm")

    def tool_format(self, model: str) -> str:
        """Return the provider's name as a placeholder: the model calls no tools."""
        return self.name

    async def generate_chat(self, messages: Sequence[Message], model: str, options: ChatOptions) -> ChatResult:
        """Raise an error: the model only embeds. See ChatProvider."""
        raise ProviderRequestError(
            f"minilm makes embeddings and cannot chat with {model}: name another llm, and keep minilm for 'embedding'",
            provider=self.name,
            model=model,
            kind="unsupported_feature",
        )

    async def embed(
        self,
        texts: Sequence[str],
        model: str,
        *,
        purpose: Literal["query", "document"] | None = None,
        dimensions: int | None = None,
        timeout_s: float | None = None,
    ) -> Embeddings:
        """Embed each text; see EmbeddingProvider. *purpose* makes no difference to this model."""
        _check(texts, model, dimensions)
        try:
            async with asyncio.timeout(timeout_s):
                encoded = await self._encode(texts)
        except TimeoutError as error:
            text = f"minilm: {len(texts)} texts were not read in {timeout_s:g} s"
            raise ProviderTimeoutError(text, provider=self.name, model=model) from error
        return Embeddings(
            vectors=tuple(one.vector for one in encoded),
            model=MODEL,
            usage=Usage(input_tokens=sum(one.tokens for one in encoded)),
            warnings=_warnings(encoded),
        )

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the only model; see ChatProvider."""
        return (ModelInfo(id=MODEL, capabilities=frozenset({"embedding"}), context_length=MAX_TOKENS),)

    async def aclose(self) -> None:
        """Stop the threads, after the texts they are working on."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _encode(self, texts: Sequence[str]) -> list[Encoded]:
        """Embed the texts, one task per thread, so that concurrent requests share the threads fairly."""
        encoded: dict[int, Encoded] = {}
        queue = iter(enumerate(texts))
        loop = asyncio.get_running_loop()

        async def lane(queue: Iterator[tuple[int, str]]) -> None:
            for place, text in queue:
                encoded[place] = await loop.run_in_executor(self._threads, _read, text)

        lanes = [asyncio.ensure_future(lane(queue)) for _ in range(min(_THREADS, len(texts)))]
        try:
            await asyncio.gather(*lanes)
        finally:
            for task in lanes:
                task.cancel()
        return [encoded[place] for place in range(len(texts))]


def _read(text: str) -> Encoded:
    model = loaded_model()
    try:
        return model.encode(text)
    except ProviderError:
        raise
    except Exception as error:
        raise request_error(f"ONNX Runtime failed ({error_name(error)})") from error


def _check(texts: Sequence[str], model: str, dimensions: int | None) -> None:
    if model != MODEL:
        raise ModelNotFoundError(f"minilm has no model '{model}', only {MODEL}", provider="minilm", model=model)
    if dimensions not in (None, DIMENSIONS):
        text = f"{MODEL} makes vectors of {DIMENSIONS} numbers and no others; leave dimensions out"
        raise request_error(text, model, param="dimensions")
    for place, text in enumerate(texts):
        if not text.strip():
            raise request_error(f"text {place + 1} of {len(texts)} is empty", model, param="texts")


def _warnings(encoded: Sequence[Encoded]) -> tuple[str, ...]:
    cut = sum(one.is_cut for one in encoded)
    if not cut:
        return ()
    return (f"minilm reads {MAX_TOKENS} tokens, about 180 words: of {cut} of {len(encoded)} texts only the beginning",)
