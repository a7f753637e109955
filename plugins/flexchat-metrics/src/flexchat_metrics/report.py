"""From hourly sums to figures: rows of turns, rules, models, tools and tenants, as commands, page and API show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import attrs
from flexchat.host import counted, rate_interval
from flexchat.store import Cost, HourlySum

from .adding import MAX_NAMES, OTHER
from .histogram import percentile

KINDS = ("turn", "rule", "model", "tool", "tenant")
MAX_ARGUMENTS = 10
"""Of a tool that a report has: the most common."""

Counts = dict[str, int]


@attrs.frozen
class Row:
    """What is known about one name: its measures, added up."""

    kind: str
    name: str
    counts: Mapping[str, int]

    def of(self, measure: str) -> int:
        """Return a count."""
        return self.counts.get(measure, 0)

    def by(self, measure: str) -> dict[str, int]:
        """Return the counts of MEASURE:NAME by name, the largest first."""
        start = f"{measure}:"
        counts = [(key[len(start) :], count) for key, count in self.counts.items() if key.startswith(start)]
        return dict(sorted(counts, key=lambda pair: (-pair[1], pair[0])))

    @property
    def buckets(self) -> dict[int, int]:
        """The counts of durations by bucket; see histogram."""
        return {int(bucket): count for bucket, count in self.by("ms").items()}

    @property
    def outcomes(self) -> tuple[int, int]:
        """How many succeeded, and how many did or failed, without cancelled turns and calls that never ran."""
        if self.kind == "model":
            return min(self.of("ok"), self.of("n")), self.of("n")
        if self.kind == "tool":
            return self.of("ok"), self.of("n") - self.of("error:refused")
        return self.of("done"), self.of("done") + self.of("failed")

    @property
    def cost(self) -> Cost:
        """What its models' answers cost."""
        amount, unpriced = self.of("cost"), self.of("unpriced")
        missing = (f"{counted(unpriced, 'answer')} without a price",) if unpriced else ()
        return Cost(amount=Decimal(amount).scaleb(-12) if amount or not unpriced else None, unpriced=missing)

    def to_dict(self, *, shows_costs: bool = True) -> dict[str, Any]:
        """Return its figures as JSON data."""
        good, tried = self.outcomes
        low, high = rate_interval(good, tried)
        buckets, timed = self.buckets, sum(self.buckets.values())
        times = {f"p{share}": _rounded(percentile(buckets, share / 100)) for share in (50, 95, 99)}
        rate = {"rate": good / tried if tried else None, "low": low, "high": high}
        row: dict[str, Any] = {"name": self.name, "count": self.of("n"), "success": {"of": tried, "good": good, **rate}}
        row["ms"] = {"mean": _rounded(self.of("ms") / timed) if timed else None, **times}
        if self.kind == "tool":
            arguments = [*self.by("argument").items()][:MAX_ARGUMENTS]
            row |= {"errors": self.by("error"), "arguments": [{"text": text, "calls": n} for text, n in arguments]}
            return row
        row["tokens"] = {"input": self.of("input"), "output": self.of("output")}
        row["cost"] = self.cost.to_dict() if shows_costs else None
        row["at_limit"] = self.of("at_limit")
        depths = {int(depth): count for depth, count in self.by("depth").items()}
        mean = sum(depth * n for depth, n in depths.items()) / (sum(depths.values()) or 1)
        row["depth"] = {"mean": round(mean, 2), "max": max(depths, default=0)}
        if self.kind == "model":
            wrong, calls = self.by("error"), self.of("calls")
            selected = calls - wrong.get("not_found", 0) - wrong.get("invalid_arguments", 0)
            row |= {"turns": self.of("turns"), "calls": calls, "errors": wrong}
            row["selection_accuracy"] = selected / calls if calls else None
        else:
            row |= {"cancelled": self.of("cancelled"), "model_ms": self.of("model_ms"), "tool_ms": self.of("tool_ms")}
        return row


@attrs.frozen
class Report:
    """All rows by their kind, each kind with the most frequent name first. The first row of turns is that of all."""

    rows: Mapping[str, Sequence[Row]]

    def find(self, kind: str, name: str) -> Row:
        """Return the row of a name, without counts if there is none."""
        return next((row for row in self.rows[kind] if row.name == name), Row(kind, name, {}))

    def to_dict(self, kinds: Iterable[str] = KINDS, *, shows_costs: bool = True) -> dict[str, Any]:
        """Return the rows as JSON data: "turns", "rules" …"""
        return {f"{kind}s": [row.to_dict(shows_costs=shows_costs) for row in self.rows[kind]] for kind in kinds}


def report_of(sums: Iterable[HourlySum]) -> Report:
    """Add up the sums of hours. Of each kind, the MAX_NAMES most frequent names have rows, and the others one row."""
    by_kind: dict[str, dict[str, Counts]] = {kind: {} for kind in KINDS}
    for each in sums:
        for key, count in each.values.items():
            kind, name, measure = key.split("\t", 2)
            if kind in by_kind:
                _add(by_kind[kind].setdefault(name, {}), measure, count)
                if kind == "turn":
                    _add(by_kind["turn"].setdefault("all", {}), measure, count)
                    _add(by_kind["tenant"].setdefault(each.labels["tenant"], {}), measure, count)
    return Report({kind: _rows(kind, names) for kind, names in by_kind.items()})


def _add(counts: Counts, measure: str, count: int) -> None:
    counts[measure] = counts.get(measure, 0) + count


def _rows(kind: str, names: dict[str, Counts]) -> list[Row]:
    order = sorted(names, key=lambda name: (name == OTHER, -names[name].get("n", 0), name != "all", name))
    for name in order[MAX_NAMES:]:
        if name != OTHER:
            for measure, count in names[name].items():
                _add(names.setdefault(OTHER, {}), measure, count)
    top = [name for name in order[:MAX_NAMES] if name != OTHER]
    return [Row(kind, name, names[name]) for name in (*top, *([OTHER] if OTHER in names else []))]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
