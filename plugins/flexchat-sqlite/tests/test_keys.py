"""Callers' keys in a SQLite file: which turn each stands for, and since when."""

import asyncio

import pytest
from flexchat.domain import AssistantMessage, ConversationTurn, TextPart, UserMessage
from flexchat.domain.journal import JournaledTurn, JournalEntry, TurnEnd
from flexchat.errors import LostTurnError, UnknownTurnError
from flexchat_sqlite.conversations import SqliteConversations

DAY_S = 24 * 3600.0


@pytest.fixture
async def store(tmp_path):
    store = SqliteConversations(tmp_path / "c.db")
    yield store
    await store.aclose()


@pytest.fixture
def journal(store):
    return store.journal


async def bind(journal, turn, key="k", *, tenant="t", digest="d", keep_s=DAY_S, **rest):
    return await journal.bind(key, tenant=tenant, turn=turn, digest=digest, keep_s=keep_s, **rest)


async def begin(journal, id, key="k"):
    turn = JournaledTurn(id=id, tenant="t", conversation="c", state="running", owner="one", key=key)
    await journal.write(turn, [JournalEntry(number=1, kind="started", data={})], lease_s=60)
    return turn


async def test_a_key_stands_for_the_turn_that_bound_it_first(journal):
    first = await bind(journal, "a", digest="d1")
    assert (first.turn, first.digest, first.begun, bool(first.bound_at)) == ("a", "d1", False, True)
    assert await bind(journal, "b", digest="d2") == first


async def test_tenants_have_their_own_keys(journal):
    await bind(journal, "a", tenant="t")
    assert (await bind(journal, "b", tenant="u")).turn == "b"
    assert (await bind(journal, "c", "K")).turn == "c", "keys are compared exactly"


async def test_of_many_one_binds_a_key_in_two_stores(journal, tmp_path):
    other = SqliteConversations(tmp_path / "c.db")
    asked = [bind((journal, other.journal)[n % 2], str(n)) for n in range(20)]
    assert len({found.turn for found in await asyncio.gather(*asked)}) == 1
    await other.aclose()


async def test_a_key_is_free_again_after_its_time(journal):
    await bind(journal, "a")
    assert (await bind(journal, "b", keep_s=0)).turn == "b"
    assert (await bind(journal, "c")).turn == "b"


async def test_a_binding_is_replaced_if_it_is_still_the_one_meant(journal):
    first = await bind(journal, "a")
    assert (await bind(journal, "b", digest="e", instead_of=first)).turn == "b"
    found = await bind(journal, "c", instead_of=first)
    assert (found.turn, found.digest) == ("b", "e")


async def test_a_turn_that_has_begun_since_is_not_replaced(journal):
    seen = await bind(journal, "a")
    await begin(journal, "a")
    begun = await bind(journal, "b", instead_of=seen)
    assert (begun.turn, begun.begun) == ("a", True)
    assert (await bind(journal, "b", instead_of=begun)).turn == "b", "as for a turn that failed and may run again"


async def test_a_turn_begins_with_its_key(journal):
    await bind(journal, "a")
    await begin(journal, "a")
    assert (await bind(journal, "b")).begun
    assert (await journal.read("a", tenant="t"))[0].key == "k"


async def test_a_turn_whose_key_stands_for_another_does_not_begin(journal):
    await bind(journal, "b", instead_of=await bind(journal, "a"))
    with pytest.raises(LostTurnError):
        await begin(journal, "a")
    with pytest.raises(UnknownTurnError):
        await journal.read("a", tenant="t")
    await begin(journal, "b")


async def test_a_key_outlives_its_deleted_conversation(store, journal):
    await bind(journal, "a")
    turn = await begin(journal, "a")
    said = (UserMessage(content="Hi"), AssistantMessage(parts=(TextPart(text="Hello"),)))
    kept = ConversationTurn(id="a", messages=said, topic="", llm="s", model="m")
    await store.append("c", kept, tenant="t", end=TurnEnd(turn=turn, entries=(), state="done"))
    await store.delete("c", tenant="t")
    found = await bind(journal, "b")
    assert (found.turn, found.begun) == ("a", True)


async def test_a_key_survives_the_process(journal, store, tmp_path):
    bound = await bind(journal, "a")
    await store.aclose()
    again = SqliteConversations(tmp_path / "c.db")
    assert await bind(again.journal, "b") == bound
    await again.aclose()
