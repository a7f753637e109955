"""The document store "memory"."""

import pytest
from flexchat.config.structure import structure_mapping
from flexchat.store import Collection, Document, DocumentStoreContext, FilterError, UnknownCollectionError
from flexchat_internal.memory_retriever import MemoryConfig, MemoryRetriever, MemoryStoreError
from hypothesis import given
from hypothesis import strategies as st


def store_of(*texts, **rest):
    return MemoryRetriever(MemoryConfig(documents=tuple(Document(text=t) for t in texts), **rest))


async def find(store, text, collection=None, top_k=5):
    hits = await store.query(text, collection=collection, top_k=top_k)
    assert len(hits.documents) == len(hits.distances)
    return [document.text for document in hits.documents]


async def test_a_rare_word_says_more_than_a_common_one():
    """BM25: what few documents have decides."""
    store = store_of("the holiday plan", "the plan", "the plan of the plan", "the salary")

    assert (await find(store, "the holiday"))[0] == "the holiday plan"


async def test_length_counts_against_and_repetition_less_and_less():
    """Of two documents with the word, the shorter one is nearer; more of the word is nearer."""
    assert await find(store_of("dog " + "x " * 50, "dog"), "dog") == ["dog", "dog " + "x " * 50]
    assert (await find(store_of("dog cat bird", "dog dog bird"), "dog"))[0] == "dog dog bird"


async def test_plural_and_case_do_not_matter_and_no_common_word_finds_nothing():
    """Words are folded; a document without any of them is not listed."""
    store = store_of("Refunds take 5 days")

    assert await find(store, "REFUND") == ["Refunds take 5 days"]
    assert await find(store, "holiday") == []
    assert await find(store, "") == []


async def test_a_collection_limits_the_search_and_an_unknown_one_is_an_error():
    """An empty answer never hides a typo."""
    documents = (Document(text="dog", collection="pets"), Document(text="dog", collection="food"))
    store = MemoryRetriever(MemoryConfig(documents=documents))

    assert len(await find(store, "dog")) == 2
    assert len(await find(store, "dog", "pets")) == 1
    with pytest.raises(UnknownCollectionError, match=r"'pet' \(did you mean 'pets'\?\) \(there are: food, pets\)"):
        await find(store, "dog", "pet")


async def test_files_and_folders_are_read_with_their_headings(tmp_path):
    """A Markdown heading is the title, else the file's name; the path is the source."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("Intro\n\n# Refund policy #\n\nMoney back.", encoding="utf-8")
    (tmp_path / "docs" / "skip.png").write_bytes(b"\x89PNG")
    (tmp_path / "notes.txt").write_text("\ufeffmoney", encoding="utf-8")
    config = MemoryConfig(paths=(str(tmp_path / "docs"), str(tmp_path / "notes.txt")), collection="c", description="d")

    hits = await MemoryRetriever(config).query("money", collection="c", top_k=5)

    assert {(d.title, d.source) for d in hits.documents} == {
        ("Refund policy", str(tmp_path / "docs" / "a.md")),
        ("notes", str(tmp_path / "notes.txt")),
    }
    assert hits.description == "d"


async def test_a_file_that_cannot_be_read_is_named(tmp_path):
    """A missing file and one that is not UTF-8."""
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")

    with pytest.raises(MemoryStoreError, match=r"'.*gone\.txt' cannot be read"):
        await find(MemoryRetriever(MemoryConfig(paths=(str(tmp_path / "gone.txt"),))), "x")
    with pytest.raises(MemoryStoreError, match=r"latin\.txt' is not UTF-8 text \(byte 3\)"):
        await find(MemoryRetriever(MemoryConfig(paths=(str(tmp_path / "latin.txt"),))), "x")


async def test_paths_are_meant_from_the_folder_of_the_config(tmp_path, monkeypatch):
    """Wherever the program is started from; without a file, from there."""
    (tmp_path / "a.md").write_text("money", encoding="utf-8")
    config = MemoryConfig(paths=("a.md",))

    assert await find(MemoryRetriever(config, DocumentStoreContext(folder=tmp_path)), "money") == ["money"]
    monkeypatch.chdir(tmp_path)
    assert await find(MemoryRetriever(config, DocumentStoreContext()), "money") == ["money"]


async def test_where_filters_by_metadata():
    """Documents of files have none; a filter that cannot be read is refused before anything is read."""
    documents = (Document(text="dog a", metadata={"year": 2020}), Document(text="dog b"))
    store = MemoryRetriever(MemoryConfig(documents=documents))

    for where, texts in (
        ({"year": {"$gte": 2020}}, ["dog a"]),
        ({"year": {"$ne": 2020}}, ["dog b"]),
        ({}, ["dog a", "dog b"]),
    ):
        hits = await store.query("dog", collection=None, top_k=5, where=where)
        assert [d.text for d in hits.documents] == texts
    with pytest.raises(FilterError):
        await MemoryRetriever(MemoryConfig(paths=("gone",))).query("x", collection=None, top_k=1, where={"$no": 1})


async def test_collections_are_listed_with_how_many_documents_they_have():
    """By name; documents that name none are in none."""
    documents = (Document(text="a", collection="y"), Document(text="b", collection="x"), Document(text="c"))
    store = MemoryRetriever(MemoryConfig(documents=documents, description="all"))

    assert await store.collections() == (
        Collection(name="x", description="all", documents=1),
        Collection(name="y", description="all", documents=1),
    )


def test_a_config_table_becomes_a_store():
    """The keys of the README, exactly."""
    config, problems = structure_mapping(
        {"documents": [{"text": "a", "title": "A", "metadata": {"page": 1}}], "paths": ["x.md"]}, MemoryConfig
    )

    assert not problems
    assert config.documents[0].metadata == {"page": 1}


@given(st.lists(st.text(max_size=30), max_size=6), st.text(max_size=30), st.integers(0, 4))
async def test_any_documents_and_any_query_give_sorted_distances(texts, query, top_k):
    """Distances are 0 to 1, best first, never more than asked for."""
    store = store_of(*texts)

    hits = await store.query(query, collection=None, top_k=top_k)
    await store.aclose()

    assert list(hits.distances) == sorted(hits.distances)
    assert all(0 <= distance <= 1 for distance in hits.distances)
    assert len(hits.documents) == len(hits.distances) <= top_k


async def test_a_question_takes_no_longer_for_words_behind_the_first(cpu_growth):
    from flexchat_internal.memory_retriever import Index

    index = Index([Document(text=f"the sea {i}") for i in range(200)])

    def ask(size):
        return index.search("sea " + " ".join(f"w{i}" for i in range(size)), None, 5, lambda _: True)

    assert cpu_growth(ask, 3_000, 60_000) < 5
    assert len(ask(60_000)) == 5
