"""Attempts and runs are kept: whole, once each, in their order, and beside other processes."""

import asyncio
import json
import platform
import sqlite3
import subprocess
import sys

import attrs
import pytest
from flexchat import StorageError, Usage
from flexchat_validation.attempts import Attempt, CallMade, ModelKey, attempt_from_dict, attempt_to_dict
from flexchat_validation.store import (
    QUIET_S,
    Run,
    Tally,
    ValidationStore,
    is_alive,
    run_from_dict,
    run_to_dict,
    this_process,
)
from hypothesis import given
from hypothesis import strategies as st

KEY = ModelKey(model_id="local/a/b:1", digest="d", package="flexchat-openai 0.1.0", tools="t")
FULL = Attempt(
    id="0" * 32,
    key=KEY,
    outcome="failed",
    at="2026-11-21T15:00:00.000+00:00",
    run="r",
    case="one",
    case_hash="h",
    repetition=2,
    aspects={"right_tool": True, "right_arguments": False},
    problems=("city is 'Rom', not 'Paris'",),
    calls=(
        CallMade(tool="get_weather", params={"city": "Rom"}, result={"success": True, "result": [1, None]}, turn=1),
        CallMade(tool="get_weather", params={}, raw_arguments='{"city":', result={"success": False, "error": "cut"}),
    ),
    content="It is fine.",
    usage=Usage(input_tokens=10, output_tokens=2),
    cost=0.25,
    elapsed_ms=12.5,
    details={"a": [1, {"b": None}]},
    tests=3,
    successes=2,
)
RUN = Run(
    id="r",
    state="running",
    models=("local/a",),
    cases=("one", "two"),
    runs=2,
    planned=4,
    started_at="2026-11-21T15:00:00Z",
    settings={"tags": ["x"]},
    tenant="t",
)


def attempt(id, **changes):
    return attrs.evolve(FULL, id=str(id), **changes)


@pytest.fixture
async def store(tmp_path):
    store = ValidationStore(tmp_path / "v.db")
    yield store
    await store.aclose()


async def test_an_attempt_comes_back_as_it_was_also_after_closing(store):
    """Every field."""
    bare = Attempt(id="1", key=ModelKey(model_id="m"), outcome="error", at="x")
    await store.add(FULL, bare)
    await store.aclose()
    again = ValidationStore(store.path)

    assert list(await again.attempts()) == [FULL, bare]
    await again.aclose()


async def test_an_id_is_kept_once_and_the_first_one_stays(store):
    """Whoever adds an attempt again, after a crash say, does no harm."""
    assert await store.add(FULL) == 1
    assert await store.add(attrs.evolve(FULL, outcome="passed"), attempt("2")) == 1

    assert [a.outcome for a in await store.attempts()] == ["failed", "failed"]


async def test_attempts_are_found_by_model_and_by_run_in_the_order_they_came(store):
    """Whatever their times say: clocks go back."""
    other = ModelKey(model_id="local/other")
    await store.add(attempt(1, at="2030"), attempt(2, at="2020", run=None), attempt(3, key=other), attempt(4, run="s"))

    assert [a.id for a in await store.attempts()] == ["1", "2", "3", "4"]
    assert [a.id for a in await store.attempts(model_id=KEY.model_id)] == ["1", "2", "4"]
    assert [a.id for a in await store.attempts(run="r")] == ["1", "3"]
    assert [a.id for a in await store.attempts(run="r", model_id="local/other")] == ["3"]


HOSTILE = {
    "\ud800": "half\ud83d",
    "nul\0": "a\0b",
    "nan": float("nan"),
    "inf": float("-inf"),
    "big": 2**70,
    "huge": 10**5000,
    "bytes": b"\xff",
    "set": {1},
    7: (1, 2),
    "object": object,
}


async def test_whatever_a_model_or_a_tool_wrote_can_be_kept(store):
    """Half surrogates, NUL, numbers no database holds, what is no JSON, endless nesting."""
    deep = []
    for _ in range(5000):
        deep = [deep]
    hostile = attempt(
        1,
        content="\ud800\0x",
        problems=("\ud800",),
        calls=(CallMade(tool="t\ud800", params=HOSTILE, result={"x": deep}),),
    )
    await store.add(hostile)
    (kept,) = await store.attempts()

    assert kept.content == "\ufffdx"
    assert kept.calls[0].params["big"] == 2**70
    assert kept.calls[0].params["7"] == [1, 2]
    json.dumps(attempt_to_dict(kept), allow_nan=False).encode()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, st.text(), st.text(min_size=1))
