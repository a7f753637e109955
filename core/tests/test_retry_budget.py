"""Repetitions stay a small part of the load, and a service that is asked rarely may still be asked again."""

from flexchat.endpoints import REFILL_PER_S, RESERVE, SHARE, RetryBudget
from hypothesis import given
from hypothesis import strategies as st


def test_a_quiet_service_may_be_asked_again():
    """Ten repetitions are there without any request before them."""
    budget = RetryBudget(lambda: 0.0)

    assert [budget.take() for _ in range(11)] == [True] * 10 + [False]


def test_requests_and_time_earn_repetitions():
    """Ten requests earn one, and so do six seconds."""
    now = [0.0]
    budget = RetryBudget(lambda: now[0])
    while budget.take():
        pass

    for _ in range(11):  # eleven: tenths do not add up to one exactly
        budget.request()
    assert [budget.take(), budget.take()] == [True, False]

    now[0] += 6.1
    assert [budget.take(), budget.take()] == [True, False]


@given(st.lists(st.one_of(st.sampled_from(["request", "take"]), st.floats(0, 100)), max_size=200))
def test_repetitions_stay_within_their_bound(steps):
    """Whatever comes in what order: no more than the reserve, a tenth of the requests, and what time adds."""
    now, requests, repeated = [0.0], 0, 0
    budget = RetryBudget(lambda: now[0])
    for step in steps:
        if step == "request":
            budget.request()
            requests += 1
        elif step == "take":
            repeated += budget.take()
        else:
            now[0] += step
        assert repeated <= RESERVE + requests * SHARE + now[0] * REFILL_PER_S + 1e-6


@given(st.integers(0, 300), st.floats(0, 1000))
def test_nothing_is_saved_up_beyond_the_reserve(requests, seconds):
    """A long calm does not pay for a storm of repetitions."""
    now = [0.0]
    budget = RetryBudget(lambda: now[0])
    for _ in range(requests):
        budget.request()
    now[0] += seconds

    assert sum(budget.take() for _ in range(50)) == RESERVE
