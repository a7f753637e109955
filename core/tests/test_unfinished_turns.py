"""A turn that is stopped or fails loses nothing: question, text so far and what was run are kept and gone on from."""

import asyncio
import contextlib
import json

import pytest
from flexchat import (
    AssistantMessage,
    FlexChat,
    ReasoningDelta,
    SyncFlexChat,
    TextDelta,
    ToolFinished,
    ToolMessage,
    ToolStarted,
    TurnTimeoutError,
    Usage,
    tool,
)
from flexchat.config.model import ResponseRule
from flexchat.domain.history import repair_history
from flexchat.errors import ContextLengthError, NoMatchingRuleError, ProviderConnectionError, ResponseFormatError
from flexchat.turn.run import _SAVING
from flexchat_sdk import ToolCallStart, events_of
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_testing import ScriptedProvider, calls, says

C = {"conversation": "c", "tenant": "t"}
RULE = {"llm": "s", "model": "m", "name": "All else", "tools": {}}


class Halting(ScriptedProvider):
    """Streams its replies; one that is a list streams these events, and raises or waits where it ends."""

    def __init__(self, *replies):
        super().__init__([r for r in replies if not isinstance(r, list)])
        self.turns = list(replies)
        self.halted = asyncio.Event()

    async def stream_chat(self, messages, model, options):
        if not isinstance(self.turns[0], list):
            self.turns.pop(0)
            for event in events_of(await self.generate_chat(messages, model, options)):
                yield event
            return
        for event in self.turns.pop(0):
            if isinstance(event, Exception):
                raise event
            yield event
        self.halted.set()
        await asyncio.Event().wait()


def chat_of(model, store=None, tools=(), **config):
    data = {"llms": {"s": {"provider": "scripted"}}, "responses": [RULE], **config}
    chat = FlexChat.from_config(data, providers={"s": model}, tools=tools)
    if store is not None:
        chat.keep_in(store)
    return chat


@pytest.fixture
async def store(tmp_path):
    store = SqliteConversations(tmp_path / "c.db")
    yield store
    await store.aclose()


SO_FAR = [ReasoningDelta(0, "Hm "), ReasoningDelta(0, "hm."), TextDelta(1, "We "), TextDelta(1, "must ")]


async def stop_by_closing(chat, model, **asked):
    async with contextlib.aclosing(chat.stream("Why?", **asked)) as events:
        async for event in events:
            if event == SO_FAR[-1]:
                break


async def stop_by_cancelling(chat, model, **asked):
    async def read():
        async for _ in chat.stream("Why?", **asked):
            pass

    task = asyncio.ensure_future(read())
    await model.halted.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def stop_by_forgetting(chat, model, **asked):
    events = chat.stream("Why?", **asked)
    while await anext(events) != SO_FAR[-1]:
        pass
    del events
    for _ in range(3):
        await asyncio.sleep(0)
    async with contextlib.aclosing(chat.stream("x", **asked)) as waits:  # its turn comes when the other's has ended
        await anext(waits)


@pytest.mark.parametrize("stop", [stop_by_closing, stop_by_cancelling])
async def test_a_stopped_turn_is_kept_with_its_question_and_what_was_said(store, stop):
    """However it is stopped; the next turn goes on from it."""
    model = Halting(SO_FAR, "Because.")
    chat = chat_of(model, store)

    await stop(chat, model, **C)
    (kept,) = await store.turns(**C)
    assert (await store.get(**C)).status == "cancelled"
    await chat.respond("And?", **C)

    assert (kept.status, kept.error, kept.rule, kept.rule_name) == ("cancelled", "", 0, "All else")
    assert [m.content for m in kept.messages] == ["Why?", "We must "]
    assert kept.messages[1].parts[0].text == "Hm hm."
    assert [p.phase for p in kept.phases][-1] == "response matching"
    assert [m.content for m in model.requests[-1].messages] == ["Why?", "We must ", "And?"]


async def test_a_stream_that_is_forgotten_is_kept_too(store):
    model = Halting(SO_FAR, "Because.")

    await stop_by_forgetting(chat_of(model, store), model, **C)

    assert (await store.turns(**C))[0].status == "cancelled"


async def test_a_cancelled_respond_hands_over_what_there_was(store):
    """In the CancelledError: a program without a store loses nothing either."""
    begun = asyncio.Event()

    async def hang(messages, options):
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(chat_of(ScriptedProvider([hang]), store).respond("Why?", **C))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task

    turn = caught.value.turn
    assert (turn.status, turn.conversation) == ("cancelled", "c")
    assert [m.content for m in turn.response.messages] == ["Why?"]
    assert [t.id for t in await store.turns(**C)] == [turn.id]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_failed_turn_is_kept_and_the_error_carries_it(store, streamed):
    model = ScriptedProvider([ProviderConnectionError("the server is gone"), "Hello again."])
    chat = chat_of(model, store)

    async def answered():
        if streamed:
            [event async for event in chat.stream("Hello", **C)]
        await chat.respond("Hello", **C)

    with pytest.raises(ProviderConnectionError) as caught:
        await answered()
    turn = await chat.respond("Still there?", **C)

    failed, done = await store.turns(**C)
    assert caught.value.turn.id == failed.id
    assert (failed.status, failed.error, done.status) == ("failed", "the server is gone", "done")
    assert [m.content for m in model.requests[-1].messages] == ["Hello", "Still there?"]
    assert turn.status == "done"
    assert turn.to_dict()["status"] == "done"


