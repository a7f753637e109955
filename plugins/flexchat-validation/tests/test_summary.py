"""Many tries, summed up: what counts, what is stale, what was planned."""

import json

import attrs
import pytest
from flexchat import Usage
from flexchat_validation.attempts import Attempt, ModelKey
from flexchat_validation.store import Run
from flexchat_validation.summary import matrix, summarise

NOW = ModelKey(model_id="m", digest="d", package="p 1", tools="t")
CASES = {name: f"hash of {name}" for name in ("one", "two")}
numbers = iter(range(10**6))


def tries(*outcomes, case="one", key=NOW, run="r", **rest):
    rest.setdefault("aspects", {"right_tool": True})
    return [
        Attempt(
            id=str(next(numbers)),
            key=key,
            outcome=outcome,
            at=f"2026-{n:05}",
            run=run,
            case=case,
            case_hash=CASES.get(case),
            repetition=n,
            **rest,
        )
        for n, outcome in enumerate(outcomes)
    ]


def run(id="r", cases=("one",), runs=16, state="finished"):
    return Run(id=id, state=state, models=("m",), cases=cases, runs=runs)


def the_one(attempts, *, now=NOW, cases=CASES, runs=()):
    (summary,) = summarise(attempts, {"m": now}, cases, runs=runs)
    return summary


def test_a_complete_first_run_is_judged_by_the_interval_alone():
    """16 of 16, planned."""
    passed = tries(*["passed"] * 16)

    assert the_one(passed, runs=[run()]).validated
    assert the_one(passed, runs=[run(state="running")]).verdict.status == "undecided"
    assert the_one(passed, runs=[run(state="cancelled")]).verdict.status == "undecided"
    assert the_one(passed, runs=[run(runs=17)]).verdict.status == "undecided"
    assert the_one(passed).verdict.more == 8


def test_who_was_never_expected_to_call_a_tool_is_never_validated():
    """However often it abstained; a single test in which a call was expected, or one without a case, changes that."""
    silent = tries(*["passed"] * 16, aspects={"abstains": True})
    found = the_one(silent, runs=[run()])

    assert (found.validated, found.verdict.status, found.verdict.more) == (False, "undecided", None)
    assert found.verdict.reason.endswith(": no case expects a call, so this shows nothing about calling tools")
    assert the_one(silent).verdict.more is None
    assert found.aspects["abstains"].status == "validated"
    assert the_one([*silent, *tries("passed", case="two", run="q")], runs=[run()]).validated
    assert the_one([*silent, *tries("passed", case=None, run=None)], runs=[run()]).validated
    assert not the_one([*silent, *tries("error", case="two")], runs=[run()]).validated
    talkative = the_one(tries(*["failed"] * 16, aspects={"abstains": False}), runs=[run()])
    assert talkative.verdict.status == "not_validated"


def test_a_later_run_is_no_plan():
    """Who begins anew until a run looks well is bound by nothing."""
    attempts = [*tries("passed", "passed", run="q"), *tries(*["passed"] * 16)]

    assert the_one(attempts, runs=[run("q", runs=16, state="cancelled"), run()]).verdict.status == "undecided"


def test_a_run_that_came_to_nothing_takes_no_plan_away_from_the_next():
    """It has shown nothing that a new beginning could be chosen by."""
    attempts = [*tries("error", "error", run="q"), *tries(*["passed"] * 16)]

    assert the_one(attempts, runs=[run("q", runs=16, state="failed"), run()]).validated


def test_a_single_test_more_takes_no_verdict_away():
    """Somebody plays with the model afterwards."""
    attempts = [*tries(*["passed"] * 16), *tries("passed", case=None, run=None)]
    summary = the_one(attempts, runs=[run()])

    assert summary.validated
    assert (summary.verdict.successes, summary.verdict.tests) == (17, 17)


def test_errors_of_a_service_count_nowhere_and_those_made_good_are_none():
    """The plan is complete only when they are made good."""
    attempts = [*tries(*["passed"] * 15, "error"), *tries("error", case="two")]
    summary = the_one(attempts, runs=[run()])

    assert (summary.verdict.tests, summary.errors) == (15, 2)
    assert summary.verdict.status == "undecided"
    made_good = the_one([*attempts, attrs.evolve(attempts[15], id="x", outcome="passed")], runs=[run()])
    assert (made_good.verdict.status, made_good.errors) == ("validated", 1)


def test_a_summary_that_was_imported_counts_for_all_its_tests():
    """Its outcome says nothing."""
    imported = Attempt(id="i", key=ModelKey(model_id="m"), outcome="failed", at="x", tests=40, successes=39)

    assert (the_one([imported]).verdict.successes, the_one([imported]).verdict.tests) == (39, 40)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"digest": "e"}, "the model behind this name was replaced"),
        ({"package": "p 2"}, "p 1 is now 2"),
    ],
)
def test_what_was_tried_with_something_else_is_stale_and_does_not_validate(changes, reason):
    """It is still shown; a try of now goes before it."""
    old = tries(*["passed"] * 30)
    now = attrs.evolve(NOW, **changes)
    stale = the_one(old, now=now)

    assert (stale.stale, stale.stale_reasons, stale.validated) == (True, (reason,), False)
    assert (stale.verdict.status, stale.verdict.tests) == ("validated", 30)
    assert stale.verdict.reason == "30 of 30 right, which no longer counts"
    few = the_one(old[:8], now=now)
    assert [v.more for v in (few.verdict, *few.aspects.values())] == [None, None]
    assert [(c.passed, c.stale) for c in stale.cells] == [(30, True), (0, False)]
    mixed = the_one([*old, *tries("failed", key=now)], now=now)
    assert (mixed.stale, mixed.stale_reasons, mixed.verdict.tests) == (False, (reason,), 1)


