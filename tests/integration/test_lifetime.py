"""Ending a turn at any moment, from any thread, leaves nothing behind and nobody waiting."""

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from flexchat import (
    ChatClosedError,
    ChatRequest,
    ChatRequestError,
    ConfigError,
    FlexChat,
    SyncFlexChat,
    ToolStarted,
    UserMessage,
    tool,
)
from flexchat.plugin import hookimpl
from flexchat.plugin.call import current_turn
from flexchat.plugin.host import PluginHost
from flexchat_sdk import ProviderProtocolError
from flexchat_testing import ScriptedProvider, calls, says

CONFIG = {
    "llms": {"bot": {"provider": "scripted"}},
    "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}],
}


@tool(effect="read")
async def steps(n: int) -> str:
    """Take some steps of the event loop."""
    for _ in range(n):
        await asyncio.sleep(0)
    return "done"


@tool(effect="read")
def blocking() -> str:
    """Block for a moment. Changes nothing: the late answer of a tool that does is recorded behind the turn's back."""
    time.sleep(0.0005)
    return "done"


def chat(*replies, tools=(steps, blocking), plugins=None):
    return FlexChat.from_config(CONFIG, tools=tools, providers={"bot": ScriptedProvider(replies)}, plugins=plugins)


def eventful():
    """Two rounds of tools, several at once, then a text."""
    first = calls(("steps", {"n": 3}), ("blocking", {}), ("steps", {"n": 6}), text="Let me see.")
    return chat(first, calls(("steps", {"n": 2})), says("It is done."))


async def test_a_closed_chat_says_so():
    """Every way to begin a turn; what it shared with others goes on."""
    made = chat("one", "two")
    alone = made.with_rule(made.config.responses[0])
    await alone.aclose()
    assert (await alone.respond("x")).content == "one"
    await made.aclose()
    await made.aclose()

    for begin in (made.respond, made.join, made.explain, made.preview):
        with pytest.raises(ChatClosedError, match="this FlexChat is closed: make a new one"):
            await begin("x", idempotency_key="k")
    for begin in (made.stream, made.start):
        with pytest.raises(ChatClosedError):
            begin("x")
    with pytest.raises(ChatClosedError):
        await made.call_tool("calculator", {})


@pytest.mark.slow
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_turn_can_be_cancelled_at_every_step(streamed, recwarn):
    """After k steps of the event loop, whatever k: no task is left, and no variable is set."""

    async def turn(made):
        if not streamed:
            return await made.respond("x")
        async with contextlib.aclosing(made.stream("x")) as events:
            return [event async for event in events]

    before = asyncio.all_tasks()
    for k in range(60):
        task = asyncio.create_task(turn(eventful()))
        for _ in range(k):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == before
        assert current_turn.get() is None
    gc.collect()
    assert [str(w.message) for w in recwarn] == []


async def test_a_stream_can_be_closed_after_every_event():
    """Whether the reader closes it or loses it."""
    before = asyncio.all_tasks()
    for k in range(30):
        events = eventful().stream("x")
        for _ in range(k):
            if await anext(events, None) is None:
                break
        assert current_turn.get() is None
        await events.aclose()
        assert asyncio.all_tasks() == before


class Listener:
    """A plugin that notes whose events it hears."""

    def __init__(self):
        self.heard = []

    @hookimpl
    def flexchat_turn_started(self, info, user_message):
        self.heard.append((user_message, info.id))

    @hookimpl
    def flexchat_model_request_finished(self, info, result):
        self.heard.append((result.content, info.id))


def listening():
    """Return a listener, and a host with it and all installed plugins."""
    plugins, listener = PluginHost(), Listener()
    plugins.load_installed()
    plugins.register(listener, "listener")
    return listener, plugins


