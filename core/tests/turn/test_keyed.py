"""A caller's key: the same key and the same request are the same turn."""

import asyncio
import contextlib
import gc
import sqlite3

import attrs
import pytest
from flexchat import (
    ChatRequest,
    ChatRequestError,
    FailedTurnError,
    FlexChat,
    ForgottenAnswerError,
    KeyReusedError,
    MediaPart,
    NestedTurnError,
    ProviderRateLimitError,
    StuckTurnError,
    SyncFlexChat,
    TextDelta,
    ToolContext,
    TurnFinished,
    TurnRunningError,
    TurnStarted,
    TurnTimeoutError,
    WithMedia,
    tool,
)
from flexchat.turn import keyed
from flexchat.turn.journal import request_from_json, request_to_json
from flexchat.turn.keyed import KeyMemory
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_testing import ScriptedProvider, calls, says

CONFIG = {
    "llms": {"s": {"provider": "scripted"}},
    "responses": [{"llm": "s", "model": "m", "tools": {"enabled": True}}],
}
K = {"idempotency_key": "order-17"}
C = {"conversation": "c"}
KEPT = pytest.mark.parametrize("kept", [{}, C], ids=["unkept", "kept"])


def chat_of(path, model, *tools, **config):
    chat = FlexChat.from_config({**CONFIG, **config}, providers={"s": model}, tools=tools)
    chat.keep_in(SqliteConversations(path))
    return chat


def anew(turn):
    """A replayed turn, but for the mark of a repeat."""
    return attrs.evolve(turn, is_repeat=False)


class Paying:
    """A tool that changes something, and may wait before it is done."""

    def __init__(self, *, waits=None, effect="write"):
        self.paid, self.began = [], asyncio.Event()

        @tool(effect=effect)
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            self.began.set()
            if waits is not None:
                await waits.wait()
            return "paid"

        self.tool = pay


def pays():
    return calls(("pay", {"amount": 5}))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "c.db"


@KEPT
async def test_a_repeated_request_gets_the_same_turn(path, kept):
    paying, model = Paying(), ScriptedProvider([pays(), says("Done.")])
    async with chat_of(path, model, paying.tool) as chat:
        first = await chat.respond("Pay 5", **K, **kept)
        again = await chat.respond("Pay 5", **K, **kept)
    assert (first.is_repeat, again.is_repeat, again.id) == (False, True, first.id)
    assert (anew(again).to_dict(), paying.paid, len(model.requests)) == (first.to_dict(), [5], 2)


@KEPT
async def test_another_key_or_tenant_or_none_is_another_turn(path, kept):
    async with chat_of(path, ScriptedProvider([says("Hi")], repeat=True)) as chat:
        asked = [{**K}, {"idempotency_key": "order-18"}, {**K, "tenant": "t"}, {}, {}]
        turns = [await chat.respond("Hello", **kept, **each) for each in asked]
    assert len({turn.id for turn in turns}) == 5
    assert not any(turn.is_repeat for turn in turns)


@KEPT
@pytest.mark.parametrize(
    "other",
    [{"message": "Other"}, {"topic": "t"}, {"variables": {"a": 1}}, {"history": [{"role": "user", "content": "x"}]}],
)
async def test_a_key_stands_for_one_request(path, kept, other):
    async with chat_of(path, ScriptedProvider([says("Hi")], repeat=True)) as chat:
        await chat.respond("Hello", **K, **kept)
        with pytest.raises(KeyReusedError, match="'order-17' has been used for another request"):
            await chat.respond(**{"message": "Hello", **K, **kept, **other})


async def test_a_request_kept_elsewhere_is_another_request(path):
    async with chat_of(path, ScriptedProvider([says("Hi")], repeat=True)) as chat:
        await chat.respond("Hello", **K, **C)
        for other in ({}, {"conversation": "d"}):
            with pytest.raises(KeyReusedError):
                await chat.respond("Hello", **K, **other)


async def test_what_is_passed_to_tools_makes_no_other_request(path):
    async with chat_of(path, ScriptedProvider([says("Hi")], repeat=True)) as chat:
        first = await chat.respond("Hello", **K, context=object())
        assert (await chat.respond("Hello", **K, context=object())).id == first.id


async def test_calls_in_a_history_have_new_ids_each_time_they_are_read(path):
    call = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": "{}"}}
    history = [
        {"role": "user", "content": "Pay"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "paid"},
    ]
    async with chat_of(path, ScriptedProvider([says("Hi")], repeat=True)) as chat:
        first = await chat.respond("Hello", history=history, **K)
        assert (await chat.respond("Hello", history=history, **K)).id == first.id


