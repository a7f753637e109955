"""One turn: how it ends, what is told of its end, and turns inside of turns."""

import asyncio
import contextlib
import gc
import signal
import threading
import time
import weakref

import attrs
import pytest
from engines import engine
from flexchat import FlexChat, PhaseFinished, PhaseStarted, SyncFlexChat, TextDelta, TurnFinished, tool
from flexchat.domain import ChatRequest
from flexchat.errors import (
    ChatRequestError,
    LostTurnError,
    NestedTurnError,
    ProviderConnectionError,
    StorageError,
    UnknownTurnError,
)
from flexchat.events.log import EventLog
from flexchat.plugin import hookimpl
from flexchat.turn.active import MAX_NESTED_TURNS
from flexchat.turn.engine import TurnEngine
from flexchat.turn.run import run_turn
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_testing import ScriptedProvider, calls, says

CONFIG = {
    "llms": {"bot": {"provider": "scripted"}},
    "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}],
}


def chat_of(*replies, store=None, limits=None, **rest):
    config = CONFIG if limits is None else {**CONFIG, "limits": limits}
    chat = FlexChat.from_config(config, providers={"bot": ScriptedProvider(replies)}, **rest)
    if store is not None:
        chat.keep_in(store)
    return chat


@pytest.fixture
async def store(tmp_path):
    store = SqliteConversations(tmp_path / "c.db")
    yield store
    await store.aclose()


def waiting():
    """A tool that says when it has begun, and never ends."""
    begun = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await asyncio.Event().wait()

    return wait, begun


class Ends:
    """Hooks that note how turns end."""

    def __init__(self):
        self.told = []

    @hookimpl
    def flexchat_turn_finished(self, info, turn):
        self.told.append(("finished", info, turn))

    @hookimpl
    def flexchat_turn_failed(self, info, error, turn):
        self.told.append(("failed", info, turn))

    @hookimpl
    def flexchat_turn_cancelled(self, info, turn):
        self.told.append(("cancelled", info, turn))


async def cancelled(work, times=1):
    """Cancel a task so many times in a row, and return its CancelledError."""
    for _ in range(times):
        work.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError) as caught:
        await work
    return caught.value


# how a turn ends


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_turn_that_is_cancelled_tells_the_plugins_so(streamed, times, store):
    """Also of somebody impatient: it is kept, told once, and handed over with the error."""
    wait, begun = waiting()
    ends, before = Ends(), asyncio.all_tasks()
    chat = chat_of(calls(("wait", {})), store=store, tools=[wait], hooks=[ends])

    async def read():
        async with contextlib.aclosing(chat.stream("x", conversation="c")) as events:
            return [event async for event in events]

    work = asyncio.create_task(read() if streamed else chat.respond("x", conversation="c"))
    await begun.wait()
    error = await cancelled(work, times)

    ((how, info, turn),) = ends.told
    assert (how, info.conversation, turn.status) == ("cancelled", "c", "cancelled")
    assert error.turn.id == turn.id == info.id
    assert [kept.status for kept in await store.turns("c", tenant="default")] == ["cancelled"]
    assert asyncio.all_tasks() == before


async def test_closing_a_stream_tells_the_plugins_that_its_turn_is_cancelled():
    ends = Ends()
    async with contextlib.aclosing(chat_of(says("A long answer."), hooks=[ends]).stream("x")) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                break

    ((how, _, turn),) = ends.told
    assert (how, turn.status) == ("cancelled", "cancelled")
    assert turn.response.content.startswith(event.text)


async def test_a_hook_with_a_cancellation_of_its_own_does_not_keep_the_end_from_the_others(caplog):
    """The task of a cancelled turn is being cancelled all the while: a CancelledError in it need not be that one."""

    class Careless:
        @hookimpl
        async def flexchat_turn_cancelled(self):
            own = asyncio.get_running_loop().create_future()
            own.cancel()
            await own

    wait, begun = waiting()
    ends = Ends()
    chat = chat_of(calls(("wait", {})), tools=[wait], hooks=[ends, Careless()])
    work = asyncio.create_task(chat.respond("x"))
    await begun.wait()
    await cancelled(work)

    assert [how for how, *_ in ends.told] == ["cancelled"]
    assert "Careless: flexchat_turn_cancelled failed" in caplog.text


