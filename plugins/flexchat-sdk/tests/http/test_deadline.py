"""One timer a request: moving a deadline costs an assignment."""

import asyncio

import pytest
from flexchat_sdk.http.deadline import Deadline


class Clock:
    """The time of the running loop, which passes when a test lets it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self.now)

    async def advance(self, seconds: float) -> None:
        self.now += seconds
        for _ in range(3):  # timers that are due run now
            await asyncio.sleep(0)


async def test_a_task_that_rests_or_moves_its_deadline_lives_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a wait that lasts too long is ended."""
    clock = Clock(monkeypatch)
    deadline = Deadline(10)
    for _ in range(5):
        deadline.wait(0.05)
        await clock.advance(0.02)
    deadline.rest()
    await clock.advance(0.06)
    deadline.wait(10)
    await clock.advance(0.01)
    deadline.close()

    assert not deadline.passed()


async def test_moving_a_deadline_on_makes_no_new_timer() -> None:
    """The timer is kept while the deadline moves to a later time, and replaced for an earlier one."""
    deadline = Deadline(100)
    deadline.wait(5)
    first = deadline._timer
    deadline.wait(6)
    second = deadline._timer
    deadline.wait(1)
    third = deadline._timer
    deadline.close()

    assert first is second
    assert third is not first


async def test_a_wait_that_is_too_long_is_ended_and_the_task_goes_on() -> None:
    """The cancellation is taken back; the total counts like any other deadline."""
    deadline = Deadline(0.01)
    deadline.wait(5)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(1)

    task = asyncio.current_task()
    assert task is not None
    assert deadline.passed()
    assert deadline.is_total
    assert task.cancelling() == 0


async def test_the_total_can_be_shortened_and_not_lengthened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later waits end by then, however often they begin anew."""
    clock = Clock(monkeypatch)
    deadline = Deadline(10)
    deadline.shorten(0.5)
    deadline.shorten(5)
    due = deadline.wait(3)
    deadline.close()

    assert due == clock.now + 0.5