async def test_two_streams_read_in_turns_keep_their_ids():
    """A reader may hold several open: each event carries its own turn's id, and the reader's code none."""
    listener, plugins = listening()
    a, b = (chat(says("a a a"), plugins=plugins).stream("a a a"), chat(says("b b"), plugins=plugins).stream("b b"))
    for _ in range(30):
        for events in (a, b):
            await anext(events, None)
            assert current_turn.get() is None

    assert len(listener.heard) == 4
    assert len(set(listener.heard)) == 2


def test_a_stream_for_plain_functions_keeps_its_id():
    """Each of its events is fetched by another task."""
    listener, plugins = listening()
    with SyncFlexChat(chat(calls(("steps", {"n": 1})), says("ok"), plugins=plugins)) as sync:
        *_, last = sync.stream("x")

    assert {turn_id for _, turn_id in listener.heard} == {last.turn.id}
    assert len(listener.heard) == 3


class Waiting:
    """A tool that waits for ever, and notes that it was cancelled only after some more steps."""

    def __init__(self):
        self.begun, self.ended, self.running = threading.Event(), 0, 0

        @tool
        async def wait() -> str:
            """Wait."""
            self.running += 1
            if self.running == 2:
                self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                await steps.function(5)
                self.ended += 1

        self.sync = SyncFlexChat(chat(calls(("wait", {}), ("wait", {})), tools=[wait]))


def test_closing_ends_the_calls_of_other_threads():
    """They are told so, instead of waiting for ever."""
    waiting, told = Waiting(), []

    def ask():
        with pytest.raises(ChatClosedError) as caught:
            waiting.sync.respond("x")
        told.append(str(caught.value))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    waiting.begun.wait(5)
    waiting.sync.close()
    waiting.sync.close()
    thread.join(5)

    assert told == ["this SyncFlexChat was closed while the call ran"]
    assert waiting.ended == 2


@pytest.mark.skipif(sys.platform == "win32", reason="needs a signal to oneself")
@pytest.mark.parametrize("streamed", [False, True])
def test_ctrl_c_ends_the_turn_before_it_gets_to_the_caller(streamed):
    """Running tools have been cancelled and have cleaned up; nothing else is raised."""
    waiting = Waiting()

    def interrupt():
        waiting.begun.wait(5)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with waiting.sync as sync:
        with pytest.raises(KeyboardInterrupt) as caught:
            [*sync.stream("x")] if streamed else sync.respond("x")
        assert waiting.ended == 2
    assert caught.value.__context__ is None


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_one_callers_exit_is_not_the_others(error):
    """What async code raises to end the program is an error for its caller; the loop serves on."""

    async def answer(messages, options):
        raise error

    with SyncFlexChat(chat(answer, says("ok"))) as sync:
        with pytest.raises(ProviderProtocolError, match=error.__name__):
            sync.respond("x")
        assert sync.respond("x").content == "ok"


@pytest.mark.slow
def test_a_stream_that_is_forgotten_ends():
    """By its reader, before or after closing; nothing is reported as ignored."""
    seen = []
    hook, sys.unraisablehook = sys.unraisablehook, seen.append
    try:
        sync = SyncFlexChat(chat(says("a b c"), says("a b c")))
        for close in (False, True):
            events = sync.stream("x")
            next(events)
            if close:
                sync.close()
            del events
            gc.collect()
    finally:
        sys.unraisablehook = hook
    assert seen == []


def test_from_its_own_loop_it_refuses_instead_of_waiting_for_itself():
    """An async tool must use the FlexChat it has."""
    holder = []

    @tool
    async def nested() -> str:
        """Ask again."""
        return holder[0].respond("y").content

    @tool
    def threaded() -> str:
        """Ask again, from a thread: that is allowed."""
        return holder[0].respond("y").content

    replies = [calls(("nested", {})), says("first"), calls(("threaded", {})), says("inner"), says("second")]
    with SyncFlexChat(chat(*replies, tools=[nested, threaded])) as sync:
        holder.append(sync)
        assert "its own event loop" in sync.respond("x").response.tool_calls[0].result.error
        assert sync.respond("x").response.tool_calls[0].result.result == "inner"


