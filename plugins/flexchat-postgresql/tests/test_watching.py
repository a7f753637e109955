"""Notices of changed turns, over one connection."""

import asyncio
import contextlib

import psycopg
import pytest
from flexchat.store import JournaledEvent, JournaledTurn, JournalEntry
from flexchat_postgresql.config import PostgresqlConfig
from flexchat_postgresql.conversation_store import PostgresqlConversations

TURN = JournaledTurn(id="a1", tenant="t", conversation="c", state="running", owner="o")
ACCEPTED = JournaledTurn(id="b1", tenant="t", conversation="d", state="accepted")
STEP = JournalEntry(number=1, kind="phase", data={}, at="2026")


@contextlib.asynccontextmanager
async def opened(dsn, schema="flexchat", **settings):
    store = PostgresqlConversations(PostgresqlConfig(dsn=dsn, schema=schema, **settings))
    try:
        yield store
    finally:
        await store.aclose()


@contextlib.asynccontextmanager
async def watching(store):
    """Return a function that awaits the next id; the watch has begun."""
    watch = store.journal.watch()
    assert await anext(watch) == ""  # what happened before
    yield lambda: asyncio.wait_for(anext(watch), 20)
    await watch.aclose()


def watchers(dsn):
    with psycopg.connect(dsn) as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'flexchat watch %'"
        return connection.execute(query).fetchone()[0]


async def test_all_watchers_of_a_store_share_a_connection(dsn, schema):
    """Which is closed with the last of them; and each gets every id."""
    before = watchers(dsn)
    async with opened(dsn, schema) as store, opened(dsn, schema) as other, watching(store) as first:
        watch = store.journal.watch()
        second = asyncio.ensure_future(anext(watch))
        await other.journal.write(TURN, [STEP], lease_s=600.0)
        await other.journal.request_cancel("a1", tenant="t", by="ann")
        assert [await first(), await second] == ["a1", "a1"]
        assert watchers(dsn) == before + 1
        await watch.aclose()
    for _ in range(500):
        if watchers(dsn) == before:
            break
        await asyncio.sleep(0.01)  # the server ends a session after its client
    assert watchers(dsn) == before


async def test_a_store_gets_commands_to_its_turns_but_not_their_progress(dsn, schema):
    """What the process does itself wakes only others."""
    stores = opened(dsn, schema), opened(dsn, schema)
    async with stores[0] as store, stores[1] as other, watching(store) as ours, watching(other) as theirs:
        await store.journal.write(TURN, [STEP], lease_s=600.0)
        await store.journal.add_events(TURN, [JournaledEvent(1, "text", "{}")])
        assert await theirs() == "a1"
        await store.journal.request_cancel("a1", tenant="t", by="ann")
        assert [await ours(), await theirs()] == ["a1", "a1"]


async def test_another_schema_is_not_noticed(dsn, schema):
    """Its turns are others."""
    async with opened(dsn, schema) as store, opened(dsn, f"{schema}_2") as other, watching(store) as ours:
        for each in (other, store):
            await each.journal.write(TURN, [STEP], lease_s=600.0)
        await other.journal.request_cancel("a1", tenant="t", by="ann")
        await store.journal.write(ACCEPTED, [STEP], lease_s=None)
        await store.journal.request_cancel("b1", tenant="t", by="ann")
        assert await ours() == "b1"
        with psycopg.connect(dsn) as connection:
            connection.execute(f'DROP SCHEMA "{schema}_2" CASCADE')


async def test_a_watcher_that_takes_nothing_gets_one_empty_id(dsn, schema):
    """In place of all that do not fit, and what follows."""
    async with opened(dsn, schema) as store, watching(store) as ours:
        for n in range(1500):
            store.journal.notices._receive(f"a{n}")
        ids = [await ours() for _ in range(500)]
        assert (ids[0], ids[-1], len(set(ids))) == ("", "a1499", 500)


@pytest.mark.slow
@pytest.mark.parametrize("stop", ["crash", "stop"])
async def test_a_watch_goes_on_after_a_restart_of_the_server(own_server, stop):
    """With an empty id once it listens again; and one that begins while the server is away begins late."""
    async with opened(own_server.dsn(), connect_timeout_s=60) as store, watching(store) as ours:
        await store.journal.write(ACCEPTED, [STEP], lease_s=None)
        await asyncio.to_thread(getattr(own_server, stop))
        watch = store.journal.watch()
        late = asyncio.ensure_future(anext(watch))
        await asyncio.to_thread(own_server.start)
        assert [await ours(), await late] == ["", ""]
        await store.journal.request_cancel("b1", tenant="t", by="ann")
        assert [await ours(), await anext(watch)] == ["b1", "b1"]
        await watch.aclose()


def test_a_store_is_watched_from_one_event_loop_after_the_other(dsn, schema):
    """asyncio.run twice with one store; a closed one ends its watches."""
    store = PostgresqlConversations(PostgresqlConfig(dsn=dsn, schema=schema))

    async def once():
        await anext(store.journal.watch())

    async def last():
        watch = store.journal.watch()
        assert await anext(watch) == ""
        rest = asyncio.ensure_future(anext(watch, "ended"))
        await asyncio.sleep(0)
        await store.aclose()
        return await asyncio.wait_for(rest, 20)

    asyncio.run(once())
    assert asyncio.run(last()) == "ended"
