"""Databases that earlier versions have written open with today's code, as conversations, journal and ledger."""

import sqlite3
from contextlib import closing
from pathlib import Path

import kept_before_sums
import kept_database
import pytest
from flexchat.conversations.effect_rows import seconds_since_boot
from flexchat.domain.journal import JournaledTurn, JournalEntry
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_testing import JournalConformance, PendingConformance

HERE = Path(__file__).parent
DUMP = (HERE / "kept_2026_11.sql").read_text(encoding="utf-8")


def restore(path):
    with closing(sqlite3.connect(path)) as database:
        database.executescript(kept_database.dated_now(DUMP))


@pytest.fixture
async def store(tmp_path):
    path = tmp_path / "kept.db"
    restore(path)
    made = SqliteConversations(path)
    yield made
    await made.aclose()


@pytest.mark.parametrize("check", kept_database.CHECKS)
async def test_a_kept_database_is_read_and_resumed(store, check):
    await check(store)


class KeptBeforeSums:
    """A store of 17 steps, opened and migrated today."""

    def __init__(self, path):
        self._path = path
        self._execute((HERE / "kept_2026_11_28.sql").read_text(encoding="utf-8"))
        self.end_owners()
        its_owner = "SELECT owner FROM journal_turns WHERE conversation = 'running'"
        self._execute(f"UPDATE owners SET renewed = {seconds_since_boot()}, lease = 600 WHERE owner = ({its_owner})")
        self.store = SqliteConversations(path)

    def _execute(self, script):
        with closing(sqlite3.connect(self._path)) as database:
            database.executescript(kept_before_sums.dated_now(script))

    def end_owners(self):
        self._execute("UPDATE owners SET renewed = 0, lease = 0")

    def write_as_older(self):
        self._execute((HERE / "older_2026_11_28.sql").read_text(encoding="utf-8"))


@pytest.mark.parametrize("check", kept_before_sums.CHECKS)
async def test_a_database_from_before_the_sums_is_read_and_resumed(tmp_path, check):
    kept = KeptBeforeSums(tmp_path / "kept.db")
    await check(kept)
    await kept.store.aclose()


def emptied(folder: Path) -> SqliteConversations:
    """Open a kept database without its rows: tables that were made then, and changed since."""
    path = folder / "kept.db"
    if not path.exists():
        restore(path)
        with closing(sqlite3.connect(path)) as database:
            for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                database.execute(f"DELETE FROM {table}")
            database.commit()
    return SqliteConversations(path)


class TestKeptJournal(JournalConformance):
    """In tables of an earlier version."""

    supports = frozenset({"durable", "shared"})

    def make_store(self, folder: Path) -> SqliteConversations:
        return emptied(folder)


class TestKeptQuestions(PendingConformance):
    """In tables of an earlier version."""

    supports = frozenset({"durable", "shared", "ledger"})

    def make_store(self, folder: Path) -> SqliteConversations:
        return emptied(folder)


async def test_turns_of_an_earlier_version_can_be_cancelled_and_followed(store):
    """By accepted ones, which begin once they have ended."""
    journal = store.journal
    kept = (await journal.list_resumable(limit=9))[0]
    assert (kept.suspensions, kept.cancelled_by, kept.due_at, kept.priority) == (0, "", "", 0)
    next_turn = JournaledTurn(
        id="f" * 32, tenant=kept.tenant, conversation=kept.conversation, state="accepted", fence=0
    )
    await journal.write(next_turn, [JournalEntry(number=1, kind="accepted", data={})], lease_s=None)
    assert next_turn.id not in [turn.id for turn in await journal.list_resumable(limit=9)]
    assert (await journal.request_cancel(kept.id, tenant=kept.tenant, by="ann")).cancelled_by == "ann"

    # An earlier version that has had the file open since then, and ends the turn by its own statement.
    with closing(sqlite3.connect(store.path)) as database:
        database.execute("UPDATE journal_turns SET state = 'done', ended_at = 'now' WHERE id = ?", (kept.id,))
        database.commit()

    assert next_turn.id in [turn.id for turn in await journal.list_resumable(limit=9)]
