"""A damaged database is put aside under a name that says so; nothing is deleted, and the operator is told."""

import asyncio
import logging
import sqlite3
from pathlib import Path

import pytest
from flexchat.errors import StorageError
from flexchat_sqlite.damage import file_id, put_aside
from flexchat_sqlite.database import Database

OURS = 0x12345
TABLE = "CREATE TABLE t (x INTEGER PRIMARY KEY, y TEXT)"


def database(path):
    return Database(path, kind="things", application_id=OURS, migrations=(TABLE,))


def put(y):
    return lambda db: db.execute("INSERT INTO t (y) VALUES (?)", (y,)).lastrowid


def change_all(db):
    db.execute("UPDATE t SET y = 'x'")


def everything(db):
    return [row[0] for row in db.execute("SELECT y FROM t ORDER BY x")]


@pytest.fixture
def filled(tmp_path):
    """A closed database of many pages."""
    db = database(tmp_path / "t.db")
    db.write_blocking(lambda c: [put(f"{n} " * 100)(c) for n in range(500)])
    db.close()
    return db.path


def aside(path):
    return sorted(found for found in path.parent.glob("*.damaged-*") if found.suffix == path.suffix)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"garbage" * 1000,
        lambda content: bytes(len(content)),
        lambda content: b"\0" * 100 + content[100:],
        lambda content: content[:100] + b"\xff" * 4000 + content[4100:],
        lambda content: content[: len(content) // 2],
        lambda content: content[:1000],
    ],
    ids=["text", "zeros", "no header", "no schema", "half", "a piece"],
)
def test_a_file_that_cannot_be_opened_is_put_aside_and_a_new_one_begun(filled, damage, caplog):
    """Once: the next program finds the new one. What was damaged is kept byte for byte."""
    broken = damage(filled.read_bytes())
    filled.write_bytes(broken)
    db = database(filled)

    try:
        db.write_blocking(put("new"))
    except StorageError as error:  # some damage shows only when it is used
        assert "put aside as" in str(error)  # noqa: PT017
        db.write_blocking(put("new"))
    assert db.read_blocking(everything) == ["new"]
    db.close()
    (kept,) = aside(filled)
    assert kept.read_bytes() == broken
    (record,) = [record for record in caplog.records if record.name == "flexchat_sqlite.database"]
    assert record.levelno == logging.ERROR
    assert str(kept) in record.getMessage()
    again = database(filled)
    assert again.read_blocking(everything) == ["new"]
    again.close()
    assert len(aside(filled)) == 1


@pytest.mark.parametrize("way", ["read", "write"])
def test_damage_found_in_use_is_told_to_whoever_found_it_and_the_next_goes_on(filled, way):
    """A page in the middle, which opening does not look at."""
    content = bytearray(filled.read_bytes())
    for start in range(3 * 4096, len(content), 4096):
        content[start : start + 64] = b"\xee" * 64
    filled.write_bytes(content)
    db = database(filled)

    work = {"read": lambda: db.read_blocking(everything), "write": lambda: db.write_blocking(change_all)}[way]
    with pytest.raises(StorageError, match=r"put aside as '.*damaged-"):
        work()
    db.write_blocking(put("after"))
    assert db.read_blocking(everything) == ["after"]
    db.close()
    assert aside(filled)[0].read_bytes()[:4096] == content[:4096]


def test_the_log_goes_with_the_file(filled):
    """Else a new database would take over the old one's last writes."""
    filled.write_bytes(b"\0" * 5000)
    filled.with_name("t.db-wal").write_bytes(b"old log")

    kept = put_aside(filled, file_id(filled), OURS)
    assert kept.with_name(kept.name + "-wal").read_bytes() == b"old log"
    assert list(filled.parent.glob("t.db*")) == []


def test_two_that_find_the_same_damage_put_aside_one_file(filled):
    """The second sees that there is a new one at the path."""
    filled.write_bytes(b"\0" * 5000)
    first, second = database(filled), database(filled)
    seen = file_id(filled)
    first.write_blocking(put("kept"))
    assert put_aside(filled, seen, OURS) is None
    assert second.read_blocking(everything) == ["kept"]
    assert len(aside(filled)) == 1
    first.close()
    second.close()


