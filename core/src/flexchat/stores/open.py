"""Opening document stores from the entries of stores, each with its embedder and reranker."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from ..config.model import Config, EmbeddingChoice
from ..errors import did_you_mean
from ..llms.llm import LLM, Llms
from ..llms.local_models import LocalModels
from ..llms.open import Configured
from ..plugin.contracts import DocumentStoreContext, Reranker, Retriever
from ..plugin.host import PluginHost
from .embedder import StoreEmbedder

if TYPE_CHECKING:
    from ..config.reading import ReadConfig


@attrs.define
class StoreOpener:
    """An opener of document stores.

    Attributes:
        llms: The services of the config, by name.
        held: Resources opened only for the stores, to be closed with them.
    """

    reading: ReadConfig
    config: Config
    host: PluginHost
    llms: Llms
    local: LocalModels
    held: list[Reranker] = attrs.field(factory=list)
    _embedders: dict[tuple[str, str], StoreEmbedder] = attrs.field(factory=dict)

    def open(self, stores: Mapping[str, Configured]) -> dict[str, Retriever]:
        """Return the stores by name; problems with their entries are added to the reading's problems."""
        opened = {}
        common = self.config.embedding
        if common is not None and common.llm not in self.llms:  # reported even if no store needs it
            self._embedder(common, ("embedding",))
        for name, store in stores.items():
            entry = self.config.stores[name]
            path = ("stores", name)
            choice = entry.embedding or self.config.embedding
            at = (*path, "embedding") if entry.embedding else ("embedding",)
            embedder = self._embedder(choice, at) if choice else self.reading.attempt(path, self._local_embedder)
            context = DocumentStoreContext(
                name=name,
                folder=self.reading.document.folder if self.reading.document.source else None,
                embedder=embedder,
                reranker=self._reranker(entry.rerank, (*path, "rerank")) if entry.rerank else None,
            )
            retriever = self.reading.attempt(path, functools.partial(store.type.create, store.settings, context))
            if retriever is not None:
                opened[name] = retriever
        return opened

    def _embedder(self, choice: EmbeddingChoice, path: tuple[str, ...]) -> StoreEmbedder | None:
        if choice.llm not in self.llms:
            if choice.llm in self.config.llms:
                return None  # its entry has a problem, reported there
            if choice.llm in self.host.providers.conflicts:
                self.reading.problem((*path, "llm"), self.host.providers.missing(choice.llm))
                return None
            if choice.llm not in self.local:
                names = [*self.llms, *self.local]
                hint = did_you_mean(choice.llm, names)
                listed = ", ".join(names) or "none"
                self.reading.problem(
                    (*path, "llm"), f"nothing makes embeddings as '{choice.llm}'{hint}; there is {listed}"
                )
                return None
        resolve = functools.partial(self.llms.resolve, choice.llm, choice.model, beside=self.local)
        resolved = self.reading.attempt(path, resolve)
        if resolved is None:
            return None
        llm, model = resolved
        if not hasattr(llm.provider, "embed"):
            self.reading.problem((*path, "llm"), f"{llm.name} (provider {llm.provider.name}) cannot make embeddings")
        elif not model:
            self.reading.problem(path, f"no model: write 'model' here, or 'default_model' in llms.{llm.name}")
        else:
            return self._shared(llm, model)
        return None

    def _local_embedder(self) -> StoreEmbedder | None:
        for name in self.local:
            return self._shared(*Llms().resolve(name, beside=self.local))  # never an entry of that name
        return None

    def _shared(self, llm: LLM, model: str) -> StoreEmbedder:
        """Return a model's embedder, shared by all stores because it caches questions."""
        return self._embedders.setdefault((llm.name, model), StoreEmbedder(llm, model))

    def _reranker(self, name: str, path: tuple[str, ...]) -> Reranker | None:
        type_ = self.host.rerankers.by_name.get(name)
        if type_ is None:
            self.reading.problem(path, self.host.rerankers.missing(name))
            return None
        reranker: Reranker | None = self.reading.attempt(path, type_.create)
        if reranker is not None:
            self.held.append(reranker)
        return reranker
