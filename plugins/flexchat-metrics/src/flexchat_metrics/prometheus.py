"""Figures in Prometheus' text format, version 0.0.4.

Counters begin anew each month (UTC), which Prometheus takes for a restart: so a scrape reads at most a month of sums.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from .histogram import end_of
from .objectives import Verdict
from .report import Report, Row

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_BOUNDS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)

Sample = tuple[Mapping[str, str], float]


def month_start_s() -> float:
    """Return when this month began, in seconds since 1970."""
    now = datetime.fromtimestamp(time.time(), UTC)
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp()


def format_metrics(report: Report, verdicts: Sequence[Verdict], *, shows_costs: bool) -> str:
    """Return all metrics of a report and of objectives."""
    rules, models, tools = (report.rows[kind] for kind in ("rule", "model", "tool"))
    lines: list[str] = []

    def add(name: str, kind: str, help: str, samples: Iterator[Sample]) -> None:
        lines.extend((f"# HELP {name} {help}", f"# TYPE {name} {kind}"))
        lines.extend(f"{name}{_labels(labels)} {value:.15g}" for labels, value in samples)

    states = ("done", "failed", "cancelled")
    add(
        "flexchat_turns_total",
        "counter",
        "Turns that have ended.",
        (({"rule": row.name, "state": state}, row.of(state)) for row in rules for state in states),
    )
    add(
        "flexchat_turns_at_limit_total",
        "counter",
        "Turns whose tool loop a limit ended.",
        (({"rule": row.name}, row.of("at_limit")) for row in rules),
    )
    add(
        "flexchat_model_requests_total",
        "counter",
        "Requests to models.",
        (sample for row in models for sample in _outcomes(row)),
    )
    add(
        "flexchat_model_tokens_total",
        "counter",
        "Tokens that models read and wrote.",
        (({"model": row.name, "type": kind}, row.of(kind)) for row in models for kind in ("input", "output")),
    )
    if shows_costs:
        add(
            "flexchat_model_cost_usd_total",
            "counter",
            "What models' answers cost, in US dollars.",
            (({"model": row.name}, float(row.cost.known_amount)) for row in models),
        )
    add(
        "flexchat_tool_calls_total",
        "counter",
        "Calls of tools, by their outcome: ok, or the kind of error.",
        (({"tool": row.name, "outcome": kind}, n) for row in tools for kind, n in _calls(row)),
    )
    for kind, rows, what in (("turn", rules, "turns"), ("model", models, "requests"), ("tool", tools, "calls")):
        name, label = f"flexchat_{kind}_duration_seconds", "rule" if kind == "turn" else kind
        lines.extend((f"# HELP {name} How long {what} took.", f"# TYPE {name} histogram"))
        for row in rows:
            lines.extend(_histogram(name, label, row))
    add(
        "flexchat_slo_violated",
        "gauge",
        "Whether an objective is violated.",
        ((_objective(each), float(each.state == "violated")) for each in verdicts),
    )
    add(
        "flexchat_slo_budget_left_ratio",
        "gauge",
        "The part of its error budget that an objective has left.",
        ((_objective(each), each.budget_left) for each in verdicts if each.budget_left is not None),
    )
    return "\n".join(lines) + "\n"


def _outcomes(row: Row) -> Iterator[Sample]:
    good, tried = row.outcomes
    yield {"model": row.name, "outcome": "ok"}, good
    yield {"model": row.name, "outcome": "failed"}, tried - good


def _calls(row: Row) -> Iterator[tuple[str, int]]:
    yield "ok", row.of("ok")
    yield from row.by("error").items()


def _histogram(name: str, label: str, row: Row) -> Iterator[str]:
    buckets = row.buckets
    total = sum(buckets.values())
    for bound in _BOUNDS_S:
        within = sum(n for bucket, n in buckets.items() if end_of(bucket) <= bound * 1000)
        yield f"{name}_bucket{_labels({label: row.name, 'le': f'{bound:g}'})} {within}"
    yield f"{name}_bucket{_labels({label: row.name, 'le': '+Inf'})} {total}"
    yield f"{name}_sum{_labels({label: row.name})} {row.of('ms') / 1000:.15g}"
    yield f"{name}_count{_labels({label: row.name})} {total}"


def _objective(verdict: Verdict) -> Mapping[str, str]:
    return {"target": verdict.target, "objective": verdict.objective}


def _labels(labels: Mapping[str, str]) -> str:
    escaped = (v.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"') for v in labels.values())
    return "{" + ",".join(f'{name}="{value}"' for name, value in zip(labels, escaped, strict=True)) + "}"
