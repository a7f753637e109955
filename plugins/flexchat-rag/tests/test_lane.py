"""Searches take turns: a few at once, those of the fewest words first."""

import asyncio

import pytest
from flexchat_rag.retriever import Lane


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


class Searches:
    """Searches of a lane that run until they are told to end."""

    def __init__(self, width):
        self.lane, self.began, self._ends, self.tasks = Lane(width), [], {}, {}

    async def _run(self, words):
        async with self.lane.turn(words):
            self.began.append(words)
            await self._ends[words].wait()

    async def start(self, *words):
        for each in words:
            self._ends[each] = asyncio.Event()
            self.tasks[each] = asyncio.create_task(self._run(each))
        await settle()

    async def end(self, words):
        self._ends[words].set()
        await settle()


async def test_a_short_question_does_not_wait_for_long_ones_that_came_before_it():
    searches = Searches(1)
    await searches.start(60, 61, 62, 1)
    assert searches.began == [60]

    await searches.end(60)
    assert searches.began == [60, 1]
    await searches.end(1)
    assert searches.began == [60, 1, 61]
    await searches.end(61)
    await searches.end(62)
    assert searches.began == [60, 1, 61, 62]


async def test_as_many_run_at_once_as_the_lane_is_wide():
    searches = Searches(2)
    await searches.start(3, 4, 5)
    assert searches.began == [3, 4]
    for words in (3, 4, 5):
        await searches.end(words)
    assert all(task.done() for task in searches.tasks.values())


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
async def test_a_search_that_is_cancelled_leaves_its_place_to_the_next(turns):
    """While it waits, in the moment in which it is admitted, and afterwards."""
    searches = Searches(1)
    await searches.start(1, 2, 3)
    searches._ends[1].set()
    for _ in range(turns):
        await asyncio.sleep(0)

    searches.tasks[2].cancel()
    await settle()

    assert searches.began[-1] == 3
    await searches.end(3)
    await searches.start(9)
    assert searches.began[-1] == 9
    await searches.end(9)


@pytest.mark.usefixtures("virtual_time")
async def test_a_search_that_fails_leaves_its_place():
    lane = Lane(1)
    with pytest.raises(ZeroDivisionError):
        async with lane.turn(1):
            raise ZeroDivisionError
    async with asyncio.timeout(60), lane.turn(1):
        pass
