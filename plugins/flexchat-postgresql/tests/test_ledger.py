"""The ledger in PostgreSQL: what its laws do not show, because it is about connections, crashes and clocks."""

import asyncio

import attrs
import psycopg
import pytest
from flexchat import FlexChat, UserMessage, tool
from flexchat.store import ConversationTurn, EffectCall, StorageError
from flexchat_postgresql.config import PostgresqlConfig
from flexchat_postgresql.connections import Connections
from flexchat_postgresql.conversation_store import PostgresqlConversations
from flexchat_postgresql.owners import Watch
from flexchat_postgresql.tables import CONVERSATIONS
from postgres_server import breaking

LIVES = 600.0


def call(name="1", **rest):
    given = {"tenant": "t", "conversation": "c", "turn": "turn", "place": "1.0", "tool": "pay", "digest": "d", **rest}
    return EffectCall(key=name.encode().hex().ljust(64, "0"), **given)


@pytest.fixture
async def store(dsn, schema):
    made = PostgresqlConversations(PostgresqlConfig(dsn=dsn, schema=schema, pool_size=3))
    yield made
    await made.aclose()


WHEN = pytest.mark.parametrize("when", ["before", "after"])


@WHEN
async def test_a_claim_whose_commit_broke_is_yours_once(store, when):
    """Whether or not it was committed; and whoever asks next is told that it runs."""
    ledger = store.ledger()
    await ledger.list(tenant="t")
    with breaking(store.connections, when):
        claim = await ledger.claim(call(), owner="a", lease_s=LIVES)
    assert (claim.outcome, claim.effect.fence) == ("yours", 1)
    assert (await ledger.claim(call(), owner="a", lease_s=LIVES)).outcome == "running"


@WHEN
async def test_a_take_over_whose_commit_broke_is_yours_once(store, when):
    """With one more fence, not two."""
    ledger = store.ledger()
    await ledger.claim(call(), owner="dead", lease_s=0.0)
    with breaking(store.connections, when):
        claim = await ledger.claim(call(), owner="a", lease_s=LIVES, take_over=True)
    assert (claim.outcome, claim.effect.fence, claim.effect.owner) == ("yours", 2, "a")
    assert (await ledger.get(claim.effect.key, tenant="t")).fence == 2


async def test_a_claim_that_another_made_meanwhile_is_not_ours(store):
    """A broken connection proves nothing: the row says who has written it."""
    ledger, other = store.ledger(), store.ledger()
    await ledger.list(tenant="t")

    async def meanwhile():
        assert (await other.claim(call(), owner="a", lease_s=LIVES)).outcome == "yours"

    with breaking(store.connections, "before", meanwhile):
        claim = await ledger.claim(call(), owner="a", lease_s=LIVES)
    assert claim.outcome == "running"


@WHEN
@pytest.mark.parametrize("state", ["done", "failed", "unknown"])
async def test_an_end_whose_commit_broke_is_written(store, when, state):
    """finish says so, and a second one is still too late."""
    ledger = store.ledger()
    key = (await ledger.claim(call(), owner="a", lease_s=LIVES)).effect.key
    with breaking(store.connections, when):
        assert await ledger.finish(key, 1, state=state, result='{"r": 1}', note="why")
    row = await ledger.get(key, tenant="t")
    assert (row.state, row.result, row.note) == (state, '{"r": 1}', "why")
    with breaking(store.connections, when):
        assert await ledger.finish(key, 1, state="done", result=None) is (state == "unknown")


@WHEN
async def test_a_release_and_a_settlement_whose_commit_broke_are_written(store, when):
    """Neither is refused because it was there already."""
    ledger = store.ledger()
    key = (await ledger.claim(call(), owner="a", lease_s=LIVES)).effect.key
    with breaking(store.connections, when):
        assert await ledger.release(key, 1, note="refused")
    await ledger.claim(call(), owner="dead", lease_s=0.0)
    with breaking(store.connections, when):
        row = await ledger.settle(key, tenant="t", state="done", by="ann")
    assert (row.state, row.settled_by) == ("done", "ann")


async def test_a_row_that_lies_for_long_is_given_up(dsn, schema):
    """A server that stays away is waited for as long as the config says, and then the error says so."""
    store = PostgresqlConversations(PostgresqlConfig(dsn=dsn, schema=schema, connect_timeout_s=0.1))
    ledger = store.ledger()
    await ledger.list(tenant="t")
    with breaking(store.connections, "before", times=1000), pytest.raises(StorageError, match="cannot be reached"):
        await ledger.claim(call(), owner="a", lease_s=LIVES)
    await store.aclose()


@pytest.mark.slow
async def test_a_server_that_crashes_in_the_middle_loses_and_doubles_nothing(own_server):
    """While it is away, claims and ends wait; each claim is its caller's, and each end is written."""
    store = PostgresqlConversations(PostgresqlConfig(dsn=own_server.dsn(), pool_size=4, connect_timeout_s=60))
    ledger, crashing, made = store.ledger(), True, 0
    await ledger.list(tenant="t")

    async def work(worker):
        nonlocal made
        number = 0
        while crashing:
            claim = await ledger.claim(call(f"{worker} {number}"), owner="a", lease_s=LIVES)
            assert (claim.outcome, claim.effect.fence) == ("yours", 1)
            assert await ledger.finish(claim.effect.key, 1, state="done", result="{}")
            number += 1
        made += number

    workers = [asyncio.create_task(work(n)) for n in range(4)]
    for stop in (own_server.crash, own_server.stop, own_server.kill):
        await asyncio.sleep(0.1)  # the moment of the crash, not a wait for anything
        await asyncio.to_thread(stop)
        await asyncio.to_thread(own_server.start)
    crashing = False
    await asyncio.gather(*workers)
    assert len(await ledger.list(tenant="t", states=["done"], limit=10**6)) == made > 0
    await store.aclose()


