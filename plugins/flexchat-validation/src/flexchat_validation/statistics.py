"""The verdict on a model after a number of tests: the 80 % line compared with the interval of its rate.

The 95 % interval is Wilson's. It is valid for one look at a number of tests fixed beforehand. If you look after every
test and stop when you like what you see, sooner or later any model near the line is "validated"; so unplanned looks
must also pass a test that allows any number of them: the evidence against "80 % or less" (or "80 % or more") is a
likelihood ratio, averaged over the rates on the other side of the line, and whatever the rate is on the line's wrong
side, the probability that this average ever reaches 40 is at most 1/40 (Ville's inequality).

Wilson's interval is too short at the top for few tests near the line: one failure in one test would put 0.8 outside it.
So a planned "not validated" also needs a probability of so few successes, at a rate of 0.8, of at most 2.5 %. A planned
"validated" needs no such help: for up to 300 tests it is wrong in at most 2.9 % at a rate of 0.8.

The figures are computed in the tests; the sources are named in flexchat/domain/rates.py.
"""

from __future__ import annotations

import math
from typing import Literal

import attrs
from flexchat.host import is_proven, rate_interval

Status = Literal["validated", "not_validated", "undecided"]

LINE = 0.8
"""The rate a model must reach. Source: requirement TC-96."""

MAX_MORE = 10_000
"""Maximum number of further tests that is shown."""

FAR, FAR_TIMES = 100, 20
"""Further tests that are not shown either if they exceed the tests so far by this factor: six cannot predict 1,608."""

_LINE = f"{LINE * 100:.0f} %"
_WRONG = 0.025  # on each side
_GRID = 20
_ABOVE = tuple(LINE + (1 - LINE) * (i + 1) / _GRID for i in range(_GRID))
_BELOW = tuple(LINE * i / _GRID for i in range(_GRID))


@attrs.frozen(kw_only=True)
class Verdict:
    """The statistical verdict on a number of tests.

    Attributes:
        rate: The fraction that succeeded; None without tests.
        low, high: The 95 % interval of the true rate.
        more: Further tests that would decide it if the rate stays the same; None if it is decided, without tests, on
            the line, or if it would take more than MAX_MORE or too many to predict (FAR).
        reason: For people, a sentence without a full stop.
        lacking: The part of it that explains why it is undecided; empty if it is decided, or without tests.
    """

    status: Status
    successes: int
    tests: int
    rate: float | None
    low: float
    high: float
    more: int | None
    reason: str
    lacking: str = ""

    def undecided(self, lacking: str) -> Verdict:
        """Return it as a verdict that proves nothing, and that no number of such tests would decide."""
        counts = _summarise(self.successes, self.tests, self.low, self.high)
        return attrs.evolve(self, status="undecided", more=None, lacking=lacking, reason=f"{counts}: {lacking}")


def verdict(successes: int, tests: int, *, planned: int | None = None, planned_successes: int | None = None) -> Verdict:
    """Compute the verdict on a number of tests.

    Args:
        planned: The number of tests fixed beforehand, or None. planned_successes: If there are more tests than planned,
        the successes among the planned ones: their verdict holds unless all tests together contradict it.

    Raises:
        ValueError: There are more successes than tests, or fewer than none.
    """
    if not 0 <= successes <= tests:
        raise ValueError(f"{successes} of {tests} tests cannot have succeeded")
    first = _first_look(planned, planned_successes) if planned and tests > planned else "undecided"
    status = _status(successes, tests, planned, first)
    more = _more(successes, tests, planned, first) if status == "undecided" and tests else None
    low, high = rate_interval(successes, tests)
    far = more is not None and more > max(FAR, FAR_TIMES * tests)
    lacking = _lacking(successes, tests, more, fixed=tests == planned) if status == "undecided" and tests else ""
    if far:
        more, lacking = None, f"{lacking}, and far from decided"
    return Verdict(
        status=status,
        successes=successes,
        tests=tests,
        rate=successes / tests if tests else None,
        low=low,
        high=high,
        more=more,
        reason=_reason(status, successes, tests, more, lacking),
        lacking=lacking,
    )


def _first_look(planned: int, successes: int | None) -> Status:
    return _status(successes, planned, planned, "undecided") if successes is not None else "undecided"


def _status(successes: float, tests: float, planned: int | None, first: Status) -> Status:
    low, high = rate_interval(successes, tests)
    failures, is_planned = tests - successes, tests == planned
    if low >= LINE and (
        is_planned or first == "validated" or is_proven(_ABOVE, LINE, successes, failures, wrong=_WRONG)
    ):
        return "validated"
    if high < LINE and (
        first == "not_validated"
        or (
            _at_most(successes, tests) <= _WRONG
            if is_planned
            else is_proven(_BELOW, LINE, successes, failures, wrong=_WRONG)
        )
    ):
        return "not_validated"
    return "undecided"


def _at_most(successes: float, tests: float) -> float:
    """Return the probability of at most this many successes at a rate of LINE."""
    count, n = int(successes), int(tests)
    return math.fsum(
        math.exp(
            math.lgamma(n + 1)
            - math.lgamma(k + 1)
            - math.lgamma(n - k + 1)
            + k * math.log(LINE)
            + (n - k) * math.log(1 - LINE)
        )
        for k in range(count + 1)
    )


def _more(successes: int, tests: int, planned: int | None, first: Status) -> int | None:
    """Return the smallest number of further tests that decides; fractions go to the side that is behind."""
    above = successes > LINE * tests

    def at(more: int) -> Status:
        further = successes * more // tests if above else -(-successes * more // tests)
        return _status(successes + further, tests + more, planned, first)

    def could_be(more: int) -> bool:
        # With fractions of a success, more tests at the same rate only make it clearer: the interval shrinks, and the
        # logarithm of the evidence is convex in their number and starts at zero.
        scale = (tests + more) / tests
        return _status(successes * scale, tests * scale, None, first) != "undecided"

    result = None
    if could_be(MAX_MORE):
        low, high = 0, MAX_MORE
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if could_be(middle) else (middle, high)
        result = next((more for more in range(high, MAX_MORE + 1) if at(more) != "undecided"), None)
    until_planned = planned - tests if planned and planned > tests else 0
    if 0 < until_planned <= MAX_MORE and at(until_planned) != "undecided":
        return min(result or until_planned, until_planned)
    return result


def _lacking(successes: int, tests: int, more: int | None, *, fixed: bool) -> str:
    if more is None:
        return f"too near to {_LINE} to be distinguished from it"
    side = _LINE if successes > LINE * tests else f"less than {_LINE}"
    low, high = rate_interval(successes, tests)
    if not fixed and (low >= LINE or high < LINE):
        return f"their number was not fixed beforehand, so they are not enough to be sure of {side}"
    return f"too few to be sure of {side}"


def _reason(status: Status, successes: int, tests: int, more: int | None, lacking: str) -> str:
    if not tests:
        return "not tested"
    counts = _summarise(successes, tests, *rate_interval(successes, tests))
    if status != "undecided":
        return f"{counts}: {'above' if status == 'validated' else 'below'} the line of {_LINE}"
    return f"{counts}: {lacking}" + (f", {more} more like these would do" if more is not None else "")


def _summarise(successes: int, tests: int, low: float, high: float) -> str:
    return f"{successes} of {tests} right; at least {math.floor(low * 100)} %, at most {math.ceil(high * 100)} %"