async def test_a_stream_that_breaks_keeps_the_text_before_the_break(store):
    chat = chat_of(Halting([*SO_FAR, ProviderConnectionError("broken pipe")]), store)

    with pytest.raises(ProviderConnectionError) as caught:
        [event async for event in chat.stream("Why?", **C)]

    assert caught.value.turn.content == "We must "
    assert caught.value.turn.to_dict()["error"] == "broken pipe"
    assert [m.content for m in (await store.turns(**C))[0].messages] == ["Why?", "We must "]


async def test_a_turn_without_a_rule_and_one_without_time_are_kept(store):
    """A turn may end in any phase."""
    never = ResponseRule(llm="s", model="m", match={"topic_contains": "never"})
    chat = chat_of(ScriptedProvider([])).with_rule(never)
    chat.keep_in(store)
    with pytest.raises(NoMatchingRuleError) as caught:
        await chat.respond("Hello", **C)
    assert caught.value.turn.rule is None
    with pytest.raises(TurnTimeoutError):
        [e async for e in chat_of(Halting(SO_FAR), store, limits={"turn_timeout_ms": 50}).stream("Why?", **C)]

    first, second = await store.turns(**C)
    assert (first.status, first.rule, [m.content for m in first.messages]) == ("failed", None, ["Hello"])
    assert (second.status, [m.content for m in second.messages]) == ("failed", ["Why?", "We must "])


async def test_what_a_service_refused_is_kept_and_not_sent_again(store):
    """It would refuse every later turn, too."""
    model = ScriptedProvider([ContextLengthError("too long"), "Yes."])
    chat = chat_of(model, store)
    with pytest.raises(ContextLengthError):
        await chat.respond("A very long text", **C)

    await chat.respond("Shorter?", **C)

    assert [m.content for t in await store.turns(**C) for m in t.messages] == ["A very long text", "Shorter?", "Yes."]
    assert [m.content for m in model.requests[-1].messages] == ["Shorter?"]


async def test_calls_that_ran_keep_their_results_and_each_other_call_is_answered(store):
    """Stopped while a tool runs: the history has one answer for each call, and there is nothing to repair."""
    running = asyncio.Event()

    async def hangs() -> str:
        """Never come back."""
        running.set()
        await asyncio.Event().wait()

    @tool(effect="read")  # what is recorded in the ledger takes longer than this test waits
    def quick() -> str:
        """Answer at once."""
        return "42"

    model = Halting(
        calls(("quick", {}), text="I look."), calls(("quick", {"x": 1}), ("quick", {}), ("hangs", {})), "Ok."
    )
    chat = chat_of(model, store, tools=[quick, hangs])

    async def read():
        async for _ in chat.stream("Why?", **C):
            pass

    task = asyncio.ensure_future(read())
    await running.wait()
    for _ in range(50):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task

    (kept,) = await store.turns(**C)
    assert kept.status == "cancelled"
    assert repair_history(kept.messages) == (kept.messages, ())
    results = [json.loads(m.content) for m in kept.messages if isinstance(m, ToolMessage)]
    assert [r["success"] for r in results] == [True, True, True, False]
    assert results[-1]["error"].startswith("Interrupted: ")
    assert [record.call_id for record in kept.tool_calls] == [
        call.id for m in kept.messages if isinstance(m, AssistantMessage) for call in m.tool_calls
    ]
    assert len(kept.rounds) == 2
    assert caught.value.turn.response.tool_calls == kept.tool_calls
    await chat.respond("And?", **C)
    assert model.requests[-1].messages[:-1] == kept.messages


@pytest.mark.parametrize("at", [ToolStarted, ToolFinished])
async def test_a_stream_left_between_tools_answers_those_that_never_began(store, at):
    def one() -> str:
        """Answer."""
        return "1"

    model = Halting(calls(("one", {}), ("one", {"no": 1})))
    chat = chat_of(model, store, tools=[one])
    async with contextlib.aclosing(chat.stream("Why?", **C)) as events:
        async for event in events:
            if isinstance(event, at):
                break

    (kept,) = await store.turns(**C)
    assert repair_history(kept.messages) == (kept.messages, ())
    assert len([m for m in kept.messages if isinstance(m, ToolMessage)]) == 2


