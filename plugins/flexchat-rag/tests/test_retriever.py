"""What questions find: words, meaning, both; with embedders and rerankers that fail."""

import asyncio
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from flexchat.store import (
    Collection,
    Document,
    DocumentStoreContext,
    RetrievalError,
    Source,
    StorageError,
    UnknownCollectionError,
)
from flexchat_rag.config import SqliteConfig
from flexchat_rag.plugin import create
from flexchat_rag.retriever import SqliteStore
from flexchat_sdk import ProviderConnectionError
from flexchat_testing import HashingEmbedder

FOXES = (
    Document(id="red", text="The red fox runs over the hill", title="Foxes", metadata={"year": 2020}),
    Document(id="owl", text="An owl sleeps by day", metadata={"year": 2021}),
    Document(id="hill", text="Running hills and hills of running", metadata={"year": 2022}),
)


class Meaning:
    """Knows that foxes and vulpines are one: vectors of two numbers."""

    name = "test/meaning"

    def __init__(self):
        self.fails = None

    async def embed(self, texts, *, purpose):
        if self.fails:
            raise self.fails
        return [[1.0, 0.1] if "fox" in text.lower() or "vulpine" in text.lower() else [0.1, 1.0] for text in texts]


@pytest.fixture
def opened(tmp_path):
    stores = []

    def open_(search="hybrid", embedder=None, reranker=None, path="d.db"):
        context = DocumentStoreContext(name="docs", folder=tmp_path, embedder=embedder, reranker=reranker)
        stores.append(SqliteStore(SqliteConfig(path=path, search=search), context))
        return stores[-1]

    yield open_
    for store in stores:
        asyncio.run(store.aclose())


async def ids(store, text, **given):
    given = {"collection": "c", "top_k": 10, **given}
    return [document.id for document in (await store.query(text, **given)).documents]


async def test_words_are_found_in_any_form(opened):
    """Keyword search knows run and running for one, and leaves out what has no word in common."""
    store = opened("keyword")
    await store.add(FOXES, collection="c")
    assert await ids(store, "What runs?") == ["hill", "red"]
    assert await ids(store, "zebra") == []
    assert await ids(store, "who is the") == ["red"]  # a question of stop words alone is asked as it is


async def test_meaning_is_found_without_a_word_in_common(opened):
    """Vector search compares meanings; its distances are cosine distances, nearest first."""
    store = opened("vector", Meaning())
    await store.add(FOXES, collection="c")
    hits = await store.query("vulpine", collection="c", top_k=3)
    assert hits.documents[0].id == "red"
    assert hits.distances[0] == pytest.approx(0, abs=1e-6)
    assert list(hits.distances) == sorted(hits.distances)


async def test_hybrid_ranks_first_what_both_find(opened):
    """What words and meaning both find goes before what one of them finds; distances stay those of vectors."""
    store = opened("hybrid", Meaning())
    await store.add(FOXES, collection="c")
    hits = await store.query("vulpine hill", collection="c", top_k=3)
    assert hits.documents[0].id == "red"
    assert all(0 <= distance <= 2 for distance in hits.distances)
    assert hits.distances[0] == pytest.approx(0, abs=1e-6)


async def test_a_word_far_from_the_meaning_has_its_cosine_distance(opened):
    """What only words find is told with the distance of its vector, however many vectors are nearer."""
    store = opened("hybrid", Meaning())
    near = [Document(id=f"n{i}", text=f"fox {i}") for i in range(150)]
    await store.add([*near, Document(id="far", text="unheard-of")], collection="c")
    hits = await store.query("vulpine unheard", collection="c", top_k=100)
    (distance,) = [x for d, x in zip(hits.documents, hits.distances, strict=True) if d.id == "far"]
    assert distance == pytest.approx(1 - 0.2 / 1.01, abs=1e-6)