def test_what_is_not_ours_stays_where_it_is(tmp_path):
    """Another program's database, damaged or not, and a file that is not named like one."""
    theirs = tmp_path / "theirs.db"
    other = sqlite3.connect(theirs)
    other.execute("CREATE TABLE theirs (x)")
    other.execute("PRAGMA application_id = 77")
    other.commit()
    other.close()
    theirs.write_bytes(theirs.read_bytes()[:100] + b"\xff" * 5000)
    text = tmp_path / "thesis.txt"
    text.write_text("not a database " * 500)
    for path in (theirs, text):
        before = path.read_bytes()
        db = database(path)
        with pytest.raises(StorageError, match=r"damaged|something else"):
            db.write_blocking(put("a"))
        db.close()
        assert path.read_bytes() == before
    assert aside(theirs) == []


def test_a_file_that_cannot_be_put_aside_stays_and_is_an_error(filled, monkeypatch, caplog):
    """A folder that nobody may write to, say."""
    filled.write_bytes(b"\0" * 5000)
    db = database(filled)

    def refuse(self, target):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(StorageError, match="is not a SQLite database, or is damaged"):
        db.read_blocking(everything)
    db.close()
    assert filled.read_bytes() == b"\0" * 5000
    assert "cannot be put aside: Permission denied" in caplog.text


def take_away(path):
    for end in ("", "-wal", "-shm"):
        moved = path.with_name(path.name + end)
        if moved.exists():
            moved.rename(path.with_name("moved.db" + end))


@pytest.mark.parametrize("work", [lambda db: db.write_blocking(put("new")), lambda db: db.read_blocking(everything)])
def test_a_file_that_is_deleted_while_in_use_is_reported_and_not_begun_anew(filled, work):
    """An empty file in its place would hide the loss, and a ledger that is empty would let effects happen again."""
    db = database(filled)
    assert len(db.read_blocking(everything)) == 500
    take_away(filled)

    for _ in range(2):
        with pytest.raises(StorageError, match="was deleted or moved while in use: put it back, or restart"):
            work(db)

    assert not filled.exists()
    db.close()
    again = database(filled)
    again.write_blocking(put("new"))
    assert again.read_blocking(everything) == ["new"]
    again.close()


async def test_many_reads_at_once_of_a_deleted_file_create_none(filled):
    """Each has a connection of its own, and opening one must not leave an empty file behind."""
    db = database(filled)
    assert len(await db.read(everything)) == 500
    take_away(filled)

    found = await asyncio.gather(*(db.read(everything) for _ in range(20)), return_exceptions=True)

    assert {type(each) for each in found} == {StorageError}
    assert all("was deleted or moved while in use" in str(each) for each in found)
    assert not filled.exists()
    await db.aclose()


@pytest.mark.parametrize("name", ["a b", "a?mode=memory", "a#b", "a%20b", "é"])
def test_any_name_of_a_file_is_that_of_the_database(tmp_path, name):
    db = database(tmp_path / name)
    db.write_blocking(put("kept"))
    db.close()
    assert (tmp_path / name).is_file()


async def test_a_write_that_does_not_wait_for_the_disk_reports_a_deleted_file(filled):
    """It has a connection of its own, which could go on with the deleted file."""
    db = database(filled)
    await db.write_soon(put("kept"))
    take_away(filled)

    with pytest.raises(StorageError, match="was deleted or moved"):
        await db.write_soon(put("lost"))
    with pytest.raises(StorageError, match="was deleted or moved"):
        await db.read_soon(everything)
    await db.aclose()


def test_a_file_that_is_put_back_or_replaced_is_used_with_a_warning(filled, caplog):
    """A restored copy is meant to be used; what is written goes there."""
    db = database(filled)
    assert len(db.read_blocking(everything)) == 500
    take_away(filled)
    copy = database(filled)
    copy.write_blocking(put("of the copy"))
    copy.close()

    db.write_blocking(put("new"))

    assert db.read_blocking(everything) == ["of the copy", "new"]
    assert "was replaced while in use" in caplog.text
    db.close()
