"""What tests prove: the interval is Wilson's, and looking often fools nobody."""

import math
import random
from functools import cache

import pytest
from flexchat.host import rate_interval as interval
from flexchat_validation.statistics import FAR, FAR_TIMES, LINE, MAX_MORE, verdict
from hypothesis import given
from hypothesis import strategies as st

FARTHEST = 300
"""Tests after which the optional stopping ends."""


@pytest.mark.parametrize(
    ("successes", "tests", "low", "high"),
    [
        (1, 1, 0.2065, 1.0),
        (4, 5, 0.3755, 0.9638),
        (10, 10, 0.7225, 1.0),
        (16, 16, 0.8064, 1.0),
        (46, 50, 0.8116, 0.9685),
        (88, 100, 0.8019, 0.9300),
        (0, 10, 0.0, 0.2775),
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, Statistics in Medicine 17, table I
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_is_wilsons(successes, tests, low, high):
    """Published values."""
    assert interval(successes, tests) == pytest.approx((low, high), abs=5e-5)


def test_without_tests_everything_is_possible():
    """Nothing is known, and nothing is divided by."""
    found = verdict(0, 0)

    assert (found.low, found.high, found.rate, found.more) == (0, 1, None, None)
    assert (found.status, found.reason) == ("undecided", "not tested")


@pytest.mark.parametrize("given", [(5, 4), (-1, 3), (0, -1)])
def test_impossible_counts_are_refused(given):
    """More successes than tests are a mistake of whoever counted."""
    with pytest.raises(ValueError, match="cannot have succeeded"):
        verdict(*given)


@cache
def probability(successes, tests, rate):
    """Exact, of the binomial distribution."""
    return math.comb(tests, successes) * rate**successes * (1 - rate) ** (tests - successes)


def test_the_interval_covers_the_true_rate_about_as_often_as_it_says():
    """Exact, for a grid of rates and numbers: 95 % on the average; never below 83 %, as published for Wilson's."""
    covered = [
        math.fsum(
            probability(k, tests, rate)
            for k in range(tests + 1)
            if interval(k, tests)[0] <= rate <= interval(k, tests)[1]
        )
        for tests in (5, 10, 20, 50, 100)
        for rate in [step / 40 for step in range(1, 40)]
    ]

    assert sum(covered) / len(covered) == pytest.approx(0.95, abs=0.01)
    assert min(covered) > 0.83


def test_the_interval_covers_in_a_simulation_too():
    """4,000 models of rates all over, 40 tests each."""
    chance = random.Random(5)
    inside = 0
    for _ in range(4000):
        rate = chance.random()
        low, high = interval(sum(chance.random() < rate for _ in range(40)), 40)
        inside += low <= rate <= high

    assert 0.94 < inside / 4000 < 0.965


@pytest.mark.parametrize("planned", [None, 1, 4, 5, 6, 16, 100])
def test_four_of_five_is_never_validated(planned):
    """Whatever was planned (C4)."""
    assert verdict(4, 5, planned=planned).status == "undecided"


def test_sixteen_of_sixteen_planned_is_validated_and_fifteen_of_fifteen_is_not():
    """The first perfect score above the line. Without a plan it takes 24."""
    assert verdict(16, 16, planned=16).status == "validated"
    assert verdict(15, 15, planned=15).status == "undecided"
    assert next(n for n in range(1, 40) if verdict(n, n).status == "validated") == 24


def test_one_planned_failure_proves_nothing():
    """Wilson's interval leaves 0.8 out after one failure of one test, and after two of three."""
    assert interval(0, 1)[1] < LINE
    assert verdict(0, 1, planned=1).status == "undecided"
    assert verdict(1, 3, planned=3).status == "undecided"
    assert verdict(0, 3, planned=3).status == "not_validated"


def ever(rate, status, planned=None):
    """Return the exact probability that somebody who looks after every test is told status at some time."""
    wrong, going_on = 0.0, {0: 1.0}
    for tests in range(1, FARTHEST + 1):
        after = {}
        for successes, p in going_on.items():
            after[successes] = after.get(successes, 0.0) + p * (1 - rate)
            after[successes + 1] = after.get(successes + 1, 0.0) + p * rate
        stops = {s for s in after if said(s, tests, tests == planned) == status}
        wrong += sum(after[s] for s in stops)
        going_on = {s: p for s, p in after.items() if s not in stops and p > 1e-12}
    return wrong


@cache
def said(successes, tests, is_planned):
    """The verdict without the number of further tests."""
    from flexchat_validation import statistics

    return statistics._status(successes, tests, tests if is_planned else None, "undecided")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "status", "at_most"),
    [
        (0.8, "validated", 0.025),
        (0.75, "validated", 0.005),
        (0.8, "not_validated", 0.025),
        (0.85, "not_validated", 0.01),
    ],
)
def test_looking_after_every_test_and_stopping_when_one_likes_it_does_not_fool_it(rate, status, at_most):
    """Exact, for up to 300 tests without a plan."""
    assert ever(rate, status) <= at_most


@pytest.mark.parametrize("planned", [1, 3, 5, 16, 47, 100, 200])
def test_nor_does_a_planned_look_in_between(planned):
    """Before it, at it, and after it together: wrong in 5 % at most, on the line itself, on either side."""
    assert ever(LINE, "validated", planned) <= 0.05
    assert ever(LINE, "not_validated", planned) <= 0.05


