"""From paths to a filled collection, with a store that is a table in memory and writes down what it is asked."""

import asyncio
import hashlib
import os
import threading
from pathlib import Path

import attrs
import flexchat_rag
import pytest
from flexchat.store import Collection, RetrievalError, Source, UnknownCollectionError
from flexchat_rag.ingest.pipeline import MAX_AT_ONCE, IngestOptions, add_files


class TableStore:
    """What DocumentStore promises, without search.

    Attributes:
        adds: Source and number of documents of each call of add.
        refuse: Names of sources it refuses.
    """

    def __init__(self):
        self.tables, self.remembered, self.adds, self.refuse = {}, {}, [], set()

    async def add(self, documents, *, collection, source=None):
        await asyncio.sleep(0)
        if source.name in self.refuse:
            raise RetrievalError("refused")
        table = self.tables.setdefault(collection, {})
        changed = 0
        for document in documents:
            key = document.id or hashlib.sha256(f"{document.source}\n{document.text}".encode()).hexdigest()
            new = (attrs.evolve(document, id=key, collection=collection), source.digest)
            changed += table.get(key, (None,))[0] != new[0]
            table[key] = new
        if source.complete:
            stale = [k for k, (d, digest) in table.items() if d.source == source.name and digest != source.digest]
            for key in stale:
                del table[key]
        self.remembered.setdefault(collection, {})[source.name] = source
        self.adds.append((source, len(documents)))
        return changed

    async def delete(self, *, collection, ids=None, sources=None, where=None):
        table = self.tables[collection]
        gone = [k for k, (d, _) in table.items() if sources is None or d.source in sources]
        for key in gone:
            del table[key]
        for name in sources or ():
            self.remembered[collection].pop(name, None)
        return len(gone)

    async def sources(self, *, collection, limit=1000, after=None):
        if collection not in self.remembered:
            raise UnknownCollectionError(collection, self.remembered)
        names = sorted(n for n in self.remembered[collection] if after is None or n > after)
        return [self.remembered[collection][name] for name in names[:limit]]

    async def collections(self):
        return [Collection(name=name, documents=len(table)) for name, table in self.tables.items()]

    def texts(self, collection="c"):
        return sorted(document.text for document, _ in self.tables.get(collection, {}).values())


@pytest.fixture
def store():
    return TableStore()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(**files):
    for name, text in files.items():
        path = name.replace("__", "/") + ".md"
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w") as file:
            file.write(text)


def write_bytes(name, content):
    Path(name).write_bytes(content)


@pytest.mark.parametrize("paths", ["d", Path("d"), ["d"], (path for path in [Path("d")])])
async def test_the_door_for_programs_takes_one_path_or_several(store, paths):
    """Into the collection that flexchat rag add uses; the heavy parts are imported when they are asked for."""
    write(d__a="Tea.")

    report = await flexchat_rag.add_files(store, paths)

    assert (report.added, store.texts("documents")) == (1, ["Tea."])
    assert all(hasattr(flexchat_rag, name) for name in flexchat_rag.__all__)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"chunk_chars": 10}, "chunk_chars is at least 100, not 10"),
        ({"chunk_chars": 400, "overlap_chars": 101}, "overlap_chars is 0 to 100, a quarter of a passage, not 101"),
        ({"include": "*.md"}, r"write \['\*\.md'\]"),
    ],
)
def test_options_that_cannot_be_are_refused(options, told):
    """As the command does."""
    with pytest.raises((ValueError, TypeError), match=told):
        IngestOptions(**options)

    assert IngestOptions(chunk_chars=200).overlap_chars == 50


async def fill(store, *paths, watch=None, **options):
    return await add_files(store, paths or ("d",), collection="c", options=IngestOptions(**options), watch=watch)


def counts(report):
    return report.added, report.changed, report.unchanged, report.removed, report.failed


async def test_files_are_stored_with_their_source(store):
    """Each file is a source, complete when all of it is there."""
    write(d__a="# A\nText a.", d__sub__b="# B\nText b.")
    report = await fill(store)
    assert counts(report) == (2, 0, 0, 0, 0)
    assert (report.passages, report.stored) == (2, 2)
    assert store.texts() == ["Text a.", "Text b."]
    assert sorted((source.name, source.complete) for source, _ in store.adds) == [
        ("d/a.md", True),
        ("d/sub/b.md", True),
    ]


async def test_passages_of_files_that_are_stored_at_the_same_time_are_all_counted(store):
    """Both files are in the store's hands before either is done."""
    both, add = asyncio.Barrier(2), store.add

    async def add_together(documents, **where):
        await both.wait()
        return await add(documents, **where)

    store.add = add_together
    write(d__a="Text a.", d__b="Text b.")
    assert (await fill(store)).stored == 2


async def test_what_is_unchanged_is_left_alone_and_what_changed_replaces(store):
    """The second run reads nothing into passages; a change of one file stores that one."""
    write(d__a="One.", d__b="Two.")
    await fill(store)
    store.adds.clear()
    assert counts(await fill(store)) == (0, 0, 2, 0, 0)
    assert store.adds == []
    write(d__a="Another.")
    assert counts(await fill(store)) == (0, 1, 1, 0, 0)
    assert store.texts() == ["Another.", "Two."]