async def test_a_distance_of_words_is_between_0_and_1(opened):
    """Without vectors it is how much of the question is missing, a rare word more; 0 where all of its words are there.

    However many documents there are, and whatever other collections hold.
    """
    store = opened()
    await store.add(FOXES, collection="c")
    hits = await store.query("red fox hill", collection="c", top_k=10)
    assert [d.id for d in hits.documents] == ["red", "hill"]
    assert hits.distances[0] == 0 < hits.distances[1] <= 1
    assert min((await store.query("best pasta by owls", collection="c", top_k=3)).distances) > 0.5
    await store.add([Document(text=f"pasta by a red fox {i}") for i in range(30)], collection="other")
    beside = await store.query("red fox hill", collection="c", top_k=10)
    assert sorted(beside.distances) == sorted(hits.distances)
    everywhere = await store.query("red fox hill", collection=None, top_k=10)
    assert min(everywhere.distances) == 0
    await store.delete(collection="c", ids=["owl", "hill"])
    assert (await store.query("fox", collection="c", top_k=3)).distances == (0,)  # also where all have the word


async def test_words_and_vectors_read_the_title_that_metadata_hold(opened):
    """A collection's title_field is looked up when documents are added, before anything reads them."""
    embedder = HashingEmbedder()
    store = opened("hybrid", embedder)
    await store.save_collection(Collection(name="c", title_field="headline"))
    documents = [Document(id="a", text="about it", metadata={"headline": "Vulpine"})]
    assert await store.add(documents, collection="c") == 1
    assert embedder.asked == [("document", "Vulpine\nabout it")]
    assert await ids(opened("keyword"), "vulpine") == ["a"]
    await store.save_collection(Collection(name="c"))
    assert [d.title for d in await store.list(collection="c")] == ["Vulpine"]
    assert await store.add(documents, collection="c") == 1  # read anew
    assert [d.title for d in await store.list(collection="c")] == ["Untitled"]


async def test_words_answer_where_the_embedder_fails(opened, caplog):
    """The embedder's trouble is logged, and words alone are searched for; vector search says why it cannot."""
    embedder = Meaning()
    store, vectors = opened("hybrid", embedder), opened("vector", embedder)
    await store.add(FOXES, collection="c")
    for trouble in (ProviderConnectionError("away"), RuntimeError("odd")):
        embedder.fails = trouble
        with caplog.at_level(logging.WARNING, "flexchat.documents"):
            assert await ids(store, "owl") == ["owl"]
        assert str(trouble) in caplog.text
        with pytest.raises(RetrievalError, match=str(trouble)):
            await ids(vectors, "owl")
        with pytest.raises(RetrievalError):
            await ids(store, "?!")  # no words either
    with pytest.raises(RuntimeError):
        await store.add([Document(text="new")], collection="c")
    assert len(await store.list(collection="c")) == 3


async def test_vectors_of_another_embedder_are_never_compared(opened, caplog):
    """A query in such a collection is by words alone, with a warning once; adding to it is refused and says why."""
    first = opened("hybrid", HashingEmbedder("test/one", 8))
    await first.add(FOXES, collection="c")
    other = opened("hybrid", HashingEmbedder("test/two", 8))
    with caplog.at_level(logging.WARNING, "flexchat.documents"):
        assert await ids(other, "owl") == await ids(other, "owl") == ["owl"]
    assert caplog.text.count("vectors of test/one") == 1
    for store in (other, opened("hybrid", None)):
        with pytest.raises(RetrievalError, match=r"test/one.*delete its documents and add them again"):
            await store.add([Document(text="x")], collection="c")
    with pytest.raises(RetrievalError, match="test/one"):
        await ids(opened("vector", HashingEmbedder("test/two", 8)), "owl")
    await other.delete(collection="c")
    await other.add(FOXES, collection="c")
    (collection,) = await other.collections()
    assert (collection.embedding, collection.dimensions) == ("test/two", 8)