@pytest.mark.slow
def test_a_program_that_forgets_everything_ends():
    """An open stream and an unclosed SyncFlexChat do not keep the interpreter."""
    program = """
from flexchat import SyncFlexChat
sync = SyncFlexChat.from_model("rehearsal/any")
events = sync.stream("Hello there")
next(events)
class Cycle: pass
cycle = Cycle()
cycle.events, cycle.self = events, cycle
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)

    assert (done.returncode, done.stderr) == (0, "")


def test_a_tool_that_ignores_its_cancellation_does_not_keep_the_program():
    """Closing waits for it for a while, and no longer; so does its caller. (In a program of its own: it is messy.)"""
    program = """
import asyncio, contextlib, threading
import flexchat.sync
from flexchat import ChatClosedError, SyncFlexChat, tool
flexchat.sync._ENDING_S = 0.02
begun = threading.Event()

@tool
async def stubborn() -> str:
    'Stay.'
    begun.set()
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.001)

sync = SyncFlexChat.from_model("rehearsal/any", tools=[stubborn])

def ask():
    try:
        sync.respond("Please call stubborn")
    except ChatClosedError as error:
        print(error, flush=True)

asking = threading.Thread(target=ask, daemon=True)
asking.start()
print(begun.wait(10))
sync.close()
asking.join(10)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)

    assert done.stdout.split("\n") == ["True", "this SyncFlexChat was closed while the call ran", ""]
    assert done.returncode == 0


async def test_a_request_is_checked_like_a_text():
    """A ChatRequest is no way around the limits, and its history comes first."""
    made = chat(says("ok"))
    for text in ("", "x" * 100_001):
        with pytest.raises(ChatRequestError):
            await made.respond(ChatRequest(user_message=text))

    model = ScriptedProvider(["ok"])
    made = FlexChat.from_config(CONFIG, providers={"bot": model})
    await made.respond(
        ChatRequest(user_message="c", history=(UserMessage(content="a"),)), history=[{"role": "user", "content": "b"}]
    )
    assert [m.content for m in model.requests[0].messages] == ["a", "b", "c"]


async def test_closing_closes_everything_once():
    """Whatever one of them raises."""
    closed = []

    class Provider(ScriptedProvider):
        async def aclose(self):
            closed.append(self.name)
            raise RuntimeError("no")

    config = {**CONFIG, "llms": {"bot": {"provider": "scripted"}, "other": {"provider": "scripted"}}}
    made = FlexChat.from_config(config, providers={n: Provider(["x"], name=n) for n in ("bot", "other")})

    with pytest.raises(RuntimeError):
        await made.aclose()
    await made.aclose()
    assert sorted(closed) == ["bot", "other"]


def test_a_limit_below_one_is_refused():
    """It would be a loop that never asks the model (C8)."""
    with pytest.raises(ConfigError, match="at least 1"):
        FlexChat.from_model("rehearsal/any", max_iterations=-1)


@pytest.mark.slow
async def test_a_thousand_turns_at_once():
    """Each with a tool in a thread; nothing is left of them."""
    model = ScriptedProvider(
        [lambda messages, options: calls(("blocking", {})) if messages[-1].role == "user" else says("ok")], repeat=True
    )
    made = FlexChat.from_config(CONFIG, tools=[blocking], providers={"bot": model})
    before = asyncio.all_tasks()

    turns = await asyncio.gather(*[made.respond(f"m{n}") for n in range(1000)])

    assert all(turn.content == "ok" and turn.response.tool_calls[0].result.success for turn in turns)
    assert asyncio.all_tasks() == before


async def test_every_started_tool_is_announced_once():
    """ToolStarted comes for every call, also where tools run side by side."""
    events = [event async for event in eventful().stream("x")]

    assert len([e for e in events if isinstance(e, ToolStarted)]) == 4