async def test_the_configs_variables_may_change(path):
    async with chat_of(path, ScriptedProvider([says("Hi")]), variables={"shop": "A"}) as chat:
        first = await chat.respond("Hello", **K, **C)
    async with chat_of(path, ScriptedProvider([]), variables={"shop": "B"}) as chat:
        assert (await chat.respond("Hello", **K, **C)).id == first.id


@pytest.mark.parametrize("key", ["", " ", "x" * 256, "a\nb", "a\0", "\ud800", 7, b"k", ["k"]])
async def test_what_is_not_a_key(path, key):
    async with chat_of(path, ScriptedProvider([])) as chat:
        with pytest.raises(ChatRequestError, match="a key has 1 to 255 printable characters"):
            await chat.respond("Hello", idempotency_key=key)


@pytest.mark.parametrize("key", ["x" * 255, "'; DROP TABLE turn_keys; --", "%s{s}", "Ключ 17 🎈"])
async def test_any_printable_text_is_a_key(path, key):
    async with chat_of(path, ScriptedProvider([says("Hi")])) as chat:
        first = await chat.respond(ChatRequest(user_message="Hello", idempotency_key=key, conversation="c"))
        assert (await chat.respond("Hello", idempotency_key=key, **C)).id == first.id


@KEPT
async def test_of_many_requests_at_once_one_runs(path, kept):
    paying, model = Paying(), ScriptedProvider([pays(), says("Done.")])
    async with chat_of(path, model, paying.tool) as chat:
        turns = await asyncio.gather(*(chat.respond("Pay 5", **K, **kept) for _ in range(20)))
    assert len({turn.id for turn in turns}) == 1
    assert [turn.is_repeat for turn in turns].count(False) == 1
    assert paying.paid == [5]


@KEPT
async def test_who_leaves_does_not_end_a_turn_that_has_a_key(path, kept):
    done = asyncio.Event()
    paying, model = Paying(waits=done), ScriptedProvider([pays(), says("Done.")])
    async with chat_of(path, model, paying.tool) as chat:
        asked = asyncio.create_task(chat.respond("Pay 5", **K, **kept))
        await paying.began.wait()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        done.set()
        again = await chat.respond("Pay 5", **K, **kept)
    assert (again.content, again.is_repeat, paying.paid) == ("Done.", True, [5])


@KEPT
async def test_a_repeated_stream_begins_with_the_first_event(path, kept):
    done = asyncio.Event()
    paying, model = Paying(waits=done), ScriptedProvider([pays(), says("Done.")])
    async with chat_of(path, model, paying.tool) as chat:
        stream = chat.stream("Pay 5", **K, **kept)
        assert isinstance(await anext(stream), TurnStarted)
        await stream.aclose()
        await paying.began.wait()
        again = chat.stream("Pay 5", **K, **kept)
        begun = await anext(again)
        done.set()
        running = [begun, *[event async for event in again]]
        ended = [event async for event in chat.stream("Pay 5", **K, **kept)]
    for events in (running, ended):
        assert isinstance(events[0], TurnStarted)
        assert isinstance(events[-1], TurnFinished)
        assert events[-1].turn.is_repeat
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Done."
    assert paying.paid == [5]


@KEPT
async def test_join_gives_the_turn_that_runs(path, kept):
    done = asyncio.Event()
    paying, model = Paying(waits=done), ScriptedProvider([pays(), says("Done.")])
    async with chat_of(path, model, paying.tool) as chat:
        first, again = [await chat.join("Pay 5", **K, **kept) for _ in range(2)]
        assert (first.is_repeat, again.is_repeat) == (False, True)
        assert first.handle is again.handle
        done.set()
        turn = await first.handle.result()
        replayed = await chat.join("Pay 5", **K, **kept)
        assert replayed.handle.is_ended
        replayed.handle.cancel()
        assert (await replayed.handle.result()).to_dict() == turn.to_dict()


async def test_join_needs_a_key_and_start_takes_none(path):
    async with chat_of(path, ScriptedProvider([])) as chat:
        with pytest.raises(ChatRequestError, match="join needs an idempotency_key"):
            await chat.join("Hello")
        with pytest.raises(ChatRequestError, match="await join"):
            chat.start("Hello", **K)


@KEPT
async def test_a_turn_that_was_cancelled_stays_so(path, kept):
    model = ScriptedProvider([pays(), says("Never.")])
    paying = Paying(waits=asyncio.Event())
    async with chat_of(path, model, paying.tool) as chat:
        joined = await chat.join("Pay 5", **K, **kept)
        await paying.began.wait()
        joined.handle.cancel()
        await joined.handle.last()
        again = await chat.respond("Pay 5", **K, **kept)
    assert (again.status, again.id, again.is_repeat, paying.paid) == ("cancelled", joined.handle.id, True, [5])


