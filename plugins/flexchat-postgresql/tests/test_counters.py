"""Counters in PostgreSQL: what the laws of all stores leave out."""

import pytest
from flexchat.store import Charge, effect_rows
from flexchat_postgresql.config import PostgresqlConfig
from flexchat_postgresql.conformance import PostgresqlCounts
from flexchat_postgresql.conversation_store import PostgresqlConversations

pytestmark = pytest.mark.slow
DAY_S = 86_400


async def reserve(store, id, amount):
    charge = Charge(key="a", amount=amount, ceiling=10, period="day")
    return await store.counters.reserve(id, [charge], owner="o", lease_s=600)


@pytest.fixture
async def opened(dsn, schema):
    stores = []

    def open():
        stores.append(PostgresqlConversations(PostgresqlConfig(dsn=dsn, schema=schema, pool_size=1)))
        return stores[-1]

    yield open
    for store in stores:
        await store.aclose()


@pytest.mark.parametrize(("boot", "is_noticed"), [("of today", True), ("of another machine", False), ("", False)])
async def test_a_clock_that_was_set_while_nothing_ran_is_noticed_on_the_same_machine(
    opened, monkeypatch, boot, is_noticed
):
    """With the time since its boot; a machine without a look of its own has nothing to compare."""
    monkeypatch.setattr(effect_rows, "boot_id", lambda: "of today")
    store = opened()
    assert await reserve(store, "1", 9) is None
    await PostgresqlCounts().set_clock(store, 3 * DAY_S)
    monkeypatch.setattr(effect_rows, "boot_id", lambda: boot)

    refusal = await reserve(opened(), "2", 2)

    assert (refusal is not None) == is_noticed


async def test_a_jump_is_stored_at_once(opened):
    """Else the next process would notice it again, and take the period to have begun then."""
    store = opened()
    assert await reserve(store, "1", 1) is None
    await PostgresqlCounts().set_clock(store, 3 * DAY_S)
    assert await reserve(store, "2", 1) is None

    assert await reserve(opened(), "3", 1) is None

    async with store.connections.transaction() as connection:
        clock, jumped = await connection.row("SELECT clock, jumped FROM {s}.counter_looks, {s}.counter_clock")
    assert 0 < jumped <= clock