@pytest.mark.parametrize("hook", ["flexchat_turn_finished", "flexchat_turn_failed", "flexchat_turn_cancelled"])
@pytest.mark.usefixtures("virtual_time")
async def test_a_hook_that_hangs_at_the_end_holds_no_turn(hook, monkeypatch, caplog):
    monkeypatch.setattr("flexchat.turn.run.NOTIFY_TIMEOUT_S", 0.05)

    async def hang(self):
        await asyncio.Event().wait()

    hanging = type("Hanging", (), {hook: hookimpl(hang)})()
    replies = [ProviderConnectionError("no") if hook == "flexchat_turn_failed" else says("ok")]
    wait, begun = waiting()
    if hook == "flexchat_turn_cancelled":
        replies = [calls(("wait", {}))]
    chat = chat_of(*replies, limits={"turn_timeout_ms": 60}, tools=[wait], hooks=[hanging])
    work = asyncio.create_task(chat.respond("x"))
    if hook == "flexchat_turn_cancelled":
        await begun.wait()
        work.cancel()
    await asyncio.wait({work}, timeout=5)

    assert work.done()
    assert work.cancelled() or not isinstance(work.exception(), TimeoutError)
    assert "to handle a Turn" in caplog.text


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("started", [False, True])
async def test_a_turn_cancelled_while_its_end_is_saved_has_finished(started, when, tmp_path, caplog):
    """Whether the cancellation comes before or after the store's transaction."""
    entered, leave = asyncio.Event(), asyncio.Event()

    class Slow(SqliteConversations):
        async def append(self, *args, **rest):
            if when == "after":
                await super().append(*args, **rest)
            entered.set()
            await leave.wait()
            if when == "before":
                await super().append(*args, **rest)

    ends, slow = Ends(), Slow(tmp_path / "slow.db")
    chat = chat_of(says("Done."), store=slow, hooks=[ends])
    if started:
        handle = chat.start("x", conversation="c")
        await entered.wait()
        handle.cancel()
        await asyncio.sleep(0)
        leave.set()
        turn, last = await handle.result(), await handle.last()
        assert isinstance(last, TurnFinished)
    else:
        work = asyncio.create_task(chat.respond("x", conversation="c"))
        await entered.wait()
        work.cancel()
        await asyncio.sleep(0)
        leave.set()
        turn = (await cancelled(work)).turn
    kept = await slow.turns("c", tenant="default")
    await slow.aclose()

    assert (turn.status, turn.conversation, turn.content) == ("done", "c", "Done.")
    assert [(each.id, each.status) for each in kept] == [(turn.id, "done")]
    assert [how for how, *_ in ends.told] == ["finished"]
    assert "not kept" not in caplog.text


@pytest.mark.parametrize("found", [UnknownTurnError("x"), StorageError("the file is damaged"), "another's"])
async def test_a_turn_whose_end_is_refused_is_lost_unless_that_end_is_its_own(tmp_path, found):
    class Refusing(SqliteConversations):
        async def append(self, conversation, turn, **rest):
            raise LostTurnError(turn.id)

    store = Refusing(tmp_path / "c.db")
    read = store.journal.read

    async def read_it(*args, **rest):
        if isinstance(found, Exception):
            raise found
        turn, entries = await read(*args, **rest)
        return attrs.evolve(turn, state="done", owner="another", fence=2), entries

    store.journal.read = read_it
    with pytest.raises(LostTurnError) as raised:
        await chat_of(says("Done."), store=store).respond("x", conversation="c")
    assert raised.value.turn.conversation is None
    await store.aclose()


async def test_a_turn_cancelled_while_its_save_fails_is_not_reported_as_finished(tmp_path, caplog):
    entered, leave = asyncio.Event(), asyncio.Event()

    class Full(SqliteConversations):
        async def append(self, *args, **rest):
            entered.set()
            await leave.wait()
            raise StorageError("the disk is full")

    ends, full = Ends(), Full(tmp_path / "full.db")
    work = asyncio.create_task(chat_of(says("Done."), store=full, hooks=[ends]).respond("x", conversation="c"))
    await entered.wait()
    work.cancel()
    await asyncio.sleep(0)
    leave.set()
    turn = (await cancelled(work)).turn
    await full.aclose()

    assert (turn.content, turn.conversation) == ("Done.", None)
    assert [how for how, *_ in ends.told] == ["cancelled"]
    assert "is not kept: the disk is full" in caplog.text


