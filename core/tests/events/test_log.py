"""Events under their numbers, for readers who come and go."""

import asyncio
import random

import pytest
from flexchat.domain import AnswerEnd, TextDelta
from flexchat.errors import ForgottenEventsError
from flexchat.events.log import EventLog


def pieces(count):
    return [TextDelta(0, f"piece {number}") for number in range(1, count + 1)]


async def taken(events, most=None):
    found = []
    async for each in events:
        found.append(each)
        if len(found) == most:
            break
    await events.aclose()
    return found


async def test_a_reader_gets_everything_behind_a_number():
    log = EventLog()
    for piece in pieces(3):
        log.add(piece)
    log.end()
    assert await taken(log.after(0)) == [*enumerate(pieces(3), 1)]
    assert await taken(log.after(2)) == [(3, TextDelta(0, "piece 3"))]
    assert await taken(log.after(3)) == await taken(log.after(99)) == []


@pytest.mark.parametrize("seed", range(20))
async def test_cut_fifty_times_and_joined_again_is_the_same_as_uncut(seed):
    """While the events come, and by several readers at once."""
    chance, log, all_of_it = random.Random(seed), EventLog(), pieces(200)

    async def write():
        for piece in all_of_it:
            log.add(piece)
            if chance.random() < 0.5:
                await asyncio.sleep(0)
        log.end()

    async def read_in_pieces():
        found = []
        for _ in range(50):
            found += await taken(log.after(found[-1][0] if found else 0), chance.randint(1, 4))
        return found + await taken(log.after(found[-1][0]))

    found = await asyncio.gather(read_in_pieces(), read_in_pieces(), taken(log.after(0)), write())
    assert found[0] == found[1] == found[2] == [*enumerate(all_of_it, 1)]


async def test_a_reader_that_goes_while_it_waits_leaves_the_others():
    log = EventLog()
    gone, stays = (asyncio.ensure_future(taken(log.after(0))) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    log.add(TextDelta(0, "a"))
    log.end()
    assert await stays == [(1, TextDelta(0, "a"))]


async def test_a_reader_that_waits_for_whole_answers_takes_the_pieces_once_it_no_longer_does():
    """At ``recheck``: the next piece may be long in coming."""
    log, is_whole = EventLog(), True
    reader = asyncio.ensure_future(taken(log.after(0, waits=lambda: is_whole), 1))
    log.open_answer()
    log.add(TextDelta(0, "a"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not reader.done()
    is_whole = False
    log.recheck()
    assert await asyncio.wait_for(reader, 5) == [(1, TextDelta(0, "a"))]


@pytest.mark.parametrize("limits", [{"max_events": 40}, {"max_characters": 40 * 7}])
async def test_very_many_events_have_the_oldest_forgotten(limits):
    """A reader who needs them is told; one who is further goes on."""
    log = EventLog(**limits)
    for _ in range(1000):
        log.add(TextDelta(0, "x" * 7))
        assert len(log._events) <= 40
    log.add(AnswerEnd(None))
    log.end()
    assert log.number == 1001
    assert [number for number, _ in await taken(log.after(990))] == [*range(991, 1002)]
    with pytest.raises(ForgottenEventsError, match=r"not from 1$"):
        await taken(log.after(0))


async def test_a_piece_longer_than_all_limits_is_kept():
    log = EventLog(max_characters=10)
    log.add(TextDelta(0, "x" * 100))
    log.end()
    assert len(await taken(log.after(0))) == 1
