"""The journal in a SQLite file: the events of turns, and which turns can go on."""

import pytest
from flexchat.domain import AssistantMessage, ConversationTurn, TextPart, UserMessage
from flexchat.domain.journal import JournaledEvent, JournaledTurn, JournalEntry, TurnEnd
from flexchat.errors import LostTurnError, UnknownTurnError
from flexchat_sqlite.conversations import SqliteConversations

SAID = ConversationTurn(
    id="a" * 32,
    messages=(UserMessage(content="Hi"), AssistantMessage(parts=(TextPart(text="Hello"),))),
    topic="",
    llm="s",
    model="m",
)


def told(*numbers):
    return [JournaledEvent(number, "text", f'{{"text":"{number}"}}') for number in numbers]


@pytest.fixture
async def store(tmp_path):
    store = SqliteConversations(tmp_path / "c.db")
    yield store
    await store.aclose()


@pytest.fixture
def journal(store):
    return store.journal


async def begun(journal, id="a" * 32, *, owner="one", tenant="t", conversation="c", lease_s=60.0):
    turn = JournaledTurn(id=id, tenant=tenant, conversation=conversation, state="running", owner=owner)
    await journal.write(turn, [JournalEntry(number=1, kind="started", data={})], lease_s=lease_s)
    return turn


async def end(store, turn):
    ending = TurnEnd(turn=turn, entries=(), state="done")
    await store.append(turn.conversation, SAID, tenant=turn.tenant, end=ending)


async def test_events_are_kept_in_order_and_told_from_any_on(journal):
    turn = await begun(journal)
    await journal.add_events(turn, told(1, 2))
    await journal.add_events(turn, told(3))
    found, events = await journal.events(turn.id, tenant="t")
    assert (found.id, found.state, events) == (turn.id, "running", told(1, 2, 3))
    assert (await journal.events(turn.id, tenant="t", after=2))[1] == told(3)
    assert (await journal.events(turn.id, tenant="t", after=3))[1] == []


async def test_any_text_is_kept(journal):
    turn = await begun(journal)
    await journal.add_events(turn, [JournaledEvent(1, "text", '{"text":"\x00é😀 half: \\ud83d"}')])
    ((event,),) = [(await journal.events(turn.id, tenant="t"))[1]]
    assert event.data.startswith('{"text":"')


async def test_an_event_whose_number_is_taken_is_left_out(journal):
    turn = await begun(journal)
    await journal.add_events(turn, told(1))
    await journal.add_events(turn, [JournaledEvent(1, "other", "{}"), *told(2)])
    assert (await journal.events(turn.id, tenant="t"))[1] == told(1, 2)


async def test_old_events_are_forgotten_where_there_are_too_many(journal):
    turn = await begun(journal)
    await journal.add_events(turn, told(1, 2, 3))
    await journal.add_events(turn, told(4), forget=2)
    assert (await journal.events(turn.id, tenant="t"))[1] == told(3, 4)


async def test_events_may_follow_the_end_but_not_another_owner(store, journal):
    """What an earlier owner would still tell is refused, and nobody is told it."""
    turn = await begun(journal)
    await end(store, turn)
    await journal.add_events(turn, told(1))
    lost = await begun(journal, "b" * 32, lease_s=0.0)
    taken = await journal.acquire(lost.id, tenant="t", owner="two", lease_s=60)
    with pytest.raises(LostTurnError):
        await journal.add_events(lost, told(1))
    await journal.add_events(taken, told(1))
    with pytest.raises(LostTurnError):
        await journal.add_events(JournaledTurn(id="c" * 32, tenant="t", conversation="c", state="running"), told(1))


@pytest.mark.parametrize("id", ["a" * 8, "b" * 32, ""])
async def test_events_are_those_of_one_turn_of_the_tenant(journal, id):
    turn = await begun(journal)
    await journal.add_events(turn, told(1))
    with pytest.raises(UnknownTurnError):
        await journal.events(id, tenant="t")
    with pytest.raises(UnknownTurnError):
        await journal.events(turn.id, tenant="other")


async def test_events_go_with_their_conversation(store, journal):
    turn = await begun(journal)
    await journal.add_events(turn, told(1))
    await end(store, turn)
    await store.delete("c", tenant="t")
    with pytest.raises(UnknownTurnError):
        await journal.events(turn.id, tenant="t")
    assert await store.database.read(lambda d: d.execute("SELECT count(*) FROM journal_events").fetchone()) == (0,)


async def test_events_are_forgotten_before_the_steps(store, journal):
    """And never those of a turn that has not ended."""
    turn, running = await begun(journal), await begun(journal, "b" * 32)
    for each in (turn, running):
        await journal.add_events(each, told(1))
    await end(store, turn)
    assert await journal.forget(older_than_s=60, events_older_than_s=60) == 0
    assert (await journal.events(turn.id, tenant="t"))[1] == told(1)
    assert await journal.forget(older_than_s=60, events_older_than_s=-1) == 0
    assert (await journal.events(turn.id, tenant="t"))[1] == []
    assert len((await journal.read(turn.id, tenant="t"))[1]) == 1
    assert (await journal.events(running.id, tenant="t"))[1] == told(1)


async def test_turns_that_can_go_on_are_those_of_all_tenants_without_an_error(journal):
    """The oldest first; not those of a living owner, and not those that were given up."""
    first = await begun(journal, "1" * 32, owner="dead", lease_s=0.0)
    second = await begun(journal, "2" * 32, owner="dead", tenant="other", lease_s=0.0)
    await begun(journal, "3" * 32, owner="alive")
    assert [turn.id for turn in await journal.list_resumable(limit=9)] == [first.id, second.id]
    assert [turn.id for turn in await journal.list_resumable(limit=1)] == [first.id]
    taken = await journal.acquire(first.id, tenant="t", owner="alive", lease_s=60)
    await journal.release(taken, error="a tool is gone")
    assert [turn.id for turn in await journal.list_resumable(limit=9)] == [second.id]
    again = await journal.acquire(first.id, tenant="t", owner="alive", lease_s=60)
    assert (again.error, again.fence) == ("", 3)
    await journal.release(again)
    assert [turn.id for turn in await journal.list_resumable(limit=9)] == [first.id, second.id]
