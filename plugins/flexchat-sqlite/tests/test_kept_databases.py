"""Databases that earlier versions have written open with today's code, as conversations, journal and ledger."""

import sqlite3
from contextlib import closing
from pathlib import Path

import kept_database
import pytest
from flexchat_sqlite.conversations import SqliteConversations

DUMP = Path(__file__).with_name("kept_2026_11.sql").read_text(encoding="utf-8")


@pytest.fixture
async def store(tmp_path):
    path = tmp_path / "kept.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(DUMP)
    made = SqliteConversations(path)
    yield made
    await made.aclose()


@pytest.mark.parametrize("check", kept_database.CHECKS)
async def test_a_kept_database_is_read_and_resumed(store, check):
    await check(store)
