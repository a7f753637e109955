"""Whether objectives are met: verdicts that hold however often they are looked at.

A window is a stretch of the calendar: windows of 28 days follow one another, and the first began with 1970. A rolling
one would be another test each hour, and among so many, one is wrong sooner or later. In each window and for each
objective, the probability that a look at it is ever wrong is at most 5 %: 2.5 % on each side. Wilson's interval, which
is for one look, would be wrong far more often.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs
from flexchat.host import duration_s, is_proven
from flexchat.store import HourlySum, TurnSums, hour_text

from .histogram import end_of
from .report import Row, report_of
from .settings import Objective

State = Literal["met", "violated", "insufficient data"]

WRONG = 0.025
"""On each side: the probability that a verdict is ever wrong in a window."""

P95 = 0.95
MAX_CAUSES = 3
_GRID = 40


@attrs.frozen(kw_only=True)
class Verdict:
    """What is known about one objective in the window that is open.

    Attributes:
        target: "tool.get_weather".
        objective: "success", "done" or "p95_ms".
        line: The share that is required.
        limit_ms: Of a p95_ms: the duration.
        good, tried: How many calls or turns were as required, and how many there were.
        began: When the window began: "2026-11-05T00:00:00Z".
        budget_left: The part of the failures that the line allows so far that has not been spent: 1 for all, negative
            if more is spent; None without calls.
        causes: What spent it, the largest first: kinds of error, and how often.
    """

    target: str
    objective: str
    line: float
    limit_ms: float | None
    state: State
    good: int
    tried: int
    window: str
    began: str
    budget_left: float | None
    causes: Sequence[tuple[str, int]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data."""
        causes = [{"cause": cause, "count": count} for cause, count in self.causes]
        return {**attrs.asdict(self), "causes": causes}


async def judge(
    objectives: Mapping[str, Objective], sums: TurnSums, *, tenant: str | None = None, now_s: float | None = None
) -> list[Verdict]:
    """Return the verdicts on all objectives, in their windows. Raises StorageError.

    Args:
        tenant: Whose turns count; None for all.
    """
    now = time.time() if now_s is None else now_s
    starts = {target: now - now % duration_s(each.window) for target, each in objectives.items()}
    rows = await sums.read(tenant=tenant, since_s=min(starts.values())) if starts else ()
    return [
        verdict
        for target, objective in objectives.items()
        for verdict in _judge_one(target, objective, starts[target], rows)
    ]


def _judge_one(target: str, objective: Objective, start: float, sums: Sequence[HourlySum]) -> list[Verdict]:
    began = hour_text(int(start // 3600))
    kind, _, name = target.partition(".")
    row = report_of(each for each in sums if each.hour >= began).find(kind, name)
    good, tried = row.outcomes
    about: dict[str, Any] = {"target": target, "window": objective.window, "began": began}
    verdicts = []
    for field, line in (("success", objective.success), ("done", objective.done)):
        if line is not None:
            facts = {"state": state_of(line, good, good, tried), "causes": _causes(row), **_spent(line, good, tried)}
            verdicts.append(Verdict(objective=field, line=line, limit_ms=None, **facts, **about))
    if objective.p95_ms is not None:
        ends = [(end_of(bucket - 1) if bucket else 0.0, end_of(bucket), n) for bucket, n in row.buckets.items()]
        # Of the bucket that has the limit in it, it is not known how many took longer.
        surely = sum(n for _, end, n in ends if end <= objective.p95_ms)
        perhaps = sum(n for start, _, n in ends if start < objective.p95_ms)
        timed = sum(n for _, _, n in ends)
        facts = {"state": state_of(P95, surely, perhaps, timed), **_spent(P95, surely, timed)}
        verdicts.append(Verdict(objective="p95_ms", line=P95, limit_ms=objective.p95_ms, **facts, **about))
    return verdicts


def state_of(line: float, surely_good: int, perhaps_good: int, tried: int) -> State:
    """Judge counts by a line, however often they are looked at while they grow."""
    if perhaps_good < tried and is_proven(_below(line), line, perhaps_good, tried - perhaps_good, wrong=WRONG):
        return "violated"
    if surely_good and is_proven(_above(line), line, surely_good, tried - surely_good, wrong=WRONG):
        return "met"
    return "insufficient data"


def _below(line: float) -> list[float]:
    """Rates below a line: their shares of failures grow by the same factor, from just above what is allowed to 1."""
    return [1 - (1 - line) ** (1 - (i + 1) / _GRID) for i in range(_GRID)]


def _above(line: float) -> list[float]:
    return [line + (1 - line) * (i + 1) / _GRID for i in range(_GRID)]


def _spent(line: float, good: int, tried: int) -> dict[str, Any]:
    budget = 1 - (tried - good) / ((1 - line) * tried) if tried else None
    return {"good": good, "tried": tried, "budget_left": budget}


def _causes(row: Row) -> list[tuple[str, int]]:
    counts = row.by("error") if row.kind == "tool" else row.by("cause")
    return [(cause, n) for cause, n in counts.items() if cause != "refused"][:MAX_CAUSES]
