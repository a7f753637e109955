"""Who lives, and who is dead."""

import threading

import psycopg
import pytest
from flexchat.store import StorageError
from flexchat_postgresql.config import PostgresqlConfig
from flexchat_postgresql.conversation_store import PostgresqlConversations
from flexchat_postgresql.owners import Watch


def test_an_owner_is_dead_when_both_clocks_say_so():
    """Or when this process has waited for a whole lease."""
    now = 0.0
    watch = Watch(lambda: now)
    assert not watch.is_dead("a", 1, 30.0, has_expired=True)
    now = 15
    assert watch.is_dead("a", 1, 30.0, has_expired=True)
    assert not watch.is_dead("a", 1, 30.0, has_expired=False)
    now = 30
    assert watch.is_dead("a", 1, 30.0, has_expired=False)
    assert not watch.is_dead("a", 2, 30.0, has_expired=True)
    assert watch.is_dead("b", 1, 0.0, has_expired=True)


@pytest.fixture
async def store(dsn, schema):
    made = PostgresqlConversations(PostgresqlConfig(dsn=dsn, schema=schema))
    yield made
    await made.aclose()


def alive(dsn, schema):
    with psycopg.connect(dsn) as connection:
        asked = f"SELECT owner FROM {schema}.owners WHERE alive_until > clock_timestamp() ORDER BY owner"
        return [owner for (owner,) in connection.execute(asked).fetchall()]


def in_a_thread(work, *args):
    failed = []

    def run():
        try:
            work(*args)
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    if failed:
        raise failed[0]


async def test_the_first_to_renew_makes_the_tables(store, dsn, schema):
    """A lease may be renewed before anything else is asked."""
    in_a_thread(store.renewer.renew, "a", 600.0)
    assert alive(dsn, schema) == ["a"]


async def test_a_lease_is_renewed_over_a_new_connection_where_the_old_one_broke(store, dsn, schema):
    """As after a restart of the server."""
    in_a_thread(store.renewer.renew, "a", 600.0)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'flexchat lease %'"
        )
    in_a_thread(store.renewer.renew, "b", 600.0)
    assert alive(dsn, schema) == ["a", "b"]


def test_a_server_that_is_away_is_an_error():
    """Which says where it was looked for."""
    store = PostgresqlConversations(PostgresqlConfig(dsn="postgresql://me@127.0.0.1:9/db"))
    with pytest.raises(StorageError, match=r"me@127\.0\.0\.1:9/db cannot be reached"):
        store.renewer.renew("a", 600.0)
