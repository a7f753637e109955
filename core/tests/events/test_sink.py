"""Who is told of an event, in which order, and under which number."""

import asyncio

import pytest
from flexchat import TextDelta
from flexchat.domain import Profile, ToolCall, ToolStarted, Turn, TurnCancelled, TurnFinished, TurnInfo, TurnStarted
from flexchat.domain.chat import ChatResponse
from flexchat.events.log import EventLog
from flexchat.events.sink import Feed, Sink
from flexchat.plugin.hooks import HookCall, Hooks, hook_of

INFO = TurnInfo(id="t")
STARTED = TurnStarted(info=INFO, user_message="x")
BEGUN = ToolStarted(info=INFO, call=ToolCall(id="c", name="add", arguments={}))
TURN = Turn(
    id="t",
    profile=Profile(topic="", user_message="x"),
    rule=0,
    response=ChatResponse(content="", llm="", model=""),
    phases=(),
    elapsed_ms=1,
)


def hooks(told, *kinds):
    """Hooks that note what they hear of these kinds of happenings."""

    def note(kind):
        return [HookCall("mine", lambda: told.append(("plugin", kind.__name__)), ())]

    return Hooks({hook_of(kind): note(kind) for kind in kinds})


class Log(EventLog):
    """A log that notes the numbers and kinds of its events."""

    def __init__(self, told):
        super().__init__()
        self._told = told

    def add(self, event):
        self._told.append((self.number + 1, type(event).__name__))
        return super().add(event)


async def test_plugins_are_told_first_then_the_log():
    told = []
    await Sink(INFO, hooks(told, TurnStarted), receiver=Log(told)).emit(STARTED)

    assert told == [("plugin", "TurnStarted"), (1, "TurnStarted")]


async def test_plugins_are_told_before_the_reader():
    feed, lengths = Feed(), []
    noting = Hooks({hook_of(TurnStarted): [HookCall("mine", lambda: lengths.append(len(feed.pending)), ())]})
    await Sink(INFO, noting, feed).emit(STARTED)

    assert lengths == [0]
    assert feed.take() is STARTED


async def test_events_are_numbered_from_one_pieces_of_answers_too():
    told = []
    sink = Sink(INFO, Hooks(), receiver=Log(told))
    await sink.emit(STARTED)
    sink.pass_on(TextDelta(0, "a"))
    await sink.announce(BEGUN)
    await sink.emit_end(TurnCancelled(info=INFO, turn=TURN), 1)

    assert told == [(1, "TurnStarted"), (2, "TextDelta"), (3, "ToolStarted"), (4, "TurnCancelled")]


async def test_of_what_begins_the_reader_is_told_before_the_plugins():
    """Whoever leaves at it knows that no plugin has heard of it."""
    told, feed = [], Feed()
    sink = Sink(INFO, hooks(told, ToolStarted), feed)
    beginning = asyncio.create_task(sink.announce(BEGUN))
    assert await feed.filled()
    assert feed.take() is BEGUN
    for _ in range(3):
        await asyncio.sleep(0)
    assert told == []

    asking = asyncio.create_task(feed.filled())
    await beginning
    assert told == [("plugin", "ToolStarted")]
    feed.end()
    await asking


async def test_without_a_reader_nothing_waits():
    sink = Sink(INFO, Hooks())
    await sink.announce(BEGUN)
    await sink.seam()
    await sink.room()

    assert sink.pass_on(TextDelta(0, "a")) is False
    assert not sink.is_read


@pytest.mark.parametrize("receiver", [None, Feed(), EventLog()])
def test_an_event_without_a_receiver_is_not_made(receiver):
    sink = Sink(INFO, hooks([], TurnStarted), receiver)

    assert sink.has_receiver(TurnStarted)
    assert sink.has_receiver(ToolStarted) == bool(receiver)


async def test_of_the_end_the_reader_hears_only_if_the_turn_is_finished():
    """Of any other it gets the error; the log has all."""
    told, feed = [], Feed()
    for sink in (Sink(INFO, Hooks(), feed), Sink(INFO, Hooks(), receiver=Log(told))):
        await sink.emit_end(TurnCancelled(info=INFO, turn=TURN), 1)
        assert len(feed.pending) == 0
    await Sink(INFO, Hooks(), feed).emit_end(TurnFinished(info=INFO, turn=TURN), 1)

    assert told == [(1, "TurnCancelled")]
    assert len(feed.pending) == 1


async def test_plugins_that_hang_at_the_end_are_not_waited_for(caplog):
    told = []

    async def hang():
        await asyncio.Event().wait()

    hanging = Hooks({hook_of(TurnFinished): [HookCall("mine", hang, ())]})
    await sink_end(hanging, told)

    assert told == [(1, "TurnFinished")]
    assert "to handle a TurnFinished" in caplog.text


async def sink_end(hooks_, told):
    await Sink(INFO, hooks_, receiver=Log(told)).emit_end(TurnFinished(info=INFO, turn=TURN), 0.01)


async def test_the_log_has_the_end_even_if_the_telling_is_cancelled():
    told, begun = [], asyncio.Event()

    async def hang():
        begun.set()
        await asyncio.Event().wait()

    hanging = Hooks({hook_of(TurnFinished): [HookCall("mine", hang, ())]})
    ending = asyncio.create_task(
        Sink(INFO, hanging, receiver=Log(told)).emit_end(TurnFinished(info=INFO, turn=TURN), 9)
    )
    await begun.wait()
    ending.cancel()
    await asyncio.wait({ending})

    assert ending.cancelled()
    assert told == [(1, "TurnFinished")]
