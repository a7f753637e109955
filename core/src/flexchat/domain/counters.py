"""Counters: amounts that are reserved before something happens, and settled afterwards. Budgets and limits use them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal

import attrs

Period = Literal["", "turn", "hour", "day", "month"]

_LENGTHS = {"": 0, "turn": 30 * 86_400, "hour": 3_600, "day": 86_400, "month": 31 * 86_400}
_US = 1_000_000


@attrs.frozen(kw_only=True)
class Charge:
    """What a reservation takes from one counter, and how much that counter may hold. All amounts are whole numbers.

    Attributes:
        key: Of the counter, the same in every process.
        amount: What is taken.
        ceiling: What the counter may hold at most, with all open reservations.
        spare: What must be left besides the amount, although it is not taken.
        period: How long an amount counts: for an hour, a day or a month of the calendar (UTC), for one turn, or if
            empty, until it is settled.
        refill_us: For a bucket, which is full at first: microseconds until one unit has come back. What is taken from a
            bucket is not settled. 0 for no bucket.
    """

    key: str
    amount: int
    ceiling: int
    spare: int = 0
    period: Period = ""
    refill_us: int = 0

    @property
    def length_us(self) -> int:
        """The length of the period, and of the longest month; 0 without one."""
        return _LENGTHS[self.period] * _US

    def end_of_period(self, now_us: int) -> int:
        """Return when the period of a moment ends, in microseconds since 1970; 0 without one."""
        now = datetime.fromtimestamp(now_us // _US, UTC).replace(minute=0, second=0)
        match self.period:
            case "":
                return 0
            case "turn":
                return now_us + self.length_us
            case "hour":
                end = now + timedelta(hours=1)
            case "day":
                end = now.replace(hour=0) + timedelta(days=1)
            case "month":
                end = (now.replace(day=1, hour=0) + timedelta(days=32)).replace(day=1)
        return int(end.timestamp()) * _US


@attrs.frozen(kw_only=True)
class Refusal:
    """The counter that has no room for a reservation; nothing was taken from any.

    Attributes:
        key: Of the counter.
        left: What it has left, without what those ahead are waiting for.
        retry_after_s: Seconds until it may have room; None if that depends on others, or will never be.
    """

    key: str
    left: int
    retry_after_s: float | None = None


@attrs.frozen(kw_only=True)
class HourlySum:
    """What was settled in one hour for the same labels.

    Attributes:
        hour: Its beginning, "2026-11-28T04:00:00Z".
        labels: What it was for: tenant, rule, tool …
        values: The sums, by name.
    """

    hour: str
    labels: Mapping[str, str]
    values: Mapping[str, int]


def hour_text(hour: int) -> str:
    """Return the beginning of an hour, counted since 1970, as a store shows it."""
    return datetime.fromtimestamp(hour * 3600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
