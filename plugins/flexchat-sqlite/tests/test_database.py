"""A SQLite file used from asyncio: durable, shared, and honest about trouble."""

import asyncio
import gc
import os
import sqlite3
import subprocess
import sys
import threading

import attrs
import pytest
from flexchat.errors import StorageError
from flexchat.files import data_folder
from flexchat_sqlite.database import Database

OURS = 0x12345
TABLE = "CREATE TABLE t (x INTEGER PRIMARY KEY, y TEXT); -- a comment; with a semicolon\nCREATE INDEX i ON t (y);"


def database(path, migrations=(TABLE,), application_id=OURS):
    return Database(path, kind="things", application_id=application_id, migrations=migrations)


def put(y):
    return lambda db: db.execute("INSERT INTO t (y) VALUES (?)", (y,)).lastrowid


def everything(db):
    return [row[0] for row in db.execute("SELECT y FROM t ORDER BY x")]


@pytest.fixture
async def db(tmp_path):
    db = database(tmp_path / "deep" / "folder" / "t.db")
    yield db
    await db.aclose()


async def test_making_one_touches_no_disk(tmp_path):
    database(tmp_path / "t.db")

    assert list(tmp_path.iterdir()) == []


async def test_what_is_written_is_read_also_after_closing(tmp_path):
    first = database(tmp_path / "t.db")
    assert await first.write(put("a")) == 1
    assert await first.read(everything) == ["a"]
    await first.aclose()
    second = database(tmp_path / "t.db")

    assert await second.read(everything) == ["a"]
    await second.aclose()


async def test_work_that_raises_leaves_nothing_and_the_next_is_done(db):
    def fails(connection):
        put("lost")(connection)
        raise KeyError("x")

    with pytest.raises(KeyError):
        await db.write(fails)
    await db.write(put("kept"))

    assert await db.read(everything) == ["kept"]


async def test_writes_are_on_the_disk_in_full(db):
    """Write-ahead log and full synchronisation: what the figures of durability were measured with."""
    assert await db.write(lambda c: c.execute("PRAGMA journal_mode").fetchone()[0]) == "wal"
    assert await db.write(lambda c: c.execute("PRAGMA synchronous").fetchone()[0]) == 2


async def test_only_the_owner_can_read_the_file(db):
    await db.write(put("secret"))

    assert {os.stat(file).st_mode & 0o077 for file in db.path.parent.iterdir()} == {0}
    assert db.path.parent.stat().st_mode & 0o077 == 0


async def test_readers_do_not_wait_for_a_writer_and_see_what_was_there_before(db):
    await db.write(put("a"))
    written, go_on = threading.Event(), threading.Event()

    def slow(connection):
        put("b")(connection)
        written.set()
        go_on.wait(10)

    writing = asyncio.ensure_future(db.write(slow))
    await asyncio.to_thread(written.wait, 10)
    assert await db.read(everything) == ["a"]
    go_on.set()
    await writing

    assert await db.read(everything) == ["a", "b"]


async def test_a_reader_sees_one_state_and_cannot_write(db):
    await db.write(put("a"))

    with pytest.raises(StorageError, match="read-only"):
        await db.read(put("b"))
    assert await db.read(everything) == ["a"]


async def test_whoever_stops_waiting_does_not_stop_the_work_also_not_what_still_waits_for_its_thread(db):
    await db.read(everything)
    writes = [asyncio.ensure_future(db.write(put(str(n)))) for n in range(10)]
    await asyncio.sleep(0)
    for write in writes:
        write.cancel()
    await asyncio.gather(*writes, return_exceptions=True)
    await db.write(put("last"))

    assert await db.read(everything) == [*map(str, range(10)), "last"]


async def test_a_closed_database_says_so_and_closing_twice_is_nothing(db):
    await db.write(put("a"))
    await db.aclose()
    await db.aclose()

    with pytest.raises(StorageError, match="is closed"):
        await db.write(put("b"))
    with pytest.raises(StorageError, match="is closed"):
        await db.read(everything)


async def test_steps_are_taken_once_each_and_all_or_none(tmp_path):
    path = tmp_path / "t.db"
    first = database(path)
    await first.write(put("a"))
    await first.aclose()
    broken = database(path, (TABLE, "ALTER TABLE t ADD COLUMN z TEXT; ALTER TABLE missing ADD COLUMN z TEXT;"))
    with pytest.raises(StorageError, match="no such table"):
        await broken.read(everything)
    await broken.aclose()

    def third(connection):
        connection.execute("UPDATE t SET z = 'filled'")

    second = database(path, (TABLE, "ALTER TABLE t ADD COLUMN z TEXT", third))

    assert await second.read(lambda c: c.execute("SELECT y, z FROM t").fetchall()) == [("a", "filled")]
    await second.aclose()