async def test_who_cancels_a_finished_turn_still_gets_it():
    """While a plugin is told."""
    told = asyncio.Event()

    class Slow:
        @hookimpl
        async def flexchat_turn_finished(self):
            told.set()
            await asyncio.Event().wait()

    work = asyncio.create_task(chat_of(says("done"), hooks=[Slow()]).respond("x"))
    await told.wait()

    assert (await cancelled(work)).turn.response.content == "done"


class Broken(SqliteConversations):
    """Keeps nothing."""

    async def append(self, conversation, turn, *, tenant, **rest):
        raise StorageError("the disk is full")


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_store_that_fails_fails_the_turn_which_is_handed_over(streamed, tmp_path):
    ends, store = Ends(), Broken(tmp_path / "c.db")
    chat = chat_of(says("ok"), store=store, hooks=[ends])

    async def read():
        return [event async for event in chat.stream("x", conversation="c")]

    with pytest.raises(StorageError, match="disk") as caught:
        await (read() if streamed else chat.respond("x", conversation="c"))
    await store.aclose()

    assert caught.value.turn.response.content == "ok"
    assert [how for how, *_ in ends.told] == ["failed"]


async def test_a_turn_that_fails_is_cancelled_all_the_same_while_it_is_kept(tmp_path):
    """Who cancels gets the CancelledError, and the plugins hear how the turn ended."""

    class Slow(SqliteConversations):
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def append(self, conversation, turn, *, tenant, **rest):
            self.begun.set()
            await self.go_on.wait()

    ends, store = Ends(), Slow(tmp_path / "c.db")
    chat = chat_of(ProviderConnectionError("no"), store=store, hooks=[ends])
    work = asyncio.create_task(chat.respond("x", conversation="c"))
    await store.begun.wait()
    work.cancel()
    await asyncio.sleep(0)
    store.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await work
    await store.aclose()

    assert [how for how, *_ in ends.told] == ["failed"]


def test_a_conversation_that_is_kept_nowhere_is_refused_at_the_call():
    """As every request that cannot be used; no event loop is needed."""
    with pytest.raises(ChatRequestError, match="no conversations are kept"):
        chat_of(says("ok")).stream("x", conversation="c")


@pytest.mark.usefixtures("virtual_time")
async def test_the_time_of_a_stream_begins_with_its_first_event():
    events = chat_of(says("ok"), limits={"turn_timeout_ms": 40}).stream("x")
    await asyncio.sleep(0.07)

    turn = [event async for event in events][-1].turn
    assert turn.response.content == "ok"
    assert sum(phase.elapsed_ms for phase in turn.phases) <= turn.elapsed_ms


async def test_a_stream_that_is_closed_before_its_first_event_begins_nothing(recwarn):
    ends = Ends()
    chat = chat_of(says("ok"), hooks=[ends])
    await chat.stream("x").aclose()
    chat.stream("x")
    gc.collect()

    assert ends.told == []
    assert [str(w.message) for w in recwarn] == []


# what stays behind


@pytest.mark.slow
@pytest.mark.parametrize("how", ["respond", "stream", "fails", "cancelled"])
async def test_a_turn_that_is_over_is_freed_at_once(how, monkeypatch):
    """Without the garbage collector: nothing of it knows itself."""
    known, begin = [], TurnEngine.create_turn

    def watched(self, *args, **rest):
        turn = begin(self, *args, **rest)
        known.append(weakref.ref(turn))
        return turn

    monkeypatch.setattr(TurnEngine, "create_turn", watched)

    @tool
    async def add(a: int) -> int:
        """Add."""
        return a + 1

    def fail(*_):
        raise ProviderConnectionError("no")

    wait, begun = waiting()
    last = fail if "fails" in how else says("ok")
    if how == "cancelled":
        last = calls(("wait", {}))
    chat = chat_of(calls(("add", {"a": 1}), ("add", {"a": 2})), calls(("add", {"a": 3})), last, tools=[add, wait])

    async def run():
        if "stream" in how:
            async for _ in chat.stream("x"):
                pass
        else:
            await chat.respond("x")

    gc.collect()
    gc.disable()
    try:
        work = asyncio.create_task(run())
        if how == "cancelled":
            await begun.wait()
            work.cancel()
        await asyncio.wait({work})
        assert work.cancelled() or bool(work.exception()) == ("fails" in how)
        del work
        await asyncio.sleep(0)
        assert [turn() for turn in known] == [None]
    finally:
        gc.enable()


