"""Turns that run by themselves, whoever listens."""

import asyncio
import contextlib
import contextvars

import pytest
from flexchat import FlexChat, InterruptedTurnError, TextDelta, TurnCancelled, TurnFailed, TurnFinished, tool
from flexchat.domain.journal import JournaledEvent
from flexchat.errors import (
    ChatRequestError,
    LostTurnError,
    ProviderConnectionError,
    RequestRefusedError,
    StorageError,
    UnknownConversationError,
)
from flexchat.plugin import hookimpl
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_testing import ScriptedProvider, calls, says

RULE = {"llm": "s", "model": "m", "tools": {}}


def chat_of(*replies, tools=(), rules=(RULE,), **config):
    data = {"llms": {"s": {"provider": "scripted"}}, "responses": rules, **config}
    return FlexChat.from_config(data, providers={"s": ScriptedProvider(replies)}, tools=tools)


async def waits(messages, options):
    """A model that never answers."""
    await asyncio.Event().wait()


async def events_of(handle, after=0):
    return [event async for _, event in handle.events(after)]


async def test_it_runs_to_its_end_without_a_listener_and_tells_it_all_afterwards():
    async with chat_of(says("Hello there")) as chat:
        handle = chat.start("Hi")
        turn = await handle.result()
        assert (turn.content, turn.id, turn.status, handle.is_ended) == ("Hello there", handle.id, "done", True)
        found = await events_of(handle)
        assert "".join(e.text for e in found if isinstance(e, TextDelta)) == "Hello there"
        assert found[-1] == TurnFinished(info=handle.info, turn=turn)
        assert await events_of(handle, len(found) - 1) == found[-1:]


@pytest.mark.parametrize("kept", [{}, {"conversation": "c"}], ids=["", "kept"])
async def test_a_reduced_handle_has_its_last_event_and_is_as_kept_as_before(tmp_path, kept):
    async with chat_of(says("Hello there"), conversations={"path": str(tmp_path / "c.db")}) as chat:
        handle = chat.start("Hi", **kept)
        end = await handle.last()
        reduced = handle.reduce_to(end)
        assert (reduced.id, reduced.info, reduced.is_ended) == (handle.id, handle.info, True)
        assert reduced.is_kept == handle.is_kept == bool(kept)
        assert (await reduced.result(), (await events_of(reduced))[-1]) == (end.turn, end)


async def test_its_events_are_those_of_a_stream():
    async with chat_of(says("a b c"), says("a b c")) as chat:
        streamed = [type(event) async for event in chat.stream("Hi")]
        assert [type(event) for event in await events_of(chat.start("Hi"))] == streamed


async def test_listeners_come_and_go_and_it_goes_on():
    go = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        await go.wait()
        return "waited"

    async with chat_of(calls(("wait", {})), says("done"), tools=[wait]) as chat:
        handle = chat.start("Hi")
        known = 0
        async for known, event in handle.events():  # noqa: B007  used below
            if type(event).__name__ == "ToolStarted":
                break
        go.set()
        rest = await events_of(handle, known)
        assert isinstance(rest[-1], TurnFinished)
        assert rest[-1].turn.content == "done"


async def test_what_fails_is_told_and_raised():
    async with chat_of(ProviderConnectionError("away")) as chat:
        handle = chat.start("Hi")
        with pytest.raises(ProviderConnectionError) as raised:
            await handle.result()
        last = (await events_of(handle))[-1]
        assert isinstance(last, TurnFailed)
        assert (last.error, last.turn.status, raised.value.turn) == (raised.value, "failed", last.turn)


async def test_a_wrong_request_raises_at_once():
    async with chat_of() as chat:
        with pytest.raises(ChatRequestError):
            chat.start("  ")


class Unreadable(SqliteConversations):
    """Says nothing of what it keeps."""

    async def history(self, conversation, *, tenant, after=None):
        raise StorageError("the disk is gone")


async def test_an_error_before_the_turn_begins_is_its_last_event_too(tmp_path):
    """What was said before cannot be read: no phase has run."""
    store = Unreadable(tmp_path / "c.db")
    async with chat_of() as chat:
        chat.keep_in(store)
        handle = chat.start("Hi", conversation="c")
        with pytest.raises(StorageError):
            await handle.result()
        (last,) = await events_of(handle)
        assert isinstance(last, TurnFailed)
    await store.aclose()