async def test_a_collection_begun_without_vectors_stays_so(opened):
    """Its documents are found by words, whoever adds later, until it is emptied."""
    embedder = HashingEmbedder()
    await opened("hybrid", None).add(FOXES, collection="c")
    store = opened("hybrid", embedder)
    await store.add([Document(id="new", text="a new owl")], collection="c")
    assert embedder.count() == 0
    assert set(await ids(store, "owl")) == {"owl", "new"}
    await store.delete(collection="c")
    await store.add(FOXES, collection="c")
    assert embedder.count() == 3


async def test_a_question_finds_what_another_store_has_just_added_and_deleted(opened):
    """Two stores on one file, as two processes have them: vectors in memory follow the file."""
    one, two = opened("vector", HashingEmbedder()), opened("vector", HashingEmbedder())
    await one.add([Document(id=f"d{i}", text=f"word{i}") for i in range(20)], collection="c")
    assert (await ids(two, "word7"))[0] == "d7"
    await one.add([Document(id="d99", text="word99")], collection="c")
    assert (await ids(two, "word99"))[0] == "d99"
    await one.delete(collection="c", ids=["d99"])
    assert "d99" not in await ids(two, "word99", top_k=100)
    await one.delete(collection="c", ids=[f"d{i}" for i in range(15)])
    await one.add([Document(id="d3", text="word3 again")], collection="c")
    assert await ids(two, "word3", top_k=100) == (await ids(one, "word3", top_k=100))
    assert len(await ids(two, "word3", top_k=100)) == 6


async def test_what_is_deleted_takes_no_place_among_the_nearest(opened):
    """Hundreds of near documents that are gone do not hide a farther one, however many vectors are left."""
    one, two = opened("vector", HashingEmbedder()), opened("vector", HashingEmbedder())
    near = [Document(id=f"near{i}", text=f"fox number{i}") for i in range(200)]
    far = [Document(id=f"far{i}", text=f"owl in the night number{i}") for i in range(800)]
    await one.add([*near, *far], collection="c")
    assert (await ids(two, "fox", top_k=1))[0].startswith("near")
    await one.delete(collection="c", ids=[d.id for d in near])
    assert len(await ids(two, "fox", top_k=10)) == 10
    await one.delete(collection="c", ids=[d.id for d in far[10:]])  # most are gone: memory is cleared up
    assert len(await ids(two, "fox", top_k=100)) == 10


async def test_a_rare_document_behind_a_filter_is_found(opened):
    """A filter that lets one of thousands through is searched for among all of them."""
    store = opened("vector", HashingEmbedder(dimensions=8))
    documents = [Document(id=f"d{i}", text=f"word{i}", metadata={"n": i}) for i in range(3000)]
    await store.add(documents, collection="c")
    hits = await store.query("word1", collection="c", top_k=5, where={"n": {"$in": [2999, 1500, 3]}})
    assert {d.id for d in hits.documents} == {"d2999", "d1500", "d3"}
    assert list(hits.distances) == sorted(hits.distances)


async def test_the_reranker_has_the_last_word_and_may_fail(opened, caplog):
    """Its scores order the best hits; where it fails, they keep their order and a warning is logged."""

    class Reranker:
        answer = None

        async def rerank(self, query, passages):
            return self.answer or [len(passage) for passage in passages]

        async def aclose(self): ...

    reranker = Reranker()
    store = opened("keyword", reranker=reranker)
    await store.add(FOXES, collection="c")
    assert await ids(store, "running hill") == ["red", "hill"]  # the longer passage, with its title, first
    for answer in ([1.0], [float("nan"), 1.0]):
        reranker.answer = answer
        with caplog.at_level(logging.WARNING, "flexchat.documents"):
            assert await ids(store, "running hill") == ["hill", "red"]
    assert "reranker failed" in caplog.text


