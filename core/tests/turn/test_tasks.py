"""Tasks that are ended have ended, however often the waiting is cancelled."""

import asyncio

import pytest
from flexchat.turn.rounds import cancel_and_wait


async def stubborn(times):
    """Go on after so many cancellations."""
    for _ in range(times):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)


@pytest.mark.parametrize("times", [0, 1, 3])
async def test_all_have_ended(times):
    tasks = [asyncio.create_task(stubborn(times)) for _ in range(3)]
    await asyncio.sleep(0)
    ending = asyncio.create_task(cancel_and_wait(tasks))
    for _ in range(times):
        await asyncio.sleep(0)
        ending.cancel()
    await asyncio.wait({ending})

    assert all(task.done() for task in tasks)
    assert ending.cancelled() == (times > 0)


async def test_those_that_have_ended_are_left_alone():
    task = asyncio.create_task(asyncio.sleep(0, "ok"))
    await task
    await cancel_and_wait([task])

    assert task.result() == "ok"
