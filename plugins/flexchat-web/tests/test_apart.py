"""Work in other processes: what it returns and raises, and what happens when it takes too long."""

import asyncio
import os
import pickle
import time

import pytest
from flexchat import ConfigError, Problem
from flexchat_web import apart
from flexchat_web.apart import Apart
from flexchat_web.problems import ApiError


def refuse(text):
    raise ApiError(413, text, kind="large", headers={"a": "b"}, code="x")


def misconfigure():
    raise ConfigError([Problem(path="llms", text="there are none")])


def say_something():
    print("not an answer")
    return "an answer"


class OddError(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def raise_odd():
    raise OddError(1, 2)


@pytest.fixture
async def processes():
    made = Apart(most=1)
    yield made
    await made.aclose()


@pytest.mark.slow
async def test_work_is_done_in_another_process_which_is_kept(processes):
    """What it prints disturbs nothing; what it raises is raised here, with all it says."""
    pids = {await processes.run(os.getpid) for _ in range(3)}
    assert len(pids) == 1
    assert os.getpid() not in pids
    assert await processes.run(say_something) == "an answer"
    with pytest.raises(ApiError, match="too much") as caught:
        await processes.run(refuse, "too much")
    assert (caught.value.status, caught.value.kind, caught.value.more) == (413, "large", {"code": "x"})
    with pytest.raises(ConfigError) as wrong:
        await processes.run(misconfigure)
    assert wrong.value.problems == (Problem(path="llms", text="there are none"),)
    with pytest.raises(RuntimeError, match="OddError: 1 2"):
        await processes.run(raise_odd)


async def test_work_that_takes_too_long_is_given_up(processes, monkeypatch):
    """Its process is ended, and the next work gets another."""
    monkeypatch.setattr(apart, "SECONDS", 0.01)
    with pytest.raises(ApiError) as caught:
        await processes.run(time.sleep, 60)
    assert (caught.value.status, caught.value.kind, caught.value.headers) == (503, "busy", {"retry-after": "5"})
    monkeypatch.undo()
    assert await processes.run(pow, 2, 3) == 8


async def test_who_asks_for_too_much_at_once_is_told(processes, monkeypatch):
    """What waits already is done."""
    monkeypatch.setattr(apart, "MAX_WAITING", 2)
    first = [asyncio.create_task(processes.run(pow, 2, n)) for n in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(ApiError, match="too much to do"):
        await processes.run(pow, 2, 3)
    assert await asyncio.gather(*first) == [1, 2]


async def test_a_process_dies_with_its_work_only(processes):
    """Work that kills its process is an error of that work; others are done."""
    with pytest.raises(ApiError, match="ended or could not be started"):
        await processes.run(os._exit, 3)
    assert await processes.run(pow, 2, 3) == 8


async def test_a_process_that_cannot_be_started_is_not_called_slow(processes, monkeypatch):
    """Nobody should send less because the machine has no room."""
    monkeypatch.setattr(apart.sys, "executable", "no-such-program")
    with pytest.raises(ApiError, match="could not be started"):
        await processes.run(pow, 2, 3)
    monkeypatch.undo()
    assert await processes.run(pow, 2, 3) == 8


@pytest.mark.parametrize(
    "error", [ApiError(400, "no", kind="k", param="p"), ConfigError([Problem(path="a", text="b")])]
)
def test_errors_can_be_sent(error):
    """With everything they know."""
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), vars(again)) == (str(error), vars(error))
