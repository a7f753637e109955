"""Phase 2: the documents that match the message, and those that its answer was based on."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import TypeVar

import attrs

from ..config.model import StoreEntry
from ..domain import ChatRequest, Citation, CollectionChoice, CollectionHits, RagResults, RetrievalHits
from ..errors import FlexChatError, RetrievalError
from ..plugin.call import Cited
from ..plugin.contracts import Retriever
from ..plugin.foreign import contained, error_name
from .detection import PhaseNotes, Topic, reason

log = logging.getLogger(__name__)

T = TypeVar("T")

DEFAULT_THRESHOLDS = (0.25, 0.5)
"""Distances below which a hit is a match or a partial match, unless the collection, the store or the embedder sets
others.

Source: the original's documentation."""


_MIN_NAME_CHARS = 4
"""Characters a title needs to be recognised in a text."""


@attrs.frozen
class DocumentCollector:
    """Queries the document stores.

    Args:
        stores, entries: By name in ``stores``, in config order.
        thresholds: Thresholds (match, partial) that suit an embedder, by its name.
        timeout_s: Seconds all stores together may take.
    """

    _stores: Mapping[str, Retriever]
    _entries: Mapping[str, StoreEntry]
    _thresholds: Mapping[str, tuple[float, float]] = attrs.field(factory=dict)
    _timeout_s: float = attrs.field(kw_only=True)

    async def collect(self, request: ChatRequest, topic: Topic, notes: PhaseNotes) -> RagResults:
        """Query all chosen collections at once: the nearest match wins; without one, all partial matches count.

        A store that fails is left out, with a warning.
        """
        question = search_text(request.user_message, topic)
        # One limit for listing the collections and for querying them.
        until = time.perf_counter() + notes.seconds(self._timeout_s)
        chosen = await self._chosen(request.collections, until, notes)
        notes.input = {"query": question, "collections": [_describe(choice) for choice in chosen]}
        answers = await asyncio.gather(*(self._ask(choice, question, until, notes) for choice in chosen))
        hits = sorted((hit for hit in answers if hit is not None), key=lambda hit: hit.distance)
        matches = [hit for hit in hits if hit.result == "match"]
        if matches:
            return RagResults(result="match", hits=(matches[0],))
        return RagResults(result="partial" if hits else "none", hits=tuple(hits))

    async def _chosen(
        self, choices: Sequence[CollectionChoice] | None, until: float, notes: PhaseNotes
    ) -> list[CollectionChoice]:
        """Return the collections to query, each once: those chosen, or all; a store may be pinned to one."""
        if choices is None:
            choices = [CollectionChoice(store=name) for name in self._stores]
        lists = await asyncio.gather(*(self._collections(choice, until, notes) for choice in choices))
        return [*dict.fromkeys(choice for choices in lists for choice in choices)]

    async def _collections(
        self, choice: CollectionChoice, until: float, notes: PhaseNotes
    ) -> Iterable[CollectionChoice]:
        store = choice.store
        if store not in self._stores:
            configured = ", ".join(self._stores)
            notes.warn(f"retrieval: no document store is called '{store}' (configured: {configured})")
            return []
        pinned = self._entry(store).collection
        if pinned is not None and choice.collection not in (None, pinned):
            notes.warn(f"retrieval: {_describe(choice)} was left out: {store} uses only '{pinned}'")
            return []
        if choice.collection is not None:
            return [choice]
        if pinned is not None:
            return [CollectionChoice(store=store, collection=pinned)]
        try:
            infos = await wait_in_time(until - time.perf_counter(), self._stores[store].collections())
        except Exception as error:  # noqa: BLE001  a plugin's fault must not end the turn
            self._failed(store, error, notes)
            return []
        return [CollectionChoice(store=store, collection=each.name) for each in infos]

    async def _ask(
        self, choice: CollectionChoice, question: str, until: float, notes: PhaseNotes
    ) -> CollectionHits | None:
        entry = self._entry(choice.store)
        try:
            query = self._stores[choice.store].query(question, collection=choice.collection, top_k=entry.top_k)
            hits = await wait_in_time(until - time.perf_counter(), query)
            return classify_hits(hits, choice, entry, self._thresholds.get(hits.embedding or "", DEFAULT_THRESHOLDS))
        except Exception as error:  # noqa: BLE001  a plugin's fault must not end the turn
            self._failed(_describe(choice), error, notes)
            return None

    def _entry(self, store: str) -> StoreEntry:
        return self._entries.get(store) or StoreEntry(provider="")

    def _failed(self, what: str, error: Exception, notes: PhaseNotes) -> None:
        is_ours = isinstance(error, FlexChatError | TimeoutError)
        left_out = f"retrieval: {what} was left out"
        public = error.public if isinstance(error, FlexChatError) else None
        why = reason(error) if is_ours else error_name(error)
        notes.warn(f"{left_out}: {public or why}")
        log.warning("%s", notes.mask(f"{left_out}: {why}"))
        if not is_ours:
            log.debug("retrieval: %s", what, exc_info=error)


