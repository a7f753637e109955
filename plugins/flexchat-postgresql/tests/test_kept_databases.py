"""Databases that earlier versions have written open with today's code, as conversations, journal and ledger."""

from pathlib import Path

import kept_database
import psycopg
import pytest
from flexchat_postgresql.config import PostgresqlConfig
from flexchat_postgresql.conversation_store import PostgresqlConversations

DUMP = Path(__file__).with_name("kept_2026_11.sql").read_text(encoding="utf-8")


@pytest.fixture
async def store(dsn):
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS kept CASCADE")
        connection.execute(kept_database.dated_now(DUMP))
    made = PostgresqlConversations(PostgresqlConfig(dsn=dsn, schema="kept", pool_size=2))
    yield made
    await made.aclose()


@pytest.mark.slow
@pytest.mark.parametrize("check", kept_database.CHECKS)
async def test_a_kept_database_is_read_and_resumed(store, check):
    await check(store)
