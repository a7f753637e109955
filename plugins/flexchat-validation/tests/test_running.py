"""A validation run: everything planned, each once, whatever happens in between."""

import asyncio
import contextlib
import itertools
from collections import Counter

import attrs
import pytest
from flexchat import ChatRequestError, StorageError, Usage
from flexchat_sdk import (
    ProviderAuthError,
    ProviderConnectionError,
    ProviderOverloadedError,
    ProviderRateLimitError,
    ProviderTimeoutError,
)
from flexchat_testing import ScriptedProvider, calls, says
from flexchat_validation import running
from flexchat_validation.attempts import Attempt
from flexchat_validation.cases import AnswerCheck, Case, ExpectedCall, Price, ValidationTable
from flexchat_validation.running import Plan, Progress, ValidationRun
from flexchat_validation.store import ValidationStore
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples

CASES = tuple(
    Case(name=f"case {n}", message=f"question {n}", calls=(ExpectedCall(tool="calculator"),)) for n in range(4)
)


def right(messages, options):
    """A model that does what the cases expect."""
    if messages[-1].role == "tool":
        return says("done", usage=Usage(input_tokens=10, output_tokens=2))
    return calls(("calculator", {"expression": "1 + 1"}), usage=Usage(input_tokens=20, output_tokens=5))


def model(*replies):
    return ScriptedProvider(replies or (right,), repeat=True)


@pytest.fixture
def store(tmp_path):
    return ValidationStore(tmp_path / "validation.db")


async def made(run):
    """All events of a run."""
    return [event async for event in run.events()]


def attempts(events):
    return [event for event in events if isinstance(event, Attempt)]


@pytest.mark.parametrize(("models", "runs"), [(1, 1), (2, 3), (3, 2)])
def test_a_plan_has_everything_once_and_is_fair_wherever_it_is_cut(models, runs):
    """At any point no model and no case is more than one attempt ahead of another."""
    names = tuple(f"s/m{n}" for n in range(models))
    tasks = [(t.model_id, t.case.name, t.repetition) for t in Plan(models=names, cases=CASES, runs=runs).tasks()]

    assert len(tasks) == len(set(tasks)) == models * len(CASES) * runs
    for cut in range(len(tasks) + 1):
        per_model = [sum(task[0] == name for task in tasks[:cut]) for name in names]
        per_case = [sum(task[1] == case.name for task in tasks[:cut]) for case in CASES]
        assert max(per_model) - min(per_model) <= 1
        assert max(per_case) - min(per_case) <= models


def test_the_order_of_cases_differs_from_repetition_to_repetition_and_is_always_the_same():
    """Else a run that is stopped would know the first cases best; and a resumed run goes on as it began."""
    plan = Plan(models=("s/m",), cases=tuple(Case(name=str(n)) for n in range(20)), runs=2)
    orders = [[t.case.name for t in plan.tasks() if t.repetition == r] for r in range(2)]

    assert orders[0] != orders[1] != [case.name for case in plan.cases] != orders[0]
    assert plan.tasks() == plan.tasks()


async def test_a_run_makes_all_attempts_and_says_how_far_it_is(flexchat_app, store):
    """The first and the last event are a Progress; tokens and cost are added up; the run is in the store."""
    table = ValidationTable(prices={"scripted/a": Price(input=1, output=10)})
    async with flexchat_app(model(), tools=["calculator"]) as chat:
        run = await ValidationRun.begin(
            chat, Plan(models=("scripted/a",), cases=CASES, runs=2), store, table=table, settings={"x": 1}
        )
        first, *between, last = await made(run)

    assert (first.done, first.planned, first.state) == (0, 8, "running")
    assert [event.outcome for event in between] == ["passed"] * 8
    assert (last.done, last.passed, last.failed, last.errors, last.state) == (8, 8, 0, 0, "finished")
    assert (last.input_tokens, last.output_tokens, last.unpriced) == (240, 56, ())
    assert last.cost == pytest.approx((240 * 1 + 56 * 10) / 1e6)
    kept = await store.run(run.run.id)
    assert (kept.state, kept.planned, kept.settings, kept.problem) == ("finished", 8, {"x": 1}, None)
    assert [a.id for a in await store.attempts(run=kept.id)] == [a.id for a in between]


async def test_the_time_that_is_left_never_grows_while_nothing_happens(flexchat_app, store):
    """It counts down; once it has passed, nothing is known."""
    async with flexchat_app(model(), tools=["calculator"]) as chat:
        run = await ValidationRun.begin(chat, Plan(models=("scripted/a",), cases=CASES), store)
    assert run._left_s(5.0, 4) is None
    run._made, run._made_s = 2, 10.0

    assert [run._left_s(elapsed, 4) for elapsed in (10.0, 25.0, 30.0, 1000.0)] == [20.0, 5.0, None, None]


