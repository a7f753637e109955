"""A service that fails is left alone for a while, and one trial at a time finds out whether it works again."""

import asyncio

import pytest
from flexchat.endpoints import MIN_CALLS, PAUSE_S, WINDOW_S, CircuitBreaker, CircuitOpen
from flexchat.errors import (
    ProviderAuthError,
    ProviderConnectionError,
    ProviderOverloadedError,
    ProviderProtocolError,
    ProviderRateLimitError,
    ProviderRequestError,
    ProviderTimeoutError,
)
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from examples import examples

FAILED = ProviderOverloadedError("it burns")


class Bench:
    """A breaker and the clock it goes by."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.breaker = CircuitBreaker("https://api.example", lambda: self.now)

    def call(self, error: BaseException | None = None) -> None:
        try:
            with self.breaker.call():
                if error is not None:
                    raise error
        except BaseException as raised:
            if raised is not error:
                raise

    def refused(self) -> CircuitOpen:
        with pytest.raises(CircuitOpen) as caught:
            self.breaker.call()
        return caught.value


@pytest.fixture
def bench():
    return Bench()


@pytest.fixture
def broken(bench):
    for _ in range(MIN_CALLS):
        bench.call(FAILED)
    return bench


@pytest.mark.parametrize(
    ("why", "said"), [("is it up?", "is it up? Requests have"), ("it burns", "it burns. Requests have")]
)
def test_what_an_open_breaker_says_is_whole_sentences(bench, why, said):
    """However the last error ended."""
    for _ in range(MIN_CALLS):
        bench.call(ProviderOverloadedError(why))

    assert said in str(bench.refused())


def test_it_opens_when_half_of_twenty_calls_have_failed(bench):
    """Ten good and ten bad ones in half a minute; nine bad ones of nineteen are too few."""
    for _ in range(10):
        bench.call()
    for _ in range(9):
        bench.call(FAILED)
    assert not bench.breaker.is_open

    bench.call(FAILED)

    assert bench.breaker.is_open


def test_what_lies_half_a_minute_back_is_forgotten(bench):
    """Nineteen failures, thirty seconds of silence, one more: still closed."""
    for _ in range(MIN_CALLS - 1):
        bench.call(FAILED)
    bench.now += WINDOW_S
    bench.call(FAILED)

    assert not bench.breaker.is_open


def test_the_refusal_says_what_happened_since_when_and_until_when(broken):
    """With a time to wait."""
    broken.now += 4

    error = broken.refused()

    assert "https://api.example" in str(error)
    assert "20 of 20 calls failed within 30 s, the last one because it burns" in str(error)
    assert "for 4 s" in str(error)
    assert "next attempt is in 11 s" in str(error)
    assert error.retry_after_s == 11.0


def test_one_trial_is_let_through_after_the_pause(broken):
    """While it runs, all others are refused; when it succeeds, all are let through again."""
    broken.now += PAUSE_S
    trial = broken.breaker.call()
    assert broken.refused().retry_after_s == PAUSE_S

    with trial:
        pass

    assert not broken.breaker.is_open
    broken.call(FAILED)
    assert not broken.breaker.is_open


def test_a_failed_trial_begins_the_pause_anew(broken):
    """Fifteen more seconds, counted from the failure."""
    broken.now += PAUSE_S
    trial = broken.breaker.call()
    broken.now += 3
    with pytest.raises(ProviderOverloadedError), trial:
        raise FAILED

    assert broken.refused().retry_after_s == PAUSE_S


def test_a_trial_whose_caller_leaves_makes_room_for_the_next(broken):
    """A cancelled trial says nothing of the service."""
    broken.now += PAUSE_S
    with pytest.raises(asyncio.CancelledError), broken.breaker.call():
        raise asyncio.CancelledError

    with broken.breaker.call():
        pass

    assert not broken.breaker.is_open


def test_a_trial_that_never_reports_does_not_lock_the_door(broken):
    """After another pause there is another trial."""
    broken.now += PAUSE_S
    broken.breaker.call()
    broken.now += PAUSE_S

    assert broken.breaker.call() is not None


def test_calls_from_before_it_opened_do_not_close_it(bench):
    """A late answer is old news, good or bad."""
    early, late = bench.breaker.call(), bench.breaker.call()
    for _ in range(MIN_CALLS):
        bench.call(FAILED)

    with early:
        pass
    assert bench.breaker.is_open
    bench.now += 10
    with pytest.raises(ProviderOverloadedError), late:
        raise FAILED

    assert bench.refused().retry_after_s == PAUSE_S - 10


@pytest.mark.parametrize("kind", [ProviderTimeoutError, ProviderConnectionError, ProviderProtocolError])
def test_the_services_own_failures_count(bench, kind):
    """No answer, no connection, nonsense."""
    for _ in range(MIN_CALLS):
        bench.call(kind("x"))

    assert bench.breaker.is_open


@pytest.mark.parametrize(
    "error",
    [
        ProviderRequestError("x"),
        ProviderAuthError("x"),
        ProviderRateLimitError("x"),
        ProviderRateLimitError("x", kind="quota"),
        asyncio.CancelledError(),
        ValueError("a bug"),
    ],
)
def test_refusals_and_what_is_not_the_services_fault_do_not(bench, error):
    """A service that refuses a request, a key or a rate works."""
    for _ in range(100):
        bench.call(error)

    assert not bench.breaker.is_open


def test_a_caller_who_leaves_an_answer_leaves_a_good_word(broken):
    """Something had arrived: the service works."""
    broken.now += PAUSE_S
    trial = broken.breaker.call()
    trial.answered = True
    with pytest.raises(asyncio.CancelledError), trial:
        raise asyncio.CancelledError

    assert not broken.breaker.is_open


class BreakerLaws(RuleBasedStateMachine):
    """The breaker beside a model that keeps every report in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.running: list = []
        self.reports: list[tuple[float, bool]] = []
        self.trials: list[tuple[object, float]] = []
        self.paused_until: float | None = None

    @rule(seconds=st.sampled_from([0.0, 0.3, 1.0, 7.0, PAUSE_S, WINDOW_S + 1.0]))
    def wait(self, seconds):
        self.bench.now += seconds

    @rule()
    def begin(self):
        now, breaker = self.bench.now, self.bench.breaker
        was_open, epoch = breaker.is_open, breaker._epoch
        if was_open and now < self.paused_until:
            assert 0 < self.bench.refused().retry_after_s <= PAUSE_S
            return
        call = breaker.call()
        self.running.append((call, epoch))
        if was_open:
            self.trials.append((call, now))
            self.paused_until = now + PAUSE_S

    @precondition(lambda self: self.running)
    @rule(at=st.integers(0, 1000), how=st.sampled_from(["good", "bad", "bad", "cancelled"]))
    def end(self, at, how):
        call, epoch = self.running.pop(at % len(self.running))
        breaker, now = self.bench.breaker, self.bench.now
        was_open, counts = breaker.is_open, epoch == breaker._epoch
        raised = {"good": None, "bad": FAILED, "cancelled": asyncio.CancelledError()}[how]
        call.__exit__(type(raised) if raised else None, raised, None)
        if not counts:
            assert breaker.is_open == was_open, "old news changes nothing"
        elif was_open:
            assert breaker.is_open == (how != "good")
            if how == "good":
                self.reports, self.paused_until, self.trials = [], None, []
            elif how == "bad":
                self.paused_until = now + PAUSE_S
            elif self.trials and self.trials[-1][0] is call:
                self.paused_until = now
        elif how != "cancelled":
            self.reports.append((now, how == "bad"))
            recent = [bad for when, bad in self.reports if int(when) > int(now) - WINDOW_S]
            opens = how == "bad" and len(recent) >= MIN_CALLS and sum(recent) * 2 >= len(recent)
            assert breaker.is_open == opens
            if opens:
                self.paused_until = now + PAUSE_S

    @rule(count=st.integers(1, 30), bad=st.booleans())
    def many(self, count, bad):
        for _ in range(count):
            before = len(self.running)
            self.begin()
            if len(self.running) > before:
                self.end(len(self.running) - 1, "bad" if bad else "good")

    @invariant()
    def an_open_breaker_knows_until_when(self):
        assert (self.paused_until is not None) == self.bench.breaker.is_open


TestBreakerLaws = BreakerLaws.TestCase
TestBreakerLaws.settings = settings(max_examples=examples(60), stateful_step_count=50, deadline=None)