def too_many():
    return ProviderRateLimitError("slow down", retryable=False)


@KEPT
async def test_a_turn_that_failed_and_changed_nothing_runs_again(path, kept):
    paying = Paying(effect="read")
    model = ScriptedProvider([too_many(), pays(), too_many(), says("Done.")])
    async with chat_of(path, model, paying.tool) as chat:
        for _ in range(2):
            with pytest.raises(ProviderRateLimitError):
                await chat.respond("Pay 5", **K, **kept)
        done = await chat.respond("Pay 5", **K, **kept)
        again = await chat.respond("Pay 5", **K, **kept)
    assert (done.content, done.is_repeat, again.id) == ("Done.", False, done.id)


async def test_a_turn_that_failed_and_may_have_changed_something_fails_again(path):
    paying, model = Paying(), ScriptedProvider([pays(), too_many(), says("Never.")])
    async with chat_of(path, model, paying.tool) as chat:
        for _ in range(3):
            with pytest.raises(ProviderRateLimitError) as failed:
                await chat.respond("Pay 5", **K)
    assert paying.paid == [5]
    assert failed.value.turn.response.tool_calls


async def test_a_kept_turn_that_failed_and_may_have_changed_something_fails_again(path):
    paying, model = Paying(), ScriptedProvider([pays(), too_many(), says("Never.")])
    async with chat_of(path, model, paying.tool) as chat:
        with pytest.raises(ProviderRateLimitError):
            await chat.respond("Pay 5", **K, **C)
    async with chat_of(path, model, paying.tool) as chat:
        with pytest.raises(FailedTurnError, match=r"has failed .*slow down.* choose a new key") as failed:
            await chat.respond("Pay 5", **K, **C)
    assert (paying.paid, failed.value.turn.status) == ([5], "failed")


async def test_a_failed_turn_whose_tool_is_declared_anew_fails_again(path):
    """What it did is done, whatever the tool is called by now."""
    paying, model = Paying(), ScriptedProvider([pays(), too_many(), says("Never.")])
    async with chat_of(path, model, paying.tool) as chat:
        with pytest.raises(ProviderRateLimitError):
            await chat.respond("Pay 5", **K, **C)
    reading = Paying(effect="read")
    async with chat_of(path, model, reading.tool) as chat:
        with pytest.raises(FailedTurnError):
            await chat.respond("Pay 5", **K, **C)
    assert (paying.paid, reading.paid) == ([5], [])


async def test_a_failed_turn_whose_tool_is_declared_anew_fails_again_without_a_conversation(path):
    """The chats of a program share the keys of its turns."""
    paying, model = Paying(), ScriptedProvider([pays(), too_many(), says("Never.")])
    reading, keys = Paying(effect="read"), KeyMemory()
    for chat in chat_of(path, model, paying.tool), chat_of(path, model, reading.tool):
        chat.keys = keys
        async with chat:
            with pytest.raises(ProviderRateLimitError):
                await chat.respond("Pay 5", **K)
    assert (paying.paid, reading.paid) == ([5], [])


@KEPT
async def test_a_turn_that_ran_out_of_time_in_a_call_of_a_tool_fails_again(path, kept):
    """The tool that the model called only reads; the one that it calls changes something, and has begun."""
    paying = Paying(waits=asyncio.Event())

    @tool(effect="read")
    async def check_out(ctx: ToolContext) -> str:
        """Pay what is open."""
        return (await ctx.call_tool("pay", {"amount": 5})).result

    model = ScriptedProvider([calls(("check_out", {})), calls(("check_out", {})), says("Never.")])
    async with chat_of(path, model, paying.tool, check_out, limits={"turn_timeout_ms": 300}) as chat:
        for _ in range(2):
            with pytest.raises((TurnTimeoutError, FailedTurnError)):
                await chat.respond("Check out", **K, **kept)
        (effect,) = await chat.effects()
    assert (paying.paid, effect.state) == ([5], "unknown")


async def test_another_process_replays_the_turn(path):
    with_form = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    async with chat_of(path, ScriptedProvider([says('{"n": 1}')])) as chat:
        first = await chat.respond("Count", **K, **C, response_format=with_form)
    async with chat_of(path, ScriptedProvider([])) as chat:
        again = await chat.respond("Count", **K, **C, response_format=with_form)
    assert anew(again).to_dict() == first.to_dict()
    assert (again.response.parsed, again.is_repeat) == ({"n": 1}, True)


