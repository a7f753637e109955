"""Nothing that is added or asked breaks a store, or reaches beyond its file."""

import pytest
from flexchat.store import Document, DocumentStoreContext, RetrievalError, Source
from flexchat_rag.config import SqliteConfig
from flexchat_rag.retriever import SqliteStore
from flexchat_testing import HashingEmbedder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples

QUESTIONS = (
    '"', '""', "AND", "OR", "NOT", "a AND", "NEAR(a b)", "title:x", "{title text}: x", "a*", "^a", "-a", "a + b", "(",
    ")", "fox' OR 1=1 --", "collection : 1", "\0", "a\0b", "\ud800", "fox \ud800", "_", "__a__", "🦊", "狐", "é",
    "ﬁ", "²", "x" * 100_000, "fox " * 20_000, "", "   ", "\n", "%s", "{}", "؀", "a\u0301", "\u200b",
)  # fmt: skip


@pytest.fixture
async def store(tmp_path):
    opened = SqliteStore(
        SqliteConfig(path="inner/d.db"), DocumentStoreContext(folder=tmp_path, embedder=HashingEmbedder(dimensions=8))
    )
    await opened.add([Document(id="1", text="the quick fox"), Document(id="2", text="狐 🦊")], collection="c")
    yield opened
    assert [d.id for d in await opened.list(collection="c")] == ["1", "2"]
    assert (await opened.query("quick fox", collection="c", top_k=1)).documents[0].id == "1"
    await opened.aclose()
    assert [p.name for p in tmp_path.iterdir()] == ["inner"]


async def test_no_question_is_an_operator(store):
    """FTS5's operators, half characters, NUL, blanks and 100 kB are words or nothing."""
    for question in QUESTIONS:
        hits = await store.query(question, collection="c", top_k=5)
        assert len(hits.documents) <= 2
        assert bool(hits.documents) == bool(question.replace("\0", "").strip())


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(exclude_categories=()), max_size=20))
async def test_any_question_is_answered(store, text):
    """Whatever it is made of."""
    assert len((await store.query(text, collection=None, top_k=5)).documents) <= 2


@pytest.mark.parametrize(
    "name", ["../../x", "/etc/passwd", "'; DROP TABLE documents; --", "a\0b", "\ud800", "x" * 4096]
)
async def test_names_are_data(store, name):
    """A collection, a source and an id may be called anything; no file is named after them."""
    document = Document(id=name, text="t", source=name, title=name, metadata={name: name})
    await store.add([document], collection=name, source=Source(name=name, digest=name))
    (found,) = await store.list(collection=name, where={name: name})
    (source,) = await store.sources(collection=name)
    assert found.id == found.source == source.name == found.collection
    assert await store.delete(collection=name, ids=[name], sources=[name]) == 1
    assert await store.sources(collection=name) == []
    await store.delete_collection(name)


@pytest.mark.parametrize(
    "document",
    [
        Document(text="x" * 10_000_001),
        Document(text="t", id="x" * 1_000_000),
        Document(text="t", source="x" * 1_000_000),
        Document(text="t", metadata={"x": float("nan")}),
        Document(text="t", metadata={"x": object()}),
        Document(text="t", metadata={1: "x"}),
        Document(text="t", metadata={"x": "y" * 1_000_001}),
    ],
    ids=["text", "id", "source", "nan", "object", "key", "metadata"],
)
async def test_what_is_too_large_or_no_data_is_refused(store, document):
    """The error is short, names the document, and nothing of the batch is stored."""
    with pytest.raises(RetrievalError) as caught:
        await store.add([Document(id="0", text="good"), document], collection="c")
    assert len(str(caught.value)) < 400


async def test_metadata_nested_without_end_are_refused(store):
    """Neither Python's stack nor SQLite's reader of JSON is put to the test."""
    nested = {}
    for _ in range(100_000):
        nested = {"x": nested}
    with pytest.raises(RetrievalError, match="nested"):
        await store.add([Document(text="t", metadata=nested)], collection="c")
    while nested:  # taken apart by hand: Python would do it recursively
        nested = nested["x"]
