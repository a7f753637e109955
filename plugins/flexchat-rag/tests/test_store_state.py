"""Whatever is done to a store, it holds what a plain dict would."""

import asyncio
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import attrs
from flexchat.store import Collection, Document, DocumentStoreContext, Source
from flexchat_rag.config import SqliteConfig
from flexchat_rag.retriever import SqliteStore
from flexchat_testing import HashingEmbedder
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

NAMES = st.sampled_from(("a", "b"))
IDS = st.sampled_from(("1", "2", "3", "4", "5"))
SOURCES = st.sampled_from(("s", "t"))
TEXTS = st.sampled_from(("red fox", "blue fox", "green owl", "grey owl at night"))


@attrs.frozen
class Kept:
    text: str
    source: str | None
    digest: str | None
    n: int


class Machine(RuleBasedStateMachine):
    """A store and, for each collection, a dict of documents and a dict of sources."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.loop = asyncio.new_event_loop()
        self.documents: dict[str, dict[str, Kept]] = {}
        self.known: dict[str, dict[str, tuple[str, bool]]] = {}
        self.open()

    def open(self) -> None:
        context = DocumentStoreContext(folder=Path(self.folder.name), embedder=HashingEmbedder(dimensions=16))
        self.store = SqliteStore(SqliteConfig(path="state.db"), context)

    def run(self, coroutine: Any) -> Any:
        return self.loop.run_until_complete(coroutine)

    def teardown(self) -> None:
        self.run(self.store.aclose())
        self.run(self.loop.shutdown_default_executor())
        self.loop.close()
        connection = sqlite3.connect(Path(self.folder.name) / "state.db")
        try:  # raises where the index of words is not that of the texts
            connection.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
        finally:
            connection.close()
        self.folder.cleanup()

    @rule(name=NAMES, rows=st.lists(st.tuples(IDS, TEXTS, st.integers(0, 2)), max_size=4, unique_by=lambda r: r[0]))
    def add(self, name: str, rows: list[tuple[str, str, int]]) -> None:
        there = self.documents.setdefault(name, {})
        self.known.setdefault(name, {})
        new = {id: Kept(text, None, None, n) for id, text, n in rows}
        changed = sum(id not in there or attrs.evolve(there[id], digest=None) != kept for id, kept in new.items())
        documents = [Document(id=id, text=text, metadata={"n": n}) for id, text, n in rows]
        assert self.run(self.store.add(documents, collection=name)) == changed
        there.update(new)

    @rule(
        name=NAMES,
        source=SOURCES,
        digest=st.sampled_from("xy"),
        complete=st.booleans(),
        rows=st.lists(st.tuples(IDS, TEXTS), max_size=3, unique_by=lambda r: r[0]),
    )
    def add_source(self, name: str, source: str, digest: str, complete: bool, rows: list[tuple[str, str]]) -> None:
        there = self.documents.setdefault(name, {})
        documents = [Document(id=id, text=text, metadata={"n": 7}) for id, text in rows]
        told = Source(name=source, digest=digest, complete=complete)
        self.run(self.store.add(documents, collection=name, source=told))
        there.update({id: Kept(text, source, digest, 7) for id, text in rows})
        if complete:
            for id in [id for id, kept in there.items() if kept.source == source and kept.digest != digest]:
                del there[id]
        self.known.setdefault(name, {})[source] = (digest, complete)

    @rule(name=NAMES, ids=st.none() | st.lists(IDS, max_size=2), sources=st.none() | st.lists(SOURCES, max_size=1))
    def delete(self, name: str, ids: list[str] | None, sources: list[str] | None) -> None:
        if name not in self.documents:
            return
        there, known = self.documents[name], self.known[name]
        gone = [
            id
            for id, kept in there.items()
            if (ids is None or id in ids) and (sources is None or kept.source in sources)
        ]
        assert self.run(self.store.delete(collection=name, ids=ids, sources=sources)) == len(gone)
        touched = {there[id].source for id in gone} | set(sources or ())
        for id in gone:
            del there[id]
        for source in touched & set(known):
            if all(kept.source != source for kept in there.values()):
                del known[source]

    @rule(name=NAMES)
    def delete_collection(self, name: str) -> None:
        if self.documents.pop(name, None) is not None:
            del self.known[name]
            self.run(self.store.delete_collection(name))

    @rule(name=NAMES)
    def describe(self, name: str) -> None:
        self.run(self.store.save_collection(Collection(name=name, description="said")))
        self.documents.setdefault(name, {})
        self.known.setdefault(name, {})

    @rule()
    def reopen(self) -> None:
        self.run(self.store.aclose())
        self.open()

    @rule(text=TEXTS, low=st.integers(0, 3))
    def search(self, text: str, low: int) -> None:
        """Every document has a vector, so that a question in all collections finds all that pass the filter."""
        hits = self.run(self.store.query(text, collection=None, top_k=100, where={"n": {"$gte": low}}))
        wanted = {(n, id) for n, there in self.documents.items() for id, kept in there.items() if kept.n >= low}
        assert {(d.collection, d.id) for d in hits.documents} == wanted
        assert all(abs(x) < 1e-6 for d, x in zip(hits.documents, hits.distances, strict=True) if d.text == text)

    @invariant()
    def holds_the_same(self) -> None:
        listed = self.run(self.store.collections())
        assert {c.name: c.documents for c in listed} == {name: len(there) for name, there in self.documents.items()}
        for name, there in self.documents.items():
            documents = self.run(self.store.list(collection=name))
            found = [(d.id, d.text, d.source, d.metadata["n"]) for d in documents]
            assert found == [(id, kept.text, kept.source, kept.n) for id, kept in sorted(there.items())]
            sources = self.run(self.store.sources(collection=name))
            assert {s.name: (s.digest, s.complete) for s in sources} == self.known[name]
            assert all(s.documents == sum(k.source == s.name for k in there.values()) for s in sources)


Machine.TestCase.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)
TestStore = Machine.TestCase