def test_reading_what_was_written_is_a_fixed_point(details, content, case):
    """Law: once made fit to be stored, it does not change again."""
    once = attempt_from_dict(attempt_to_dict(attempt(1, details=details, content=content, case=case + "x")))

    assert attempt_from_dict(json.loads(json.dumps(attempt_to_dict(once)))) == once


@pytest.mark.parametrize(
    "broken",
    [
        attrs.evolve(FULL, id=""),
        attrs.evolve(FULL, key=ModelKey(model_id="")),
        attrs.evolve(FULL, outcome="perhaps"),
        attrs.evolve(FULL, tests=1, successes=2),
        attrs.evolve(FULL, tests=0, successes=0),
        attrs.evolve(FULL, elapsed_ms=float("nan")),
    ],
)
async def test_what_could_not_be_read_again_is_refused_and_nothing_of_it_kept(store, broken):
    """All or none."""
    with pytest.raises(StorageError, match="cannot be kept"):
        await store.add(attempt(1), broken)

    assert await store.attempts() == []


@pytest.mark.parametrize(
    "broken",
    [
        attrs.evolve(RUN, id=""),
        attrs.evolve(RUN, id=3),
        attrs.evolve(RUN, state="lost"),
        attrs.evolve(RUN, runs=1.0),
        attrs.evolve(RUN, planned=True),
        attrs.evolve(RUN, models=("local/a", 3)),
        attrs.evolve(RUN, ended_at=3.5),
        attrs.evolve(RUN, tenant=("t",)),
    ],
)
async def test_a_run_that_could_not_be_read_again_is_refused_and_the_others_stay_readable(store, broken):
    """One such row would spoil the list of all runs."""
    await store.save_run(attrs.evolve(RUN, id="s"))
    with pytest.raises(StorageError, match="this run cannot be kept"):
        await store.save_run(broken)
    with pytest.raises(StorageError, match="this run cannot be kept"):
        store.add_blocking([FULL], [broken])

    assert [run.id for run in await store.runs()] == ["s"]
    assert await store.attempts() == []


async def test_a_row_that_was_spoiled_is_named(store):
    """Somebody wrote into the file."""
    await store.add(FULL)
    connection = sqlite3.connect(store.path)
    connection.execute("""UPDATE attempts SET attempt = '{"id": 3}'""")
    connection.commit()
    connection.close()

    with pytest.raises(StorageError, match=f"attempt '{FULL.id}' that cannot be read"):
        await store.attempts()


async def test_a_run_that_was_spoiled_is_named(store):
    """Somebody wrote into the file."""
    await store.save_run(RUN)
    connection = sqlite3.connect(store.path)
    connection.execute("UPDATE runs SET run = '[]'")
    connection.commit()
    connection.close()

    with pytest.raises(StorageError, match="run 'r' that cannot be read"):
        await store.runs()


async def test_a_run_comes_back_and_is_replaced(store):
    """Every field; a tenant sees its own."""
    await store.save_run(RUN)
    assert await store.run("r") == RUN
    ended = attrs.evolve(RUN, state="failed", ended_at="later", problem="the key was refused")
    await store.save_run(ended)
    await store.save_run(attrs.evolve(RUN, id="s", tenant="u", state="finished"))

    assert await store.run("r") == ended
    assert [run.id for run in await store.runs(10)] == ["s", "r"]
    assert [run.id for run in await store.runs(1)] == ["s"]
    assert [run.id for run in await store.runs(10, tenant="t")] == ["r"]
    with pytest.raises(StorageError, match="no validation run 'x'"):
        await store.run("x")


OTHER_PROCESS = """
import asyncio, sys
from flexchat_validation.store import Run, ValidationStore

async def main():
    store = ValidationStore(sys.argv[1])
    await store.save_run(Run(id="theirs", state="running", models=("m",), cases=("c",)))
    print("saved", flush=True)
    sys.stdin.readline()

asyncio.run(main())
"""