async def test_an_attempt_is_on_the_disk_before_it_is_reported(flexchat_app, store):
    """What a watcher has seen is never lost."""
    async with flexchat_app(model(), tools=["calculator"]) as chat:
        run = await ValidationRun.begin(chat, Plan(models=("scripted/a",), cases=CASES), store)
        async for event in run.events():
            if isinstance(event, Attempt):
                assert event in await store.attempts()


@pytest.mark.slow
async def test_no_more_attempts_are_under_way_than_the_config_allows(flexchat_app, store):
    """validation.concurrency holds for each service."""
    now, most = 0, 0

    async def busy(messages, options):
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(3):
            await asyncio.sleep(0)
        now -= 1
        return right(messages, options)

    async with flexchat_app(model(busy), tools=["calculator"]) as chat:
        plan = Plan(models=("scripted/a", "scripted/b"), cases=CASES, runs=2)
        await made(await ValidationRun.begin(chat, plan, store, table=ValidationTable(concurrency=3)))

    assert most == 3


@pytest.mark.slow
@pytest.mark.parametrize("stop", ["cancel", "close", "kill"])
async def test_a_run_that_is_stopped_is_resumed_with_what_it_misses(flexchat_app, store, stop):
    """cancel() ends it as cancelled; leaving it, or cancelling its task, as interrupted."""
    async with flexchat_app(model(), tools=["calculator"]) as chat:
        plan = Plan(models=("scripted/a",), cases=CASES, runs=3)
        run = await ValidationRun.begin(chat, plan, store, table=ValidationTable(concurrency=2))

        async def watch():
            async with contextlib.aclosing(run.events()) as events:
                seen = 0
                async for event in events:
                    seen += isinstance(event, Attempt)
                    if seen == 5 and stop == "cancel":
                        run.cancel()
                    elif seen == 5 and stop == "close":
                        return
                    elif seen == 5:
                        task.cancel()

        task = asyncio.create_task(watch())
        await asyncio.gather(task, return_exceptions=True)
        stopped = await store.run(run.run.id)
        before = await store.attempts(run=stopped.id)
        assert stopped.state == ("cancelled" if stop == "cancel" else "interrupted")
        assert 5 <= len(before) < 12

        again = await ValidationRun.resume(chat, stopped.id, CASES, store)
        first, *between, last = await made(again)

    assert first.done == len(before)
    assert len(between) == 12 - len(before)
    assert (last.done, last.state) == (12, "finished")
    after = await store.attempts(run=stopped.id)
    assert Counter((a.case, a.repetition) for a in after) == Counter(
        {(case.name, r): 1 for case in CASES for r in range(3)}
    )


@pytest.mark.slow
@given(
    stops=st.lists(st.tuples(st.integers(0, 14), st.sampled_from(["cancel", "close", "task"])), max_size=4),
    trouble=st.lists(st.sampled_from([None, None, None, "rate", "auth"]), min_size=1, max_size=7),
    concurrency=st.integers(1, 4),
)
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_whatever_stops_a_run_resuming_it_makes_everything_planned_once(
    flexchat_app, tmp_path_factory, stops, trouble, concurrency
):
    """Stopped at any request, with errors in between: of what counts, each planned attempt is there exactly once."""
    store = ValidationStore(tmp_path_factory.mktemp("run") / "v.db")
    troubles, stop_at, asked = itertools.cycle(trouble), None, 0
    made_up = {"rate": ProviderRateLimitError("slow down", retry_after_s=0), "auth": ProviderAuthError("no key")}

    async def reply(messages, options):
        nonlocal asked
        asked += 1
        if asked == stop_at:
            halt()
            await asyncio.sleep(0)
        kind = next(troubles) if working else None
        if kind in made_up:
            raise made_up[kind]
        return right(messages, options)

    async with flexchat_app(model(reply), tools=["calculator"]) as chat:
        plan = Plan(models=("scripted/a", "scripted/b"), cases=CASES[:3], runs=2)
        table = ValidationTable(concurrency=concurrency)
        run = await ValidationRun.begin(chat, plan, store, table=table, pause_s=0)
        reported: Counter[str] = Counter()
        working = True
        for at, how in [*stops, (0, "never")]:
            working = how != "never"
            asked, stop_at = 0, at

            async def watch(run=run):
                async with contextlib.aclosing(run.events()) as events:
                    async for event in events:
                        if isinstance(event, Attempt) and event.outcome != "error":
                            reported[event.id] += 1

            task = asyncio.create_task(watch())
            halt = run.cancel if how == "cancel" else task.cancel
            await asyncio.gather(task, return_exceptions=True)
            run = await ValidationRun.resume(chat, run.run.id, CASES, store, table=table, pause_s=0)
        await made(run)
    counted = [a for a in await store.attempts() if a.outcome != "error"]
    await store.aclose()

    assert Counter((a.key.model_id, a.case, a.repetition) for a in counted) == Counter(
        {(t.model_id, t.case.name, t.repetition): 1 for t in plan.tasks()}
    )
    assert set(reported) <= {a.id for a in counted}
    assert max(reported.values()) == 1
    assert run.progress.state == "finished"


