"""Turns cancelled at random points leave nothing behind."""

import asyncio
import contextlib
import gc
import os
import random
import time

import pytest
from flexchat import FlexChat, tool
from flexchat.plugin import hookimpl
from flexchat.plugin.call import current_turn
from flexchat.turn.recording import Histories
from flexchat_sdk import events_of
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_testing import calls, says

pytestmark = pytest.mark.slow

COUNT = int(os.environ.get("FLEXCHAT_STORM", "5000"))
"""Turns; more with the environment variable FLEXCHAT_STORM."""
AT_ONCE = 50
MAX_TICKS = 60
"""Turns of the loop after which a turn is left at the latest; an undisturbed one takes about as many."""


class Model:
    """Asks for three tools at once, then for one, then answers; it keeps nothing of what it was asked."""

    name = "scripted"

    def tool_format(self, model):
        return "scripted"

    async def generate_chat(self, messages, model, options):
        await asyncio.sleep(0)
        question = max(at for at, message in enumerate(messages) if message.role == "user")
        rounds = sum(message.role == "assistant" for message in messages[question:])
        if rounds == 0:
            return calls(("steps", {"n": 3}), ("steps", {"n": 5}), ("blocking", {}), text="Let me see.")
        return calls(("steps", {"n": 2})) if rounds == 1 else says("It is all done.")

    async def stream_chat(self, messages, model, options):
        for event in events_of(await self.generate_chat(messages, model, options)):
            await asyncio.sleep(0)
            yield event

    async def list_models(self):
        return ()

    async def aclose(self):
        pass


@tool
async def steps(n: int) -> str:
    """Take some steps of the event loop."""
    for _ in range(n):
        await asyncio.sleep(0)
    return "done"


@tool
def blocking() -> str:
    """Block for a moment, in a thread."""
    time.sleep(0.0001)
    return "done"


class Count:
    """Counts how turns begin and end."""

    def __init__(self):
        self.begun, self.ended = 0, 0

    @hookimpl
    def flexchat_turn_started(self):
        self.begun += 1

    @hookimpl
    def flexchat_turn_finished(self):
        self.ended += 1

    @hookimpl
    def flexchat_turn_failed(self):
        self.ended += 1

    @hookimpl
    async def flexchat_turn_cancelled(self):
        await asyncio.sleep(0)
        self.ended += 1


async def ask(chat, streamed, **asked):
    if not streamed:
        return await chat.respond("x", **asked)
    async with contextlib.aclosing(chat.stream("x", **asked)) as events:
        async for event in events:
            last = event
    return last.turn


async def leave(chat, number, ticks):
    """Begin a turn and leave it, in one of five ways, after so many turns of the loop; say whether it was not over."""
    asked = {"conversation": f"c{number}"} if number % 4 == 0 else {}
    if number % 7 == 0:  # a reader who has read enough
        async with contextlib.aclosing(chat.stream("x", **asked)) as events:
            async for _ in events:
                ticks -= 1
                if ticks < 0:
                    return True
        return False
    if number % 11 == 0:  # one who forgets it
        events = chat.stream("x", **asked)
        for _ in range(ticks):
            if await anext(events, None) is None:
                return False
        return True
    if number % 5 == 0:  # a deadline of the caller's own
        try:
            async with asyncio.timeout(ticks * 0.0005):
                await ask(chat, number % 2 == 0, **asked)
        except TimeoutError:
            return True
        return False
    task = asyncio.create_task(ask(chat, number % 2 == 0, **asked))
    for _ in range(ticks):
        await asyncio.sleep(0)
    task.cancel()
    if number % 3 == 0:  # an impatient one
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.wait([task])
    return task.cancelled()


async def settled(before):
    """Wait until nothing runs but what ran before: the loop itself closes streams that were forgotten."""
    for _ in range(2000):
        if asyncio.all_tasks() <= before:
            break
        await asyncio.sleep(0.001)
    return asyncio.all_tasks() - before


async def test_a_storm_of_cancelled_turns_does_no_harm(tmp_path):
    """Then ten of ten turns work, no task is left, each turn was told to end once, and the memory does not grow."""
    loop, complaints, count = asyncio.get_running_loop(), [], Count()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    config = {
        "llms": {"bot": {"provider": "scripted"}},
        "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}],
    }
    store, chance = SqliteConversations(tmp_path / "c.db"), random.Random(4711)
    chat = FlexChat.from_config(config, providers={"bot": Model()}, tools=[steps, blocking], hooks=[count])
    chat.keep_in(store)
    chat._engine.recorder._histories = Histories(store, max_size=0)  # a bounded cache is no leak
    before, left_early, objects = asyncio.all_tasks(), 0, []
    for start in range(0, COUNT, AT_ONCE):
        leaving = [leave(chat, start + n, chance.randrange(MAX_TICKS)) for n in range(AT_ONCE)]
        left_early += sum(await asyncio.gather(*leaving))
        if start in (COUNT // 5, COUNT - AT_ONCE):
            assert await settled(before) == set()
            gc.collect()
            objects.append(len(gc.get_objects()))
    turns = [await ask(chat, bool(n % 2), conversation="last") for n in range(10)]
    await chat.aclose()
    await store.aclose()
    loop.set_exception_handler(None)

    assert left_early > COUNT * 0.5
    assert [turn.response.content for turn in turns] == ["It is all done."] * 10
    assert [len(turn.response.tool_calls) for turn in turns] == [4] * 10
    assert count.begun == count.ended
    assert current_turn.get() is None
    assert complaints == []
    assert objects[1] < objects[0] * 1.02