# turns inside of turns


def asking(chat_, **asked):
    """A tool that begins a turn."""

    @tool(repeatable=True)
    async def ask(question: str) -> str:
        """Ask."""
        return (await chat_().respond(question, **asked)).response.content

    return ask


async def test_a_tool_may_begin_a_turn():
    ends = Ends()
    chat = chat_of(
        calls(("ask", {"question": "y"})), says("inner"), says("outer"), tools=[asking(lambda: chat)], hooks=[ends]
    )
    turn = await chat.respond("x")

    assert turn.response.tool_calls[0].result.result == "inner"
    (_, inner, _), (_, outer, _) = ends.told
    assert (inner.parent, outer.parent) == (outer.id, None)


async def test_turns_are_nested_a_few_deep_at_most():
    """The innermost is told; every one around it goes on."""
    replies = [calls(("ask", {"question": "y"}))] * MAX_NESTED_TURNS + [says("enough")] * MAX_NESTED_TURNS
    model = ScriptedProvider(replies)
    chat = FlexChat.from_config(CONFIG, providers={"bot": model}, tools=[asking(lambda: chat)])
    turn = await chat.respond("x")

    assert turn.response.content == "enough"
    assert len(model.requests) == 2 * MAX_NESTED_TURNS
    said = [message.content for request in model.requests for message in request.messages if message.role == "tool"]
    assert [text for text in said if f"a turn inside {MAX_NESTED_TURNS} others" in text]


async def test_a_turn_inside_of_its_own_conversation_is_refused(store):
    """It would wait for itself."""
    chat = chat_of(
        calls(("ask", {"question": "y"})),
        says("ok"),
        store=store,
        tools=[asking(lambda: chat, conversation="c")],
    )
    turn = await asyncio.wait_for(chat.respond("x", conversation="c"), 5)

    assert "was started inside one that still runs in it" in turn.response.tool_calls[0].result.error


async def test_conversations_of_one_name_in_two_stores_are_two(store, tmp_path):
    """A chat that asks another under the same id: each keeps its own."""
    other = SqliteConversations(tmp_path / "other.db")
    inner = chat_of(says("inner"), store=other)
    ask = asking(lambda: inner, conversation="c")
    chat = chat_of(calls(("ask", {"question": "y"})), says("ok"), store=store, tools=[ask])
    turn = await chat.respond("x", conversation="c")

    assert turn.response.tool_calls[0].result.result == "inner"
    assert len(await other.turns("c", tenant="default")) == 1
    await other.aclose()


async def test_a_hook_that_begins_a_turn_in_the_conversation_that_just_ended_does_not_wait_for_ever(store):
    class Eager:
        @hookimpl
        async def flexchat_turn_finished(self, turn):
            try:
                await chat.respond("again", conversation="c")
            except NestedTurnError as error:
                self.told = str(error)

    eager = Eager()
    chat = chat_of(says("ok"), says("ok"), store=store, hooks=[eager])
    await asyncio.wait_for(chat.respond("x", conversation="c"), 5)

    assert "still runs in it" in eager.told


@pytest.mark.usefixtures("virtual_time")
async def test_a_turn_ends_no_later_than_the_one_around_it():
    wait, _ = waiting()
    inner = chat_of(calls(("wait", {})), tools=[wait])
    chat = chat_of(
        calls(("ask", {"question": "y"})), says("ok"), limits={"turn_timeout_ms": 80}, tools=[asking(lambda: inner)]
    )
    began = time.monotonic()
    with pytest.raises(Exception, match="80 ms"):
        await chat.respond("x")

    assert time.monotonic() - began < 2


