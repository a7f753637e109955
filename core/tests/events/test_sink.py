"""Who is told of an event, in which order, and under which number."""

import asyncio

import pytest
from flexchat import TextDelta
from flexchat.domain import Profile, ToolCall, ToolStarted, Turn, TurnCancelled, TurnFinished, TurnInfo, TurnStarted
from flexchat.domain.chat import ChatResponse
from flexchat.events.feed import Feed
from flexchat.events.sink import Sink
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


def listener(told):
    return lambda number, event: told.append((number, type(event).__name__))


async def test_plugins_are_told_first_then_listeners_then_the_reader():
    told, feed = [], Feed()
    sink = Sink(INFO, hooks(told, TurnStarted), feed, [listener(told), lambda *_: told.append(len(feed))])
    await sink.tell(STARTED)

    assert told == [("plugin", "TurnStarted"), (1, "TurnStarted"), 0]
    assert feed.take() is STARTED


async def test_events_are_numbered_from_one_pieces_of_answers_too():
    told = []
    sink = Sink(INFO, Hooks(), None, [listener(told)])
    await sink.tell(STARTED)
    sink.delta(TextDelta(0, "a"))
    await sink.begin(BEGUN)
    await sink.tell_end(TurnCancelled(info=INFO, turn=TURN), 1)

    assert told == [(1, "TurnStarted"), (2, "TextDelta"), (3, "ToolStarted"), (4, "TurnCancelled")]
    assert sink.number == 4


async def test_of_what_begins_the_reader_is_told_before_the_plugins():
    """Whoever leaves at it knows that no plugin has heard of it."""
    told, feed = [], Feed()
    sink = Sink(INFO, hooks(told, ToolStarted), feed)
    beginning = asyncio.create_task(sink.begin(BEGUN))
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
    await sink.begin(BEGUN)
    await sink.seam()
    await sink.room()

    assert sink.delta(TextDelta(0, "a")) is False
    assert not sink.is_read


@pytest.mark.parametrize(("feed", "listens"), [(None, False), (Feed(), False), (None, True)])
def test_an_event_for_nobody_is_not_wanted(feed, listens):
    listeners = [lambda *_: None] if listens else []
    sink = Sink(INFO, hooks([], TurnStarted), feed, listeners)

    assert sink.wants(TurnStarted)
    assert sink.wants(ToolStarted) == (feed is not None or listens)


async def test_of_the_end_the_reader_hears_only_if_the_turn_is_finished():
    """Of any other it gets the error; listeners hear of all."""
    told, feed = [], Feed()
    sink = Sink(INFO, Hooks(), feed, [listener(told)])
    await sink.tell_end(TurnCancelled(info=INFO, turn=TURN), 1)
    assert len(feed) == 0
    await sink.tell_end(TurnFinished(info=INFO, turn=TURN), 1)

    assert [name for _, name in told] == ["TurnCancelled", "TurnFinished"]
    assert len(feed) == 1


async def test_plugins_that_hang_at_the_end_are_not_waited_for(caplog):
    told = []

    async def hang():
        await asyncio.Event().wait()

    hanging = Hooks({hook_of(TurnFinished): [HookCall("mine", hang, ())]})
    await sink_end(hanging, told)

    assert told == [(1, "TurnFinished")]
    assert "to handle a TurnFinished" in caplog.text


async def sink_end(hooks_, told):
    await Sink(INFO, hooks_, None, [listener(told)]).tell_end(TurnFinished(info=INFO, turn=TURN), 0.01)


async def test_listeners_hear_of_the_end_even_if_the_telling_is_cancelled():
    told, begun = [], asyncio.Event()

    async def hang():
        begun.set()
        await asyncio.Event().wait()

    hanging = Hooks({hook_of(TurnFinished): [HookCall("mine", hang, ())]})
    ending = asyncio.create_task(
        Sink(INFO, hanging, None, [listener(told)]).tell_end(TurnFinished(info=INFO, turn=TURN), 9)
    )
    await begun.wait()
    ending.cancel()
    await asyncio.wait({ending})

    assert ending.cancelled()
    assert told == [(1, "TurnFinished")]
