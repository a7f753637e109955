"""The histories of conversations: read from the store, decoded once, and never older than the store."""

import pytest
from flexchat import AssistantMessage, StorageError, UserMessage
from flexchat.store import ConversationTurn
from flexchat.turn import recording as module
from flexchat.turn.recording import Histories
from flexchat_sqlite.conversations import SqliteConversations


@pytest.fixture
async def store(tmp_path):
    store = SqliteConversations(tmp_path / "c.db")
    yield store
    await store.aclose()


def turn(id, said="Hello"):
    return ConversationTurn(id=id, messages=(UserMessage(said), AssistantMessage("Hi")))


async def ids(histories, conversation="c", tenant="t"):
    return [one.id for one in (await histories.read(conversation, tenant=tenant)).turns]


async def test_a_turn_is_decoded_once(store):
    """The second read returns the same messages, whose encodings for services are kept with them."""
    histories = Histories(store)
    await store.append("c", turn("1"), tenant="t")
    (first,) = (await histories.read("c", tenant="t")).turns
    await store.append("c", turn("2"), tenant="t")

    again, _ = (await histories.read("c", tenant="t")).turns

    assert again is first


async def test_another_process_is_seen(tmp_path, store):
    """Its turns, its deletions, and a conversation it starts again under the same id with the same turn ids."""
    histories, other = Histories(store), SqliteConversations(tmp_path / "c.db")
    await store.append("c", turn("1"), tenant="t")
    assert await ids(histories) == ["1"]

    await other.append("c", turn("2"), tenant="t")
    assert await ids(histories) == ["1", "2"]
    await other.delete("c", tenant="t")
    assert await ids(histories) == []
    await other.append("c", turn("1", "before"), tenant="t")
    await histories.read("c", tenant="t")
    await other.delete("c", tenant="t")
    await other.append("c", turn("1", "anew"), tenant="t")
    (one,) = (await histories.read("c", tenant="t")).turns

    assert one.messages[0].content == "anew"
    await other.aclose()


async def test_tenants_and_conversations_are_apart(store):
    """Under equal ids, with equal turn ids."""
    histories = Histories(store)
    for conversation, tenant in (("c", "t"), ("d", "t"), ("c", "u")):
        await store.append(conversation, turn("1", f"{conversation} of {tenant}"), tenant=tenant)

    for _ in range(2):
        for conversation, tenant in (("c", "t"), ("d", "t"), ("c", "u")):
            (one,) = (await histories.read(conversation, tenant=tenant)).turns
            assert one.messages[0].content == f"{conversation} of {tenant}"
    assert await ids(histories, "d", "u") == []


async def test_what_stays_in_memory_is_bounded(store):
    """The least recently used conversation goes first; one that is too large alone is read each time."""
    histories = Histories(store, max_size=8 * module.TURN_SIZE)
    for conversation in ("a", "b", "c"):
        await store.append(conversation, turn("1"), tenant="t")
    await store.append("large", turn("1", "x" * 100_000), tenant="t")
    first = {name: (await histories.read(name, tenant="t")).turns[0] for name in ("a", "b")}
    assert (await histories.read("a", tenant="t")).turns[0] is first["a"]
    for name in ("c", "large"):
        await histories.read(name, tenant="t")

    for name in ("large", "a", "b", "c"):
        for _ in range(2):
            assert await ids(histories, name) == ["1"]
    assert histories._size <= 8 * module.TURN_SIZE
    assert sum(map(module._size_of, histories._kept.values())) == histories._size


async def test_a_store_without_histories_is_read_whole():
    """As every store of a third party was before."""

    class Plain:
        async def turns(self, conversation, *, tenant, last=None):
            return [turn("1"), turn("2")]

    assert await ids(Histories(Plain())) == ["1", "2"]


async def test_a_read_that_fails_leaves_what_is_kept(store, monkeypatch):
    """The next one continues from there."""
    histories = Histories(store)
    await store.append("c", turn("1"), tenant="t")
    (first,) = (await histories.read("c", tenant="t")).turns

    async def fail(*args, **rest):
        raise StorageError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(store, "history", fail)
        with pytest.raises(StorageError):
            await histories.read("c", tenant="t")

    assert (await histories.read("c", tenant="t")).turns[0] is first
