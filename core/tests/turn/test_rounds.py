"""The calls of an answer: grouped, refused, counted; each gets exactly one answer."""

import asyncio
import contextvars
import itertools
import time

import pytest
from engines import engine
from flexchat.calls.calls import ToolParts
from flexchat.calls.manager import ToolManager
from flexchat.config.model import LimitsTable
from flexchat.domain import ChatRequest, Implementation, ToolCall, ToolDefinition, ToolFinished, ToolStarted
from flexchat.events.sink import Feed
from flexchat.plugin.call import Call
from flexchat.plugin.contracts import ImplementationType
from flexchat.tools.registry import ToolRegistry
from flexchat.turn.rounds import CallLimits, CallRound, messages_of, run_calls
from flexchat.turn.run import read_turn
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples


class Log:
    """Runs tools a few event-loop steps long, and remembers when each began and ended."""

    def __init__(self):
        self.entries = []

    async def run(self, settings, params, context):
        self.entries.append(("begin", context.tool.name, params["n"]))
        for _ in range(params.get("steps", 1)):
            await asyncio.sleep(0)
        self.entries.append(("end", context.tool.name, params["n"]))
        return params["n"]


class Loop:
    """Runs the calls of answers, as in one turn."""

    def __init__(self, log, *, per_answer=99, per_turn=99, time_left=None):
        tools = ToolManager(
            parts=ToolParts(
                implementation_types={"log": ImplementationType(name="log", settings_class=object, run=log.run)}
            )
        )
        for name in ("free", "alone"):
            implementation = Implementation(type="log", settings=None)
            schema = {"type": "object"}
            exclusive = name == "alone"
            tools.add(
                [
                    ToolDefinition(
                        name=name,
                        description="d",
                        parameters=schema,
                        implementation=implementation,
                        exclusive=exclusive,
                    )
                ]
            )
        limits = LimitsTable(tool_calls_per_answer=per_answer, tool_calls_per_turn=per_turn)
        self._engine = engine({}, tools, limits)
        self._manners = CallLimits(tools.get_registry(), limits)
        self._time_left = time_left

    @property
    def exhausted(self):
        return self._manners.exhausted

    async def run(self, asked, feed=None):
        """Return the records, and the events before them where they are read."""
        turn = self._engine.create_turn(ChatRequest(user_message="x"), feed)
        if self._time_left is not None:
            turn.clock.until = time.monotonic() + self._time_left
        return await run_calls(turn, asked, self._manners, ("free", "alone"), 1)

    def events(self, asked):
        """Yield the events, and a list of the records."""
        feed = Feed()

        async def work(_):
            feed.add(await self.run(asked, feed))

        turn = self._engine.create_turn(ChatRequest(user_message="x"), feed)
        return read_turn(turn, feed, contextvars.copy_context(), work)


def call(name, n=0, **rest):
    return ToolCall(name=name, arguments={"n": n, **rest})


async def events_of(loop, *asked):
    return [event async for event in loop.events(asked)]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["free", "alone", "unknown"]), st.integers(0, 3)), max_size=7))
def test_every_call_has_one_answer_in_its_place_and_exclusive_ones_run_alone(asked):
    """Nothing runs beside an exclusive call, nothing overtakes it, and the records keep the order of the calls."""
    log = Log()
    calls = [call(name, n, steps=steps) for n, (name, steps) in enumerate(asked)]

    *happened, last = asyncio.run(events_of(Loop(log), *calls))

    assert [r.call_id for r in last] == [c.id for c in calls]
    assert [m.tool_call_id for m in messages_of(calls, last, 1000)] == [c.id for c in calls]
    assert [r.result.success for r in last] == [name != "unknown" for name, _ in asked]
    started = [e.call.id for e in happened if isinstance(e, ToolStarted)]
    finished = [e.record.call_id for e in happened if isinstance(e, ToolFinished)]
    assert started == [c.id for c in calls]
    assert sorted(finished) == sorted(started)
    running = set()
    for what, name, n in log.entries:
        running.add(n) if what == "begin" else running.discard(n)
        if what == "begin" and name == "alone":
            assert running == {n}
            before = {m for w, _, m in log.entries[: log.entries.index((what, name, n))] if w == "end"}
            assert before == {m for m in range(n) if asked[m][0] != "unknown"}