@pytest.mark.slow
def test_a_single_planned_look_is_wrong_in_three_percent_at_most():
    """Exact, for every plan up to 200 tests and a model on the line."""
    for tests in range(1, 201):
        wrong = {"validated": 0.0, "not_validated": 0.0, "undecided": 0.0}
        for successes in range(tests + 1):
            wrong[said(successes, tests, True)] += probability(successes, tests, LINE)
        assert wrong["validated"] <= 0.03, tests
        assert wrong["not_validated"] <= 0.025, tests


def test_stopping_when_wilson_alone_looks_good_would_fool_it():
    """Why there is more than the interval: a simulation of 400 models on the line, up to 300 tests."""
    chance = random.Random(7)
    alone = ours = 0
    for _ in range(400):
        successes, fooled, fooled_us = 0, False, False
        for tests in range(1, 301):
            successes += chance.random() < LINE
            fooled = fooled or interval(successes, tests)[0] >= LINE
            fooled_us = fooled_us or (fooled and said(successes, tests, False) == "validated")
        alone += fooled
        ours += fooled_us

    assert alone / 400 > 0.08
    assert ours / 400 <= 0.05


@pytest.mark.parametrize("tests", [1, 3, 10, 16, 20, 50, 100, 333])
@pytest.mark.parametrize("planned", [None, 20, 100])
def test_after_so_many_more_tests_it_is_decided_and_not_before(tests, planned):
    """At the same rate, under the rule that holds then; fractions of a test go to the side that is behind."""
    for successes in range(0, tests + 1, max(tests // 12, 1)):
        found = verdict(successes, tests, planned=planned)
        if found.more is None:
            continue
        above = successes > LINE * tests

        def after(more, successes=successes, above=above):
            further = successes * more // tests if above else math.ceil(successes * more / tests)
            return verdict(successes + further, tests + more, planned=planned).status

        assert after(found.more) == ("validated" if above else "not_validated")
        assert {after(more) for more in range(1, min(found.more, 60))} <= {"undecided"}


def test_on_the_line_nobody_is_told_a_number():
    """It would never end; nor is a number told above 10,000."""
    assert verdict(80, 100).more is None
    assert verdict(8010, 10_000).more is None
    assert verdict(83, 100).more < MAX_MORE


def test_what_the_planned_tests_proved_holds_until_all_together_speak_against_it():
    """One more test must not take a verdict away, nor ten failures leave it."""
    assert verdict(17, 17, planned=16).status == "undecided"
    assert verdict(17, 17, planned=16, planned_successes=16).status == "validated"
    assert verdict(16, 19, planned=16, planned_successes=16).status == "undecided"
    assert verdict(40, 41, planned=16, planned_successes=15).status == "validated"  # by the evidence of all


def test_further_tests_after_an_undecided_plan_need_evidence():
    """Wilson's interval alone would be a second look."""
    assert verdict(46, 50, planned=50).status == "validated"
    assert verdict(46, 50, planned=40, planned_successes=36).status == "undecided"


order = {"not_validated": 0, "undecided": 1, "validated": 2}


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n - 1), st.just(n), st.booleans())))
def test_one_success_more_never_makes_a_verdict_worse(given_):
    """Law: of as many tests."""
    successes, tests, planned = given_
    plan = tests if planned else None
    less, more = (verdict(s, tests, planned=plan) for s in (successes, successes + 1))

    assert order[less.status] <= order[more.status]
    assert less.low <= more.low
    assert less.high <= more.high
    assert 0 <= less.low <= less.rate <= less.high <= 1


def test_the_reason_is_for_people():
    """It says what was found, what is left open, and what would help."""
    assert verdict(19, 20).reason == (
        "19 of 20 right; at least 76 %, at most 100 %: too few to be sure of 80 %, 34 more like these would do"
    )
    assert verdict(50, 100).reason == "50 of 100 right; at least 40 %, at most 60 %: below the line of 80 %"
    assert verdict(16, 16, planned=16).reason.endswith(": above the line of 80 %")
    assert "not fixed beforehand" in verdict(16, 16).reason
    assert verdict(0, 1, planned=1).lacking == "too few to be sure of less than 80 %"  # fixed, and yet too few
    assert verdict(16, 16, planned=16).lacking == verdict(0, 0).lacking == ""
    assert verdict(4, 5).reason.endswith("too near to 80 % to be distinguished from it")


def test_large_numbers_are_no_trouble():
    """Neither overflow nor minutes."""
    assert verdict(900_000, 1_000_000).status == "validated"
    assert verdict(0, 100_000, planned=100_000).status == "not_validated"
    assert verdict(2**53, 2**53).status == "validated"


def test_few_tests_do_not_foretell_how_many_more_it_takes():
    """Five of six would take over a thousand; that is no number to be told, but "far from decided"."""
    found = verdict(5, 6)
    assert (found.status, found.more) == ("undecided", None)
    assert found.reason.endswith("too few to be sure of 80 %, and far from decided")
    assert verdict(6, 6).more == 18
    assert verdict(83, 100).more > 1000  # of a hundred it may be told


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_what_is_told_is_in_proportion_to_the_tests_there_were(given_):
    """And where it is not, nobody reads a number."""
    found = verdict(*given_)
    assert found.more is None or found.more <= max(FAR, FAR_TIMES * found.tests)
    assert "more like these" not in found.reason or found.more is not None