async def test_a_file_in_several_parts_is_replaced_in_one_step(opened):
    """Documents of the old digest stay until the source is complete."""
    store = opened()
    await store.add([Document(text="old")], collection="c", source=Source(name="f", digest="1"))
    await store.add([Document(text="new 1")], collection="c", source=Source(name="f", digest="2", complete=False))
    assert {d.text for d in await store.list(collection="c")} == {"old", "new 1"}
    await store.add([Document(text="new 2")], collection="c", source=Source(name="f", digest="2"))
    assert {d.text for d in await store.list(collection="c")} == {"new 1", "new 2"}
    assert {d.source for d in await store.list(collection="c")} == {"f"}


async def test_adding_does_not_wait_for_a_slow_embedder_elsewhere(opened):
    """Vectors are made before anything is locked: another add goes through, and what it changed is made up for."""
    gate = asyncio.Event()

    class Slow(HashingEmbedder):
        async def embed(self, texts, *, purpose):
            await gate.wait()
            return await super().embed(texts, purpose=purpose)

    quick, slow = opened("hybrid", HashingEmbedder()), opened("hybrid", Slow())
    await quick.add(FOXES, collection="c")
    adding = asyncio.create_task(slow.add([*FOXES, Document(id="late", text="late")], collection="c"))
    await asyncio.sleep(0)
    await quick.delete(collection="c", ids=["red"])  # its vector is gone, which the slow one did not mean to make
    gate.set()
    assert await adding in (1, 2)
    assert {d.id for d in await quick.list(collection="c")} == {"red", "owl", "hill", "late"}
    assert (await ids(quick, "late"))[0] == "late"


async def test_without_a_path_documents_are_among_the_users_data(data_folder):
    """The default needs no setting; nothing is made on the disk before the first use."""
    store = create(SqliteConfig(), DocumentStoreContext())
    assert not data_folder.exists()
    assert await store.collections() == ()
    assert (data_folder / "documents.db").exists()
    await store.aclose()


async def test_a_database_of_something_else_is_refused(opened, tmp_path):
    """It is left as it is, and the error names it."""
    (tmp_path / "other.txt").write_bytes(b"not a database, but long enough to be looked at" * 100)
    with pytest.raises(StorageError, match=r"other\.txt"):
        await opened(path="other.txt").collections()


async def test_an_unknown_collection_is_named_with_the_nearest(opened):
    """A typo gets a hint."""
    store = opened()
    await store.add(FOXES, collection="animals")
    with pytest.raises(UnknownCollectionError, match="did you mean 'animals'"):
        await ids(store, "fox", collection="animal")


@pytest.mark.slow
def test_the_store_is_light_until_it_is_used():
    """Making a store loads no NumPy."""
    script = (
        "import sys; from flexchat.store import DocumentStoreContext; from flexchat_rag.config import SqliteConfig;"
        "from flexchat_rag.plugin import create; create(SqliteConfig(path='x.db'), DocumentStoreContext());"
        "sys.exit('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, cwd=Path(__file__).parent)
    assert done.returncode == 0


async def test_of_a_long_question_only_the_start_is_read(cpu_growth):
    from flexchat_rag.store.search import MAX_TERMS, terms_of

    assert terms_of("b c " * 100_000 + "fox") == ("b", "c")
    assert len(terms_of(" ".join(f"w{i}" for i in range(100_000)))) == MAX_TERMS
    assert cpu_growth(lambda size: terms_of("w1 " * size), 20_000, 400_000) < 3


async def test_questions_of_many_words_leave_readers_to_those_of_few(opened):
    store = opened()
    await store.add(FOXES, collection="animals")
    running, most, read = 0, 0, store.database.read

    async def counted(work):
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            return await read(work)
        finally:
            running -= 1

    store.database.read = counted
    many = " ".join(f"w{i}" for i in range(30))
    found = await asyncio.gather(*(store.query(many + " fox", collection=None, top_k=3) for _ in range(8)))
    assert [[d.id for d in hits.documents] for hits in found] == [["red"]] * 8
    assert most == 1
