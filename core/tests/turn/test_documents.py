"""Phase 2: which collections fit, and how well."""

import asyncio
import logging

import anyio
import pytest
from flexchat.config.model import StoreEntry
from flexchat.domain import ChatRequest, Collection, CollectionChoice, Document, RagResults, RetrievalHits
from flexchat.errors import RetrievalError
from flexchat.turn import documents
from flexchat.turn.detection import PhaseNotes, Topic
from flexchat.turn.documents import DocumentCollector, search_text
from hypothesis import given
from hypothesis import strategies as st

TOPIC = Topic("fares", "new_topic")


class Shelf:
    """A store whose collections have a distance each."""

    def __init__(self, distances, **thresholds):
        self.distances = distances
        self.thresholds = thresholds
        self.asked = []

    async def collections(self):
        return [Collection(name=name) for name in self.distances]

    async def query(self, text, *, collection, top_k, where=None):
        self.asked.append((text, collection, top_k))
        distance = self.distances[collection]
        if isinstance(distance, Exception):
            raise distance
        if callable(distance):
            distance = await distance()
        document = Document(text=f"text of {collection}", title=collection)
        return RetrievalHits(documents=(document,), distances=(distance,), **self.thresholds)

    async def aclose(self):
        pass


def entry(**keys):
    return StoreEntry(provider="shelf", **keys)


async def collect(stores, entries=None, *, choice=None, message="What is a ticket?", topic=TOPIC, timeout_s=5.0):
    entries = entries or {name: entry() for name in stores}
    notes = PhaseNotes()
    collector = DocumentCollector(stores, entries, timeout_s=timeout_s)
    return await collector.collect(ChatRequest(user_message=message, collections=choice), topic, notes), notes


@pytest.mark.parametrize(
    ("distance", "keys", "collection", "result"),
    [
        (0.2, {}, {}, "match"),
        (0.25, {}, {}, "partial"),
        (0.49, {}, {}, "partial"),
        (0.5, {}, {}, "none"),
        (0.3, {"match_threshold": 0.4}, {}, "match"),
        (0.3, {"match_threshold": 0.4}, {"match_threshold": 0.1}, "partial"),
        (0.0, {"match_threshold": 0}, {}, "partial"),
        (0.0, {"match_threshold": 0, "partial_threshold": 0}, {}, "none"),
        (0.2, {"match_threshold": 0.9}, {"match_threshold": 0.0}, "partial"),
        (0.6, {"match_threshold": 0.9, "partial_threshold": 0.1}, {}, "match"),
        (0.6, {}, {"partial_threshold": 0.7}, "partial"),
        (1.2, {"partial_threshold": 2}, {}, "partial"),
    ],
)
async def test_thresholds_decide_the_collections_before_the_services(distance, keys, collection, result):
    """Below is a match or a partial one; 0 is a threshold like any other."""
    found, _ = await collect({"docs": Shelf({"faq": distance}, **collection)}, {"docs": entry(**keys)})

    assert found.result == result


@pytest.mark.parametrize(
    ("embedding", "keys", "result"),
    [
        ("minilm/m", {}, "match"),
        ("minilm/m", {"match_threshold": 0.3}, "partial"),
        ("other/m", {}, "partial"),
        (None, {}, "partial"),
    ],
)
async def test_where_nobody_says_otherwise_the_thresholds_are_those_of_the_embedding_model(embedding, keys, result):
    collector = DocumentCollector(
        {"docs": Shelf({"faq": 0.4}, embedding=embedding)},
        {"docs": entry(**keys)},
        {"minilm/m": (0.5, 0.7)},
        timeout_s=5,
    )

    found = await collector.collect(ChatRequest(user_message="x"), TOPIC, PhaseNotes())

    assert found.result == result


async def test_documents_too_far_away_do_not_come_along():
    class Several(Shelf):
        async def query(self, text, *, collection, top_k, where=None):
            documents = tuple(Document(text=name) for name in ("near", "far", "half"))
            return RetrievalHits(documents=documents, distances=(0.1, 0.9, 0.4))

    found, _ = await collect({"docs": Several({"faq": 0.1})})

    assert [document.text for document in found.hits[0].documents] == ["near", "half"]
    assert found.hits[0].distances == (0.1, 0.4)


async def test_the_nearest_match_of_all_wins_not_the_first():
    stores = {"a": Shelf({"x": 0.2, "y": 0.4}), "b": Shelf({"z": 0.1})}

    found, _ = await collect(stores)

    assert [(hit.store, hit.collection, hit.distance) for hit in found.hits] == [("b", "z", 0.1)]
    assert found.result == "match"


async def test_all_partial_results_count_the_nearest_first():
    found, _ = await collect({"a": Shelf({"x": 0.45, "y": 0.9}), "b": Shelf({"z": 0.3})})

    assert found.result == "partial"
    assert [hit.category for hit in found.hits] == ["b/z", "a/x"]
    assert found.hits[0].documents[0].collection == "z"


async def test_collections_are_asked_side_by_side():
    """Each waits for the other: one after the other they would never end."""
    first, second = anyio.Event(), anyio.Event()

    async def one():
        first.set()
        await second.wait()
        return 0.1

    async def two():
        second.set()
        await first.wait()
        return 0.2

    with anyio.fail_after(5):
        found, _ = await collect({"a": Shelf({"x": one, "y": two})})

    assert found.hits[0].collection == "x"


