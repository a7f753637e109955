"""The laws of a document store hold for one made of plain dicts, and each catches a store that breaks it."""

import asyncio
import bisect
import contextlib
import hashlib
import json
import math
import unittest

import attrs
import pytest
from flexchat.store import Collection, RetrievalError, RetrievalHits, UnknownCollectionError, holds, read_filter
from flexchat_sdk import storable
from flexchat_testing import DocumentStoreConformance, HashingEmbedder
from flexchat_testing.laws.law import laws_of

DISKS = {}
"""What a folder holds: stands for files."""


@attrs.define
class Shelf:
    collection: Collection
    documents: dict = attrs.field(factory=dict)
    vectors: dict = attrs.field(factory=dict)
    digests: dict = attrs.field(factory=dict)
    sources: dict = attrs.field(factory=dict)


class DictStore:
    """The reference: a right store, as plain as it can be."""

    def __init__(self, context):
        self.context = context
        self.shelves = DISKS.setdefault(str(context.folder), {})

    def shelf(self, name):
        if storable(name) not in self.shelves:
            raise UnknownCollectionError(name, self.shelves)
        return self.shelves[storable(name)]

    async def add(self, documents, *, collection, source=None):
        kept = self.shelves.get(storable(collection)) or Shelf(Collection(name=storable(collection)))
        made = (self.read(self.made(d, collection), kept.collection, source) for d in documents)
        ready = {d.id: d for d in made}
        new = [d for d in ready.values() if d.id not in kept.documents or kept.documents[d.id].text != d.text]
        vectors = await self.vectors([d.text for d in new], "document") if new else []
        self.check(vectors, new, kept)
        shelf = self.shelves.setdefault(storable(collection), kept)
        changed = sum(shelf.documents.get(d.id) != d for d in ready.values())
        shelf.documents.update(ready)
        shelf.vectors.update(zip([d.id for d in new], vectors, strict=True))
        if vectors:
            shelf.collection = attrs.evolve(
                shelf.collection, embedding=self.context.embedder.name, dimensions=len(vectors[0])
            )
        if source is not None:
            self.finish(shelf, ready, source)
        return changed

    def made(self, document, collection):
        source = storable(document.source) if document.source is not None else None
        text = storable(document.text)
        try:
            metadata = json.loads(json.dumps(dict(document.metadata), allow_nan=False, default=None))
        except (TypeError, ValueError) as error:
            raise RetrievalError(f"metadata must be JSON data: {error}") from error
        return attrs.evolve(
            document,
            id=storable(document.id) if document.id else hashlib.sha256(f"{source}\n{text}".encode()).hexdigest(),
            text=text,
            title=storable(document.title),
            source=source,
            collection=storable(collection),
            metadata={k: storable(v) if isinstance(v, str) else v for k, v in metadata.items()},
        )

    def read(self, document, collection, source):
        for field, usual in ((collection.title_field, "title"), (collection.source_field, "source")):
            value = document.metadata.get(field)
            if field != usual and isinstance(value, str) and not (usual == "source" and source):
                document = attrs.evolve(document, **{usual: value})
        return document

    async def vectors(self, texts, purpose):
        return await self.context.embedder.embed(texts, purpose=purpose)

    def check(self, vectors, texts, shelf):
        lengths = {len(v) for v in vectors} | ({shelf.collection.dimensions} - {None} if vectors else set())
        fine = all(math.isfinite(value) for vector in vectors for value in vector)
        if len(vectors) != len(texts) or len(lengths) > 1 or not fine:
            raise RetrievalError("the embedder's vectors cannot be used")
        if vectors and shelf.collection.embedding not in (None, self.context.embedder.name):
            raise RetrievalError(f"its vectors are of {shelf.collection.embedding}")

    def finish(self, shelf, ready, source):
        shelf.digests.update({(source.name, id): source.digest for id in ready})
        if source.complete:
            for id, document in [*shelf.documents.items()]:
                if document.source == source.name and shelf.digests.get((source.name, id)) != source.digest:
                    del shelf.documents[id]
            source = attrs.evolve(source, added_at="2024-01-01T00:00:00Z")
        shelf.sources[source.name] = source
        self.forget(shelf)

    def forget(self, shelf):
        held = {d.source for d in shelf.documents.values()}
        shelf.sources = {name: source for name, source in shelf.sources.items() if name in held}

    async def delete(self, *, collection, ids=None, sources=None, where=None):
        condition, shelf = read_filter(where), self.shelf(collection)
        ids = None if ids is None else {storable(id) for id in ids}
        gone = [
            id
            for id, d in shelf.documents.items()
            if (ids is None or id in ids) and (sources is None or d.source in sources) and holds(condition, d.metadata)
        ]
        for id in gone:
            del shelf.documents[id]
        self.forget(shelf)
        return len(gone)

    async def list(self, *, collection, where=None, limit=100, after=None):
        condition, documents = read_filter(where), self.shelf(collection).documents
        ids = sorted(documents)
        start = bisect.bisect_right(ids, after) if after is not None else 0
        return [documents[id] for id in ids[start:] if holds(condition, documents[id].metadata)][:limit]

    async def sources(self, *, collection, limit=1000, after=None):
        shelf = self.shelf(collection)
        counted = [
            attrs.evolve(shelf.sources[name], documents=sum(d.source == name for d in shelf.documents.values()))
            for name in sorted(shelf.sources)
            if after is None or name > after
        ]
        return counted[:limit]

    async def save_collection(self, collection):
        shelf = self.shelves.setdefault(collection.name, Shelf(collection))
        old = shelf.collection
        shelf.collection = attrs.evolve(collection, embedding=old.embedding, dimensions=old.dimensions)

    async def delete_collection(self, name):
        self.shelf(name)
        del self.shelves[storable(name)]

    async def collections(self):
        return [attrs.evolve(s.collection, documents=len(s.documents)) for _, s in sorted(self.shelves.items())]

    async def query(self, text, *, collection, top_k, where=None):
        condition = read_filter(where)
        shelves = [self.shelf(collection)] if collection is not None else [*self.shelves.values()]
        asked = await self.vectors([text], "query")
        for shelf in shelves:
            self.check(asked, [text], shelf)
        (wanted,) = asked
        found = []
        for shelf in shelves:
            if shelf.documents and shelf.collection.embedding != self.context.embedder.name:
                raise RetrievalError(f"its vectors are of {shelf.collection.embedding}")
            for id, document in shelf.documents.items():
                if holds(condition, document.metadata):
                    near = sum(a * b for a, b in zip(wanted, shelf.vectors[id], strict=True))
                    found.append((max(0.0, 1 - near), document))
        found.sort(key=lambda hit: (hit[0], hit[1].collection, hit[1].id))
        return self.hits(found[:top_k], shelves[0].collection if collection is not None else Collection(name=""))

    def hits(self, found, collection):
        return RetrievalHits(
            documents=tuple(document for _, document in found),
            distances=tuple(distance for distance, _ in found),
            description=collection.description,
            match_threshold=collection.match_threshold,
            partial_threshold=collection.partial_threshold,
        )

    async def aclose(self):
        pass


