"""The handler rag_query and the tool search_documents."""

import pytest
from flexchat.calls.calls import ToolExecutor, ToolParts
from flexchat.plugin import ToolContext
from flexchat.store import Document, RetrievalHits
from flexchat.tools.registry import ToolRegistry
from flexchat_internal.implementation import INTERNAL
from flexchat_internal.memory_retriever import MemoryConfig, MemoryRetriever
from flexchat_internal.rag_query import RAG_QUERY, SEARCH_DOCUMENTS, RagQueryError, rag_query


def store(*texts, collection="handbook"):
    documents = tuple(Document(text=t, title=t.split()[0], collection=collection) for t in texts)
    return MemoryRetriever(MemoryConfig(documents=documents))


class BrokenStore:
    async def query(self, text, *, collection, top_k, where=None):
        raise ConnectionError("refused")

    async def aclose(self):
        pass


def context_of(**stores):
    return ToolContext(tool=SEARCH_DOCUMENTS, stores=stores)


async def test_passages_come_with_all_that_is_known_of_them():
    """TE-14: title, source, collection, text and distance of each passage."""
    answer = await rag_query({"query": "holiday"}, context_of(a=store("Holiday is 30 days", "Salary is paid monthly")))

    (entry,) = answer["results"]
    assert {k: entry[k] for k in ("title", "source", "collection", "text")} == {
        "title": "Holiday",
        "source": None,
        "collection": "handbook",
        "text": "Holiday is 30 days",
    }
    assert 0 <= entry["distance"] < 1


class FixedStore:
    def __init__(self, *distances):
        self.distances = distances

    async def query(self, text, *, collection, top_k, where=None):
        documents = tuple(Document(text=f"{d}") for d in self.distances)
        return RetrievalHits(documents=documents[:top_k], distances=self.distances[:top_k], description="fixed")


async def test_one_store_keeps_its_own_order():
    """A store that ranks by more than distance knows better."""
    answer = await rag_query({"query": "dog"}, context_of(a=FixedStore(0.5, 0.1, 0.3)))

    assert [entry["distance"] for entry in answer["results"]] == [0.5, 0.1, 0.3]


async def test_several_stores_are_merged_by_rank_then_distance():
    """At most max_results of all stores together; each store's best comes before any other's second."""
    stores = context_of(a=FixedStore(0.9, 0.95), b=FixedStore(0.2, 0.1, 0.0))

    answer = await rag_query({"query": "dog", "max_results": 4}, stores)

    assert [entry["distance"] for entry in answer["results"]] == [0.2, 0.9, 0.1, 0.95]


async def test_what_is_returned_is_cited_and_nothing_else():
    """By store, in the order of the answer; a store of which nothing is returned is not named."""
    said = []

    class Context(ToolContext):
        def cite(self, service, hits):
            said.append((service, [d.text for d in hits.documents], hits.distances, hits.description))

    stores = {"a": FixedStore(0.9), "b": FixedStore(0.2, 0.1), "c": FixedStore()}
    await rag_query({"query": "dog", "max_results": 2}, Context(tool=SEARCH_DOCUMENTS, stores=stores))

    assert said == [("a", ["0.9"], (0.9,), "fixed"), ("b", ["0.2"], (0.2,), "fixed")]


async def test_a_collection_is_passed_on():
    """A store that does not have it says so, and the others answer."""
    stores = context_of(a=store("dog", collection="pets"), b=store("dog", collection="food"))

    answer = await rag_query({"query": "dog", "collection": "pets"}, stores)

    assert [entry["collection"] for entry in answer["results"]] == ["pets"]
    assert "no collection is called 'pets'" in answer["failed"]["b"]


async def test_a_store_that_fails_does_not_silence_the_others():
    """The answer names it and its reason; only where all fail the search does."""
    answer = await rag_query({"query": "dog"}, context_of(a=store("dog"), b=BrokenStore()))

    assert len(answer["results"]) == 1
    assert answer["failed"] == {"b": "refused"}
    with pytest.raises(RagQueryError, match="the search failed: b: refused"):
        await rag_query({"query": "dog"}, context_of(b=BrokenStore()))


async def test_without_a_store_the_error_says_what_to_configure():
    """A newcomer reads which table is missing."""
    with pytest.raises(RagQueryError, match="add an entry to stores"):
        await rag_query({"query": "dog"}, context_of())


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({}, "query must be a non-empty text"),
        ({"query": " "}, "query must be a non-empty text"),
        *(
            ({"query": "x", "max_results": n}, "whole number from 1 to 20")
            for n in (0, 21, 1.5, True, "3", None, float("nan"))
        ),
    ],
)
async def test_bad_parameters_are_refused_by_name(params, said):
    """Also where a tool's own schema lets them pass."""
    with pytest.raises(RagQueryError, match=said):
        await rag_query(params, context_of(a=store("x")))


async def test_the_ready_made_tool_searches():
    """Scenario: Execute internal tool (TE-14, TC-25): search_documents through the executor."""
    registry = ToolRegistry()
    registry.register(SEARCH_DOCUMENTS)
    handlers = {("internal", "rag_query"): RAG_QUERY}
    parts = ToolParts(implementation_types={"internal": INTERNAL}, handlers=handlers, stores={"a": store("dog")})
    executor = ToolExecutor(registry, parts)

    good = await executor.execute("search_documents", {"query": "dog"})
    bad = await executor.execute("search_documents", {"query": "dog", "max_results": 50})

    assert [entry["text"] for entry in good.result["results"]] == ["dog"]
    assert bad.error.startswith("Invalid parameters: ")