@pytest.mark.slow
async def test_a_run_whose_process_died_is_interrupted_and_one_that_goes_on_is_running(store):
    """Killed, it cannot say so itself."""
    await store.save_run(RUN)
    words = [sys.executable, "-c", OTHER_PROCESS, str(store.path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220
        process.stdout.readline()
        assert (await store.run("theirs")).state == "running"
        process.kill()
        process.communicate()

    assert (await store.run("theirs")).state == "interrupted"
    assert (await store.run("r")).state == "running"
    assert [run.id for run in await store.interrupted()] == ["theirs"]


async def test_a_run_of_another_machine_is_interrupted_when_nothing_was_heard_of_it_for_long(store):
    """An attempt is a sign of life."""
    await store.save_run(RUN)

    async def state_after(act=None):
        connection = sqlite3.connect(store.path)
        connection.execute("UPDATE runs SET owner = 'elsewhere 1 2', heard_at = heard_at - ?", (QUIET_S + 1,))
        connection.commit()
        connection.close()
        if act:
            await act
        return (await store.run("r")).state

    assert await state_after() == "interrupted"
    assert await state_after(store.add(FULL)) == "running"


def test_a_process_is_told_from_a_later_one_with_its_number(monkeypatch):
    """Numbers come again; when it began does not."""
    mine = this_process()
    host, number, *started = mine.split(" ")

    assert is_alive(mine) is True
    assert is_alive(f"elsewhere {number}") is None
    assert is_alive("") is None
    assert is_alive(f"{platform.node()} x") is None
    assert is_alive(f"{host} {number}") is True
    if started:
        assert is_alive(f"{host} {number} 1") is False
    assert is_alive(f"{host} {2**22 + 1}") is False
    assert is_alive(f"{host} {10**30}") is False
    monkeypatch.setattr("flexchat_validation.store.os.name", "nt")
    assert is_alive(f"{host} {number}") is None


async def test_a_tally_counts_a_try_once_by_what_it_came_to(store):
    """An error that was made good is none; its cost is."""
    places = [("one", 0, "error"), ("one", 0, "passed"), ("one", 1, "failed"), ("two", 0, "error"), ("two", 0, "error")]
    for number, (case, repetition, outcome) in enumerate(places):
        await store.add(attempt(number, case=case, repetition=repetition, outcome=outcome, cost=0.5))
    await store.add(attempt("x", run="s", outcome="passed", cost=None))
    found = await store.tallies(["r", "s", "t"])

    assert found["r"] == Tally(passed=1, failed=1, errors=1, cost=2.5)
    assert found["r"].done == 3
    assert found["s"] == Tally(passed=1)
    assert found["t"] == Tally()


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {**run_to_dict(RUN), "models": "local/a"},
        {**run_to_dict(RUN), "state": "lost"},
        {**run_to_dict(RUN), "id": 3},
        {**run_to_dict(RUN), "settings": []},
        {**run_to_dict(RUN), "runs": True},
        {**run_to_dict(RUN), "problem": 3},
        {**run_to_dict(RUN), "tenant": ["t"]},
    ],
)
def test_what_is_no_run_is_a_value_error(data):
    """Hand-made data."""
    with pytest.raises(ValueError, match="run"):
        run_from_dict(data)


@pytest.mark.parametrize(
    "changes",
    [
        {"outcome": ["passed"]},
        {"key": 3},
        {"calls": [3]},
        {"calls": [{"tool": "t", "params": [1]}]},
        {"calls": {}, "problems": {"a": 1}},
        {"tests": True},
        {"repetition": -1},
        {"usage": {"input_tokens": "many"}},
        {"usage": {"input_tokens": -1}},
        {"cost": "free"},
        {"run": 7},
        {"aspects": [1]},
    ],
)
def test_what_is_no_attempt_is_a_value_error(changes):
    """Hand-made data."""
    with pytest.raises(ValueError, match="must be"):
        attempt_from_dict({**attempt_to_dict(FULL), **changes})


async def test_adding_from_many_tasks_keeps_everything(store):
    """One writes, the others wait."""
    await asyncio.gather(*(store.add(attempt(n)) for n in range(50)))

    assert len(await store.attempts()) == 50


async def test_without_a_path_it_is_in_this_users_data(data_folder):
    """Beside the conversations."""
    store = ValidationStore()
    await store.add(FULL)
    await store.aclose()

    assert (data_folder / "validation.db").exists()


def test_blocking_and_asynchronous_callers_see_the_same(tmp_path):
    """The tracker is not asynchronous."""
    store = ValidationStore(tmp_path / "v.db")
    assert store.add_blocking([FULL], [RUN]) == 1
    assert store.add_blocking([FULL], [attrs.evolve(RUN, state="finished")]) == 0
    assert list(store.attempts_blocking()) == list(asyncio.run(store.attempts())) == [FULL]
    assert [run.state for run in store.runs_blocking()] == ["running"]
    store.close()

    with pytest.raises(StorageError, match="is closed"):
        store.add_blocking([FULL])
