"""The laws of a document store: a retriever that can be filled."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import attrs
from flexchat.plugin import FlexChatError
from flexchat.store import (
    Collection,
    Document,
    DocumentStore,
    DocumentStoreContext,
    Embedder,
    FilterError,
    RetrievalError,
    Source,
    UnknownCollectionError,
    holds,
    read_filter,
)
from flexchat_sdk import storable

from ..hashing_embedder import HashingEmbedder
from .law import expect, law, raising_only, refused, require, show
from .retriever import NOWHERE, RetrieverConformance, filters_about
from .samples import DOCUMENTS

QUESTION = "Who likes water?"
_IDS = ("A", "Z", "a", "10", "9", "ä", "a/b", "../x", "%", "_", "'", "｡", "\U0001f600", "with blank")
_BAD_VECTORS: Mapping[str, Callable[[list[list[float]]], list[list[float]]]] = {
    "a vector with NaN": lambda vectors: [[float("nan"), *vectors[0][1:]], *vectors[1:]],
    "a vector with infinity": lambda vectors: [*vectors[:-1], [float("inf"), *vectors[-1][1:]]],
    "a shorter vector": lambda vectors: [*vectors[:-1], vectors[-1][:-1]],
    "an empty vector": lambda vectors: [[], *vectors[1:]],
    "one vector less than texts": lambda vectors: vectors[:-1],
    "one vector more than texts": lambda vectors: [*vectors, vectors[0]],
}


class DocumentStoreConformance(RetrieverConformance):
    """What every document store must do. Write make_store, ``plugin`` and ``supports``; the kit supplies the
    documents."""

    capabilities: ClassVar[Mapping[str, str]] = {
        **RetrieverConformance.capabilities,
        "embeddings": "it keeps vectors, made by the embedder of its context",
        "durable": "make_store with the context of a store that was closed opens the same documents again",
        "json_metadata": "metadata may be any JSON data, not only texts, numbers and truth values",
        "metadata_fields": "a collection's title_field and source_field hold for documents that are added",
        "sources": "it remembers what documents were taken from",
    }
    question: ClassVar[str] = QUESTION
    collection: ClassVar[str] = "plants"

    def make_store(self, context: DocumentStoreContext) -> DocumentStore:
        """Return a store; an empty one for every context.folder, which is itself new and empty."""
        raise NotImplementedError(f"{type(self).__name__} must write make_store")

    @contextlib.asynccontextmanager
    async def opened(self, *, empty: bool = False, embedder: Embedder | None = None) -> AsyncIterator[Any]:
        """Open a store for the duration of a law, empty or filled with DOCUMENTS."""
        with tempfile.TemporaryDirectory() as folder:
            async with contextlib.aclosing(self.make_store(_context(folder, embedder))) as store:
                if not empty:
                    for collection in ("plants", "animals", "stones"):
                        part = [d for d in DOCUMENTS if d.collection == collection]
                        added = await store.add(part, collection=collection)
                        expect(added, len(part), "add returns the number of new documents")
                yield store

    @law()
    async def test_what_is_added_is_found(self, store: Any) -> None:
        """A document is found by its own text, and is returned unchanged."""
        for document in DOCUMENTS:
            first = (await self.ask(store, document.text, collection=document.collection)).documents[:1]
            require(first and first[0].text == document.text, f"{document.text!r} finds {show(first)} first")
            for field in ("title", "source", "collection", "metadata"):
                was, came = getattr(document, field), getattr(first[0], field)
                require(_same(was, came), f"{field} was {was!r} and came back as {came!r}")

    @law(empty=True)
    async def test_a_document_replaces_the_one_of_its_id(self, store: Any) -> None:
        """What has the id of a document that is there takes its place; add returns how many are new or changed."""
        old = [Document(id=f"d{i}", text=f"first text {i}", metadata={"n": i}) for i in range(4)]
        new = [attrs.evolve(old[0], text="second text"), attrs.evolve(old[1], metadata={"n": 9}), *old[2:]]
        require(await store.add(old, collection="notes") == 4, "add of four new documents returns 4")
        expect(await store.add(old, collection="notes"), 0, "add of four documents that are there")
        expect(await store.add(new, collection="notes"), 2, "add, where one text and one metadata changed")
        listed = await store.list(collection="notes")
        require([d.id for d in listed] == [d.id for d in old], f"their ids are as before, got {show(listed)}")
        require(listed[0].text == "second text", f"the text is the new one, got {listed[0].text!r}")
        require(listed[1].metadata == {"n": 9}, f"the metadata are the new ones, got {listed[1].metadata!r}")
        hits = await self.ask(store, "first text 0", collection="notes")
        require(all(d.text != "first text 0" for d in hits.documents), "the text that was replaced is still found")

    @law(empty=True)
    async def test_an_id_is_made_where_there_is_none(self, store: Any) -> None:
        """It is made of source and text: the same twice is one document, the same of another source is another."""
        one, other = Document(text="same", source="one"), Document(text="same", source="other")
        await store.add([one, other, one], collection="notes")
        again = await store.add([other], collection="notes")
        listed = await store.list(collection="notes")
        require(again == 0, f"a document without an id, added again, is not new: add returned {again}")
        require(len(listed) == 2, f"two sources have one document each, got {show(listed)}")
        require(all(isinstance(d.id, str) and d.id for d in listed), f"every document has an id, got {show(listed)}")

    @law(empty=True)
    async def test_documents_are_deleted(self, store: Any) -> None:
        """What fits all of ids, sources and where goes, no more; an empty list fits none, nothing given fits all."""
        documents = [
            Document(id=f"d{i}", text=f"text {i}", source="even" if i % 2 == 0 else "odd", metadata={"n": i})
            for i in range(8)
        ]
        steps: tuple[tuple[dict[str, Any], set[int]], ...] = (
            ({"ids": []}, set()),
            ({"sources": []}, set()),
            ({"ids": ["none", "' OR 1=1"]}, set()),
            ({"ids": ["d0", "none"]}, {0}),
            ({"ids": ["d1", "d2"], "sources": ["odd"]}, {1}),
            ({"sources": ["odd"], "where": {"n": {"$lt": 4}}}, {3}),
            ({"where": {"n": {"$in": [4, 7]}}}, {4, 7}),
            ({"sources": ["even"]}, {2, 6}),
            ({}, {5}),
        )
        remaining = set(range(8))
        await store.add(documents, collection="notes")
        await store.add(documents, collection="others")
        for chosen, numbers in steps:
            count = await store.delete(collection="notes", **chosen)
            remaining -= numbers
            require(count == len(numbers), f"delete({chosen}) returns {len(numbers)}, got {count}")
            ids = {d.id for d in await store.list(collection="notes")}
            expect(ids, {f"d{i}" for i in remaining}, f"what delete({chosen}) leaves")
            hits = await self.ask(store, "text", collection="notes")
            texts = {d.text for d in hits.documents}
            require(texts <= {f"text {i}" for i in remaining}, f"after delete({chosen}) a query finds {show(texts)}")
        others = await store.list(collection="others")
        require(len(others) == 8, "another collection loses nothing")

    @law(empty=True)
    async def test_documents_are_listed_page_by_page(self, store: Any) -> None:
        """List gives documents in the order of their ids, by code points, at most limit, from behind after."""
        documents = [Document(id=id, text=f"text of {id}", metadata={"n": i}) for i, id in enumerate(_IDS)]
        ids = sorted(_IDS)
        await store.add(documents, collection="notes")
        for limit in (1, 4, 100):
            paged: list[Any] = []
            for _ in range(len(ids) + 1):
                page = await store.list(collection="notes", limit=limit, after=paged[-1] if paged else None)
                require(len(page) <= limit, f"limit={limit} gave {len(page)} documents")
                paged += [d.id for d in page]
                if not page:
                    break
            require(paged == ids, f"pages of {limit} give the ids {ids}, got {paged}")
        after = await store.list(collection="notes", after="b")
        require([d.id for d in after] == [i for i in ids if i > "b"], "after need not be an id that is there")
        require(all(d.collection == "notes" for d in after), "a document that is listed names its collection")
        few = await store.list(collection="notes", where={"n": {"$lt": 5}}, limit=3)
        expected = [id for id in ids if _IDS.index(id) < 5][:3]
        require([d.id for d in few] == expected, f"with where, the limit counts what passes: {show(few)}")

    @law(empty=True)
    async def test_filters_of_a_list_mean_what_they_say(self, store: Any) -> None:
        """Where means the same to list and delete as to query, and one that cannot be read is refused."""
        documents = [attrs.evolve(d, id=f"d{i}", collection="notes") for i, d in enumerate(DOCUMENTS)]
        await store.add(documents, collection="notes")
        for where in filters_about(documents):
            condition = read_filter(where)
            expected = [d.id for d in documents if holds(condition, d.metadata)]
            ids = [d.id for d in await store.list(collection="notes", where=where)]
            require(ids == expected, f"where={where!r} fits {expected}, list gave {ids}")
        for act in (store.list, store.delete):
            await refused(act(collection="notes", where={"$nor": []}), FilterError, "where={'$nor': []}")
        require(len(await store.list(collection="notes")) == len(documents), "a refused delete deletes nothing")

    @law("json_metadata", empty=True)
    async def test_metadata_are_any_json_data(self, store: Any) -> None:
        """Lists, objects, null, large numbers and any text are returned unchanged, and filters skip them."""
        metadata: dict[str, Any] = {
            "list": [1, "a", None, [True]],
            "table": {"x": {"y": []}},
            "null": None,
            "large": 2**62,
            "small": 5e-324,
            "": "empty name",
            "$eq": "an operator's name",
            "漢 '\"\\.%": "\U0001f600 \u2028",
            "n": 1,
        }
        await store.add([Document(id="a", text="a", metadata=metadata)], collection="notes")
        (document,) = await store.list(collection="notes", where={"n": 1, "null": {"$ne": 1}, "list": {"$ne": "a"}})
        require(document.metadata == metadata, f"metadata were {metadata}, and came back as {dict(document.metadata)}")
        nothing = await store.list(collection="notes", where={"list": {"$in": [1, "a"]}})
        require(not nothing, "a list equals nothing that a filter can say")

    @law("metadata_fields", empty=True)
    async def test_title_and_source_may_be_in_the_metadata(self, store: Any) -> None:
        """Texts in title_field and source_field are a document's title and source; it has its own where there are none.

        Nothing is read from the usual fields, and what is added with a Source keeps that one's name.
        """
        documents = [
            Document(id="a", text="of a", title="own", source="own.md", metadata={"headline": "Said", "url": "x:/1"}),
            Document(id="b", text="of b", title="own", source="own.md", metadata={"headline": 7, "url": None}),
            Document(id="c", text="of c", title="own", source="own.md", metadata={"title": "no", "source": "no"}),
        ]
        in_metadata, own = ("Said", "x:/1"), ("own", "own.md")
        await store.save_collection(Collection(name="notes", title_field="headline", source_field="url"))
        for collection, first in (("notes", in_metadata), ("usual", own)):
            await store.add(documents, collection=collection)
            listed = [(d.title, d.source) for d in await store.list(collection=collection)]
            require(listed == [first, own, own], f"{collection}: titles and sources are {show(listed)}")
            hits = await self.ask(store, documents[0].text, collection=collection)
            places = {(d.title, d.source) for d in hits.documents if d.id == "a"}
            require(places == {first}, f"{collection}: a hit has title and source {places}, not {first}")
        expect(await store.add(documents, collection="notes"), 0, "added again, nothing is new")
        if "sources" in self.supports:
            source = Source(name="own.md", digest="1")
            await store.add(documents[:1], collection="notes", source=source)
            (top, *_) = await store.list(collection="notes")
            require(top.source == "own.md", f"it was added with the source own.md, and has {top.source!r}")

    @law("sources", empty=True)
    async def test_sources_are_remembered(self, store: Any) -> None:
        """A source has name, digest, documents, and a time when it is complete; they are listed by name, in pages."""
        for name in ("b.md", "a.md", "../c.md", "ä.md"):
            documents = [Document(text=f"{name} {i}", source=name) for i in range(3)]
            await store.add(documents, collection="notes", source=Source(name=name, digest=f"digest of {name}"))
        listed = await store.sources(collection="notes")
        expect([s.name for s in listed], ["../c.md", "a.md", "b.md", "ä.md"], "sources come by name")
        for source in listed:
            facts = (source.digest, source.complete, source.documents)
            require(facts == (f"digest of {source.name}", True, 3), f"a complete source of 3 is {show(source)}")
            require(source.added_at, "a complete source has the time when it was completed")
        pages = [[s.name for s in await store.sources(collection="notes", limit=2, after=a)] for a in (None, "a.md")]
        require(pages == [["../c.md", "a.md"], ["b.md", "ä.md"]], f"pages of two, got {pages}")

    @law("sources", empty=True)
    async def test_what_an_earlier_digest_left_goes_when_a_source_is_complete(self, store: Any) -> None:
        """Not before: until the last part is there, the old documents are; those that are the same stay."""

        def part(*texts: str) -> list[Document]:
            return [Document(text=text, source="s") for text in texts]

        old, new = Source(name="s", digest="1"), Source(name="s", digest="2")
        half = attrs.evolve(new, complete=False)
        await store.add(part("kept", "gone"), collection="notes", source=old)
        await store.add([Document(text="other")], collection="notes")
        await store.add(part("kept"), collection="notes", source=half)
        require(await _texts(store) == {"kept", "gone", "other"}, "an incomplete source removes nothing yet")
        sources = await store.sources(collection="notes")
        early = [s for s in sources if s.digest == "2" and s.complete]
        require(len(sources) == 1 and not early, f"the source is not complete yet, got {show(sources)}")
        await store.add(part("new"), collection="notes", source=new)
        require(await _texts(store) == {"kept", "new", "other"}, f"'gone' goes, got {await _texts(store)}")
        (source,) = await store.sources(collection="notes")
        is_new = (source.digest, source.complete, source.documents) == ("2", True, 2)
        require(is_new, f"the source has digest 2, is complete and has two documents, got {show(source)}")
        await store.add([], collection="notes", source=attrs.evolve(new, digest="3"))
        require(await _texts(store) == {"other"}, "a source that became empty leaves nothing behind")

    @law("sources", empty=True)
    async def test_a_source_without_documents_is_forgotten(self, store: Any) -> None:
        """Deleting all documents of a source deletes the source; deleting some does not."""
        for name in ("a", "b"):
            documents = [Document(id=f"{name}{i}", text=f"{name}{i}", source=name) for i in range(2)]
            await store.add(documents, collection="notes", source=Source(name=name, digest="1"))
        await store.delete(collection="notes", sources=["a"])
        await store.delete(collection="notes", ids=["b0"])
        remaining = [(s.name, s.documents) for s in await store.sources(collection="notes")]
        require(remaining == [("b", 1)], f"the source b with one document is left, got {remaining}")

    @law("embeddings")
    async def test_an_unchanged_text_is_not_embedded_again(self) -> None:
        """Its vector is kept, also where its metadata change: vectors cost money and time."""
        documents = [Document(id=f"d{i}", text=f"text number {i}") for i in range(5)]
        embedder = HashingEmbedder()
        async with self.opened(empty=True, embedder=embedder) as store:
            await store.add(documents, collection="notes")
            require(embedder.count() == 5, f"five texts are embedded once each, got {embedder.count()}")
            await store.add(documents, collection="notes")
            await store.add([attrs.evolve(d, metadata={"n": 1}) for d in documents], collection="notes")
            require(embedder.count() == 5, f"unchanged texts are embedded again: {embedder.count() - 5} of five")
            await store.add([attrs.evolve(documents[0], text="changed"), *documents[1:]], collection="notes")
            require(embedder.count() == 6, f"one text changed, {embedder.count() - 5} were embedded")

    @law("embeddings")
    async def test_vectors_that_cannot_be_right_are_refused(self) -> None:
        """NaN, infinity, another length, another number: RetrievalError, and nothing is stored; no query breaks."""
        documents = [Document(id=f"new{i}", text=f"new text {i}") for i in range(3)]
        embedder = HashingEmbedder()
        async with self.opened(embedder=embedder) as store:
            for what, spoil in _BAD_VECTORS.items():
                embedder.spoil = lambda texts, vectors, spoil=spoil: spoil(vectors)
                await refused(store.add(documents, collection="plants"), RetrievalError, what)
                count = len(await store.list(collection="plants"))
                require(count == 3, f"{what}: nothing must be stored, and {count - 3} documents were")
                with contextlib.suppress(RetrievalError):
                    await self.ask(store, f"a question with {what}", collection="plants")
            embedder.spoil = None
            await store.add(documents, collection="plants")
            hits = await self.ask(store, documents[0].text, collection="plants")
            require(hits.documents[0].text == documents[0].text, "after a refusal the store works as before")

    @law("embeddings")
    async def test_a_failure_in_the_middle_stores_nothing(self) -> None:
        """Where the embedder fails at one of many texts, add raises, and none of them is stored."""
        documents = [Document(id=f"d{i:04}", text=f"text {i}") for i in range(600)]
        embedder = HashingEmbedder()
        embedder.spoil = _fails_at("text 599")
        async with self.opened(empty=True, embedder=embedder) as store:
            await store.save_collection(Collection(name="notes"))
            await refused(store.add(documents, collection="notes"), FlexChatError, "an embedder that fails")
            listed = await store.list(collection="notes")
            require(not listed, f"the embedder failed at one of 600 texts, and {len(listed)} are stored")

    @law("embeddings", "durable")
    async def test_vectors_of_another_embedder_are_not_compared(self) -> None:
        """A collection remembers its embedder: adding with another is refused, and no query mixes their vectors."""
        with tempfile.TemporaryDirectory() as folder:
            store = self.make_store(_context(folder))
            await store.add([Document(id="a", text="water")], collection="notes")
            (collection,) = await store.collections()
            await store.aclose()
            embedder = (collection.embedding, collection.dimensions)
            expect(embedder, ("kit/hashing", 256), "collections() tells embedder and length of vectors")
            for other in (HashingEmbedder("kit/other"), HashingEmbedder("kit/longer", 300)):
                async with contextlib.aclosing(self.make_store(_context(folder, other))) as store:
                    what = "adding with another embedder"
                    await refused(store.add([Document(id="b", text="fire")], collection="notes"), RetrievalError, what)
                    require(len(await store.list(collection="notes")) == 1, "what was refused is not stored")
                    with contextlib.suppress(RetrievalError):
                        await self.ask(store, "water", collection="notes")

    @law()
    async def test_adding_is_all_or_none(self) -> None:
        """One document that cannot be stored keeps the others out: metadata that are no JSON data are refused."""
        documents = [Document(id=f"d{i}", text=f"text {i}") for i in range(5)]
        for value in (object(), float("nan"), {1, 2}):
            bad = attrs.evolve(documents[3], metadata={"bad": value})
            async with self.opened() as store:
                batch = [*documents[:3], bad, documents[4]]
                await refused(store.add(batch, collection="plants"), RetrievalError, f"metadata {value!r}")
                count = len(await store.list(collection="plants"))
                require(count == 3, f"nothing of an add that was refused is stored, {count - 3} documents were")

    @law()
    async def test_an_add_that_is_stopped_stores_all_or_none(self) -> None:
        """Whoever stops waiting leaves no half behind."""
        documents = [Document(id=f"d{i:02}", text=f"text {i}") for i in range(50)]
        for turns in (1, 2, 5, 20):
            async with self.opened(empty=True) as store:
                await store.save_collection(Collection(name="notes"))
                adding = asyncio.create_task(store.add(documents, collection="notes"))
                for _ in range(turns):
                    await asyncio.sleep(0)
                adding.cancel()
                await asyncio.gather(adding, return_exceptions=True)
                await store.add([Document(id="last", text="last")], collection="notes")
                count = len(await store.list(collection="notes")) - 1
                require(count in (0, 50), f"an add of 50 that was stopped left {count} behind")

    @law(empty=True)
    async def test_adds_side_by_side_keep_everything(self, store: Any) -> None:
        """Several that fill one store at once, into one collection and several, lose nothing."""
        batches = [[Document(id=f"d{b}-{i}", text=f"text {b} {i}") for i in range(5)] for b in range(8)]
        calls = [store.add(batch, collection=f"part-{b % 2}") for b, batch in enumerate(batches)]
        expect(await asyncio.gather(*calls), [5] * 8, "eight adds of five")
        for name in ("part-0", "part-1"):
            ids = {d.id for d in await store.list(collection=name)}
            expected = {d.id for b, batch in enumerate(batches) if f"part-{b % 2}" == name for d in batch}
            require(ids == expected, f"{name} has {len(ids)} of {len(expected)} documents")

    @law()
    async def test_collections_are_described_changed_and_deleted(self, store: Any) -> None:
        """save_collection stores a description, queries return it, and deletion removes the documents."""
        described = Collection(
            name="notes",
            description="About c",
            match_threshold=0.2,
            partial_threshold=0.6,
            title_field="headline",
            source_field="url",
            metadata={"display_name": "The c"},
        )
        await store.save_collection(described)
        await store.add([Document(text="about c")], collection="notes")
        collections = {c.name: c for c in await store.collections()}
        expect([*collections], ["animals", "notes", "plants", "stones"], "collections come by name")
        for field in ("description", "match_threshold", "partial_threshold", "title_field", "source_field"):
            came = getattr(collections["notes"], field)
            expect(came, getattr(described, field), field)
        problem = "a collection's metadata come back with it"
        require({**described.metadata}.items() <= {**collections["notes"].metadata}.items(), problem)
        require(collections["notes"].documents == 1, f"it has one document, got {collections['notes']}")
        hits = await self.ask(store, "about", collection="notes")
        settings = (hits.description, hits.match_threshold, hits.partial_threshold)
        require(settings == ("About c", 0.2, 0.6), f"hits carry description and thresholds, got {settings}")
        await store.save_collection(Collection(name="notes", description="Else", match_threshold=None))
        changed = {c.name: c for c in await store.collections()}["notes"]
        settings = (changed.description, changed.match_threshold, changed.partial_threshold)
        require(settings == ("Else", None, None), f"a new description replaces the old one, got {settings}")
        require(changed.documents == 1, "describing a collection again keeps its documents")
        await store.delete_collection("notes")
        names = [c.name for c in await store.collections()]
        require(names == ["animals", "plants", "stones"], f"the collection is deleted, got {names}")
        texts = [d.text for d in (await self.ask(store, "about c", top_k=100)).documents]
        require("about c" not in texts, "a deleted collection's documents are found no more")
        await store.add([Document(text="new")], collection="notes")
        require(await _texts(store) == {"new"}, "a collection that is created again begins empty")

    @law()
    async def test_an_unknown_collection_is_an_error(self, store: Any) -> None:
        """All methods but add and save_collection raise UnknownCollectionError, which names it and those there are."""
        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "query": lambda: store.query("water", collection=NOWHERE, top_k=3),
            "list": lambda: store.list(collection=NOWHERE),
            "delete": lambda: store.delete(collection=NOWHERE, ids=["a"]),
            "delete_collection": lambda: store.delete_collection(NOWHERE),
        }
        if "sources" in self.supports:
            calls["sources"] = lambda: store.sources(collection=NOWHERE)
        for name, ask in calls.items():
            text = str(await refused(ask(), UnknownCollectionError, f"{name} in {NOWHERE!r}"))
            require(NOWHERE in text and "plants" in text, f"{name}: the error names both: {show(text)}")

    @law()
    async def test_hostile_names_are_data(self, store: Any) -> None:
        """A collection may be called anything: it is kept under that name, or refused with RetrievalError."""
        names = (
            "../../etc/passwd",
            "'; DROP TABLE documents; --",
            "漢字",
            "a b",
            "%",
            "x" * 200,
            "NUL",
            "a\0b",
            "\ud83d",
        )
        for name in (*names, "", "x" * 1_000_000):
            try:
                with raising_only(RetrievalError, what=f"the collection {name[:50]!r}"):
                    await store.add([Document(text=f"in {name[:50]!r}")], collection=name)
            except RetrievalError:
                continue
            (document,) = await store.list(collection=name)
            require(document.collection == storable(name), f"{name[:50]!r} came back as {document.collection!r}")
            await store.delete_collection(name)
        remaining = [c.name for c in await store.collections()]
        expect(remaining, ["animals", "plants", "stones"], "the other collections are left as they were")

    @law(empty=True)
    async def test_hostile_texts_are_kept(self, store: Any) -> None:
        """Any text is stored as flexchat.store.storable returns it: without NUL and half characters."""
        texts = ("a\0b", "cut \ud83d", "x" * 100_000, '" OR * NEAR( AND', "'; --", "\ufeffmark\u2028", "漢" * 1000)
        documents = [
            Document(id=f"d{i}{text[:8]}", text=text, title=text[:20], source=text[:20], metadata={"k": text[:20]})
            for i, text in enumerate(texts)
        ]
        expect(await store.add(documents, collection="notes"), len(texts), "the number of added documents")
        expect(await store.add(documents, collection="notes"), 0, "added again, they are not new")
        listed = {d.id: d for d in await store.list(collection="notes")}
        for document in documents:
            document_back = listed.get(storable(document.id or ""))
            require(document_back is not None, f"{document.id!r} is not listed as {storable(document.id or '')!r}")
            for field in ("text", "title", "source"):
                was, came = getattr(document, field), getattr(document_back, field)
                require(came == storable(was), f"{field} {show(was, 60)} came back as {show(came, 60)}")
            came = document_back.metadata.get("k") if document_back is not None else None
            require(came == storable(document.text[:20]), f"metadata {document.text[:20]!r} came back as {came!r}")
            await self.ask(store, document.text, collection="notes")
        await store.delete(collection="notes", ids=[d.id or "" for d in documents])
        require(not await store.list(collection="notes"), "documents are deleted by the ids they were added with")

    @law("durable")
    async def test_what_was_kept_is_there_again(self) -> None:
        """A store that is closed and opened again has all that its methods had returned from, and embeds nothing."""
        with tempfile.TemporaryDirectory() as folder:
            store = self.make_store(_context(folder))
            await store.save_collection(Collection(name="plants", description="About plants"))
            await store.add([d for d in DOCUMENTS if d.collection == "plants"], collection="plants")
            before = await store.list(collection="plants")
            await store.aclose()
            embedder = HashingEmbedder()
            async with contextlib.aclosing(self.make_store(_context(folder, embedder))) as store:
                require(list(await store.list(collection="plants")) == list(before), "documents are as they were")
                hits = await self.ask(store, DOCUMENTS[0].text, collection="plants")
                require(hits.documents[0].text == DOCUMENTS[0].text, "what was added before is found")
                require(hits.description == "About plants", f"the description was kept, got {hits.description!r}")
                require(embedder.count() == 0, f"{embedder.count()} texts were embedded again")


def _context(folder: str, embedder: Embedder | None = None) -> DocumentStoreContext:
    return DocumentStoreContext(name="kit", folder=Path(folder), embedder=embedder or HashingEmbedder())


async def _texts(store: DocumentStore) -> set[str]:
    return {d.text for d in await store.list(collection="notes")}


def _same(was: object, came: object) -> bool:
    return {**was} == {**came} if isinstance(was, Mapping) and isinstance(came, Mapping) else was == came


def _fails_at(text: str) -> Callable[[Sequence[str], list[list[float]]], list[list[float]]]:
    def spoil(texts: Sequence[str], vectors: list[list[float]]) -> list[list[float]]:
        if any(text in batch for batch in texts):
            raise RetrievalError("the embedder failed")
        return vectors

    return spoil