async def test_a_store_that_fails_is_left_out_with_a_warning():
    shelf = Shelf({"good": 0.1, "bad": RetrievalError("the disk is gone"), "worse": ValueError("oops")})

    found, notes = await collect({"docs": shelf})

    assert found.hits[0].collection == "good"
    assert notes.warnings == [
        "retrieval: docs/bad was left out: the disk is gone",
        "retrieval: docs/worse was left out: ValueError: oops",
    ]


async def test_a_store_that_cannot_list_its_collections_is_left_out(caplog):
    class Away(Shelf):
        async def collections(self):
            raise RetrievalError("no connection")

    with caplog.at_level(logging.WARNING):
        found, notes = await collect({"away": Away({}), "docs": Shelf({"faq": 0.1})})

    assert found.hits[0].store == "docs"
    assert notes.warnings == ["retrieval: away was left out: no connection"]
    assert "no connection" in caplog.text


@pytest.mark.usefixtures("virtual_time")
async def test_a_store_that_hangs_costs_the_time_of_a_phase_only():
    found, notes = await collect({"docs": Shelf({"slow": anyio.sleep_forever, "faq": 0.1})}, timeout_s=0.02)

    assert found.hits[0].collection == "faq"
    assert notes.warnings == ["retrieval: docs/slow was left out: the answer took too long"]


@pytest.mark.parametrize("distances", [(), (0.1, 0.2), (float("nan"),)])
async def test_a_store_that_breaks_its_contract_is_left_out(distances):
    class Broken(Shelf):
        async def query(self, text, *, collection, top_k, where=None):
            return RetrievalHits(documents=(Document(text="x"),), distances=distances)

    found, notes = await collect({"docs": Broken({"faq": 0.1})})

    assert found == RagResults()
    assert "broke its contract" in notes.warnings[0]


async def test_the_caller_may_choose_collections_and_each_is_asked_once():
    shelf = Shelf({"faq": 0.1, "manual": 0.1})
    choice = (CollectionChoice(store="docs", collection="manual"),) * 2

    _, notes = await collect({"docs": shelf}, choice=choice)

    assert [name for _, name, _ in shelf.asked] == ["manual"]
    assert notes.input["collections"] == ["docs/manual"]


async def test_a_service_may_be_pinned_to_one_collection_and_say_how_many_passages():
    shelf = Shelf({"faq": 0.1, "manual": 0.1})

    await collect({"docs": shelf}, {"docs": entry(collection="faq", top_k=7)})

    assert shelf.asked == [("What is a ticket?", "faq", 7)]


async def test_a_description_comes_from_the_collection_else_from_the_service():
    one, _ = await collect({"docs": Shelf({"faq": 0.1}, description="answers")})
    two, _ = await collect({"docs": Shelf({"faq": 0.1})}, {"docs": entry(description="all we know")})
    three, _ = await collect({"docs": Shelf({"faq": 0.1})})

    assert [found.hits[0].description for found in (one, two, three)] == [
        "answers",
        "all we know",
        "Information about faq",
    ]


@pytest.mark.parametrize(
    ("message", "topic", "text"),
    [
        ("What is a ticket?", Topic("tickets", "new_topic"), "What is a ticket?"),
        ("And what does it cost?", Topic("annual ticket", "continuation"), "annual ticket: And what does it cost?"),
        (
            "Does the Annual Ticket cost more?",
            Topic("annual ticket", "continuation"),
            "Does the Annual Ticket cost more?",
        ),
    ],
)
def test_a_follow_up_is_searched_with_its_topic_and_its_words(message, topic, text):
    assert search_text(message, topic) == text


@given(st.lists(st.floats(0, 2), max_size=6), st.floats(0, 2), st.floats(0, 2))
async def test_the_result_is_that_of_the_nearest_document(distances, match, partial):
    """However many collections there are: a match if one is near enough, else partial, else none."""
    shelf = Shelf({str(index): distance for index, distance in enumerate(distances)})

    found, _ = await collect({"docs": shelf}, {"docs": entry(match_threshold=match, partial_threshold=partial)})

    if any(d < match for d in distances):
        assert (found.result, found.hits[0].distance) == ("match", min(distances))
    else:
        assert [hit.distance for hit in found.hits] == sorted(d for d in distances if d < partial)
        assert found.result == ("partial" if found.hits else "none")


async def test_a_pinned_service_has_no_other_collection():
    """Whoever asks for one is told."""
    shelf = Shelf({"faq": 0.1, "secret": 0.1})
    choice = (CollectionChoice(store="docs", collection="secret"),)

    found, notes = await collect({"docs": shelf}, {"docs": entry(collection="faq")}, choice=choice)

    assert found == RagResults()
    assert shelf.asked == []
    assert notes.warnings == ["retrieval: docs/secret was left out: docs uses only 'faq'"]


async def test_listing_and_asking_share_the_time_of_the_phase(monkeypatch):
    """What listing took is no longer there for asking."""
    clock, granted, wait_in_time = [0.0], [], documents.wait_in_time

    class Slow(Shelf):
        async def collections(self):
            clock[0] += 4
            return await super().collections()

    def watched(seconds, work):
        granted.append(seconds)
        return wait_in_time(seconds, work)

    monkeypatch.setattr(documents.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(documents, "wait_in_time", watched)
    await collect({"docs": Slow({"faq": 0.1})}, timeout_s=5.0)

    assert granted == [5.0, 1.0]


async def test_a_store_that_is_cancelled_by_itself_is_left_out():
    async def cancelled():
        raise asyncio.CancelledError

    found, notes = await collect({"docs": Shelf({"faq": cancelled, "web": 0.1})})

    assert [hit.collection for hit in found.hits] == ["web"]
    assert "it was cancelled, though the turn was not" in notes.warnings[0]