async def test_a_file_of_a_newer_version_is_refused(tmp_path):
    newer = database(tmp_path / "t.db", (TABLE, "CREATE TABLE more (x)"))
    await newer.read(everything)
    await newer.aclose()
    older = database(tmp_path / "t.db")

    with pytest.raises(StorageError, match="newer FlexChat"):
        await older.read(everything)
    await older.aclose()


@pytest.mark.parametrize("other_id", [0, OURS + 1])
async def test_another_programs_database_is_refused_and_left_as_it_was(tmp_path, other_id):
    path = tmp_path / "t.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs (x)")
    other.execute(f"PRAGMA application_id = {other_id}")
    other.commit()
    other.close()
    before = path.read_bytes()
    db = database(path)

    with pytest.raises(StorageError, match="something else"):
        await db.write(put("a"))
    await db.aclose()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda path: path.write_bytes(b"no database, but long enough to be looked at" * 100), "not a SQLite database"),
        (lambda path: path.mkdir(), "this is a folder, not a file"),
    ],
)
async def test_what_is_no_database_is_a_sentence_with_the_path(tmp_path, prepare, said):
    path = tmp_path / "t.data"
    prepare(path)
    db = database(path)

    with pytest.raises(StorageError, match=said) as raised:
        await db.write(put("a"))
    await db.aclose()
    assert str(path) in str(raised.value)


async def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    db = database(tmp_path / "file" / "t.db")

    with pytest.raises(StorageError, match="cannot be used"):
        await db.read(everything)


async def test_a_full_disk_is_a_sentence_and_loses_nothing_that_was_kept(db):
    await db.write(put("kept"))
    pages = await db.write(lambda c: c.execute("PRAGMA page_count").fetchone()[0])
    await db.write(lambda c: c.execute(f"PRAGMA max_page_count = {pages}").fetchone())

    with pytest.raises(StorageError, match="disk is full"):
        await db.write(put("x" * 1_000_000))
    assert await db.read(everything) == ["kept"]


@pytest.mark.parametrize("value", [2**63, "\ud800"])
async def test_a_value_no_database_can_hold_is_a_storage_error(db, value):
    with pytest.raises(StorageError, match="cannot hold this"):
        await db.write(put(value))