class Good(DocumentStoreConformance):
    supports = frozenset(DocumentStoreConformance.capabilities)
    plugin = "flexchat.plugin"
    store = DictStore

    def make_store(self, context):
        return self.store(context)


class ForgetsTitles(DictStore):
    def made(self, document, collection):
        return attrs.evolve(super().made(document, collection), title="Untitled")


class CountsAll(DictStore):
    async def add(self, documents, **rest):
        await super().add(documents, **rest)
        return len(documents)


class IdOfText(DictStore):
    def made(self, document, collection):
        return super().made(attrs.evolve(document, id=document.id or document.text), collection)


class EmptyMeansAll(DictStore):
    async def delete(self, *, collection, ids=None, sources=None, where=None):
        return await super().delete(collection=collection, ids=ids or None, sources=sources or None, where=where)


class LimitBeforeFilter(DictStore):
    async def list(self, *, collection, where=None, limit=100, after=None):
        page = await super().list(collection=collection, limit=limit, after=after)
        return [d for d in page if holds(read_filter(where), d.metadata)]


class DeletesUnread(DictStore):
    async def delete(self, *, collection, where=None, **rest):
        with contextlib.suppress(Exception):
            read_filter(where)
            return await super().delete(collection=collection, where=where, **rest)
        return 0


class Flattens(DictStore):
    def made(self, document, collection):
        made = super().made(document, collection)
        flat = {k: v if isinstance(v, str | int | float) else json.dumps(v) for k, v in made.metadata.items()}
        return attrs.evolve(made, metadata=flat)


class ReadsAnything(DictStore):
    def read(self, document, collection, source):
        return attrs.evolve(document, title=str(document.metadata.get(collection.title_field, document.title)))


class SourcesAsTheyCame(DictStore):
    async def sources(self, *, collection, limit=1000, after=None):
        return [*self.shelf(collection).sources.values()]


class RemovesEarly(DictStore):
    def finish(self, shelf, ready, source):
        super().finish(shelf, ready, attrs.evolve(source, complete=True))


class RemembersSources(DictStore):
    def forget(self, shelf):
        pass


class EmbedsAgain(DictStore):
    async def add(self, documents, **rest):
        await self.vectors([d.text for d in documents], "document")
        return await super().add(documents, **rest)


class TakesAnyVector(DictStore):
    def check(self, vectors, texts, shelf):
        pass


class OneByOne(DictStore):
    async def add(self, documents, **rest):
        return sum([await DictStore.add(self, [document], **rest) for document in documents])


class SkipsBadOnes(DictStore):
    def made(self, document, collection):
        try:
            return super().made(document, collection)
        except RetrievalError:
            return super().made(attrs.evolve(document, metadata={}), collection)


