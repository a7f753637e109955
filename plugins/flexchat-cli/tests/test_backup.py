"""flexchat backup, restore and migrate."""

import asyncio
import json
import os
import shutil
import sqlite3
import stat

import attrs
import pytest
from flexchat.domain import EffectCall
from flexchat.domain.journal import JournaledTurn, JournalEntry
from flexchat_sqlite.conversations import SqliteConversations

REPLIES = [f'{{ text = "answer {n}" }}' for n in range(1, 6)]


@pytest.fixture(autouse=True)
def own_data(tmp_path, monkeypatch):
    monkeypatch.setenv("FLEXCHAT_DATA", str(tmp_path / "data"))


@pytest.fixture
def kept(script):
    """Write a configuration that keeps conversations and documents, with a prompt in a file of its own."""
    path = script(*REPLIES)
    text = '\n[conversations]\npath = "kept.db"\n\n[stores.docs]\nprovider = "sqlite"\npath = "docs.db"\n'
    path.write_text(path.read_text() + text)
    return path


@pytest.fixture
def backup(run, kept, tmp_path):
    """The folder of a backup, with one conversation."""
    assert run("ask", "first question").status == 0
    folder = tmp_path / "backup"
    assert run("backup", str(folder)).status == 0
    return folder


def conversations(run, *words):
    return json.loads(run(*words, "conversations", "list", "--json").out)


def edit_manifest(folder, **changes):
    path = folder / "backup.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.slow
def test_a_restored_backup_has_the_configuration_and_the_conversations(run, backup, kept, tmp_path):
    before = conversations(run)

    result = run("restore", str(backup), "--to", str(tmp_path / "new"))

    assert result.status == 0, result.err
    assert conversations(run, "--config", str(tmp_path / "new" / kept.name)) == before
    assert (tmp_path / "new" / kept.name).read_bytes() == kept.read_bytes()
    assert stat.S_IMODE((tmp_path / "new" / "kept.db").stat().st_mode) == 0o600


def test_a_backup_has_what_is_still_in_the_write_ahead_log(run, kept, tmp_path):
    async def write_and_back_up():
        store = SqliteConversations(tmp_path / "kept.db")
        await store.database.write(lambda d: d.execute("PRAGMA wal_autocheckpoint = 0"))
        for number in range(20):
            await store.journal.write(begun(f"t{number}"), [started()], lease_s=30)
        assert (tmp_path / "kept.db-wal").stat().st_size > 0
        result = await asyncio.to_thread(run, "backup", str(tmp_path / "backup"))
        await store.aclose()
        return result

    assert asyncio.run(write_and_back_up()).status == 0

    copy = sqlite3.connect(tmp_path / "backup" / "databases" / "conversations")
    assert copy.execute("SELECT count(*) FROM journal_turns").fetchone() == (20,)
    copy.close()


def test_a_backup_names_what_it_leaves_out_and_has_no_secret(run, script, tmp_path, monkeypatch):
    path = script(*REPLIES)
    text = '\n[llms.gpt]\nprovider = "openai"\napi_key = "sk-written-in-the-file"\n'
    path.write_text(path.read_text() + text)
    (tmp_path / ".env").write_text("OTHER_KEY=swordfish-123\n")

    manifest = json.loads(run("backup", str(tmp_path / "backup"), "--json").out)

    everything = b"".join(file.read_bytes() for file in (tmp_path / "backup").rglob("*") if file.is_file())
    assert b"sk-written-in-the-file" not in everything
    assert b"swordfish-123" not in everything
    assert b"${FLEXCHAT_LEFT_OUT}" in everything
    assert "keys (flexchat keys, .env, the environment)" in manifest["left_out"]
    assert any(path.name in text for text in manifest["left_out"])


def test_included_files_and_accepted_tools_are_part_of_a_backup(run, kept, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "more.toml").write_text('[tools]\nat_limit = "answer"\n')
    kept.write_text('include = ["more/more.toml"]\n' + kept.read_text())
    (tmp_path / f"{kept.stem}.tools.lock").write_text("{}")

    manifest = json.loads(run("backup", str(tmp_path / "backup"), "--json").out)

    assert manifest["config_files"] == [kept.name, "more/more.toml", f"{kept.stem}.tools.lock"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda b: os.truncate(b / "databases/conversations", 4096), "has 4,096 of"),
        (lambda b: (b / "databases/conversations").unlink(), "databases/conversations is missing"),
        (lambda b: (b / "config" / "flexchat.toml").write_text("x"), "flexchat.toml has 1 of"),
        (lambda b: (b / "backup.json").unlink(), "has no backup.json"),
        (lambda b: os.truncate(b / "backup.json", 100), "is damaged"),
        (lambda b: (b / "backup.json").write_text("[]"), "is damaged"),
        (lambda b: (b / "backup.json").write_bytes(b"\xff\0"), "is damaged"),
        (lambda b: edit_manifest(b, made_at="2020-01-01"), "was changed after"),
        (lambda b: edit_manifest(b, files={}), "was changed after"),
    ],
)
def test_a_truncated_or_edited_backup_restores_nothing(run, backup, tmp_path, damage, reason):
    damage(backup)

    result = run("restore", str(backup), "--to", str(tmp_path / "new"))

    assert result.status == 1
    assert reason in result.err
    assert not (tmp_path / "new").exists()