def test_a_case_with_another_text_is_stale_by_itself():
    """The others stay."""
    attempts = [*tries("passed", "passed"), *tries("failed", case="two")]
    summary = the_one(attempts, cases={**CASES, "two": "another hash"})

    assert (summary.verdict.tests, summary.stale) == (2, False)
    assert summary.stale_reasons == ("the case 'two', or how it is asked, has changed",)
    assert [c.stale for c in summary.cells] == [False, True]


def test_other_tools_make_stale_what_was_offered_them_and_nothing_else():
    """The hash of a case is of the tools it offers; without one, all tools count."""
    now = attrs.evolve(NOW, tools="u")
    attempts = [*tries("passed"), *tries("passed", case="two"), *tries("passed", case=None, run=None)]
    summary = the_one(attempts, now=now, cases={**CASES, "two": "another hash"})

    assert summary.verdict.tests == 1
    assert summary.stale_reasons == ("the tools have changed",)


def test_of_several_stale_kinds_the_last_is_shown():
    """Numbers of two models under one name are not added up."""
    attempts = [*tries("failed", "failed", key=attrs.evolve(NOW, digest="a")), *tries("passed", key=NOW)]

    assert the_one(attempts, now=attrs.evolve(NOW, digest="z")).verdict.tests == 1


def test_cases_that_are_not_asked_for_are_left_out():
    """A matrix of some tags; tests without a case stay."""
    attempts = [*tries("passed"), *tries("failed", case="gone"), *tries("passed", case=None, run=None)]

    assert the_one(attempts).verdict.tests == 2
    assert the_one(attempts, cases=None).verdict.tests == 3
    assert [c.case for c in the_one(attempts, cases=None).cells] == ["one", "gone"]


def test_each_ability_has_its_verdict():
    """Where it was judged; errors judge nothing."""
    attempts = [
        *tries(*["passed"] * 16, aspects={"right_tool": True, "right_arguments": False}),
        *tries("error", case="two", aspects={"abstains": False}),
    ]
    summary = the_one(attempts, runs=[run()])

    assert list(summary.aspects) == ["right_tool", "right_arguments"]
    assert summary.aspects["right_tool"].status == "validated"
    assert summary.aspects["right_arguments"].status == "not_validated"


def test_a_cell_says_what_was_wrong_last():
    """A failure goes before an error."""
    attempts = [
        *tries("failed", problems=("first",)),
        *tries("failed", problems=("last",)),
        *tries("error", problems=("away",)),
        *tries("error", case="two", problems=("away",)),
    ]
    one, two = the_one([attrs.evolve(a, repetition=n) for n, a in enumerate(attempts)]).cells

    assert (one.failed, one.errors, one.last_problems) == (2, 1, ("last",))
    assert (two.passed, two.failed, two.errors, two.last_problems) == (0, 0, 1, ("away",))


def test_few_cases_say_little_and_repetitions_that_end_alike_add_nothing():
    """However many tests there are."""
    attempts = [*tries(*["passed"] * 30), *tries(*["failed"] * 30, case="two")]
    summary = the_one(attempts)

    assert summary.note.startswith("2 different cases: this shows little about other questions, and repetitions")
    assert the_one(tries("passed", "failed")).note == "1 different case: this shows little about other questions"
    many = [a for n in range(10) for a in tries("passed", case=f"c{n}")]
    assert the_one(many, cases=None).note == ""
    assert the_one(tries("passed", case=None, run=None)).note == ""


def test_tokens_time_and_cost_are_added_up_where_they_are_known():
    """An unknown price is not nothing."""
    attempts = tries("passed", "failed", usage=Usage(input_tokens=5, output_tokens=1), cost=0.5, elapsed_ms=10)
    summary = the_one([*attempts, *tries("passed", run=None)])

    assert (summary.cost, summary.elapsed_ms, summary.usage) == (1.0, 20, Usage(input_tokens=10, output_tokens=2))
    assert the_one(tries("passed")).cost is None


def test_models_come_as_asked_for_then_those_there_are_results_of():
    """One that was never tried is not tested, and not stale."""
    found = summarise(tries("passed", key=attrs.evolve(NOW, model_id="x")), {"m": NOW}, CASES)

    assert [s.model_id for s in found] == ["m", "x"]
    assert [s.status()["tested"] for s in found] == [False, True]
    assert not found[0].stale


def test_as_json_data_it_has_the_words_of_the_api():
    """STATUS, cells, aspects."""
    summaries = summarise(tries("passed", aspects={"right_tool": True}), {"m": NOW}, CASES)
    data = json.loads(json.dumps(matrix(summaries, CASES)))

    assert set(data["models"][0]) >= {
        "model_id",
        "tested",
        "validated",
        "test_count",
        "success_count",
        "rate",
        "low",
        "high",
        "verdict",
        "more",
        "stale",
        "stale_reasons",
        "last_tested",
    }
    assert data["cases"] == ["one", "two"]
    assert set(data["cells"][0]) == {"model_id", "case", "passed", "failed", "errors", "stale", "last_problems"}
    assert set(data["aspects"][0]) >= {"model_id", "aspect", "successes", "tests", "low", "high", "verdict"}
    json.dumps(summaries[0].to_dict())