async def test_a_rate_limit_is_waited_for_and_halves_what_is_under_way(flexchat_app, store):
    """The attempts that hit it are made again, and nothing of it is kept; together they halve it only once."""
    limited = iter([True] * 4)
    all_asked = asyncio.Barrier(4)
    now, most = 0, 0

    async def reply(messages, options):
        nonlocal now, most
        if next(limited, False):
            await all_asked.wait()
            raise ProviderRateLimitError("slow down", retry_after_s=0.01)
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return right(messages, options)

    async with flexchat_app(model(reply), tools=["calculator"]) as chat:
        plan = Plan(models=("scripted/a",), cases=CASES, runs=3)
        run = await ValidationRun.begin(chat, plan, store, table=ValidationTable(concurrency=4))
        events = await made(run)

    assert most == 2
    assert [a.outcome for a in attempts(events)] == ["passed"] * 12
    waiting = [event.waiting for event in events if isinstance(event, Progress) and event.waiting]
    assert waiting[0] == "scripted: slow down"
    assert events[-1].waiting == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (ProviderAuthError("the key was refused"), 3),
        (ProviderConnectionError("nothing listens", retryable=True), 9),
        (ProviderOverloadedError("too busy", retry_after_s=1000), 3),
    ],
)
async def test_a_model_that_comes_to_nothing_again_and_again_is_given_up(flexchat_app, store, error, asked):
    """What may pass is asked three times; after three attempts in a row the run ends, and says why."""
    provider = model(error)
    async with flexchat_app(provider, tools=["calculator"]) as chat:
        plan = Plan(models=("scripted/a",), cases=CASES, runs=5)
        run = await ValidationRun.begin(chat, plan, store, table=ValidationTable(concurrency=1), pause_s=0)
        events = await made(run)

    assert len(provider.requests) == asked
    assert [a.outcome for a in attempts(events)] == ["error"] * 3
    assert run.run.state == "failed"
    assert run.run.problem == f"scripted/a was given up after 3 errors in a row: {error}"
    assert (await store.run(run.run.id)).problem == run.run.problem


async def test_a_model_that_is_late_has_failed_and_is_asked_again_before_that(flexchat_app, store):
    """A rate that left its timeouts out would be too high; one that always times out is given up."""
    late = ProviderTimeoutError("too slow", retryable=True)
    once = model(late, right, right)  # recovers when it is asked again
    async with flexchat_app(once, tools=["calculator"]) as chat:
        plan = Plan(models=("scripted/a",), cases=CASES[:1])
        run = await ValidationRun.begin(chat, plan, store, table=ValidationTable(concurrency=1), pause_s=0)
        assert [a.outcome for a in attempts(await made(run))] == ["passed"]
    async with flexchat_app(model(late), tools=["calculator"]) as chat:
        plan = Plan(models=("scripted/b",), cases=CASES, runs=5)
        run = await ValidationRun.begin(chat, plan, store, table=ValidationTable(concurrency=1), pause_s=0)
        events = await made(run)

    assert [a.outcome for a in attempts(events)] == ["failed"] * 3
    assert run.run.problem == "scripted/b was given up after 3 errors in a row: too slow"


async def test_a_breaker_that_opens_does_not_hide_why(flexchat_app, store):
    """What is kept of an attempt is what the service said itself, as long as that is known."""
    refused = ProviderOverloadedError("it is not asked for now: 20 of 20 calls failed", code="circuit_open")
    errors = itertools.cycle([ProviderOverloadedError("too busy", retryable=False), refused, refused])

    def fail(messages, options):
        raise next(errors)

    async with flexchat_app(model(fail), tools=["calculator"]) as chat:
        plan = Plan(models=("scripted/a",), cases=CASES)
        run = await ValidationRun.begin(chat, plan, store, table=ValidationTable(concurrency=1), pause_s=0)
        events = await made(run)

    assert [a.problems for a in attempts(events)] == [("too busy",)] * 3
    assert run.run.problem == "scripted/a was given up after 3 errors in a row: too busy"


