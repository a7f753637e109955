"""The rows of counters: what a charge finds in one, and what it leaves. Pure, so that stores cannot differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from ..domain.counters import Charge, Refusal


@attrs.frozen
class CounterRow:
    """The row of a counter.

    Attributes:
        used: What was settled in its period.
        held: What is reserved in it.
        until: When its period ends, or its bucket is full again, in microseconds since 1970; 0 for neither.
    """

    used: int = 0
    held: int = 0
    until: int = 0


def current_row(row: CounterRow, charge: Charge, now: int, jumped: int) -> CounterRow:
    """Return a row as it is now: a period that is over begins again, a bucket has been filled meanwhile.

    Args:
        jumped: When the clock was last set forward. What it skipped has not passed: no period ends within its length
            from then on, and each bucket is empty then.
    """
    if charge.refill_us:
        full = charge.ceiling * charge.refill_us
        # At most what fills it from empty, even after the clock was set back.
        return CounterRow(until=min(max(row.until, now, jumped + full), now + full))
    if not charge.period:
        return row
    if not row.until or (now >= row.until and now - jumped >= charge.length_us):
        return CounterRow(until=charge.end_of_period(now))
    if row.until > now + charge.length_us:  # the clock was set back: the amounts stay, for the period of today
        return CounterRow(row.used, row.held, charge.end_of_period(now))
    return row


def charged_row(row: CounterRow, charge: Charge) -> CounterRow:
    """Return a current row with an amount reserved."""
    if charge.refill_us:
        return CounterRow(until=row.until + charge.amount * charge.refill_us)
    return attrs.evolve(row, held=row.held + charge.amount)


def refusal_of(row: CounterRow, charge: Charge, ahead: int, now: int) -> Refusal | None:
    """Return why a current row has no room for a charge; None if it has.

    Args:
        ahead: What those that came earlier are waiting for.
    """
    if charge.refill_us:
        filled_us = now + charge.ceiling * charge.refill_us - row.until
        left = filled_us // charge.refill_us
        wait_us: int | None = (charge.amount + ahead) * charge.refill_us - filled_us
    else:
        left = charge.ceiling - row.used - row.held
        wait_us = row.until - now if charge.period not in ("", "turn") else None
    if left - ahead >= charge.amount + charge.spare:
        return None
    retry_after_s = None if wait_us is None else max(wait_us, 0) / 1e6
    return Refusal(key=charge.key, left=max(left, 0), retry_after_s=retry_after_s)


def take_charges(
    charges: Sequence[Charge],
    now: int,
    jumped: int,
    row_of: Callable[[str], CounterRow],
    ahead_of: Callable[[str], int],
) -> tuple[list[tuple[Charge, CounterRow]], list[Refusal]]:
    """Return each charge with its row after all are taken, or the refusals: then none is."""
    rows = [(charge, current_row(row_of(charge.key), charge, now, jumped)) for charge in charges]
    refusals = [refusal_of(row, charge, ahead_of(charge.key), now) for charge, row in rows]
    found = [refusal for refusal in refusals if refusal is not None]
    return [] if found else [(charge, charged_row(row, charge)) for charge, row in rows], found