async def test_another_way_to_read_is_a_change(store):
    """What decides the passages is part of the digest."""
    write(d__a="One.")
    await fill(store)
    assert counts(await fill(store, chunk_chars=500)) == (0, 1, 0, 0, 0)
    assert counts(await fill(store, chunk_chars=500, metadata={"lang": "en"})) == (0, 1, 0, 0, 0)
    ((document, _),) = store.tables["c"].values()
    assert document.metadata["lang"] == "en"


async def test_a_large_file_comes_in_several_parts(store):
    """Only the last one says that the source is complete; a run that was killed before it is made good."""
    write_bytes("a.jsonl", "".join(f'{{"text": "row {n}"}}\n' for n in range(2 * MAX_AT_ONCE + 1)).encode())
    report = await fill(store, "a.jsonl")
    assert report.passages == 2 * MAX_AT_ONCE + 1
    parts = [(source.complete, number) for source, number in store.adds]
    assert parts == [(False, MAX_AT_ONCE), (False, MAX_AT_ONCE), (True, 1)]
    digest = store.adds[-1][0].digest
    store.remembered["c"]["a.jsonl"] = Source(name="a.jsonl", digest=digest, complete=False)  # killed
    assert counts(await fill(store, "a.jsonl")) == (0, 1, 0, 0, 0)
    assert store.remembered["c"]["a.jsonl"].complete


async def test_a_file_that_cannot_be_read_keeps_what_is_stored(store):
    """It is told, the others are stored, and the old passages stay."""
    write(d__a="One.", d__b="Two.")
    await fill(store)
    write_bytes("d/a.md", b"\0binary")
    report = await fill(store)
    assert counts(report) == (0, 0, 1, 0, 1)
    assert report.failures == ["d/a.md is not text: it holds binary data"]
    assert store.texts() == ["One.", "Two."]


async def test_a_file_with_broken_parts_is_told_each_time(store):
    """What can be read is stored; the next run reads it again, because it is not all there."""
    write_bytes("a.jsonl", b'{"text": "a"}\nbroken\n')
    for _ in range(2):
        report = await fill(store, "a.jsonl")
        assert report.failed == 1
        assert report.failures[0].startswith("a.jsonl: line 2: ")
        assert store.texts() == ["a"]


async def test_prune_deletes_what_is_gone_from_these_folders(store):
    """Neither other folders nor files that are only excluded are touched; without it nothing is deleted."""
    write(d__a="One.", d__b="Two.", e__c="Three.")
    await fill(store, "d", "e")
    os.remove("d/a.md")
    os.remove("e/c.md")
    assert counts(await fill(store, "d")) == (0, 0, 1, 0, 0)
    assert counts(await fill(store, "d", exclude=("b.md",), prune=True)) == (0, 0, 0, 1, 0)
    assert store.texts() == ["Three.", "Two."]
    assert counts(await fill(store, ".", prune=True)) == (0, 0, 1, 1, 0)
    assert store.texts() == ["Two."]


async def test_nothing_is_pruned_of_a_folder_that_is_not_there(store):
    """A disk that is not mounted must not empty a collection."""
    write(d__a="One.")
    await fill(store)
    os.rename("d", "elsewhere")
    report = await fill(store, prune=True)
    assert (report.removed, report.failures) == (0, ["d does not exist"])
    assert store.texts() == ["One."]


async def test_a_file_the_store_refuses_does_not_stop_the_others(store):
    """It is told with the store's reason."""
    write(d__a="One.", d__b="Two.")
    store.refuse = {"d/a.md"}
    report = await fill(store)
    assert report.failures == ["d/a.md was not stored: refused"]
    assert store.texts() == ["Two."]


async def test_a_store_that_refuses_everything_ends_the_run(store):
    """Ten thousand times the same failure helps nobody."""
    write(**{f"d__f{n}": "Text." for n in range(20)})
    store.refuse = {f"d/f{n}.md" for n in range(20)}
    with pytest.raises(RetrievalError, match="refused"):
        await fill(store)


async def test_a_stopped_run_is_finished_by_the_next(store):
    """What was stored is kept, and not stored again."""
    write(**{f"d__f{n:02}": f"Text {n}." for n in range(40)})

    class Stop(Exception):
        pass

    def stop(report, failure):
        if report.files == 10:
            raise Stop

    with pytest.raises(Stop):
        await fill(store, watch=stop)
    stored = len(store.adds)
    report = await fill(store)
    assert 10 <= stored < 40
    assert report.unchanged == stored
    assert len(store.texts()) == 40


async def test_a_file_named_twice_is_read_once(store):
    """By itself and with its folder."""
    write(d__a="One.")
    assert counts(await fill(store, "d", "d/a.md", "./d/")) == (1, 0, 0, 0, 0)


async def test_reading_does_not_block_the_event_loop(store, monkeypatch):
    """Files are read in threads."""
    write(d__a="One.")
    threads = set()
    from flexchat_rag.ingest import pipeline

    take = pipeline._take_batch
    monkeypatch.setattr(
        pipeline, "_take_batch", lambda documents: (threads.add(threading.current_thread()), take(documents))[1]
    )
    await fill(store)
    assert threads
    assert threading.main_thread() not in threads