@pytest.fixture
def clock(server, schema, dsn):
    """Set the server's clock, for whoever connects with the second value: seconds to add to it."""
    name = f"{schema}_clock"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            f"""
            CREATE SCHEMA {name};
            CREATE TABLE {name}.jump AS SELECT 0::float8 AS seconds;
            CREATE FUNCTION {name}.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS
                $$ SELECT pg_catalog.clock_timestamp() + make_interval(secs => (SELECT seconds FROM {name}.jump)) $$;
            """
        )
        yield (
            lambda seconds: connection.execute(f"UPDATE {name}.jump SET seconds = %s", (seconds,)),
            f"{dsn}&options=-c%20search_path%3D{name}%2Cpg_catalog",
        )
        connection.execute(f"DROP SCHEMA {name} CASCADE")


async def test_a_clock_that_is_set_makes_no_living_owner_look_dead(clock, schema):
    """A claim is lost when its owner has not renewed its lease by the clock of the process that asks, either."""
    set_clock, dsn = clock
    store = PostgresqlConversations(PostgresqlConfig(dsn=dsn, schema=schema))
    ledger, now = store.ledger(), 0.0
    ledger._watch = Watch(lambda: now)
    await ledger.claim(call(), owner="a", lease_s=30)

    async def outcome():
        return (await ledger.claim(call(), owner="b", lease_s=30)).outcome

    set_clock(3600)
    assert await outcome() == "running"
    now = 10
    ledger.renew("a", 30)
    assert await outcome() == "running"
    now = 20
    assert await outcome() == "running"
    set_clock(7200)
    assert await outcome() == "running"
    now = 24.9
    assert await outcome() == "running"
    now = 25.1  # half a lease after the first look that saw the last renewal
    assert await outcome() == "lost"
    set_clock(0)  # back: by the database's clock it lives for an hour
    assert await outcome() == "running"
    now = 40.1
    assert await outcome() == "lost"
    claim = await ledger.claim(call(), owner="b", lease_s=30, take_over=True)
    assert (claim.outcome, claim.effect.fence) == ("yours", 2)
    await store.aclose()


async def test_effects_of_a_turn_that_has_not_ended_are_kept(store):
    """It may be taken up at any time."""
    from flexchat.store import JournaledTurn, JournalEntry

    turn = JournaledTurn(id="turn", tenant="t", conversation="c", state="running", owner="o")
    await store.journal.write(turn, [JournalEntry(number=1, kind="started", data={})], lease_s=LIVES)
    ledger = store.ledger()
    for name, turn_id in (("1", "turn"), ("2", "another")):
        wanted = attrs.evolve(call(name, turn=turn_id), arguments="said")
        await ledger.claim(wanted, owner="a", lease_s=LIVES)
        await ledger.finish(wanted.key, 1, state="done", result="{}")
    await asyncio.sleep(0.005)
    await ledger.forget(older_than_s=0)
    assert [(await ledger.get(call(n).key, tenant="t")).arguments for n in "12"] == ["said", ""]


async def test_tables_of_an_older_flexchat_get_what_is_new(dsn, schema):
    """Their conversations go on, with effects and a journal."""
    config = PostgresqlConfig(dsn=dsn, schema=schema)
    old = Connections(config, name="conversations", part="conversations", steps=CONVERSATIONS[:2], error=StorageError)
    async with old.transaction(write=True) as connection:
        begun = "INSERT INTO {s}.conversations VALUES ('t', 'c', 'hello', 'hello', 'x', 0, '2026', '2026', 1)"
        await connection.execute(begun)
    await old.aclose()
    store = PostgresqlConversations(config)
    ledger = store.ledger()

    assert (await ledger.claim(call(), owner="a", lease_s=LIVES)).outcome == "yours"
    assert await store.journal.list_interrupted("c", tenant="t") == []
    await store.append("c", ConversationTurn(id="1", messages=(UserMessage(content="x"),)), tenant="t")
    assert (await store.get("c", tenant="t")).turns == 1
    await store.aclose()


def config_of(dsn, schema, effects):
    return {
        "llms": {"bot": {"provider": "scripted"}},
        "responses": [{"llm": "bot", "model": "m"}],
        "conversations": {"provider": "postgresql", "dsn": dsn, "schema": schema},
        "tools": {"effects": effects},
    }


@pytest.mark.parametrize("effects", [{}, {"store": "postgresql"}], ids=["by default", "by name"])
async def test_effects_are_kept_with_the_conversations(dsn, schema, effects):
    """And deleting a conversation takes what was said, and leaves that it happened."""

    @tool
    async def pay(amount: int) -> int:
        """Pay."""
        return amount

    for _ in range(2):
        async with FlexChat.from_config(config_of(dsn, schema, effects), tools=[pay]) as chat:
            await chat.call_tool("pay", {"amount": 5}, idempotency_key="order 7")
            (row,) = await chat.effects()
            assert (row.state, row.place, row.tool) == ("done", "key:order 7", "pay")


async def test_a_deleted_conversation_takes_its_effects_texts_along(store):
    """In the same transaction."""
    ledger = store.ledger()
    await store.append("c", ConversationTurn(id="1", messages=(UserMessage(content="x"),)), tenant="t")
    key = (await ledger.claim(call(arguments="said"), owner="a", lease_s=LIVES)).effect.key
    await ledger.finish(key, 1, state="unknown", result="{}", note="why")
    await store.delete("c", tenant="t")
    row = await ledger.get(key, tenant="t")
    assert (row.state, row.arguments, row.result, row.note, row.tool) == ("unknown", "", None, "", "pay")
