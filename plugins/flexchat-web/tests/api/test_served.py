"""What the listeners of one turn are told: numbered without gaps, and of a kept turn only what was written."""

import asyncio
import json

import pytest
from flexchat import FlexChat, LostTurnError, StorageError
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_testing import ScriptedProvider, says
from flexchat_web.api.served import ServedTurn

CONFIG = {"llms": {"s": {"provider": "scripted"}}, "responses": [{"llm": "s", "model": "m"}]}
LONG = " ".join(f"word{number}" for number in range(2000))


class Kept(SqliteConversations):
    """Notes what was written, and fails if it is told to."""

    def __init__(self, path):
        super().__init__(path)
        self.batches, self.error, add = [], None, self.journal.add_events

        async def add_events(turn, events, *, forget=0):
            if self.error is not None:
                raise self.error
            await add(turn, events, forget=forget)
            self.batches.append([event.number for event in events])

        self.journal.add_events = add_events


@pytest.fixture
async def store(tmp_path):
    store = Kept(tmp_path / "c.db")
    yield store
    await store.aclose()


async def served(store, text="hello", **asked):
    """Serve a turn to its end, with a listener of all of it."""
    async with FlexChat.from_config(CONFIG, providers={"s": ScriptedProvider([says(text)])}) as chat:
        chat.keep_in(store)
        turn = ServedTurn(chat.start("Hi", **asked), "default", str)
        running = asyncio.create_task(turn.run())
        heard = [event async for _, event in turn.log.after(0)]
        await running
        kept = (await chat.events(turn.handle.id))[1] if turn.handle.is_kept else []
    return turn, heard, kept


async def test_what_is_told_is_what_was_written(store):
    turn, heard, kept = await served(store, LONG, conversation="c")
    assert heard == kept
    assert [event.number for event in heard] == [*range(1, len(heard) + 1)]
    assert (turn.has_end, heard[0].name, heard[-1].name) == (True, "turn_started", "turn")
    said = "".join(json.loads(event.data)["text"] for event in heard if event.name == "text")
    assert said == LONG


async def test_many_events_are_written_together(store):
    _, heard, _ = await served(store, LONG, conversation="c")
    assert len(heard) > 2000
    assert len(store.batches) < 50


async def test_nothing_is_written_of_a_turn_that_is_not_kept(store):
    turn, heard, _ = await served(store)
    assert (store.batches, heard[-1].name, turn.has_end) == ([], "turn", True)


async def test_what_cannot_be_written_is_told_nevertheless(store, caplog):
    """And what has been written stays a beginning of it: nothing is written after a gap."""
    store.error = StorageError("the disk is full")
    turn, heard, kept = await served(store, LONG, conversation="c")
    assert (turn.has_end, kept, heard[-1].name) == (True, [], "turn")
    assert [record.message.count("could not be written") for record in caplog.records] == [1]


async def test_what_another_process_goes_on_with_is_told_to_nobody(store):
    store.error = LostTurnError("x")
    turn, heard, kept = await served(store, conversation="c")
    assert (turn.has_end, turn.log.is_ended, heard, kept) == (False, True, [], [])