async def test_cancelled_it_keeps_what_there_is(tmp_path):
    """And says so as its last event; a second time changes nothing."""
    store = SqliteConversations(tmp_path / "c.db")
    async with chat_of(waits) as chat:
        chat.keep_in(store)
        handle = chat.start("Hi", conversation="c")
        async for _, event in handle.events():
            if type(event).__name__ == "ModelRequestStarted":
                break
        handle.cancel()
        handle.cancel()
        turn = await handle.result()
        handle.cancel()
        assert turn.status == "cancelled"
        assert (await events_of(handle))[-1] == TurnCancelled(info=handle.info, turn=turn)
        assert [kept.id for kept in await store.turns("c", tenant="default")] == [turn.id]
    await store.aclose()


@pytest.mark.parametrize("steps", range(6))
async def test_cancelled_at_its_very_beginning_it_has_an_end(steps):
    async with chat_of(waits) as chat:
        handle = chat.start("Hi")
        for _ in range(steps):
            await asyncio.sleep(0)
        handle.cancel()
        assert (await handle.result()).status == "cancelled"
        assert isinstance((await events_of(handle))[-1], TurnCancelled)


async def test_cancelled_while_it_waits_for_its_place_it_has_an_end(tmp_path):
    store = SqliteConversations(tmp_path / "c.db")
    async with chat_of(waits, says("never")) as chat:
        chat.keep_in(store)
        first, second = (chat.start(text, conversation="c") for text in ("1", "2"))
        async for _, event in first.events():
            if type(event).__name__ == "ModelRequestStarted":
                break
        second.cancel()
        assert [type(event) for event in await events_of(second)] == [TurnCancelled]
        first.cancel()
        await first.result()
    await store.aclose()


async def until(handle, name):
    async for _, event in handle.events():
        if type(event).__name__ == name:
            return


async def test_interrupted_it_can_be_resumed_at_once(tmp_path):
    """Nothing comes into the conversation before it is; its tools and answers are those of the first run."""
    store, ran = SqliteConversations(tmp_path / "c.db"), []

    @tool(effect="read")
    def look() -> str:
        """Look."""
        ran.append(1)
        return "seen"

    async with chat_of(calls(("look", {}), text="Let me see."), waits, says("Done."), tools=[look]) as chat:
        chat.keep_in(store)
        handle = chat.start("Hi", conversation="c")
        await until(handle, "ToolFinished")
        handle.interrupt()
        handle.cancel()
        with pytest.raises(InterruptedTurnError, match="can be resumed") as raised:
            await handle.result()
        last = (await events_of(handle))[-1]
        assert isinstance(last, TurnFailed)
        assert (last.error, raised.value.waits, last.turn.conversation) == (raised.value, True, None)
        (waiting,) = await chat.turns(states=["interrupted"])
        with pytest.raises(UnknownConversationError):
            await chat.conversations.turns("c")

        resumed = await chat.start_resumed(waiting.id)
        turn = await resumed.result()

        assert (turn.content, turn.conversation, resumed.id, len(ran)) == ("Done.", "c", handle.id, 1)
        told = await events_of(resumed)
        assert [type(event).__name__ for event in told[:6]] == [
            "TurnResumed",
            "TextDelta",
            "AnswerEnd",
            "ToolStarted",
            "ToolFinished",
            "ModelRequestStarted",
        ]
        assert (told[1].text, told[4].record.result.result) == ("Let me see.", "seen")
        assert [kept.id for kept in await store.turns("c", tenant="default")] == [turn.id]
    await store.aclose()


async def test_interrupting_one_that_is_not_kept_cancels_it():
    async with chat_of(waits) as chat:
        handle = chat.start("Hi")
        await until(handle, "ModelRequestStarted")
        assert not handle.is_kept
        handle.interrupt()
        assert (await handle.result()).status == "cancelled"


async def test_interrupting_one_that_waits_for_its_place_cancels_it(tmp_path):
    store = SqliteConversations(tmp_path / "c.db")
    async with chat_of(waits, says("never")) as chat:
        chat.keep_in(store)
        first, second = (chat.start(text, conversation="c") for text in ("1", "2"))
        await until(first, "ModelRequestStarted")
        second.interrupt()
        assert [type(event) for event in await events_of(second)] == [TurnCancelled]
        first.interrupt()
        await first.last()
        assert [turn.id for turn in await chat.turns()] == [first.id]
    await store.aclose()


async def test_a_person_who_cancels_comes_before_one_who_interrupts(tmp_path):
    store = SqliteConversations(tmp_path / "c.db")
    async with chat_of(waits) as chat:
        chat.keep_in(store)
        handle = chat.start("Hi", conversation="c")
        await until(handle, "ModelRequestStarted")
        handle.cancel()
        handle.interrupt()
        assert (await handle.result()).status == "cancelled"
    await store.aclose()


