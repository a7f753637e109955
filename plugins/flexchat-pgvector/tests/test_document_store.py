"""The document store: what the kit's laws do not say."""

import asyncio
import logging
import math

import psycopg
import pytest
from flexchat.store import Collection, Document, DocumentStoreContext, RetrievalError, Source
from flexchat_pgvector.config import PgvectorConfig
from flexchat_pgvector.document_store import PgvectorStore
from flexchat_sdk import ProviderConnectionError
from flexchat_testing import HashingEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st

TEXTS = ("Ferns like shade and water", "A cactus needs hardly any water", "Cats fear water", "Granite is hard")
DOCUMENTS = [Document(id=str(n), text=text, metadata={"n": n}) for n, text in enumerate(TEXTS)]


class ByLength:
    async def rerank(self, query, passages):
        return [-len(passage) for passage in passages]

    async def aclose(self):
        pass


class Broken:
    async def rerank(self, query, passages):
        raise OSError("no model")

    async def aclose(self):
        pass


@pytest.fixture
async def opened(dsn, schema):
    """Opens stores on one schema."""
    made = []

    def open_store(embedder=None, reranker=None, **settings):
        config = PgvectorConfig(dsn=dsn, schema=schema, **settings)
        made.append(PgvectorStore(config, DocumentStoreContext(name="docs", embedder=embedder, reranker=reranker)))
        return made[-1]

    yield open_store
    for store in made:
        await store.aclose()


@pytest.mark.parametrize("index", ["exact", "hnsw"])
@pytest.mark.parametrize("search", ["hybrid", "vector", "keyword"])
async def test_every_search_finds_the_nearest_first(opened, search, index):
    """With filters, over one collection and over all."""
    store = opened(HashingEmbedder(), search=search, index=index)
    await store.add(DOCUMENTS, collection="c")
    await store.add([Document(id="x", text="Cats fear dogs", metadata={"n": 2})], collection="d")
    for collection in ("c", None):
        hits = await store.query("cats fear water", collection=collection, top_k=3)
        assert hits.documents[0].text == "Cats fear water"
        assert 0 <= hits.distances[0] < 0.25
        hits = await store.query("water", collection=collection, top_k=3, where={"n": {"$lt": 2}})
        assert {d.id for d in hits.documents} == {"0", "1"}


async def test_distances_are_cosine_distances(opened):
    """Also of hits that words found."""
    embedder = HashingEmbedder()
    store = opened(embedder)
    await store.add(DOCUMENTS, collection="c")
    (question,) = await embedder.embed(["water of a cat"], purpose="query")
    vectors = dict(zip(TEXTS, await embedder.embed(TEXTS, purpose="document"), strict=True))
    hits = await store.query("water of a cat", collection="c", top_k=4)
    for document, distance in zip(hits.documents, hits.distances, strict=True):
        cosine = sum(a * b for a, b in zip(question, vectors[document.text], strict=True))
        assert math.isclose(distance, 1 - cosine, abs_tol=1e-5)


async def test_without_vectors_distances_tell_what_is_missing(opened):
    """0 where a passage has all words of the question, near 1 where nobody has most of them; in a filter too."""
    store = opened()
    await store.add([*DOCUMENTS, *(Document(text=f"filler {n}") for n in range(20))], collection="c")
    for where in (None, {"n": {"$gte": 0}}):
        hits = await store.query("What do cats fear?", collection="c", top_k=1, where=where)
        assert hits.distances == (0.0,)
        (distance,) = (await store.query("best pasta for cats", collection="c", top_k=1, where=where)).distances
        assert 0.6 < distance < 1
    await store.delete(collection="c", ids=["0", "1", "3"])
    await store.delete(collection="c", where={"n": {"$ne": 2}})
    assert (await store.query("cats", collection="c", top_k=1)).distances == (0.0,)  # also where all have the word


async def test_a_rare_word_counts_more_than_a_frequent_one(opened):
    """Ranking by words is BM25: of two documents with one word each, the one with the rarer word comes first."""
    store = opened()
    texts = [*(f"water number {n}" for n in range(20)), "water water water water", "zebra number 1 is long, so long"]
    await store.add([Document(text=text) for text in texts], collection="c")
    hits = await store.query("Do zebras drink water?", collection="c", top_k=3)
    assert hits.documents[0].text.startswith("zebra")
    assert hits.documents[1].text == "water water water water"
    assert all(0 <= distance <= 1 for distance in hits.distances)


