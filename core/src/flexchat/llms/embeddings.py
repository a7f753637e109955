"""Turns texts into vectors with one of the config's services."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from ..config.model import EmbeddingChoice
from ..domain import Embeddings
from ..errors import ChatRequestError, ProviderRequestError
from ..plugin.foreign import contained
from .llm import LLM, Llms


async def embed(
    texts: Sequence[str],
    llms: Llms,
    usual: EmbeddingChoice | None,
    local: Mapping[str, LLM],
    *,
    llm: str | None = None,
    model: str | None = None,
    purpose: Literal["query", "document"] | None = None,
    dimensions: int | None = None,
) -> Embeddings:
    """Return one vector for each text; see FlexChat.embed.

    Args:
        usual: The config's ``embedding``: the defaults.
        local: Models on this machine.
    """
    if isinstance(texts, str) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise ChatRequestError("embed takes a list of texts, none of them empty")
    embedder, model = _choose(llms, usual, local, llm, model)
    provider = embedder.provider
    if not hasattr(provider, "embed"):
        raise ProviderRequestError(
            f"{embedder.name} (provider {provider.name}) cannot make embeddings",
            provider=provider.name,
            kind="unsupported_feature",
        )
    if not model:
        raise ChatRequestError(f"say which model of {embedder.name} makes the embeddings: model=…")
    if not texts:
        return Embeddings(vectors=(), model=model)
    with contained():
        return await embedder.embed(texts, model, purpose=purpose, dimensions=dimensions)


def _choose(
    llms: Llms, usual: EmbeddingChoice | None, local: Mapping[str, LLM], llm: str | None, model: str | None
) -> tuple[LLM, str]:
    if llm is None:
        if usual is not None:
            llm = usual.llm
        elif len(llms) == 1:
            llm = next(iter(llms))
        else:
            raise ChatRequestError("say which service makes the embeddings: llm=…, or 'embedding' in the config")
    if usual is not None and usual.llm == llm:
        model = model or usual.model
    return llms.resolve(llm, model, beside=local)