async def test_the_third_equal_call_is_refused_and_asking_once_more_ends_the_loop():
    """Repeated after a refusal it had read (DS-9, TC-111, C16)."""
    loop = Loop(Log())
    rounds = [await loop.run([call("free")]) for _ in range(3)]

    assert [r[0].result.success for r in rounds] == [True, True, False]
    assert not loop.exhausted
    await loop.run([call("free")])
    assert "after it had been refused" in loop.exhausted


async def test_a_model_that_repeats_itself_within_one_answer_may_go_on():
    """It has not read the refusal yet; the next answer decides (C16)."""
    loop = Loop(Log())

    asked = [call("free") for _ in range(6)]
    done = await loop.run(asked)

    assert [r.result.success for r in done] == [True, True, False, False, False, False]
    assert not loop.exhausted


async def test_arguments_that_cannot_be_compared_do_no_harm():
    """Nested too deeply, or with keys of two kinds: the call is answered like any other."""
    deep = "x"
    for _ in range(100_000):
        deep = [deep]
    calls = [call("unknown", deep=deep), call("free", odd={1: 1, "a": 2})]

    done = await Loop(Log()).run(calls)

    assert [r.call_id for r in done] == [c.id for c in calls], done[1].result.error


async def test_arguments_that_cannot_be_read_are_kept_as_they_were_written():
    """The record has the text beside empty params; one that can be read has none."""
    broken = '{"n": 1'
    happened = await events_of(Loop(Log()), ToolCall.from_text("free", broken), call("free", n=2))
    done = [event for event in happened if isinstance(event, ToolFinished)]
    unread, read = sorted(done, key=lambda event: bool(event.record.params))
    assert (unread.record.params, unread.record.raw_arguments) == ({}, broken)
    assert unread.record.to_dict()["raw_arguments"] == broken
    assert read.record.raw_arguments is None
    assert "raw_arguments" not in read.record.to_dict()


async def test_budgets_count_what_is_run():
    """Refused calls cost nothing; the first that no longer fits ends the loop."""
    loop = Loop(Log(), per_answer=2, per_turn=3)

    first = await loop.run([call("free", n) for n in range(4)])
    assert [r.result.success for r in first] == [True, True, False, False]
    assert not loop.exhausted
    second = await loop.run([call("free", 5), call("free", 6)])
    assert [r.result.success for r in second] == [True, False]
    assert "budget of 3" in loop.exhausted


async def test_where_no_time_is_left_nothing_is_begun():
    """A thread that is started cannot be stopped."""
    log = Log()

    done = await Loop(log, time_left=-1.0).run([call("free")])

    assert "no time is left" in done[0].result.error
    assert log.entries == []


@pytest.mark.parametrize("after", range(12))
async def test_leaving_early_cancels_what_runs(after):
    """At whatever event the reader leaves."""
    before = asyncio.all_tasks()
    asked = [call("free", n, steps=n * 5) for n in range(3)] + [call("alone", 3), call("free", 4)]
    events = Loop(Log()).events(asked)
    for _ in itertools.repeat(None, after):
        if await anext(events, None) is None:
            break
    await events.aclose()

    assert asyncio.all_tasks() == before


async def test_what_a_step_noted_before_the_turn_was_stopped_is_kept_as_json():
    """What is not JSON is left out of the record, and does not cost the turn its being kept."""
    call = Call(name="free", arguments={}, origin="model", facts={"held": b"1.5", "by": "budget", "odd": object()})
    round_ = CallRound([ToolCall(name="free", arguments={})], 1)
    round_.calls[0] = call

    (record,) = round_.records_at_end(ToolRegistry())

    assert record.facts == {"by": "budget"}
    assert record.result.error.startswith("Not executed: ")