async def test_another_process_waits_for_a_turn_that_runs(path):
    done = asyncio.Event()
    paying, model = Paying(waits=done), ScriptedProvider([pays(), says("Done.")])
    async with chat_of(path, model, paying.tool) as chat, chat_of(path, ScriptedProvider([]), paying.tool) as other:
        first = asyncio.create_task(chat.respond("Pay 5", **K, **C))
        await paying.began.wait()
        again = asyncio.create_task(other.respond("Pay 5", **K, **C))
        await asyncio.sleep(0)
        done.set()
        assert anew(await again).to_dict() == (await first).to_dict()
    assert paying.paid == [5]


async def test_another_process_does_not_wait_for_ever(path):
    paying, model = Paying(waits=asyncio.Event()), ScriptedProvider([pays(), says("Done.")])
    soon = {"limits": {"turn_timeout_ms": 100}}
    async with chat_of(path, model, paying.tool) as chat, chat_of(path, ScriptedProvider([]), **soon) as other:
        joined = await chat.join("Pay 5", **K, **C)
        await paying.began.wait()
        with pytest.raises(TurnRunningError, match="still running in another process"):
            await other.respond("Pay 5", **K, **C)
        joined.handle.cancel()
        await joined.handle.last()


async def test_an_interrupted_turn_is_resumed(path):
    paying, stop = Paying(), asyncio.Event()

    async def stands_still(messages, options):
        stop.set()
        await asyncio.Event().wait()

    model = ScriptedProvider([pays(), stands_still])
    async with chat_of(path, model, paying.tool) as chat:
        joined = await chat.join("Pay 5", **K, **C)
        await stop.wait()
        joined.handle.interrupt()
        await joined.handle.last()
    async with chat_of(path, ScriptedProvider([says("Done.")]), paying.tool) as chat:
        turn = await chat.respond("Pay 5", **K, **C)
    assert (turn.content, turn.id, turn.is_repeat, paying.paid) == ("Done.", joined.handle.id, True, [5])


async def test_a_turn_whose_processes_always_die_is_left_to_people(path):
    """A repeat says so and starts nothing; by hand it goes on, and its key then answers again."""
    stop = asyncio.Event()

    async def stands_still(messages, options):
        stop.set()
        await asyncio.Event().wait()

    async with chat_of(path, ScriptedProvider([stands_still])) as chat:
        joined = await chat.join("Hello", **K, **C)
        await stop.wait()
        joined.handle.interrupt()
        await joined.handle.last()
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE journal_turns SET fence = 6, suspensions = 0")
        database.commit()
    async with chat_of(path, ScriptedProvider([says("Done.")])) as chat:
        with pytest.raises(StuckTurnError, match="was interrupted 6 times; resume it by hand") as stuck:
            await chat.respond("Hello", **K, **C)
        assert (await chat.resume(stuck.value.id)).content == "Done."
        assert (await chat.respond("Hello", **K, **C)).is_repeat


async def test_a_key_whose_turn_never_began_is_bound_anew(path, monkeypatch):
    monkeypatch.setattr(keyed, "BEGINNING_S", 0.0)
    async with chat_of(path, ScriptedProvider([says("Hi")])) as chat:
        await chat.respond("Hello", **K, **C)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("DELETE FROM journal_turns")
        database.execute("UPDATE turn_keys SET begun = 0")
        database.commit()
    async with chat_of(path, ScriptedProvider([says("Hi again")])) as chat:
        assert (await chat.respond("Hello", **K, **C)).content == "Hi again"


async def test_a_deleted_conversation_does_not_begin_again(path):
    async with chat_of(path, ScriptedProvider([says("Hi")], repeat=True)) as chat:
        await chat.respond("Hello", **K, **C)
        await chat.conversations.delete("c")
        with pytest.raises(ForgottenAnswerError, match="its answer is no longer kept"):
            await chat.respond("Hello", **K, **C)


async def test_a_keyed_turn_whose_conversation_was_deleted_while_it_ran_does_not_run_again(path):
    async with chat_of(path, ScriptedProvider([says("Hi")], repeat=True)) as chat:
        await chat.respond("First", **C)

        class Deleting(ScriptedProvider):
            async def generate_chat(self, messages, model, options):
                await chat.conversations.delete("c")
                return await super().generate_chat(messages, model, options)

        async with chat_of(path, Deleting([says("Hello")])) as other:
            assert (await other.respond("Hello", **K, **C)).conversation is None
        for _ in range(2):
            with pytest.raises(ForgottenAnswerError, match="its answer is no longer kept"):
                await chat.respond("Hello", **K, **C)
        assert await chat.conversations.list() == []


