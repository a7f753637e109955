"""Turns of earlier versions, whose media are Base64 in their JSON, and the steps that move them out of it."""

import base64
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from flexchat import MediaPart, UserMessage
from flexchat.errors import StorageError
from flexchat.store import ConversationTurn, turn_to_dict, turn_to_json, turn_to_parts
from flexchat_sqlite import media as media_rows
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_testing.laws.kept_samples import hard_turns, turn

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "media_migration.py"


@pytest.fixture
async def store(tmp_path):
    made = SqliteConversations(tmp_path / "c.db")
    yield made
    await made.aclose()


def with_picture(id, data=PNG):
    part = MediaPart(kind="image", mime_type="image/png", data=data)
    return ConversationTurn(id=id, messages=(UserMessage("Look.", media=(part,)),))


async def keep_old(store, *turns, in_one=False):
    """Keep turns as earlier versions did."""
    for each in turns:
        await store.append("c", turn(each.id), tenant="t")
    rows = [(*((None, turn_to_json(each)) if in_one else turn_to_parts(each)), each.id) for each in turns]
    update = "UPDATE turns SET history = ?, turn = ? WHERE id = ?"
    await store.database.write(lambda database: database.executemany(update, rows))


def all_rows(store, query):
    with closing(sqlite3.connect(store.path)) as database:
        return database.execute(query).fetchall()


@pytest.mark.parametrize("in_one", [True, False])
async def test_old_turns_are_read_before_and_after_their_media_are_moved(store, in_one):
    old = [*hard_turns(), with_picture("p1"), with_picture("p2")]
    await keep_old(store, *old, in_one=in_one)
    for _ in range(2):
        assert [turn_to_dict(each) for each in await store.turns("c", tenant="t")] == [*map(turn_to_dict, old)]
        history = await store.history("c", tenant="t")
        assert [each.messages for each in history.turns] == [each.messages for each in old]
        while await store.media.migrate():
            pass
    text = base64.b64encode(PNG).decode()
    assert not [row for row in all_rows(store, "SELECT coalesce(history, ''), turn FROM turns") if text in "".join(row)]
    digest = with_picture("p1").messages[0].media[0].sha256
    assert all_rows(store, f"SELECT count(*) FROM media WHERE sha256 = '{digest}'") == [(1,)]
    await store.delete("c", tenant="t")
    assert all_rows(store, "SELECT count(*) FROM media") == [(0,)]


async def test_a_step_is_bounded(store, monkeypatch):
    monkeypatch.setattr(media_rows, "MIGRATED_CHARS", 1000)
    await keep_old(store, *(with_picture(f"{n}", PNG + bytes([n]) * 800) for n in range(5)))
    moved = []
    while await store.media.migrate():
        moved += all_rows(store, "SELECT count(*) FROM media")
    assert moved == [(1,), (2,), (3,), (4,), (5,)]


async def test_a_step_that_fails_changes_nothing(store, monkeypatch):
    await keep_old(store, *(with_picture(f"{n}", PNG + bytes([n])) for n in range(3)))
    before = all_rows(store, "SELECT * FROM turns")
    use, calls = media_rows.use, []

    def failing(*args, **rest):
        calls.append(1)
        if len(calls) == 2:
            raise sqlite3.OperationalError("disk I/O error")
        use(*args, **rest)

    monkeypatch.setattr(media_rows, "use", failing)
    with pytest.raises(StorageError):
        await store.media.migrate()
    assert all_rows(store, "SELECT * FROM turns") == before
    assert all_rows(store, "SELECT count(*) FROM media") == [(0,)]
    assert await store.media.migrate()
    assert all_rows(store, "SELECT count(*) FROM media") == [(3,)]


async def test_a_turn_that_is_deleted_while_it_is_moved_stays_deleted(store, monkeypatch):
    await keep_old(store, with_picture("p"))
    read = store.database.read

    async def read_and_delete(work):
        result = await read(work)
        await store.delete("c", tenant="t")
        return result

    monkeypatch.setattr(store.database, "read", read_and_delete)
    assert await store.media.migrate()
    assert all_rows(store, "SELECT (SELECT count(*) FROM turns), (SELECT count(*) FROM media)") == [(0, 0)]


async def test_turns_without_media_are_kept_as_before(store):
    await store.append("c", turn("1", "Hello \ud83d\0"), tenant="t")
    assert all_rows(store, "SELECT history, turn FROM turns") == [turn_to_parts(turn("1", "Hello \ud83d\0"))]
    assert all_rows(store, "SELECT count(*) FROM media_uses") == [(0,)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_processes_that_are_killed_while_they_move_media_lose_nothing(kind):
    command = [sys.executable, str(BENCHMARK), "--turns", "400", "--kills", "5", "--store", kind]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "5 of 5 processes killed" in ended.stdout
