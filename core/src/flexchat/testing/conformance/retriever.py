"""The laws of a retriever: a document store."""

from __future__ import annotations

import asyncio
import functools
import math
from collections.abc import Mapping
from typing import ClassVar

from ...plugin import Document, RetrievalHits, Retriever
from .laws import Conformance, law, require, shown
from .running import check_light, in_time
from .samples import said


class RetrieverConformance(Conformance):
    """What every retriever keeps.

    Attributes:
        question: What is searched for; at least three passages of make_retriever's store fit.
        collection: A collection that holds some, not all, of those passages, where there are "collections".
        plugin: The module of the entry point, for the law about imports.
        deadline_s: Seconds one query may take.
    """

    capabilities: ClassVar[Mapping[str, str]] = {
        "collections": "documents belong to collections, one of which is named in collection"
    }
    question: ClassVar[str] = ""
    collection: ClassVar[str] = ""
    plugin: ClassVar[str] = ""
    deadline_s: ClassVar[float] = 5.0

    def make_retriever(self) -> Retriever:
        """Return a store in which the question finds at least three passages."""
        raise NotImplementedError(f"{type(self).__name__} must write make_retriever")

    def make_empty(self) -> Retriever:
        """Return a store without a document."""
        raise NotImplementedError(f"{type(self).__name__} must write make_empty")

    async def found(
        self, text: str | None = None, *, collection: str | None = None, top_k: int = 10, empty: bool = False
    ) -> RetrievalHits:
        """Ask a fresh store, and close it."""
        store = self.make_empty() if empty else self.make_retriever()
        try:
            asked = self.question if text is None else text
            query = functools.partial(store.query, asked, collection=collection, top_k=top_k)
            hits: RetrievalHits = await in_time(query, self.deadline_s, f"the question {asked!r}")
            return hits
        finally:
            await store.aclose()

    @law()
    async def test_hits_have_their_shape(self) -> None:
        """A query returns RetrievalHits: documents, a distance each, smaller is nearer, best first."""
        hits = await self.found()
        require(isinstance(hits, RetrievalHits), f"query returns RetrievalHits, got {shown(hits)}")
        require(
            isinstance(hits.documents, tuple) and all(isinstance(d, Document) for d in hits.documents),
            f"documents is a tuple of Document, got {shown(hits.documents)}",
        )
        count = len(hits.documents)
        require(count >= 3, f"the question must find at least three passages, it finds {count}")
        require(len(hits.distances) == count, f"{count} documents have {len(hits.distances)} distances")
        fine = all(isinstance(d, float | int) and math.isfinite(d) and d >= 0 for d in hits.distances)
        require(fine, f"a distance is a finite number from 0, got {shown(hits.distances)}")
        require([*hits.distances] == sorted(hits.distances), f"the best comes first: distances {shown(hits.distances)}")
        require(all(d.text.strip() for d in hits.documents), "a document without text says nothing to a model")

    @law()
    async def test_no_more_than_top_k_come(self) -> None:
        """top_k is the most: fewer only where there are fewer, and those are the best ones."""
        many = (await self.found(top_k=1000)).documents
        for top_k in (1, 2, 3):
            found = (await self.found(top_k=top_k)).documents
            require(len(found) == top_k, f"top_k={top_k} gave {len(found)} of {len(many)} passages")
            require(found == many[:top_k], f"top_k={top_k} gave other passages than the first {top_k} of all")

    @law()
    async def test_an_unknown_collection_has_nothing(self) -> None:
        """A collection that is not there gives no hits, or an error that names it; never passages of another."""
        name = "no-such-collection-anywhere"
        try:
            hits = await self.found(collection=name)
        except (asyncio.CancelledError, AssertionError):
            raise
        except Exception as error:  # noqa: BLE001  whatever the store's own error is
            require(name in str(error), f"the error must name the collection {name!r}: {shown(str(error))}")
            return
        require(not hits.documents, f"there is no collection {name!r}, and it gave {shown(hits.documents)}")

    @law("collections")
    async def test_a_collection_is_searched_alone(self) -> None:
        """collection limits the search to it; None searches all."""
        all_of_them, some = await self.found(), await self.found(collection=self.collection)
        wrong = [d for d in some.documents if d.collection != self.collection]
        require(some.documents, f"the question finds nothing in the collection {self.collection!r}")
        require(not wrong, f"a search in {self.collection!r} gave {shown(wrong)}")
        require(
            len(some.documents) < len(all_of_them.documents),
            f"collection={self.collection!r} gave as many passages as a search in all",
        )

    @law()
    async def test_an_empty_store_has_nothing(self) -> None:
        """A store without a document answers with no hits; it does not fail."""
        hits = await self.found(empty=True)
        require(not hits.documents and not hits.distances, f"an empty store gave {shown(hits)}")

    @law(draw=said)
    async def test_any_question_is_answered(self, text: str) -> None:
        """People and models ask anything: whatever the text, there is an answer, and nothing is raised."""
        try:
            hits = await self.found(text)
        except (asyncio.CancelledError, AssertionError):
            raise
        except Exception as error:
            raise AssertionError(f"the question {text!r} raises {type(error).__name__}: {error}") from error
        require(isinstance(hits, RetrievalHits), f"the question {text!r} gave {shown(hits)}")

    @law()
    async def test_questions_side_by_side_do_not_mix(self) -> None:
        """One store serves many turns at once, and the same question has the same answer."""
        expected = await self.found(top_k=3)
        store = self.make_retriever()
        try:
            asked = [store.query(self.question, collection=None, top_k=3 - i % 3) for i in range(9)]
            for number, hits in enumerate(await asyncio.gather(*asked)):
                wanted = expected.documents[: 3 - number % 3]
                require(hits.documents == wanted, f"question {number} of nine at once got {shown(hits.documents)}")
        finally:
            await store.aclose()

    @law()
    def test_its_module_is_light(self) -> None:
        """Every command imports every plugin: what is heavy is imported where it is used."""
        check_light(self.plugin)