@pytest.mark.parametrize("question", ["'", "\\", "a & b | !c <-> d:*", '"x', "-water", "(", "it's \\'", "water \0", ""])
async def test_signs_of_the_query_language_are_harmless(opened, question):
    """A question is words, whatever it looks like."""
    store = opened()
    await store.add([*DOCUMENTS, Document(text="it's \\ 'quoted' a\\b")], collection="c")
    assert len((await store.query(question, collection="c", top_k=5)).documents) <= 5


async def test_words_have_stems(opened):
    """In the language that the collection was begun with, also when the setting is another one later."""
    await opened(language="german").add([Document(text="Die Häuser sind alt")], collection="c")
    store = opened(language="english")
    assert len((await store.query("Haus", collection="c", top_k=1)).documents) == 1


async def test_vectors_of_several_lengths_live_side_by_side(opened):
    """A question is compared with those of its own embedder only; the others are searched by words."""
    for index in ("exact", "hnsw"):
        small, large = HashingEmbedder("small", 8), HashingEmbedder("large", 300)
        await opened(small, index=index).add(DOCUMENTS[:2], collection="small")
        await opened(large, index=index).add(DOCUMENTS[2:], collection="large")
        for embedder in (small, large):
            hits = await opened(embedder, index=index).query("water", collection=None, top_k=9)
            assert {d.id for d in hits.documents} >= {"0", "1", "2"}


async def test_an_embedder_that_fails_leaves_the_words(opened, caplog):
    """A search by words answers with a warning; one that is by vectors alone raises; nothing is added."""

    def fail(texts, vectors):
        raise ProviderConnectionError("the model is away")

    embedder = HashingEmbedder()
    store = opened(embedder)
    await store.add(DOCUMENTS, collection="c")
    embedder.spoil = fail
    with caplog.at_level(logging.WARNING):
        hits = await store.query("granite", collection="c", top_k=2)
    assert [d.id for d in hits.documents] == ["3"]
    assert "the model is away" in caplog.text
    with pytest.raises(RetrievalError, match="the model is away"):
        await opened(embedder, search="vector").query("granite", collection="c", top_k=2)
    with pytest.raises(RetrievalError, match="the model is away"):
        await store.add([Document(text="new")], collection="c")


async def test_a_collection_has_vectors_for_all_or_for_none(opened, caplog):
    """Begun by words it stays so; begun with vectors, it takes nothing without."""
    await opened().add(DOCUMENTS[:1], collection="words")
    await opened(HashingEmbedder()).add(DOCUMENTS[:1], collection="vectors")
    embedder = HashingEmbedder()
    with caplog.at_level(logging.WARNING):
        await opened(embedder).add(DOCUMENTS[1:], collection="words")
    assert "'words' was begun without an embedder" in caplog.text
    assert embedder.count() == 0
    with pytest.raises(RetrievalError, match="has vectors made by kit/hashing"):
        await opened().add(DOCUMENTS[1:], collection="vectors")
    with pytest.raises(RetrievalError, match="has no vectors: delete it"):
        await opened(embedder, search="vector").query("water", collection="words", top_k=1)
    with pytest.raises(RetrievalError, match="configure 'embedding'"):
        await opened(search="vector").query("water", collection="words", top_k=1)


async def test_the_reranker_has_the_last_word(opened, caplog):
    """It orders the best hits; where it fails, they stay as they were."""
    await opened().add(DOCUMENTS, collection="c")
    plain = await opened().query("water", collection="c", top_k=3)
    ranked = await opened(reranker=ByLength()).query("water", collection="c", top_k=2)
    assert [len(d.text) for d in ranked.documents] == sorted(len(d.text) for d in plain.documents)[:2]
    with caplog.at_level(logging.WARNING):
        assert await opened(reranker=Broken()).query("water", collection="c", top_k=3) == plain
    assert "the reranker failed: no model" in caplog.text


async def test_an_index_is_made_and_goes_with_its_collection(opened, dsn, schema):
    """One for each collection with vectors, which a search uses."""

    def indexes():
        with psycopg.connect(dsn) as connection:
            asked = "SELECT indexname FROM pg_indexes WHERE schemaname = %s AND indexname LIKE 'vectors_hnsw%%'"
            return connection.execute(asked, (schema,)).fetchall()

    store = opened(HashingEmbedder(), index="hnsw")
    await asyncio.gather(*(store.add(DOCUMENTS, collection=f"c{n}") for n in range(4)))
    assert len(indexes()) == 4
    await store.delete_collection("c0")
    assert len(indexes()) == 3