@pytest.mark.slow
async def test_a_file_that_another_process_writes_for_too_long_is_a_sentence(db, monkeypatch):
    monkeypatch.setattr("flexchat_sqlite.database.BUSY_S", 0.05)
    await db.write(put("a"))
    other = sqlite3.connect(db.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(StorageError, match="is in use"):
            await db.write(put("b"))
    finally:
        other.close()
    await db.write(put("c"))

    assert await db.read(everything) == ["a", "c"]


BEGINNING = """
import asyncio, sys
from flexchat_sqlite.database import Database
sys.stdin.readline()

async def main():
    for number in range(10):
        db = Database(f"{sys.argv[1]}/{number}.db", kind="things", application_id=7, migrations=("CREATE TABLE t (x)",))
        await db.write(lambda c: c.execute("INSERT INTO t VALUES (1)"))
        await db.aclose()

asyncio.run(main())
"""


@pytest.mark.slow
def test_processes_that_make_the_same_new_files_at_once_do_not_disturb_each_other(tmp_path):
    words = [sys.executable, "-c", BEGINNING, str(tmp_path)]
    processes = [subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    ended = []
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        ended.append((process.communicate(timeout=60)[1], process.returncode))

    assert ended == [("", 0)] * 4
    for number in range(10):
        connection = sqlite3.connect(tmp_path / f"{number}.db")
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (4,)
        connection.close()


async def test_any_prefix_of_the_log_is_a_whole_state(tmp_path):
    """A loss of power may cut the write-ahead log anywhere: some last writes are gone, and never a part of one."""
    db = database(tmp_path / "t.db")
    for n in range(20):
        await db.write(lambda c, n=n: [put(f"{n}")(c), put(f"{n}")(c)])
    log = db.path.with_name("t.db-wal").read_bytes()
    main = db.path.read_bytes()
    await db.aclose()
    for cut in range(0, len(log), max(len(log) // 40, 1)):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / "t.db").write_bytes(main)
        (folder / "t.db-wal").write_bytes(log[:cut])
        connection = sqlite3.connect(folder / "t.db")
        found = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] and everything(connection)
        connection.close()
        assert (found or []) == [str(n) for n in range(len(found or []) // 2) for _ in range(2)]


def test_the_data_folder_is_the_named_one_else_the_platforms(monkeypatch, tmp_path):
    monkeypatch.setenv("FLEXCHAT_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    monkeypatch.delenv("FLEXCHAT_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "x"))
    monkeypatch.setattr(sys, "platform", "linux")
    assert data_folder() == tmp_path / "x" / "flexchat"


def test_blocking_calls_do_the_same_for_code_that_is_not_asynchronous(tmp_path):
    """Reading first makes the file; what raises leaves nothing; closed is closed."""
    db = database(tmp_path / "t.db")
    assert db.read_blocking(everything) == []
    assert db.write_blocking(put("a")) == 1
    with pytest.raises(StorageError, match="cannot hold this"):
        db.write_blocking(put("\ud800"))
    assert db.read_blocking(everything) == ["a"]
    db.close()
    db.close()

    with pytest.raises(StorageError, match="is closed"):
        db.write_blocking(put("b"))
    with pytest.raises(StorageError, match="is closed"):
        db.read_blocking(everything)


async def test_work_that_fails_when_nobody_waits_for_it_any_more_is_no_complaint(db):
    complaints, go_on = [], threading.Event()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))

    def fails(connection):
        go_on.wait(5)
        raise KeyError("x")

    reading = asyncio.create_task(db.read(fails))
    await asyncio.sleep(0.01)
    reading.cancel()
    await asyncio.wait({reading})
    go_on.set()
    await db.aclose()
    await asyncio.sleep(0)
    gc.collect()
    asyncio.get_running_loop().set_exception_handler(None)

    assert reading.cancelled()
    assert complaints == []


async def test_in_memory_all_threads_see_one_database_and_no_file_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    db = database(":memory:")

    await asyncio.gather(*(db.write(put(f"{n}")) for n in range(20)), *(db.write_soon(put("x")) for _ in range(5)))

    assert sorted(await db.read(everything)) == sorted([*map(str, range(20)), *"xxxxx"])
    assert await db.read_soon(everything) == db.read_blocking(everything)
    await db.empty_log()
    await db.aclose()
    with pytest.raises(StorageError, match="is closed"):
        await db.read(everything)
    assert [*tmp_path.iterdir()] == []


def versions(path):
    """Three versions of FlexChat and one file: the second adds a column, the third removes it."""
    steps = ("CREATE TABLE a (x)", "ALTER TABLE a ADD COLUMN y", "ALTER TABLE a DROP COLUMN y")
    return [
        Database(path, kind="test", application_id=7, migrations=steps[:count], compatible_from=compatible)
        for count, compatible in ((1, 1), (2, 1), (3, 2))
    ]


async def test_versions_share_a_file_that_the_newer_one_only_adds_to(tmp_path):
    older, newer, newest = versions(tmp_path / "a.db")

    await newer.write(lambda d: d.execute("INSERT INTO a VALUES (1, 2)"))
    await older.write(lambda d: d.execute("INSERT INTO a (x) VALUES (3)"))

    assert attrs.astuple(await older.schema()) == (2, 1, 1)
    assert await newer.read(lambda d: d.execute("SELECT x, y FROM a").fetchall()) == [(1, 2), (3, None)]
    for each in (older, newer, newest):
        await each.aclose()


async def test_a_process_stops_writing_once_a_newer_version_has_changed_the_schema(tmp_path):
    older, newer, newest = versions(tmp_path / "a.db")
    await older.write(lambda d: d.execute("INSERT INTO a VALUES (1)"))

    await newest.migrate()

    assert not (await older.schema()).is_usable
    with pytest.raises(StorageError, match="newer FlexChat"):
        await older.write(lambda d: d.execute("INSERT INTO a VALUES (2)"))
    with pytest.raises(StorageError, match="newer FlexChat"):
        await older.write_soon(lambda d: d.execute("INSERT INTO a VALUES (2)"))
    assert await newer.read(lambda d: d.execute("SELECT x FROM a").fetchall()) == [(1,)]
    for each in (older, newer, newest):
        await each.aclose()


async def test_without_migrating_missing_steps_are_an_error(tmp_path):
    _, newer, _ = versions(tmp_path / "a.db")
    newer.migrates = False

    with pytest.raises(StorageError, match="flexchat migrate"):
        await newer.write(lambda d: d.execute("SELECT 1"))

    await newer.migrate()
    await newer.write(lambda d: d.execute("INSERT INTO a VALUES (1, 2)"))
    await newer.aclose()


async def test_a_copy_is_taken_while_another_connection_writes(tmp_path):
    store, restored = database(tmp_path / "a.db"), database(tmp_path / "b.db")
    await store.write(lambda d: d.execute("INSERT INTO t (y) VALUES ('before')"))

    def write_and_copy(connection):
        connection.execute("INSERT INTO t (y) VALUES ('not committed')")
        store._copy_to(tmp_path / "copy.db")

    await store.write(write_and_copy)
    await restored.restore(tmp_path / "copy.db")

    assert await restored.read(everything) == ["before"]
    with pytest.raises(StorageError, match="is there already"):
        await restored.restore(tmp_path / "copy.db")
    await store.aclose()
    await restored.aclose()


@pytest.mark.parametrize("content", [b"", b"text", b"SQLite format 3\0" + b"x" * 4096])
async def test_what_is_no_copy_is_not_restored(tmp_path, content):
    (tmp_path / "copy.db").write_bytes(content)
    store = database(tmp_path / "b.db")

    with pytest.raises(StorageError):
        await store.restore(tmp_path / "copy.db")

    assert not (tmp_path / "b.db").exists()
    await store.aclose()