def test_one_changed_byte_is_found(run, backup, tmp_path):
    file = backup / "databases" / "conversations"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)

    assert "databases/conversations was changed" in run("restore", str(backup), "--check").err


def test_a_backup_that_was_not_finished_is_none(run, backup, tmp_path):
    shutil.move(backup, tmp_path / "other.partial")

    result = run("restore", str(tmp_path / "other"))

    assert "is one that was not finished" in result.err


def test_a_restore_overwrites_neither_files_nor_databases(run, backup, kept, tmp_path):
    before = kept.read_bytes(), (tmp_path / "kept.db").read_bytes()
    kept.write_text(kept.read_text() + "# changed\n")

    changed = run("restore", str(backup), "--to", str(tmp_path))
    kept.write_bytes(before[0])
    same = run("restore", str(backup), "--to", str(tmp_path))

    assert (changed.status, same.status) == (1, 1)
    assert "another content is there already" in changed.err
    assert "is there already" in same.err
    assert (kept.read_bytes(), (tmp_path / "kept.db").read_bytes()) == before


def test_only_the_data_can_be_restored_to_a_configuration_that_is_there(run, backup, kept, tmp_path):
    before = conversations(run)
    for file in tmp_path.glob("kept.db*"):
        file.unlink()

    assert run("restore", str(backup), "--data").status == 0
    assert conversations(run) == before


def test_a_folder_that_is_there_is_not_written_to(run, backup):
    result = run("backup", str(backup))

    assert result.status == 2
    assert "is there already" in result.err


def begun(id):
    return JournaledTurn(
        id=id, tenant="default", conversation=f"c-{id}", state="running", message="m", owner="o", fence=1, began_at="b"
    )


def started():
    return JournalEntry(number=1, kind="started", data={"request": {"user_message": "m"}}, at="b")


def test_unfinished_turns_of_a_backup_wait_and_their_claims_are_unknown(run, kept, tmp_path):
    async def begin():
        store = SqliteConversations(tmp_path / "kept.db")
        await store.journal.write(begun("running"), [started()], lease_s=3600)
        accepted = attrs.evolve(begun("accepted"), state="accepted", owner="")
        await store.journal.write(accepted, [started()], lease_s=None)
        call = EffectCall(
            key="k" * 64,
            tenant="default",
            conversation="c-running",
            turn="running",
            place="0",
            tool="pay",
            digest="d",
            arguments="{}",
        )
        claim = await store.ledger().claim(call, owner="o", lease_s=3600)
        await store.aclose()
        return claim

    assert asyncio.run(begin()).outcome == "yours"
    assert run("backup", str(tmp_path / "backup")).status == 0
    assert run("restore", str(tmp_path / "backup"), "--to", str(tmp_path / "new")).status == 0

    async def look():
        store = SqliteConversations(tmp_path / "new" / "kept.db")
        found = (
            await store.journal.list(tenant="default"),
            await store.journal.list_resumable(limit=10),
            await store.ledger().list(tenant="default"),
        )
        await store.aclose()
        return found

    turns, resumable, effects = asyncio.run(look())
    assert {turn.id: turn.state for turn in turns} == {"running": "interrupted", "accepted": "interrupted"}
    assert all("was under way when this data was backed up" in turn.error for turn in turns)
    assert all(turn.interruptions > 5 for turn in turns), "or a repeated idempotency key resumes them"
    assert list(resumable) == []
    assert [effect.state for effect in effects] == ["unknown"]


def test_migrate_creates_what_is_missing_and_check_changes_nothing(run, kept, tmp_path):
    first = run("migrate", "--check")

    assert first.status == 1
    assert "missing" in first.out
    assert not (tmp_path / "kept.db").exists()
    assert run("migrate").status == 0
    assert run("migrate", "--check").status == 0


def test_migrate_refuses_a_database_of_a_newer_version(run, kept, tmp_path):
    assert run("migrate").status == 0
    newer = sqlite3.connect(tmp_path / "kept.db")
    newer.execute("PRAGMA user_version = 99")
    newer.close()

    result = run("migrate")

    assert result.status == 1
    assert "newer FlexChat" in result.out


def test_a_configuration_that_cannot_be_used_leaves_no_folder_in_the_way(run, kept, tmp_path):
    text = kept.read_text()
    kept.write_text(f"{text}\n[nonsense]\n")
    assert run("backup", str(tmp_path / "backup")).status == 2

    kept.write_text(text)
    assert run("ask", "first question").status == 0
    assert run("backup", str(tmp_path / "backup")).status == 0