async def test_vectors_too_long_for_an_index_are_compared_exactly(opened):
    """pgvector indexes at most 4000 dimensions."""
    store = opened(HashingEmbedder("long", 4001), index="hnsw")
    await store.add(DOCUMENTS, collection="c")
    assert (await store.query("granite is hard", collection="c", top_k=1)).documents[0].id == "3"


async def test_vectors_of_zeros_are_refused(opened):
    """They have no direction: stored, nothing would ever find them. Nothing of the step is kept."""
    embedder = HashingEmbedder()
    store = opened(embedder, search="vector")
    await store.add(DOCUMENTS[:1], collection="c")
    embedder.spoil = lambda texts, vectors: [[0.0] * len(vector) for vector in vectors]
    with pytest.raises(RetrievalError, match="a vector of zeros for text 1 of 2"):
        await store.add(DOCUMENTS[1:3], collection="c")
    with pytest.raises(RetrievalError, match="zeros"):
        await store.query("granite", collection="c", top_k=9)
    assert len(await store.list(collection="c")) == 1


async def test_a_source_names_its_documents(opened):
    """Documents without a source of their own get it, and one that became empty is remembered."""
    store = opened()
    await store.add([Document(text="x")], collection="c", source=Source(name="a.md", digest="1"))
    assert [d.source for d in await store.list(collection="c")] == ["a.md"]
    await store.add([], collection="c", source=Source(name="a.md", digest="2"))
    assert [(s.digest, s.documents) for s in await store.sources(collection="c")] == [("2", 0)]


NAMES = st.sampled_from(["a", "b"])
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("add"), NAMES, st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from("12")), max_size=3)
        ),
        st.tuples(st.just("delete"), NAMES, st.sampled_from("xyz")),
        st.tuples(st.just("where"), NAMES, st.sampled_from("12")),
        st.tuples(st.just("drop"), NAMES, st.none()),
        st.tuples(st.just("save"), NAMES, st.sampled_from(["", "about"])),
        st.tuples(st.just("reopen"), NAMES, st.none()),
    ),
    max_size=20,
)


def test_the_store_is_like_a_dict(dsn, schema):
    """Whatever is added, replaced, deleted and reopened, it holds what a dict would hold, and counts right."""
    number = iter(range(10**6))

    @settings(max_examples=12)
    @given(steps=STEPS)
    def run(steps):
        asyncio.run(_like_a_dict(dsn, schema, f"-{next(number)}", steps))

    run()


async def _like_a_dict(dsn, schema, suffix, steps):
    def opened():
        return PgvectorStore(PgvectorConfig(dsn=dsn, schema=schema), DocumentStoreContext(embedder=HashingEmbedder()))

    store, model, described = opened(), {}, {}
    try:
        for action, letter, given in steps:
            name = letter + suffix
            if action == "reopen":
                await store.aclose()
                store = opened()
            elif action == "add":
                documents = [Document(id=id, text=f"text {text}", metadata={"t": text}) for id, text in given]
                kept = model.setdefault(name, {})
                changed = sum(kept.get(id) != text for id, text in dict(given).items())
                assert await store.add(documents, collection=name) == changed
                kept.update(given)
            elif action == "save":
                await store.save_collection(Collection(name=name, description=given))
                model.setdefault(name, {})
                described[name] = given
            elif name not in model:
                with pytest.raises(RetrievalError):
                    await (store.delete_collection(name) if action == "drop" else store.delete(collection=name))
            elif action == "delete":
                assert await store.delete(collection=name, ids=[given]) == (given in model[name])
                model[name].pop(given, None)
            elif action == "where":
                gone = [id for id, text in model[name].items() if text == given]
                assert await store.delete(collection=name, where={"t": given}) == len(gone)
                for id in gone:
                    del model[name][id]
            else:
                await store.delete_collection(name)
                del model[name]
                described.pop(name, None)
        found = {c.name: c for c in await store.collections() if c.name.endswith(suffix)}
        assert {n: c.documents for n, c in found.items()} == {n: len(kept) for n, kept in model.items()}
        assert {n: c.description for n, c in found.items()} == {n: described.get(n, "") for n in model}
        for name, kept in model.items():
            assert {d.id: d.metadata["t"] for d in await store.list(collection=name)} == kept
            hits = await store.query("text", collection=name, top_k=9)
            assert {d.id for d in hits.documents} == set(kept)
    finally:
        await store.aclose()
