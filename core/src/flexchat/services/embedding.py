"""Texts to vectors, by a service of the config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from ..config.model import Config
from ..domain import Embeddings
from ..errors import ChatRequestError, ProviderRequestError, UnknownServiceError
from ..plugin.contracts import ChatProvider
from ..plugin.foreign import contained
from .local_embeddings import LocalEmbeddings


async def embed(
    texts: Sequence[str],
    providers: Mapping[str, ChatProvider],
    config: Config,
    local: LocalEmbeddings,
    *,
    llm: str | None = None,
    model: str | None = None,
    purpose: Literal["query", "document"] | None = None,
    dimensions: int | None = None,
) -> Embeddings:
    """Return one vector for each text; see FlexChat.embed."""
    if isinstance(texts, str) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise ChatRequestError("embed takes a list of texts, none of them empty")
    service = _service(providers, config, local, llm)
    provider = providers[service] if service in providers else local.provider(service)
    if not hasattr(provider, "embed"):
        raise ProviderRequestError(
            f"{service} (provider {provider.name}) makes no embeddings",
            provider=provider.name,
            kind="unsupported_feature",
        )
    model = _model(config, service, model) or ("" if service in providers else local.models[service])
    if not model:
        raise ChatRequestError(f"say which model of {service} makes the embeddings: model=…")
    if not texts:
        return Embeddings(vectors=(), model=model)
    with contained():
        made: Embeddings = await provider.embed(texts, model, purpose=purpose, dimensions=dimensions)
    return made


def _service(providers: Mapping[str, ChatProvider], config: Config, local: LocalEmbeddings, llm: str | None) -> str:
    if llm is None:
        if config.embedding is not None:
            llm = config.embedding.llm
        elif len(providers) == 1:
            llm = next(iter(providers))
        else:
            raise ChatRequestError("say which service makes the embeddings: llm=…, or 'embedding' in the config")
    if llm not in providers and llm not in local.models:
        raise UnknownServiceError(llm, known=(*providers, *local.models))
    return llm


def _model(config: Config, service: str, model: str | None) -> str | None:
    if config.embedding is not None and config.embedding.llm == service:
        model = model or config.embedding.model
    entry = config.llms.get(service)
    return model or (entry.default_model if entry is not None else None)