async def test_calls_of_an_answer_that_broke_off_never_ran_and_are_left_out(store):
    model = Halting([TextDelta(0, "I look."), ToolCallStart(1, "quick")])
    chat = chat_of(model, store)
    async with contextlib.aclosing(chat.stream("Why?", **C)) as events:
        async for event in events:
            if isinstance(event, ToolCallStart):
                break

    (kept,) = await store.turns(**C)
    assert [m.content for m in kept.messages] == ["Why?", "I look."]


async def test_an_answer_without_its_form_is_kept_with_the_failed_turn(store):
    """And the complaint that went to the model is no part of the turn."""
    chat = chat_of(ScriptedProvider(["no JSON", "still none"]), store)

    with pytest.raises(ResponseFormatError) as caught:
        await chat.respond("Give me JSON", response_format={"type": "json_object"}, **C)

    assert caught.value.turn.content == "still none"
    assert [m.content for m in (await store.turns(**C))[0].messages] == ["Give me JSON", "still none"]


async def test_keeping_survives_that_the_stopped_task_is_cancelled_again(store):
    """Whoever is impatient does not lose the turn."""
    model = Halting(SO_FAR)
    kept, go_on = asyncio.Event(), asyncio.Event()
    append = store.append

    async def slowly(*args, **rest):
        kept.set()
        await go_on.wait()
        await append(*args, **rest)

    store.append = slowly

    async def read():
        async for _ in chat_of(model, store).stream("Why?", **C):
            pass

    task = asyncio.ensure_future(read())
    await model.halted.wait()
    task.cancel()
    await kept.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert [t.status for t in await store.turns(**C)] == ["cancelled"]


async def test_a_store_that_hangs_holds_up_a_stopped_turn_for_a_moment_only(store, monkeypatch):
    monkeypatch.setattr("flexchat.turn.run.SAVE_TIMEOUT_S", 0.05)
    model = Halting(SO_FAR)
    go_on, append = asyncio.Event(), store.append

    async def slowly(*args, **rest):
        await go_on.wait()
        await append(*args, **rest)

    store.append = slowly
    await asyncio.wait_for(stop_by_closing(chat_of(model, store), model, **C), 5)
    go_on.set()
    await asyncio.wait(_SAVING)

    assert [t.status for t in await store.turns(**C)] == ["cancelled"]


async def test_a_turn_stopped_while_it_is_written_is_kept_as_done(store):
    writing, go_on, append = asyncio.Event(), asyncio.Event(), store.append

    async def slowly(*args, **rest):
        if not writing.is_set():
            writing.set()
            await go_on.wait()
        await append(*args, **rest)

    store.append = slowly
    task = asyncio.ensure_future(chat_of(ScriptedProvider(["Hi."]), store).respond("Hello", **C))
    await writing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    (kept,) = await store.turns(**C)
    assert (kept.status, [m.content for m in kept.messages]) == ("done", ["Hello", "Hi."])


def test_a_closed_generator_of_the_synchronous_chat_is_kept(tmp_path):
    store = SqliteConversations(tmp_path / "c.db")
    model = ScriptedProvider(["Hello there you"])
    with SyncFlexChat(chat_of(model, store)) as chat:
        events = chat.stream("Hello", **C)
        while not isinstance(next(events), TextDelta):
            pass
        events.close()
        (kept,) = chat.run(lambda c: c.conversations.of("t").turns("c"))
        chat.run(lambda c: store.aclose())

    assert (kept.status, kept.messages[0].content) == ("cancelled", "Hello")
    assert kept.messages[1].content.startswith("Hello ")  # the service may be some pieces ahead of the reader


async def test_how_a_turn_came_about_is_kept_with_it(store):
    """Rule, phases, warnings, times, thoughts and tokens of each answer: what is live is there after a reload."""
    thought = says("Sunny.", usage=Usage(input_tokens=20, output_tokens=2), warnings=("no seed",))
    model = ScriptedProvider([calls(("nothing", {}), usage=Usage(input_tokens=10, output_tokens=5)), thought])
    turn = await chat_of(model, store, tools=[dict_tool()]).respond("Hello", **C)

    (kept,) = await store.turns(**C)
    response = turn.response
    for name in ("rule", "rule_name", "phases", "elapsed_ms", "status", "error"):
        assert getattr(kept, name) == getattr(turn, name)
    for name in ("rounds", "warnings", "tool_calls", "finish_reason", "max_iterations_reached", "usage", "messages"):
        assert getattr(kept, name) == getattr(response, name)
    assert [(r.llm, r.model, r.usage.input_tokens) for r in kept.rounds] == [("s", "m", 10), ("s", "m", 20)]
    assert [p.phase for p in kept.phases][-1] == "response generation"
    assert kept.warnings == ("no seed",)
    assert turn.to_dict()["rounds"][1]["usage"] == {"input_tokens": 20, "output_tokens": 2}


def dict_tool():
    def nothing() -> None:
        """Do nothing."""

    return nothing