class LosesOthers(DictStore):
    async def add(self, documents, *, collection, source=None):
        before = dict(self.shelves)
        await asyncio.sleep(0)
        count = await super().add(documents, collection=collection, source=source)
        await asyncio.sleep(0)
        self.shelves |= {n: s for n, s in before.items() if n != storable(collection)}
        if storable(collection) not in before:
            self.shelves[storable(collection)] = attrs.evolve(self.shelf(collection))
            self.shelf(collection).documents = {
                self.made(d, collection).id: self.made(d, collection) for d in documents
            }
        return count


class KeepsOnlyNames(DictStore):
    async def save_collection(self, collection):
        await super().save_collection(Collection(name=collection.name))


class NothingIsUnknown(DictStore):
    async def list(self, *, collection, **rest):
        return await super().list(collection=collection, **rest) if collection in self.shelves else []


class NamesArePaths(DictStore):
    async def add(self, documents, *, collection, source=None):
        if "/" in collection:
            raise FileNotFoundError(collection)
        return await super().add(documents, collection=collection, source=source)


class KeepsNul(DictStore):
    def made(self, document, collection):
        return attrs.evolve(super().made(document, collection), text=document.text)


class Forgets(DictStore):
    async def aclose(self):
        self.shelves.clear()


FLAWS = {
    "test_what_is_added_is_found": (ForgetsTitles, "title was 'Ferns'"),
    "test_a_document_replaces_the_one_of_its_id": (CountsAll, "expected 0, got 4"),
    "test_an_id_is_made_where_there_is_none": (IdOfText, "added again, is not new"),
    "test_documents_are_deleted": (EmptyMeansAll, "returns 0, got 8"),
    "test_documents_are_listed_page_by_page": (LimitBeforeFilter, "the limit counts what passes"),
    "test_filters_of_a_list_mean_what_they_say": (DeletesUnread, "must raise FilterError"),
    "test_metadata_are_any_json_data": (Flattens, "came back as"),
    "test_title_and_source_may_be_in_the_metadata": (ReadsAnything, "titles and sources are"),
    "test_sources_are_remembered": (SourcesAsTheyCame, "sources come by name"),
    "test_what_an_earlier_digest_left_goes_when_a_source_is_complete": (RemovesEarly, "removes nothing yet"),
    "test_a_source_without_documents_is_forgotten": (RemembersSources, "is left, got"),
    "test_an_unchanged_text_is_not_embedded_again": (EmbedsAgain, "embedded once each, got 10"),
    "test_vectors_that_cannot_be_right_are_refused": (TakesAnyVector, "a vector with NaN must raise RetrievalError"),
    "test_a_failure_in_the_middle_stores_nothing": (OneByOne, "and 100 are stored"),
    "test_vectors_of_another_embedder_are_not_compared": (TakesAnyVector, "another embedder must raise"),
    "test_adding_is_all_or_none": (SkipsBadOnes, "must raise RetrievalError"),
    "test_an_add_that_is_stopped_stores_all_or_none": (OneByOne, "left 1 behind"),
    "test_adds_side_by_side_keep_everything": (LosesOthers, "of 20 documents"),
    "test_collections_are_described_changed_and_deleted": (KeepsOnlyNames, "description: expected 'About c'"),
    "test_an_unknown_collection_is_an_error": (NothingIsUnknown, "must raise UnknownCollectionError"),
    "test_hostile_names_are_data": (NamesArePaths, "raised FileNotFoundError"),
    "test_hostile_texts_are_kept": (KeepsNul, "text 'a\\x00b' came back as"),
    "test_what_was_kept_is_there_again": (Forgets, "plants"),
}


@pytest.mark.parametrize("name", [name for name, _ in laws_of(Good)])
def test_a_store_of_plain_dicts_keeps_every_law(name):
    """What a law asks can be done, and easily."""
    getattr(Good(), name)()


@pytest.mark.parametrize(("name", "store", "words"), [(name, *flaw) for name, flaw in FLAWS.items()])
def test_a_law_catches_a_store_that_breaks_it(name, store, words):
    """The verdict says what is wrong."""
    wrong = type("Wrong", (Good,), {"store": store})()

    with pytest.raises(Exception) as caught:
        getattr(wrong, name)()

    assert not isinstance(caught.value, unittest.SkipTest)
    assert words in str(caught.value)


def test_every_law_of_its_own_is_shown_to_catch_something():
    """Those it has from RetrieverConformance are shown beside that."""
    own = {name for name, value in vars(DocumentStoreConformance).items() if getattr(value, "is_law", False)}

    assert own == FLAWS.keys()


async def test_the_embedder_of_the_kit_makes_near_vectors_for_shared_words():
    """The same in every process, of length 1, with a direction even for no words; and it tells what it was asked."""
    embedder = HashingEmbedder()
    near, far, same, blank = await embedder.embed(["red cat", "blue dog", "RED CAT!", " "], purpose="document")

    assert near == same
    assert math.isclose(sum(v * v for v in blank), 1.0)
    assert sum(a * b for a, b in zip(near, far, strict=True)) < 0.2
    assert embedder.count() == 4
    assert embedder.count("query") == 0