async def test_a_tool_cannot_wait_for_its_own_turn(path):
    refused = []

    @tool(effect="read")
    async def ask() -> str:
        """Ask."""
        with pytest.raises(NestedTurnError) as error:
            await chat.respond("Hello", **K)
        refused.append(error)
        return "no"

    async with chat_of(path, ScriptedProvider([calls(("ask", {})), says("Hi")]), ask) as chat:
        assert (await chat.respond("Hello", **K)).content == "Hi"
    assert refused


async def test_the_oldest_answers_are_forgotten_and_their_turns_do_not_run_again(path):
    async with chat_of(path, ScriptedProvider([says("Hi")], repeat=True)) as chat:
        chat.keys = KeyMemory(max_answers=1, max_keys=2)
        await chat.respond("Hello", idempotency_key="a")
        await chat.respond("Hello", idempotency_key="b")
        with pytest.raises(ForgottenAnswerError):
            await chat.respond("Hello", idempotency_key="a")
        assert (await chat.respond("Hello", idempotency_key="b")).is_repeat
        await chat.respond("Hello", idempotency_key="c")
        assert not (await chat.respond("Hello", idempotency_key="a")).is_repeat, "beyond max_keys, the oldest is free"


def part_of(size):
    return MediaPart(kind="document", mime_type="text/plain", data=b"x" * size)


async def test_the_media_of_remembered_answers_are_bounded(path, monkeypatch):
    monkeypatch.setattr(keyed, "MAX_ANSWER_MEDIA_BYTES", 30)

    @tool(effect="read")
    def draw(size: int) -> WithMedia:
        """Draw."""
        return WithMedia("drawn", [part_of(size)] if size else [])

    def reply(messages, options):
        return says("Hi") if messages[-1].role == "tool" else calls(("draw", {"size": int(messages[-1].content)}))

    async with chat_of(path, ScriptedProvider([reply], repeat=True), draw) as chat:
        for name, size in (("a", 20), ("b", 0), ("c", 20), ("d", 1)):
            await chat.respond(str(size), idempotency_key=name)
        with pytest.raises(ForgottenAnswerError):
            await chat.respond("20", idempotency_key="a")
        for name, size in (("b", 0), ("c", 20), ("d", 1)):
            assert (await chat.respond(str(size), idempotency_key=name)).is_repeat


async def test_a_remembered_answer_has_the_media_of_its_request_from_the_repetition(path):
    data = b"a text in a file of its own"
    model = ScriptedProvider([says("Hi")], repeat=True)
    async with chat_of(path, model) as chat:
        first = await chat.respond("Hello", attachments=data, **K)
        model.requests.clear()
        expected = first.to_dict()
        del first
        gc.collect()
        assert [each for each in gc.get_objects() if isinstance(each, MediaPart) and each.data == data] == []

        again = await chat.respond("Hello", attachments=data, **K)

    assert again.is_repeat
    assert anew(again).to_dict() == expected
    assert again.response.messages[0].media[0].data == data


async def test_a_key_is_free_after_a_day(path, monkeypatch):
    monkeypatch.setattr(keyed, "KEEP_S", 0.0)
    async with chat_of(path, ScriptedProvider([says("Hi")], repeat=True)) as chat:
        for kept in ({}, C):
            turns = [await chat.respond("Hello", **K, **kept) for _ in range(2)]
            assert not any(turn.is_repeat for turn in turns)


async def test_chats_of_one_rule_share_keys_and_are_other_requests(path):
    async with chat_of(path, ScriptedProvider([says("Hi")], repeat=True)) as chat:
        rule = chat.config.responses[0]
        first = await chat.with_rule(rule).respond("Hello", **K)
        assert (await chat.with_rule(rule).respond("Hello", **K)).id == first.id
        with pytest.raises(KeyReusedError):
            await chat.respond("Hello", **K)


def test_without_an_event_loop(path):
    with SyncFlexChat(chat_of(path, ScriptedProvider([says("Hi")]))) as chat:
        first = chat.respond("Hello", **K)
        assert chat.respond("Hello", **K).id == first.id
        assert [*chat.stream("Hello", **K)][-1].turn.id == first.id


def test_journals_keep_the_name_of_a_requests_key():
    """Journals and digests written before the keyword's name changed stay readable and equal."""
    request = ChatRequest(user_message="Hello", idempotency_key="order-17")

    data = request_to_json(request)

    assert data == {"user_message": "Hello", "key": "order-17"}
    assert request_from_json(data) == request
