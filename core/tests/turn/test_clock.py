"""The one clock of a turn."""

import asyncio
import gc
import time
import weakref

import pytest
from flexchat import TurnTimeoutError
from flexchat.turn.clock import Clock


def test_a_turn_inside_of_another_ends_no_later():
    until = time.monotonic() + 1
    inner = Clock(60_000, until)
    inner.restart()

    assert inner.until == until
    assert Clock(10, until).until < until


def test_its_time_begins_again(monkeypatch):
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    clock = Clock(10)
    now += 0.02
    with pytest.raises(TurnTimeoutError, match="10 ms"):
        clock.check()
    clock.restart()
    clock.check()

    assert clock.elapsed_ms() == 0


@pytest.mark.usefixtures("virtual_time")
async def test_the_alarm_ends_what_is_inside_and_says_what_took_the_time():
    clock = Clock(10)
    clock.activity = "the weather"
    with pytest.raises(TurnTimeoutError, match=r"10 ms \(during the weather\)"):
        async with clock:
            await asyncio.Event().wait()

    assert asyncio.current_task().cancelling() == 0


@pytest.mark.usefixtures("virtual_time")
async def test_a_timeout_inside_is_none_of_the_alarms():
    """A tool's own, for one: who raised it deals with it."""
    with pytest.raises(TimeoutError) as caught:
        async with Clock(10_000), asyncio.timeout(0.001):
            await asyncio.Event().wait()

    assert not isinstance(caught.value, TurnTimeoutError)


async def test_who_minds_the_time_left_ends_first_even_where_the_process_stands_still():
    clock, ended = Clock(10), []

    async def work():
        try:
            async with asyncio.timeout(clock.remaining_s()):
                time.sleep(0.1)  # noqa: ASYNC251  both times run out while nothing else can run
                await asyncio.Event().wait()
        except TimeoutError:
            for _ in range(20):  # what is inside may need a few steps to end
                await asyncio.sleep(0)
            ended.append("inside")
            clock.check()

    with pytest.raises(TurnTimeoutError):
        async with clock:
            await work()

    assert ended == ["inside"]


async def test_who_cancels_gets_the_cancellation():
    async def work():
        async with Clock(10_000):
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})

    assert task.cancelled()


async def test_an_alarm_and_a_cancellation_at_once_are_a_cancellation(monkeypatch):
    """The loop has both before the task runs again."""
    monkeypatch.setattr("flexchat.turn.clock._GRACES", 0)

    async def work():
        async with Clock(0):
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0, task.cancel)
    time.sleep(0.01)  # noqa: ASYNC251  both are due with the next look at the timers
    await asyncio.wait({task})

    assert task.cancelled()


async def test_its_error_is_freed_at_once():
    async def work():
        async with Clock(0):
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.wait({task})
    known = weakref.ref(task.exception())
    gc.disable()
    try:
        del task
        await asyncio.sleep(0)
        assert known() is None
    finally:
        gc.enable()


@pytest.mark.usefixtures("virtual_time")
async def test_time_can_stand_still():
    """The alarm rings as much later as the clock stood still, however many stopped it."""
    clock = Clock(30)
    async with clock:
        with clock.pause():
            with clock.pause():
                await asyncio.sleep(0.06)
            left = clock.remaining_s()
            await asyncio.sleep(0.06)
            assert clock.remaining_s() == left
    assert 0 < clock.remaining_s() <= 0.03 + 1e-9  # sums of times are rounded

    with pytest.raises(TurnTimeoutError):
        async with clock:
            await asyncio.Event().wait()


@pytest.mark.usefixtures("virtual_time")
async def test_the_alarm_rings_after_the_clock_stood_still():
    clock = Clock(30)

    async def work():
        with clock.pause():
            await asyncio.sleep(0.06)
        await asyncio.Event().wait()

    with pytest.raises(TurnTimeoutError):
        async with asyncio.timeout(60), clock:
            await work()