def search_text(message: str, topic: Topic) -> str:
    """Return the text to search the stores for, with the topic that the message continues.

    "And what does it cost?" names no subject of its own, and the topic alone would leave out the question.
    """
    if topic.status == "new_topic" or topic.text.casefold() in message.casefold():
        return message
    return f"{topic.text}: {message}"


def classify_hits(
    hits: RetrievalHits, choice: CollectionChoice, entry: StoreEntry, usual: tuple[float, float] = DEFAULT_THRESHOLDS
) -> CollectionHits | None:
    """Class the hits of one collection by their distance; None if even the nearest is too far.

    The collection's own thresholds take precedence over the store's. 0 is a valid threshold: nothing is below it.
    Only documents that would each be a match or a partial match on their own count. Raises RetrievalError if the store
    broke its contract.
    """
    if len(hits.documents) != len(hits.distances) or not all(map(math.isfinite, hits.distances)):
        raise RetrievalError("the store broke its contract: every document needs a distance, a finite number")
    if not hits.documents:
        return None
    nearest = min(hits.distances)
    match = _first(hits.match_threshold, entry.match_threshold, usual[0])
    partial = _first(hits.partial_threshold, entry.partial_threshold, usual[1])
    near = [pair for pair in zip(hits.documents, hits.distances, strict=True) if pair[1] < max(match, partial)]
    if not near:
        return None
    collection = choice.collection
    about = hits.description or entry.description or f"Information about {collection or choice.store}"
    return CollectionHits(
        result="match" if nearest < match else "partial",
        store=choice.store,
        collection=collection,
        documents=tuple(attrs.evolve(d, collection=d.collection or collection) for d, _ in near),
        distances=tuple(distance for _, distance in near),
        description=about,
    )


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)


def _describe(choice: CollectionChoice) -> str:
    return f"{choice.store}/{choice.collection}" if choice.collection else choice.store


async def wait_in_time(seconds: float, work: Awaitable[T]) -> T:
    """Await a plugin's work. Raises TimeoutError, or a ForeignError for anything that is not an Exception."""
    async with asyncio.timeout(seconds):
        with contained():
            return await work


def citations_of(answer: str, rag: RagResults, in_prompt: bool, cited: Sequence[Cited]) -> tuple[Citation, ...]:
    """Return the citations of a turn: those of the prompt first, then what tools cited; each passage once."""
    passages: list[tuple[CollectionHits | RetrievalHits, str, str]] = []
    if in_prompt:
        passages += [(hit, hit.store, "prompt") for hit in rag.hits]
    passages += [(each.hits, each.store, each.tool) for each in cited]
    citations: dict[tuple[str, str | None, str | None], Citation] = {}
    folded = answer.casefold() if passages else ""
    for hits, store, via in passages:
        for document, distance in zip(hits.documents, hits.distances, strict=True):
            key = (document.title, document.source, document.collection)
            if key not in citations:
                citations[key] = Citation(
                    title=document.title,
                    source=document.source,
                    collection=document.collection,
                    store=store,
                    distance=round(distance, 6),
                    named=any(_stands_in(name, folded) for name in (document.title, document.source)),
                    via=via,
                )
    return tuple(citations.values())


def _stands_in(name: str | None, folded: str) -> bool:
    if name is None or len(name) < _MIN_NAME_CHARS or name == "Untitled":
        return False
    file = name.replace("\\", "/").rsplit("/", 1)[-1]
    return name.casefold() in folded or (len(file) >= _MIN_NAME_CHARS and file.casefold() in folded)
