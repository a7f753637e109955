"""The laws of the feed: order, how far ahead the turn may be, and that nothing passes a seam before its reader asks."""

import asyncio
import contextlib
import gc
import weakref

import pytest
from flexchat.events.sink import MAX_AHEAD, Feed
from hypothesis import given
from hypothesis import strategies as st

STEPS = st.lists(st.sampled_from(["put", "put", "put", "seam", "pause"]), max_size=200)


async def read(feed, pauses=(), most=None):
    """Yield what is in a feed to its end, or so many; before each event the reader does something else for a while."""
    taken = 0
    while most is None or taken < most:
        for _ in range(pauses[taken % len(pauses)] if pauses else 0):
            await asyncio.sleep(0)
        if not feed.pending and not await feed.filled():
            return
        yield feed.take()
        taken += 1


def puts_before_the_seam_behind(taken, steps):
    """How many events there are before the first seam that has an unread event, or none that was asked for, before it.

    A seam right behind the last event that was read is one: the reader has not asked for more.
    """
    put = 0
    for step in steps:
        if step == "put":
            put += 1
        elif step == "seam" and put >= taken:
            return put
    return put


class Writer:
    """A turn: puts numbers, and notes how many the reader had taken when it got through a seam."""

    def __init__(self, feed, steps, taken):
        self.feed, self.steps, self.taken = feed, steps, taken
        self.put, self.most_ahead = 0, 0

    async def run(self):
        for step in self.steps:
            if step == "put":
                self.put += 1
                must_wait = self.feed.add(self.put)
                self.most_ahead = max(self.most_ahead, len(self.feed.pending))
                if must_wait:
                    await self.feed.room()
            elif step == "seam":
                await self.feed.seam()
                assert self.taken == [*range(1, self.put + 1)], "everything before a seam is read"
            else:
                await asyncio.sleep(0)
        self.feed.end()


@given(steps=STEPS, pauses=st.lists(st.integers(0, 3), min_size=1, max_size=5))
def test_a_reader_gets_everything_in_order_and_is_never_far_behind(steps, pauses):
    async def main():
        feed, taken = Feed(), []
        writer = Writer(feed, steps, taken)
        task = asyncio.create_task(writer.run())
        async for number in read(feed, pauses):
            taken.append(number)
        await task
        assert taken == [*range(1, writer.put + 1)]
        assert writer.most_ahead <= MAX_AHEAD

    asyncio.run(main())


@given(steps=STEPS, most=st.integers(0, 100), data=st.data())
def test_a_reader_may_leave_at_any_point(steps, most, data):
    """The turn is cancelled then, wherever it waits, and nothing behind the seam after the last event has begun."""

    async def main():
        feed, taken = Feed(), []
        writer = Writer(feed, steps, taken)
        task = asyncio.create_task(writer.run())
        async for number in read(feed, most=most):
            taken.append(number)
        for _ in range(data.draw(st.integers(0, 5))):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert taken == [*range(1, min(most, writer.put) + 1)]
        assert writer.put <= max(puts_before_the_seam_behind(len(taken), steps), len(taken))

    asyncio.run(main())


async def test_many_wait_at_one_seam():
    """Tools that begin side by side: all get through once the reader has everything and asks again."""
    feed, through = Feed(), []

    async def begin(number):
        feed.add(number)
        await feed.seam()
        through.append(number)

    tasks = [asyncio.create_task(begin(number)) for number in range(5)]
    await asyncio.sleep(0)
    assert await feed.filled()
    assert [feed.take() for _ in range(5)] == [0, 1, 2, 3, 4]
    for _ in range(3):
        await asyncio.sleep(0)
    assert through == []

    asking = asyncio.create_task(feed.filled())
    await asyncio.wait(tasks)
    assert sorted(through) == [0, 1, 2, 3, 4]
    feed.end()
    assert await asking is False


async def test_one_of_many_at_a_seam_may_leave():
    feed = Feed()
    waiting = [asyncio.create_task(feed.seam()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    asking = asyncio.create_task(feed.filled())
    await asyncio.wait(waiting[1:])
    feed.end()
    await asking


async def test_a_reader_that_was_cancelled_may_ask_again():
    feed = Feed()
    asking = asyncio.create_task(feed.filled())
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait({asking})
    feed.add(1)

    assert await feed.filled()
    assert feed.take() == 1


async def test_the_error_comes_behind_the_last_event_and_is_not_kept():
    """It knows the frames it came through, and by way of them the turn."""

    class Trouble(Exception):
        pass

    feed, error = Feed(), Trouble("no")
    known = weakref.ref(error)
    feed.add(1)
    feed.end(error)
    del error
    assert await feed.filled()
    assert feed.take() == 1
    gc.disable()
    try:
        with contextlib.suppress(Trouble):
            await feed.filled()
        assert known() is None
    finally:
        gc.enable()


async def test_the_error_is_raised():
    feed = Feed()
    feed.end(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        await feed.filled()
