"""The laws of a retriever: a store that can be searched."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

from flexchat.store import Collection, Document, FilterError, RetrievalHits, Retriever, Where, holds, read_filter

from .law import law, raising_only, refused, require, show
from .running import PluginConformance, in_time
from .samples import user_texts

_UNREADABLE: tuple[Any, ...] = (
    {"$nor": [{"a": 1}]},
    {"a": {"$like": "x"}},
    {"$or": []},
    {"a": {"$in": 1}},
    {"a": None},
)
NOWHERE = "no-such-collection-anywhere"


class RetrieverConformance(PluginConformance):
    """What every retriever keeps.

    Attributes:
        question: The search text; at least three passages in make_retriever's store fit it.
        collection: A collection with some, but not all, of those passages, if there are "collections".
        deadline_s: Seconds one query may take.
    """

    capabilities: ClassVar[Mapping[str, str]] = {
        "collections": "documents belong to collections, one of which is named in collection",
        "sorted_distances": "hits are ranked by their distances alone",
    }
    question: ClassVar[str] = ""
    collection: ClassVar[str] = ""
    deadline_s: ClassVar[float] = 5.0

    def make_retriever(self) -> Retriever:
        """Return a store in which the question finds at least three passages."""
        raise NotImplementedError(f"{type(self).__name__} must write make_retriever")

    def make_empty(self) -> Retriever:
        """Return a store without a document."""
        raise NotImplementedError(f"{type(self).__name__} must write make_empty")

    @contextlib.asynccontextmanager
    async def opened(self, *, empty: bool = False) -> AsyncIterator[Any]:
        """Open a store for the duration of a law: make_retriever's, or make_empty's."""
        async with contextlib.aclosing(self.make_empty() if empty else self.make_retriever()) as store:
            yield store

    async def ask(
        self,
        store: Retriever,
        text: str | None = None,
        *,
        collection: str | None = None,
        top_k: int = 10,
        where: Where | None = None,
    ) -> RetrievalHits:
        """Query a store with the question, or with another text, within the deadline."""
        question = self.question if text is None else text
        query = functools.partial(store.query, question, collection=collection, top_k=top_k, where=where)
        hits: RetrievalHits = await in_time(query, self.deadline_s, f"the question {question[:100]!r}")
        return hits

    @law()
    async def test_hits_have_their_shape(self, store: Any) -> None:
        """A query returns RetrievalHits: documents, and a distance for each, from 0."""
        hits = await self.ask(store)
        require(isinstance(hits, RetrievalHits), f"query returns RetrievalHits, got {show(hits)}")
        problem = f"documents is a tuple of Document, got {show(hits.documents)}"
        require(isinstance(hits.documents, tuple) and all(isinstance(d, Document) for d in hits.documents), problem)
        count = len(hits.documents)
        require(count >= 3, f"the question must find at least three passages, it finds {count}")
        require(len(hits.distances) == count, f"{count} documents have {len(hits.distances)} distances")
        fine = all(isinstance(d, float | int) and math.isfinite(d) and d >= 0 for d in hits.distances)
        require(fine, f"a distance is a finite number from 0, got {show(hits.distances)}")
        require(all(d.text.strip() for d in hits.documents), "a document without text says nothing to a model")

    @law("sorted_distances")
    async def test_the_nearest_comes_first(self, store: Any) -> None:
        """A store that ranks by distance alone returns the smallest first."""
        distances = (await self.ask(store)).distances
        require([*distances] == sorted(distances), f"the best comes first: distances {show(distances)}")

    @law()
    async def test_no_more_than_top_k_come(self, store: Any) -> None:
        """top_k is the most: fewer only where there are fewer, and those are the best ones."""
        many = (await self.ask(store, top_k=1000)).documents
        for top_k in (1, 2, 3):
            documents = (await self.ask(store, top_k=top_k)).documents
            require(len(documents) == top_k, f"top_k={top_k} gave {len(documents)} of {len(many)} passages")
            require(documents == many[:top_k], f"top_k={top_k} gave other passages than the first {top_k} of all")

    @law()
    async def test_an_unknown_collection_has_nothing(self, store: Any) -> None:
        """A collection that is not there gives no hits, or an error that names it; never passages of another."""
        try:
            hits = await self.ask(store, collection=NOWHERE)
        except AssertionError:
            raise
        except Exception as error:  # noqa: BLE001  whatever the store's own error is
            require(NOWHERE in str(error), f"the error must name the collection {NOWHERE!r}: {show(str(error))}")
            return
        require(not hits.documents, f"there is no collection {NOWHERE!r}, and it gave {show(hits.documents)}")

    @law("collections")
    async def test_a_collection_is_searched_alone(self, store: Any) -> None:
        """collection limits the search to it; None searches all."""
        all_of_them = await self.ask(store)
        some = await self.ask(store, collection=self.collection)
        wrong = [d for d in some.documents if d.collection != self.collection]
        require(some.documents, f"the question finds nothing in the collection {self.collection!r}")
        require(not wrong, f"a search in {self.collection!r} gave {show(wrong)}")
        problem = f"collection={self.collection!r} gave as many passages as a search in all"
        require(len(some.documents) < len(all_of_them.documents), problem)

    @law()
    async def test_collections_are_listed(self, store: Any) -> None:
        """collections() returns a Collection for every one that hits name, by name, with how many documents it has."""
        listed: Sequence[Collection] = await store.collections()
        hits = (await self.ask(store, top_k=1000)).documents
        require(all(isinstance(c, Collection) for c in listed), f"collections() returns Collection, got {show(listed)}")
        counts = {c.name: c.documents for c in listed}
        require([*counts] == sorted(c.name for c in listed), f"collections come by name, each once: {show([*counts])}")
        for name in {d.collection for d in hits if d.collection is not None}:
            count = sum(d.collection == name for d in hits)
            require(name in counts, f"hits come from {name!r}, which collections() does not have: {show([*counts])}")
            require(counts[name] >= count, f"{name!r} has {counts[name]} documents, and {count} were found in it")

    @law()
    async def test_filters_mean_what_they_say(self, store: Any) -> None:
        """where lets exactly those documents through that flexchat.store.holds lets through."""
        everything = (await self.ask(store, top_k=1000)).documents
        for where in filters_about(everything):
            documents = (await self.ask(store, top_k=1000, where=where)).documents
            condition = read_filter(where)
            right = [d for d in everything if holds(condition, d.metadata)]
            strange = [d for d in documents if d not in right]
            require(not strange, f"where={where!r} lets through {show(strange)}")
            missing = [d for d in right if d not in documents]
            require(not missing, f"where={where!r} leaves out {show(missing)}")

    @law()
    async def test_a_filter_that_cannot_be_read_is_refused(self, store: Any) -> None:
        """Every store refuses it with FilterError: read it with flexchat.store.read_filter."""
        for where in _UNREADABLE:
            await refused(self.ask(store, where=where), FilterError, f"where={where!r}")

    @law(empty=True)
    async def test_an_empty_store_has_nothing(self, store: Any) -> None:
        """A store without a document answers with no hits; it does not fail."""
        hits = await self.ask(store)
        require(not hits.documents and not hits.distances, f"an empty store gave {show(hits)}")

    @law(draw=lambda: _many(user_texts()["text"]), examples=6)
    async def test_any_question_is_answered(self, store: Any, questions: list[str]) -> None:
        """People and models ask anything: whatever the text, there is an answer, and nothing is raised."""
        for text in questions:
            with raising_only(what=f"the question {text!r}"):
                hits = await self.ask(store, text)
            require(isinstance(hits, RetrievalHits), f"the question {text!r} gave {show(hits)}")

    @law()
    async def test_questions_side_by_side_do_not_mix(self, store: Any) -> None:
        """One store serves many turns at once, and the same question has the same answer."""
        expected = await self.ask(store, top_k=3)
        queries = [store.query(self.question, collection=None, top_k=3 - i % 3) for i in range(9)]
        for number, hits in enumerate(await asyncio.gather(*queries)):
            right = expected.documents[: 3 - number % 3]
            require(hits.documents == right, f"question {number} of nine at once got {show(hits.documents)}")


def _many(strategy: Any) -> Mapping[str, Any]:
    """Return a strategy for some values at once: a store that is filled first is costly to open for each."""
    from hypothesis import strategies as st

    return {"questions": st.lists(strategy, min_size=4, max_size=8)}


_ELSEWHERE = "no such field"
_OF_ALL_KINDS: tuple[Any, ...] = (True, 1, 1.5, "1")


def filters_about(documents: Iterable[Document]) -> Iterator[Where]:
    """Yield filters: every operator for every value there is and some of other kinds, then some of these combined."""
    values: dict[str, list[Any]] = {_ELSEWHERE: []}
    for document in documents:
        for field, value in document.metadata.items():
            samples = values.setdefault(field, [])
            if isinstance(value, str | int | float) and value not in samples:
                samples.append(value)
    single = [
        condition
        for field, samples in values.items()
        for value in (*samples[:8], *_OF_ALL_KINDS)
        for condition in _about(field, value)
    ]
    yield {}
    yield from single
    for first, second in pairwise(single[::7]):
        yield {"$or": [first, second]}
        yield {"$and": [first, {"$or": [second, {_ELSEWHERE: {"$ne": 1}}]}]}
        yield {**first, **second}
    for field, samples in values.items():
        numbers = sorted(v for v in samples if isinstance(v, int | float) and not isinstance(v, bool))
        if len(numbers) > 1:
            yield {field: {"$gte": numbers[0], "$lt": numbers[-1]}}
        texts = [v for v in samples if isinstance(v, str)]
        yield {field: {"$in": texts or ["x", "y"]}}
        yield {field: {"$nin": texts or ["x", "y"]}}


def _about(field: str, value: Any) -> Iterator[Where]:
    yield {field: value}
    yield {field: {"$ne": value}}
    yield {field: {"$in": [value]}}
    yield {field: {"$nin": [value]}}
    if not isinstance(value, bool):
        for operator in ("$gt", "$gte", "$lt", "$lte"):
            yield {field: {operator: value}}
