"""The journal in PostgreSQL: what its laws do not show, because it is about connections and crashes."""

import asyncio
import contextlib

import psycopg
import pytest
from flexchat import UnknownConversationError, UserMessage
from flexchat.store import (
    ConversationTurn,
    JournaledEvent,
    JournaledTurn,
    JournalEntry,
    LostTurnError,
    StorageError,
    TurnEnd,
)
from flexchat_postgresql.config import PostgresqlConfig
from flexchat_postgresql.conversation_store import PostgresqlConversations
from postgres_server import breaking

LIVES = 600.0
TURN = JournaledTurn(id="a1", tenant="t", conversation="c", state="running", message="hello", owner="o")


def steps(*numbers):
    return [JournalEntry(number=n, kind="phase", data={"n": n}, at="2026") for n in numbers]


def kept(id="a1"):
    return ConversationTurn(id=id, messages=(UserMessage(content="hello"),))


@pytest.fixture
async def store(dsn, schema):
    made = PostgresqlConversations(PostgresqlConfig(dsn=dsn, schema=schema, pool_size=3))
    yield made
    await made.aclose()


async def numbers(store):
    return [step.number for step in (await store.journal.read("a1", tenant="t"))[1]]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_whatever_broke_while_it_was_committed_is_written_once(store, when):
    """Steps, taking up, the end with its conversation, a key."""
    await store.list(tenant="t")
    with breaking(store.connections, when):
        await store.journal.write(TURN, steps(1, 2), lease_s=0.0)
    with breaking(store.connections, when):
        taken = await store.journal.acquire("a1", tenant="t", owner="p", lease_s=LIVES)
    assert (taken.fence, taken.owner, taken.state) == (2, "p", "running")
    with breaking(store.connections, when):
        bound = await store.journal.bind("k", tenant="t", turn="b1", digest="d", keep_s=600)
    assert bound.turn == "b1"
    end = TurnEnd(turn=taken, entries=tuple(steps(3)), state="done")
    with breaking(store.connections, when):
        await store.append("c", kept(), tenant="t", end=end)
    assert await numbers(store) == [1, 2, 3]
    assert [one.id for one in await store.turns("c", tenant="t")] == ["a1"]
    with pytest.raises(LostTurnError):
        await store.append("c", kept("b1"), tenant="t", end=end)


def lose(dsn, schema, *, from_step):
    """Do to the tables what a crash does to what was committed without waiting for the disk."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        table = "journal_entries" if from_step > 1 else "journal_turns"
        where = f"WHERE number >= {from_step}" if from_step > 1 else ""
        connection.execute(f"DELETE FROM {schema}.{table} {where}")


@pytest.mark.parametrize("from_step", [1, 2, 3])
@pytest.mark.parametrize("then", ["step", "event", "end"])
async def test_steps_that_a_crash_took_are_written_again(store, dsn, schema, from_step, then):
    """With whatever the process writes next; a turn whose first step is gone begins again."""
    await store.journal.write(TURN, steps(1), lease_s=LIVES)
    await store.journal.write(TURN, steps(2, 3), lease_s=None)
    lose(dsn, schema, from_step=from_step)
    if then == "end":
        await store.append("c", kept(), tenant="t", end=TurnEnd(turn=TURN, entries=tuple(steps(4)), state="done"))
    else:
        if then == "event":
            await store.journal.add_events(TURN, [JournaledEvent(1, "text", "{}")])
        await store.journal.write(TURN, steps(4), lease_s=None)
    assert await numbers(store) == [1, 2, 3, 4]


async def test_steps_that_nobody_remembers_end_the_turn(store, dsn, schema):
    """A turn with a gap would go on wrongly."""
    await store.journal.write(TURN, steps(1), lease_s=LIVES)
    await store.journal.write(TURN, steps(2, 3), lease_s=None)
    lose(dsn, schema, from_step=3)
    store.journal._recent.clear()
    with pytest.raises(StorageError, match="step 3 of a1 is missing: the database has lost it"):
        await store.journal.write(TURN, steps(4), lease_s=None)


async def test_a_turn_that_was_taken_by_another_is_not_begun_again(store):
    """What is remembered of it is no reason to write."""
    await store.journal.write(TURN, steps(1), lease_s=0.0)
    await store.journal.acquire("a1", tenant="t", owner="p", lease_s=LIVES)
    for late in (store.journal.write(TURN, steps(2), lease_s=None), store.journal.add_events(TURN, [])):
        with pytest.raises(LostTurnError):
            await late
    assert await numbers(store) == [1]


@pytest.mark.slow
async def test_turns_that_end_while_their_conversation_is_deleted_wait_for_no_deadlock(dsn, schema):
    """The server would find one after a second; turns begin and end in two processes, which delete as well."""
    config = PostgresqlConfig(dsn=dsn, schema=schema, pool_size=6)
    stores = PostgresqlConversations(config), PostgresqlConversations(config)
    await stores[0].list(tenant="t")

    async def add(store, worker):
        for n in range(40):
            after = None
            with contextlib.suppress(UnknownConversationError):
                after = (await store.turns("c", tenant="t", last=1))[-1].id
            begun = JournaledTurn(
                id=f"{worker}{n:02}", tenant="t", conversation="c", state="running", message="", owner=f"o{worker}"
            )
            entries = [JournalEntry(number=1, kind="started", data={"after": after}, at="2026")]
            if n % 2:
                await store.journal.write(begun, entries, lease_s=LIVES)
                entries = []
            end = TurnEnd(turn=begun, entries=tuple(entries), state="done", lease_s=LIVES)
            with contextlib.suppress(UnknownConversationError):
                await store.append("c", kept(begun.id), tenant="t", end=end)

    async def delete(store):
        for _ in range(80):
            with contextlib.suppress(UnknownConversationError):
                await store.delete("c", tenant="t")

    async def deadlocks():
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            found = await connection.execute(
                "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            )
            return await found.fetchone()

    before = await deadlocks()
    await asyncio.gather(*(add(stores[n % 2], n) for n in range(6)), *map(delete, stores))
    for store in stores:
        await store.aclose()
    assert await deadlocks() == before
