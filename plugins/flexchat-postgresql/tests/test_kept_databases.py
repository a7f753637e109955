"""Databases that earlier versions have written open with today's code, as conversations, journal and ledger."""

from pathlib import Path

import kept_before_sums
import kept_database
import psycopg
import pytest
from flexchat_postgresql.config import PostgresqlConfig
from flexchat_postgresql.conversation_store import PostgresqlConversations

HERE = Path(__file__).parent
DUMP = (HERE / "kept_2026_11.sql").read_text(encoding="utf-8")


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


class KeptBeforeSums:
    """A store of 14 steps, opened and migrated today."""

    def __init__(self, dsn):
        self._dsn = dsn
        self._execute("DROP SCHEMA IF EXISTS kept CASCADE")
        self._execute((HERE / "kept_2026_11_28.sql").read_text(encoding="utf-8"))
        self.end_owners()
        its_owner = "SELECT owner FROM kept.journal_turns WHERE conversation = 'running'"
        self._execute(
            f"UPDATE kept.owners SET alive_until = now() + '10 min', lease_s = 600 WHERE owner = ({its_owner})"
        )
        self.store = PostgresqlConversations(PostgresqlConfig(dsn=dsn, schema="kept", pool_size=2))

    def _execute(self, script):
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute(kept_before_sums.dated_now(script))

    def end_owners(self):
        self._execute("UPDATE kept.owners SET alive_until = now() - interval '1 day'")

    def write_as_older(self):
        self._execute((HERE / "older_2026_11_28.sql").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("check", kept_before_sums.CHECKS)
async def test_a_database_from_before_the_sums_is_read_and_resumed(dsn, check):
    kept = KeptBeforeSums(dsn)
    await check(kept)
    await kept.store.aclose()