@pytest.mark.usefixtures("virtual_time")
@pytest.mark.parametrize("begins", ["explain", "respond"])
async def test_work_a_turn_has_left_behind_may_begin_turns_later(begins):
    """A task a plugin started keeps the variables of the turn it was started in, and that turn is over."""
    later, tasks = asyncio.Event(), []

    class Starts:
        @hookimpl
        def flexchat_phase_finished(self, record):
            if record.phase == "profile building" and not tasks:
                tasks.append(asyncio.create_task(work()))

    async def work():
        await later.wait()
        return await chat.respond("later")

    chat = chat_of(says("one"), says("two"), limits={"turn_timeout_ms": 60}, hooks=[Starts()])
    await getattr(chat, begins)("x")
    await asyncio.sleep(0.1)
    later.set()

    assert (await tasks[0]).response.content in ("one", "two")


# events


async def test_a_log_has_the_end_of_every_turn():
    own, log = engine({"bot": ScriptedProvider([says("ok")])}), EventLog()
    turn = own.create_turn(ChatRequest(user_message="x"), log)

    with pytest.raises(Exception, match="No matching"):
        await run_turn(own, turn)

    assert log.number > 1
    assert type(log.last).__name__ == "TurnFailed"


def test_an_interrupted_turn_of_plain_functions_is_cancelled():
    """Whatever interrupts the waiting: a Ctrl-C, here."""
    ends, begun = Ends(), []

    @tool
    async def interrupt() -> str:
        """Interrupt."""
        begun.append(1)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        await asyncio.Event().wait()

    with SyncFlexChat(chat_of(calls(("interrupt", {})), says("ok"), tools=[interrupt], hooks=[ends])) as chat:
        with pytest.raises(KeyboardInterrupt):
            chat.respond("x")
        told = [how for how, *_ in ends.told]
        assert chat.respond("y").response.content == "ok"

    assert begun == [1]
    assert told == ["cancelled"]


async def test_a_phase_with_something_to_do_is_announced_before_it_ends():
    events = [event async for event in chat_of(says("ok")).stream("x")]
    started = [event.phase for event in events if isinstance(event, PhaseStarted)]
    (finished,) = [event for event in events if isinstance(event, PhaseFinished) and event.record.phase == started[-1]]

    assert started[-1] == "response generation"
    assert [type(event) for event in events].index(PhaseStarted) < events.index(finished)


async def test_the_last_event_of_a_stream_is_its_finished_turn():
    *_, last = [event async for event in chat_of(says("ok")).stream("x")]

    assert isinstance(last, TurnFinished)
    assert last.turn.status == "done"


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


ANSWER = {"type": "json_schema", "json_schema": {"name": "sum", "schema": {"type": "object"}}}


@pytest.mark.parametrize(
    ("rule", "asked"),
    [
        ({}, {}),
        ({"prompt": "You help {{user_message}} {{who}}.", "temperature": 0.5}, {"variables": {"who": "Ann"}}),
        ({"tools": {"enabled": True, "choice": "required"}}, {"history": [{"role": "user", "content": "Hi"}]}),
        ({"tools": {"enabled": True}}, {"response_format": ANSWER}),
        ({"prompt": "Be short."}, {"conversation": "kept"}),
    ],
)
async def test_a_preview_is_what_the_model_is_sent(tmp_path, rule, asked):
    """To the letter, but for the time that is left; the model is not asked, and nothing is kept."""
    config = {
        "llms": {"bot": {"provider": "scripted"}},
        "responses": [{"llm": "bot", "model": "m", **rule}],
        "conversations": {"path": str(tmp_path / "kept.db")},
        "variables": {"who": "all"},
    }
    model = ScriptedProvider([says("{}")], repeat=True)
    async with FlexChat.from_config(config, providers={"bot": model}, tools=[add]) as chat:
        await chat.respond("Before.", conversation="kept")
        asked_before = len(model.requests)

        request = await chat.preview("What is 2 + 3?", **asked)

        assert len(model.requests) == asked_before
        assert len(await chat.conversations.turns("kept")) == 1
        await chat.respond("What is 2 + 3?", **asked)
    sent = model.requests[-1]
    assert (request.llm, request.model, request.all_messages) == ("bot", sent.model, sent.messages)
    assert attrs.evolve(request.options, timeout_s=None) == attrs.evolve(sent.options, timeout_s=None)


def test_a_preview_shows_tools_in_the_words_of_the_provider():
    """Also for callers without an event loop."""
    with SyncFlexChat.from_model("rehearsal/any", tools=[add]) as chat:
        request = chat.preview("What is 2 + 3?")

    assert [tool["function"]["name"] for tool in request.options.tools] == ["add"]