async def test_other_models_go_on_when_one_is_given_up(flexchat_app, store):
    """Each model is on its own."""
    provider = model()

    async def picky(messages, model_name, options):
        if model_name == "bad":
            raise ProviderAuthError("not for you")
        return await type(provider).generate_chat(provider, messages, model_name, options)

    provider.generate_chat = picky
    async with flexchat_app(provider, tools=["calculator"]) as chat:
        plan = Plan(models=("scripted/bad", "scripted/good"), cases=CASES, runs=2)
        run = await ValidationRun.begin(chat, plan, store, table=ValidationTable(concurrency=1))
        events = await made(run)

    assert Counter(a.key.model_id for a in attempts(events)) == {"scripted/bad": 3, "scripted/good": 8}
    assert (run.progress.done, run.progress.planned, run.progress.errors) == (11, 16, 3)


async def test_errors_are_made_again_when_the_run_is_resumed(flexchat_app, store):
    """They were kept, and say nothing of the model."""
    broken = iter([True, False, False, False, False, False, False])

    def reply(messages, options):
        if next(broken, False):
            raise ProviderAuthError("not now")
        return right(messages, options)

    async with flexchat_app(model(reply), tools=["calculator"]) as chat:
        run = await ValidationRun.begin(chat, Plan(models=("scripted/a",), cases=CASES), store)
        await made(run)
        assert run.run.state == "failed"
        assert run.run.problem == "1 of 4 attempts ended in an error, the last one because not now"
        again = await ValidationRun.resume(chat, run.run.id, CASES, store)
        events = await made(again)

    assert len(attempts(events)) == 1
    assert (again.run.state, again.run.problem) == ("finished", None)


async def test_what_was_tried_with_another_text_of_its_case_is_tried_again(flexchat_app, store):
    """A result is only good for the question that was asked."""
    async with flexchat_app(model(), tools=["calculator"]) as chat:
        run = await ValidationRun.begin(chat, Plan(models=("scripted/a",), cases=CASES), store)
        await made(run)
        changed = [attrs.evolve(CASES[0], answer=AnswerCheck(contains=("done",))), *CASES[1:]]
        again = await ValidationRun.resume(chat, run.run.id, changed, store)
        events = await made(again)

    assert [a.case for a in attempts(events)] == [CASES[0].name]


async def test_what_cannot_be_resumed_says_why(flexchat_app, store):
    """A case that is gone, a run that is not there, one that is still under way."""
    async with flexchat_app(model(), tools=["calculator"]) as chat:
        plan = Plan(models=("scripted/a",), cases=CASES)
        run = await ValidationRun.begin(chat, plan, store)
        with pytest.raises(ChatRequestError, match="is still in progress"):
            await ValidationRun.resume(chat, run.run.id, CASES, store)
        await made(run)
        with pytest.raises(ChatRequestError, match="tries the case 'case 3', which no longer exists"):
            await ValidationRun.resume(chat, run.run.id, CASES[:3], store)
        with pytest.raises(StorageError, match="no validation run 'x'"):
            await ValidationRun.resume(chat, "x", CASES, store)


@pytest.mark.parametrize(
    ("models", "text"),
    [
        (["scriptde/a"], r"no service is called 'scriptde' \(did you mean 'scripted'\?\)"),
        (["scripted"], "scripted has no default_model"),
        (["x/a", "scripted"], r"(?s)no service is called 'x'.*scripted has no default_model"),
        ([], "at least one model"),
    ],
)
async def test_a_run_that_cannot_begin_says_why_and_leaves_nothing(flexchat_app, store, models, text):
    """Before anything is asked or kept."""
    async with flexchat_app(model(), tools=["calculator"]) as chat:
        with pytest.raises(ChatRequestError, match=text):
            await ValidationRun.begin(chat, Plan(models=tuple(models), cases=CASES), store)

    assert await store.runs(10) == []


async def test_a_store_that_fails_ends_the_run_with_its_error(flexchat_app, store, monkeypatch):
    """Nothing of it can be trusted."""
    async with flexchat_app(model(), tools=["calculator"]) as chat:
        run = await ValidationRun.begin(chat, Plan(models=("scripted/a",), cases=CASES), store)

        async def full(*attempts):
            raise StorageError("the disk is full")

        monkeypatch.setattr(store, "add", full)
        with pytest.raises(StorageError, match="the disk is full"):
            await made(run)

    assert (run.run.state, run.run.problem) == ("failed", "the disk is full")


def test_the_rounds_are_those_that_are_documented():
    """docs/validation.md names them."""
    assert (running.MAX_ROUNDS, running.MAX_ERRORS) == (3, 3)