@pytest.mark.parametrize("steps", range(12))
async def test_interrupted_at_any_moment_it_is_done_interrupted_or_never_was(tmp_path, steps):
    store = SqliteConversations(tmp_path / "c.db")
    async with chat_of(says("a b c"), says("d")) as chat:
        chat.keep_in(store)
        handle = chat.start("Hi", conversation="c")
        for _ in range(steps * 3):
            await asyncio.sleep(0)
        handle.interrupt()
        last = await handle.last()
        found = [(turn.id, turn.state) for turn in await chat.turns()]
        if isinstance(last, TurnFinished):
            assert found == [(handle.id, "done")]
        elif isinstance(last, TurnFailed):
            assert found == [(handle.id, "interrupted")]
            assert (await (await chat.start_resumed(handle.id)).result()).status == "done"
        else:
            assert found in ([], [(handle.id, "cancelled")])
    await store.aclose()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", [1, 2])
async def test_cancelled_while_its_steps_are_written_it_is_kept_with_them(tmp_path, at, when):
    """Also in a store whose write a cancellation stops, before or after its transaction."""
    store, entered, writes = SqliteConversations(tmp_path / "c.db"), asyncio.Event(), []
    write = store.journal.write

    async def slow(turn, entries, **rest):
        writes.append(entries)
        if len(writes) == at and when == "before":
            entered.set()
            await asyncio.Event().wait()
        await write(turn, entries, **rest)
        if len(writes) == at:
            entered.set()
            await asyncio.Event().wait()

    store.journal.write = slow

    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    async with chat_of(calls(("look", {})), says("Done."), tools=[look]) as chat:
        chat.keep_in(store)
        handle = chat.start("Hi", conversation="c")
        await entered.wait()
        handle.cancel()
        turn = await handle.result()
        (kept,) = await store.turns("c", tenant="default")
        _, steps = await chat.turn(handle.id)

    assert (turn.status, turn.conversation, kept.id, kept.status) == ("cancelled", "c", handle.id, "cancelled")
    assert [step.number for step in steps] == [*range(1, len(steps) + 1)]
    assert {"started", "rule", "request"} <= {step.kind for step in steps}
    assert ("answer" in {step.kind for step in steps}) is (at == 2)
    await store.aclose()


async def test_it_keeps_what_its_listeners_are_told(tmp_path):
    """From its first event on, also before its first step was written; and after its end."""
    store = SqliteConversations(tmp_path / "c.db")
    async with chat_of(says("a")) as chat:
        chat.keep_in(store)
        handle = chat.start("Hi", conversation="c")
        first = await anext(handle.events())
        await handle.add_events([JournaledEvent(1, type(first[1]).__name__, "{}")])
        assert [event.name for event in (await chat.events(handle.id))[1]] == ["TurnStarted"]
        await handle.result()
        await handle.add_events([JournaledEvent(2, "end", "{}")])
        turn, events = await chat.events(handle.id, after=1)
        assert (turn.state, [event.name for event in events]) == ("done", ["end"])
    await store.aclose()


async def test_keeping_events_does_not_disturb_a_turn_that_ends_at_once(tmp_path):
    """Its first step and its end are one transaction, unless the events came first."""

    class Gate:
        @hookimpl
        def flexchat_before_model_request(self):
            raise ValueError("never")

    store = SqliteConversations(tmp_path / "c.db")
    data = {"llms": {"s": {"provider": "scripted"}}, "responses": [RULE]}
    async with FlexChat.from_config(data, providers={"s": ScriptedProvider([])}, hooks=[Gate()]) as chat:
        chat.keep_in(store)
        for number in range(20):
            handle = chat.start("Hi", conversation="c")
            for _ in range(number):
                await asyncio.sleep(0)
            with contextlib.suppress(LostTurnError):  # the turn has no row yet
                await handle.add_events([JournaledEvent(1, "x", "{}")])
            assert isinstance((await handle.last()).error, RequestRefusedError)
        assert {turn.state for turn in await chat.turns()} == {"failed"}
        assert len(await store.turns("c", tenant="default")) == 20
    await store.aclose()


async def test_closing_the_chat_ends_it():
    chat, before = chat_of(waits), asyncio.all_tasks()
    handle = chat.start("Hi")
    await chat.aclose()
    assert (handle.is_ended, (await handle.result()).status) == (True, "cancelled")
    assert asyncio.all_tasks() == before


async def test_it_has_the_context_variables_of_its_caller():
    who = contextvars.ContextVar("who")
    seen = []

    @tool
    async def look() -> str:
        """Look."""
        seen.append(who.get())
        return "ok"

    async with chat_of(calls(("look", {})), says("done"), tools=[look]) as chat:
        who.set("Ada")
        handle = chat.start("Hi")
        who.set("Bob")
        await handle.result()
    assert seen == ["Ada"]
