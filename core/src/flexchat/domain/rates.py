"""What counts prove about a rate: its interval for one look, and a test that holds however often it is looked at.

Sources: Wilson 1927; Brown, Cai and DasGupta 2001, "Interval Estimation for a Binomial Proportion"; Ramdas, Grünwald,
Vovk and Shafer 2023, "Game-Theoretic Statistics and Safe Anytime-Valid Inference".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_Z = 1.959964  # 97.5 % quantile of the normal distribution


def rate_interval(successes: float, tests: float) -> tuple[float, float]:
    """Return the 95 % Wilson interval of the rate; (0, 1) without tests. It holds for one look."""
    if not tests:
        return 0.0, 1.0
    rate, square = successes / tests, _Z * _Z
    center = rate + square / (2 * tests)
    reach = _Z * math.sqrt(rate * (1 - rate) / tests + square / (4 * tests * tests))
    scale = 1 + square / tests
    return (
        0.0 if successes == 0 else max(0.0, (center - reach) / scale),
        1.0 if successes == tests else min(1.0, (center + reach) / scale),
    )


def is_proven(rates: Sequence[float], line: float, successes: float, failures: float, *, wrong: float) -> bool:
    """Return whether the evidence for these rates, all equally likely, against the line reaches 1 / *wrong*.

    Whatever the rate is on the other side of the line, the probability that this is ever true, of any number of looks
    at counts that grow, is at most *wrong* (Ville's inequality).

    Args:
        rates: All above the line, or all below it.
        line: Between 0 and 1, neither included.
    """
    logs = [
        (successes * math.log(rate / line) if successes else 0.0)
        + (failures * math.log((1 - rate) / (1 - line)) if failures else 0.0)
        for rate in rates
        if not ((successes and rate == 0) or (failures and rate == 1))
    ]
    top = max(logs)
    return top + math.log(sum(math.exp(x - top) for x in logs) / len(rates)) >= -math.log(wrong)
