"""Turns of a kept conversation: each knows those before it, and none is handed out before it is kept."""

import asyncio
import contextlib
import gc

import pytest
from flexchat.conversations.keeping import Keeper, new_conversation_id
from flexchat.conversations.sqlite_store import SqliteConversations
from flexchat.conversations.view import Conversations
from flexchat.domain import (
    AssistantMessage,
    ChatRequest,
    ChatResponse,
    Profile,
    TextDelta,
    TextPart,
    Turn,
    TurnEnd,
    UserMessage,
)
from flexchat.errors import StorageError, UnknownConversationError

C = {"conversation": "c", "tenant": "t"}


def turn_for(request):
    """Answer with what the model was sent."""
    said = [m.content for m in request.history] + [request.user_message]
    text = "|".join(said)
    messages = (UserMessage(content=request.user_message), AssistantMessage(parts=(TextPart(text=text),)))
    response = ChatResponse(content=text, service="s", model="m", messages=messages)
    return Turn(
        id=new_conversation_id(),
        profile=Profile(topic=f"{request.topic}+{request.user_message}"),
        rule=0,
        response=response,
        phases=(),
        elapsed_ms=1,
    )


async def answer(request):
    return turn_for(request)


async def stream(request):
    yield TextDelta(0, "…")
    yield TurnEnd(turn_for(request))


def asked(text, **rest):
    return ChatRequest(user_message=text, **rest)


@pytest.fixture
async def keeper(tmp_path):
    store = SqliteConversations(tmp_path / "c.db")
    yield Keeper(store)
    await store.aclose()


async def test_a_turn_knows_those_before_it_and_the_topic_goes_on(keeper):
    first = await keeper.respond(asked("a"), answer, **C)
    second = await keeper.respond(asked("b"), answer, **C)

    assert (first.content, second.content) == ("a", "a|a|b")
    assert (first.profile.topic, second.profile.topic) == ("None+a", "None+a+b")
    assert first.conversation == second.conversation == "c"
    assert [t.id for t in await keeper.store.turns(**C)] == [first.id, second.id]


async def test_a_history_and_a_topic_of_the_request_come_behind_and_before(keeper):
    await keeper.respond(asked("a"), answer, **C)
    turn = await keeper.respond(asked("b", history=(UserMessage(content="h"),), topic="mine"), answer, **C)

    assert turn.content == "a|a|h|b"
    assert turn.profile.topic == "mine+b"
    kept = await keeper.store.turns(**C)
    assert [m.content for t in kept for m in t.messages] == ["a", "a", "b", "a|a|h|b"]  # not the caller's history


async def test_by_the_time_the_turn_end_comes_the_turn_is_kept(keeper):
    async for event in keeper.stream(asked("a"), stream, **C):
        if isinstance(event, TurnEnd):
            assert event.turn.conversation == "c"
            assert [t.id for t in await keeper.store.turns(**C)] == [event.turn.id]


async def test_a_turn_that_fails_keeps_nothing_and_the_next_one_is_answered(keeper):
    async def fails(request):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await keeper.respond(asked("a"), fails, **C)

    assert (await keeper.respond(asked("b"), answer, **C)).content == "b"


async def test_a_stream_that_is_closed_early_keeps_nothing_and_holds_up_nobody(keeper):
    async with contextlib.aclosing(keeper.stream(asked("a"), stream, **C)) as events:
        await anext(events)

    assert (await keeper.respond(asked("b"), answer, **C)).content == "b"


async def test_of_two_turns_at_once_the_second_waits_and_knows_the_first(keeper):
    turns = await asyncio.gather(*(keeper.respond(asked(c), answer, **C) for c in "ab"))

    assert [t.content for t in turns] == ["a", "a|a|b"]


async def test_other_conversations_and_other_tenants_do_not_wait(keeper):
    """Both answer only when the other has begun: a queue would never end."""
    begun = [asyncio.Event() for _ in range(3)]

    def meeting(own):
        async def meet(request):
            begun[own].set()
            for event in begun:
                await event.wait()
            return turn_for(request)

        return meet

    places = [("c", "t"), ("d", "t"), ("c", "u")]
    work = (keeper.respond(asked("x"), meeting(n), conversation=c, tenant=t) for n, (c, t) in enumerate(places))
    turns = await asyncio.wait_for(asyncio.gather(*work), 10)

    assert [t.content for t in turns] == ["x"] * 3


async def test_locks_of_conversations_are_not_collected_for_ever(keeper):
    for number in range(20):
        await keeper.respond(asked("a"), answer, conversation=str(number), tenant="t")
    gc.collect()

    assert len(keeper._locks) == 0


async def test_a_turn_that_cannot_be_kept_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    keeper = Keeper(SqliteConversations(tmp_path / "file" / "c.db"))

    with pytest.raises(StorageError, match=r"c\.db"):
        await keeper.respond(asked("a"), answer, **C)


async def test_a_cancelled_wait_leaves_the_conversation_free(keeper):
    never = asyncio.Event()

    async def hangs(request):
        await never.wait()

    first = asyncio.ensure_future(keeper.respond(asked("a"), hangs, **C))
    second = asyncio.ensure_future(keeper.respond(asked("b"), answer, **C))
    await asyncio.sleep(0)
    second.cancel()
    first.cancel()
    await asyncio.gather(first, second, return_exceptions=True)

    assert (await keeper.respond(asked("c"), answer, **C)).content == "c"


async def test_the_view_of_a_tenant_reaches_its_own_conversations_only(keeper):
    await keeper.respond(asked("hello"), answer, **C)
    theirs, others = Conversations(keeper.store, "t"), Conversations(keeper.store)

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
