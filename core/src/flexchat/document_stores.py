"""Opening document stores from the entries of stores, each with its embedder and reranker.

Vectors come from one of the config's services, or from a model on this machine.
"""

from __future__ import annotations

import asyncio
import functools
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import attrs

from .config.model import Config, EmbeddingChoice
from .domain.text import scrub
from .errors import did_you_mean
from .llms.llm import LLM, Llms, LocalModels
from .llms.open import Configured
from .plugin.contracts import DocumentStoreContext, Reranker, Retriever
from .plugin.foreign import contained
from .plugin.host import PluginHost

if TYPE_CHECKING:
    from .config.reading import ReadConfig


MAX_QUERIES = 256  # vectors of questions that are cached: one message asks several collections the same


@attrs.define
class _PendingVector:
    """A question whose vector is pending or known, and how many callers wait for it."""

    task: asyncio.Task[Sequence[float]]
    waiting: int = 0


class StoreEmbedder:
    """An Embedder over a service whose provider has ``embed``."""

    def __init__(self, llm: LLM, model: str) -> None:
        self._llm = llm
        self._model = model
        self._queries: OrderedDict[str, _PendingVector] = OrderedDict()

    @property
    def name(self) -> str:
        """Provider and model, which make vectors comparable."""
        return f"{self._llm.provider.name}/{self._model}"

    async def embed(self, texts: Sequence[str], *, purpose: Literal["query", "document"]) -> Sequence[Sequence[float]]:
        """Return one vector for each text; see Embedder."""
        if purpose == "query" and len(texts) == 1:
            return [await self._query_vector(texts[0])]
        return await self._embed(texts, purpose)

    async def _query_vector(self, text: str) -> Sequence[float]:
        query = self._queries.get(text)
        if query is None or query.task.get_loop() is not asyncio.get_running_loop():
            query = self._queries[text] = _PendingVector(asyncio.ensure_future(self._embed_one(text)))
            query.task.add_done_callback(lambda done: self._forget_failed(text, done))
            while len(self._queries) > MAX_QUERIES:
                self._queries.popitem(last=False)
        self._queries.move_to_end(text)
        query.waiting += 1
        try:
            return await asyncio.shield(query.task)  # one caller that stops waiting must not stop the others
        finally:
            query.waiting -= 1
            if not query.waiting and not query.task.done():  # its last waiter is gone
                self._forget(text, query.task)
                query.task.cancel()

    def _forget_failed(self, text: str, task: asyncio.Task[Sequence[float]]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._forget(text, task)

    def _forget(self, text: str, task: asyncio.Task[Sequence[float]]) -> None:
        entry = self._queries.get(text)
        if entry is not None and entry.task is task:
            del self._queries[text]

    async def _embed_one(self, text: str) -> Sequence[float]:
        return (await self._embed([text], "query"))[0]

    async def _embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Sequence[Sequence[float]]:
        # Services refuse a blank text; a dot's vector is as good as any.
        inputs = [scrub(text) if text.strip() else "." for text in texts]
        with contained():
            answer = await self._llm.embed(inputs, self._model, purpose=purpose)
        return answer.vectors


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
                text = f"nothing makes embeddings as '{choice.llm}'{did_you_mean(choice.llm, names)}"
                self.reading.problem((*path, "llm"), f"{text}; there is {', '.join(names) or 'none'}")
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
