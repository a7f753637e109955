"""Turns of a kept conversation: each knows those before it, and none is handed out before it is kept."""

import asyncio
import contextlib
import gc

import attrs
import pytest
from flexchat import FlexChat, StorageError, TextDelta, TurnFinished, UnknownConversationError, UserMessage
from flexchat.conversations.view import Conversations
from flexchat.turn.recording import conversation_turn
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_testing import ScriptedProvider

C = {"conversation": "c", "tenant": "t"}
CONFIG = {
    "llms": {"s": {"provider": "scripted"}},
    "responses": [{"llm": "s", "model": "m", "match": {"topic_contains": "never"}}, {"llm": "s", "model": "m"}],
}


def echo(messages, options):
    """Answer with what the model was sent."""
    return "|".join(m.content for m in messages)


def chat_of(store, *replies, **config):
    model = ScriptedProvider(replies or (echo,), repeat=True)
    chat = FlexChat.from_config({**CONFIG, **config}, providers={"s": model})
    chat.keep_in(store)
    return chat


@pytest.fixture
async def store(tmp_path):
    store = SqliteConversations(tmp_path / "c.db")
    yield store
    await store.aclose()


@pytest.fixture
def chat(store):
    return chat_of(store)


async def test_a_turn_knows_those_before_it(chat, store):
    first = await chat.respond("a", **C)
    second = await chat.respond("b", **C)

    assert (first.content, second.content) == ("a", "a|a|b")
    assert first.conversation == second.conversation == "c"
    assert [t.id for t in await store.turns(**C)] == [first.id, second.id]


async def test_the_topic_goes_on(store):
    """With the conversation, unless the caller brings one."""
    chat = chat_of(store, *[lambda *_: "same"] * 9, topic={"llm": "s", "model": "m"})

    await chat.respond("a", topic="old", **C)
    assert (await store.get(**C)).topic
    kept = (await store.get(**C)).topic
    turn = await chat.respond("b", **C)

    assert turn.profile.topic == kept


async def test_a_history_of_the_request_comes_behind_what_is_kept(chat, store):
    await chat.respond("a", **C)
    turn = await chat.respond("b", history=[UserMessage(content="h")], **C)

    assert turn.content == "a|a|h|b"
    kept = await store.turns(**C)
    assert [m.content for t in kept for m in t.messages] == ["a", "a", "b", "a|a|h|b"]  # not the caller's history


async def test_by_the_time_the_turn_end_comes_the_turn_is_kept(chat, store):
    async for event in chat.stream("a", **C):
        if isinstance(event, TurnFinished):
            assert event.turn.conversation == "c"
            assert [t.id for t in await store.turns(**C)] == [event.turn.id]


async def test_of_two_turns_at_once_the_second_waits_and_knows_the_first(chat):
    turns = await asyncio.gather(*(chat.respond(c, **C) for c in "ab"))

    assert [t.content for t in turns] == ["a", "a|a|b"]


async def test_other_conversations_and_other_tenants_do_not_wait(store):
    """Each answers only when the others have begun: a queue would never end."""
    begun = []
    all_have_begun = asyncio.Event()

    async def meet(messages, options):
        begun.append(messages)
        if len(begun) == 3:
            all_have_begun.set()
        await all_have_begun.wait()
        return echo(messages, options)

    chat = chat_of(store, meet)
    places = [("c", "t"), ("d", "t"), ("c", "u")]
    work = (chat.respond("x", conversation=c, tenant=t) for c, t in places)
    turns = await asyncio.wait_for(asyncio.gather(*work), 10)

    assert [t.content for t in turns] == ["x"] * 3


async def test_locks_of_conversations_are_not_collected_for_ever(chat):
    for number in range(20):
        await chat.respond("a", conversation=str(number), tenant="t")
    gc.collect()

    assert len(chat._engine.recorder._locks) == 0


async def test_a_turn_that_cannot_be_kept_is_an_error_that_has_the_answer(tmp_path, store):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"c\.db"):
        await chat_of(SqliteConversations(tmp_path / "file" / "c.db")).respond("a", **C)

    class Full(SqliteConversations):
        async def append(self, *args, **rest):
            raise StorageError("the disk is full")

    full = Full(tmp_path / "full.db")
    with pytest.raises(StorageError, match="full") as caught:
        await chat_of(full).respond("a", **C)
    await full.aclose()

    assert (caught.value.turn.status, caught.value.turn.content) == ("done", "a")


async def test_a_cancelled_wait_leaves_the_conversation_free(store):
    never = asyncio.Event()
    begun = asyncio.Event()

    async def answer(messages, options):
        if not begun.is_set():
            begun.set()
            await never.wait()
        return echo(messages, options)

    chat = chat_of(store, answer)
    first = asyncio.ensure_future(chat.respond("a", **C))
    second = asyncio.ensure_future(chat.respond("b", **C))
    await begun.wait()
    second.cancel()
    first.cancel()
    await asyncio.gather(first, second, return_exceptions=True)

    assert (await chat.respond("c", **C)).content == "a|c"


async def test_a_stream_that_is_closed_early_holds_up_nobody(chat):
    async with contextlib.aclosing(chat.stream("a", **C)) as events:
        while not isinstance(await anext(events), TextDelta):
            pass

    assert (await chat.respond("b", **C)).content == "a|a|b"


async def test_the_view_of_a_tenant_reaches_its_own_conversations_only(chat, store):
    await chat.respond("hello", **C)
    theirs, others = Conversations(store, "t"), Conversations(store)

    assert [info.title for info in await theirs.search("HELLO")] == ["hello"]
    assert [info.id for info in await theirs.list()] == ["c"]
    assert list(await others.list()) == []
    with pytest.raises(UnknownConversationError):
        await others.export_markdown("c")
    await others.of("t").rename("c", "new")
    assert (await theirs.get("c")).title == "new"
    assert (await theirs.export_json("c"))["turns"][0]["messages"][0]["content"] == "hello"
    assert (await theirs.export_markdown("c")).startswith("# new\n")
    assert len(await theirs.turns("c", last=1)) == 1
    await theirs.delete("c")
    assert list(await theirs.list()) == []


async def test_an_answer_that_is_not_the_models_last_text_is_kept_beside_it(chat):
    """Else the text is kept once, in the messages."""
    turn = await chat.respond("Why?")
    other = attrs.evolve(turn, response=attrs.evolve(turn.response, content="Because."))

    assert (conversation_turn(turn).shown, conversation_turn(turn).answer) == (None, turn.response.content)
    assert conversation_turn(other).answer == "Because."
