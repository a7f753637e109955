"""Verdicts: right in 95 % of the cases however often they are looked at, and with what spent the budget."""

import functools
import random

import pytest
from flexchat.store import HourlySum
from flexchat_metrics.histogram import GROWTH, RELATIVE_ERROR, bucket_of, end_of, percentile
from flexchat_metrics.objectives import P95, judge, state_of
from flexchat_metrics.settings import Objective
from hypothesis import given
from hypothesis import strategies as st

HOUR = 3600.0
NOW = 1_790_000_000.0


class Sums:
    """Sums of one tenant, as a store has them."""

    def __init__(self, *rows):
        self.rows = rows

    async def read(self, *, tenant=None, since_s=0.0):
        return [HourlySum(hour=hour, labels={"tenant": "t"}, values=values) for hour, values in self.rows]


def wrong_in(line, rate, wrong_state, *, cases, calls, dice):
    """Return in how many cases a verdict was ever wrong, looked at after every call."""
    fooled, judge_counts = 0, functools.cache(state_of)  # most cases meet the same counts
    for _ in range(cases):
        good = 0
        for tried in range(1, calls + 1):
            good += dice.random() < rate
            if judge_counts(line, good, good, tried) == wrong_state:
                fooled += 1
                break
    return fooled


@pytest.mark.parametrize(("cases", "calls"), [(60, 200), pytest.param(1_000, 2_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("line", [0.8, 0.95, 0.99])
def test_verdicts_are_seldom_wrong_however_often_they_are_looked_at(line, cases, calls):
    """At the worst rates: on the line, "violated" is wrong; just below it, "met"."""
    dice = random.Random(7)

    violated = wrong_in(line, line, "violated", cases=cases, calls=calls, dice=dice)
    met = wrong_in(line, line - 1e-9, "met", cases=cases, calls=calls, dice=dice)

    assert max(violated, met) <= 0.05 * cases


@pytest.mark.parametrize(
    ("line", "good", "tried", "state"),
    [
        (0.99, 0, 0, "insufficient data"),
        (0.99, 10, 10, "insufficient data"),
        (0.99, 2_000, 2_000, "met"),
        (0.99, 940, 1_000, "violated"),
        (0.99, 0, 10, "violated"),
        (0.995, 99_000, 100_000, "violated"),
        (0.995, 99_800, 100_000, "met"),
        (0.5, 400, 500, "met"),
    ],
)
def test_a_verdict_needs_evidence(line, good, tried, state):
    assert state_of(line, good, good, tried) == state


async def test_only_the_window_that_is_open_counts():
    """It began at a multiple of its length since 1970; earlier failures do not count."""
    start = NOW - NOW % (24 * HOUR)
    hours = [f"2026-09-{day}T05:00:00Z" for day in (20, 21)]
    tool = {"tool\tpay\tn": 1000, "tool\tpay\tok": 1000}
    bad = {"tool\tpay\tn": 1000, "tool\tpay\terror:timeout": 700, "tool\tpay\tok": 300}
    assert start == 1_789_948_800

    (verdict,) = await judge(
        {"tool.pay": Objective(success=0.95, window="24h")}, Sums((hours[0], bad), (hours[1], tool)), now_s=NOW
    )

    assert (verdict.state, verdict.tried, verdict.began) == ("met", 1000, "2026-09-21T00:00:00Z")
    assert verdict.budget_left == 1


async def test_a_verdict_names_what_spent_the_budget():
    """Kinds of error of a tool, without refusals, which are no failures; of a rule, the calls that failed in it."""
    values = {
        **{"tool\tpay\tn": 1000, "tool\tpay\tok": 900, "tool\tpay\terror:refused": 50},
        **{"tool\tpay\terror:timeout": 40, "tool\tpay\terror:tool_error": 10},
        **{"rule\tdesk\tdone": 900, "rule\tdesk\tfailed": 100, "rule\tdesk\tcancelled": 500},
        **{"rule\tdesk\tcause:pay: timeout": 80, "rule\tdesk\tcause:model": 20},
    }
    objectives = {"tool.pay": Objective(success=0.99), "rule.desk": Objective(done=0.95)}

    tool, rule = await judge(objectives, Sums(("2026-09-21T05:00:00Z", values)), now_s=NOW)

    assert (tool.state, tool.good, tool.tried) == ("violated", 900, 950)
    assert tool.causes == [("timeout", 40), ("tool_error", 10)]
    assert (rule.state, rule.tried, rule.causes) == ("violated", 1000, [("pay: timeout", 80), ("model", 20)])
    assert rule.budget_left == pytest.approx(-1)


@pytest.mark.parametrize(("ms", "state"), [(100, "met"), (799, "insufficient data"), (1_000, "violated")])
async def test_the_bucket_of_the_limit_proves_nothing(ms, state):
    """It is not known how many of its calls took longer."""
    values = {"tool\tpay\tn": 500, f"tool\tpay\tms:{bucket_of(ms)}": 500}

    (verdict,) = await judge({"tool.pay": Objective(p95_ms=800)}, Sums(("2026-09-21T05:00:00Z", values)), now_s=NOW)

    assert (verdict.state, verdict.line, verdict.limit_ms) == (state, P95, 800)


@given(st.lists(st.floats(0.0, 1e8), min_size=1), st.sampled_from([0.5, 0.95, 0.99]))
def test_percentiles_are_as_exact_as_stated(times, share):
    """Nearest rank, within RELATIVE_ERROR; times up to a millisecond count as one."""
    buckets = {}
    for ms in times:
        buckets[bucket_of(ms)] = buckets.get(bucket_of(ms), 0) + 1
        assert ms <= end_of(bucket_of(ms)) * (1 + 1e-9)
    exact = max(sorted(times)[max(-(-len(times) * round(share * 100) // 100), 1) - 1], 1)

    assert percentile(buckets, share) == pytest.approx(exact, rel=RELATIVE_ERROR * (1 + 1e-6))
    assert pytest.approx(0.0196, abs=1e-4) == RELATIVE_ERROR == (GROWTH - 1) / (GROWTH + 1)


def test_without_durations_there_is_no_percentile():
    assert percentile({}, 0.5) is None
