"""Figures in Prometheus' text format, version 0.0.4.

Counters begin anew each month (UTC), which Prometheus takes for a restart: so a scrape reads at most a month of sums.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from .histogram import end_of
from .objectives import Verdict
from .report import Report, Row

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_BOUNDS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


def month_start_s() -> float:
    """Return when this month began, in seconds since 1970."""
    now = datetime.fromtimestamp(time.time(), UTC)
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp()


def format_metrics(report: Report, verdicts: Sequence[Verdict], *, shows_costs: bool) -> str:
    """Return all metrics of a report and of objectives."""
    rules, models, tools = (report.rows[kind] for kind in ("rule", "model", "tool"))
    turns, requests = "flexchat_turns", "flexchat_model_requests"
    lines = _start(f"{turns}_total", "counter", "Turns that have ended.")
    for row in rules:
        states = ("done", "failed", "cancelled")
        lines += [_sample(f"{turns}_total", row.of(state), rule=row.name, state=state) for state in states]
    lines += _start(f"{turns}_at_limit_total", "counter", "Turns whose tool loop a limit ended.")
    lines += [_sample(f"{turns}_at_limit_total", row.of("at_limit"), rule=row.name) for row in rules]
    lines += _start(f"{requests}_total", "counter", "Requests to models.")
    for row in models:
        good, tried = row.outcomes
        for outcome, count in (("ok", good), ("failed", tried - good)):
            lines.append(_sample(f"{requests}_total", count, model=row.name, outcome=outcome))
    name = "flexchat_model_tokens_total"
    lines += _start(name, "counter", "Tokens that models read and wrote.")
    lines += [_sample(name, row.of(kind), model=row.name, type=kind) for row in models for kind in ("input", "output")]
    if shows_costs:
        name = "flexchat_model_cost_usd_total"
        lines += _start(name, "counter", "What models' answers cost, in US dollars.")
        lines += [_sample(name, float(row.cost.known_amount), model=row.name) for row in models]
    name = "flexchat_tool_calls_total"
    lines += _start(name, "counter", "Calls of tools, by their outcome: ok, or the kind of error.")
    for row in tools:
        outcomes = {"ok": row.of("ok"), **row.by("error")}
        lines += [_sample(name, count, tool=row.name, outcome=outcome) for outcome, count in outcomes.items()]
    for kind, label, rows in (("turn", "rule", rules), ("model", "model", models), ("tool", "tool", tools)):
        name = f"flexchat_{kind}_duration_seconds"
        lines += _start(name, "histogram", f"How long each {kind} took.")
        lines += [line for row in rows for line in _histogram(name, label, row)]
    violated, budget = "flexchat_slo_violated", "flexchat_slo_budget_left_ratio"
    about = [({"target": each.target, "objective": each.objective}, each) for each in verdicts]
    lines += _start(violated, "gauge", "Whether an objective is violated.")
    lines += [_sample(violated, each.state == "violated", **labels) for labels, each in about]
    lines += _start(budget, "gauge", "The part of its error budget that an objective has left.")
    lines += [_sample(budget, each.budget_left, **labels) for labels, each in about if each.budget_left is not None]
    return "\n".join(lines) + "\n"


def _histogram(name: str, label: str, row: Row) -> list[str]:
    buckets, its = row.buckets, {label: row.name}
    lines = []
    for bound in (*_BOUNDS_S, math.inf):
        within = sum(n for bucket, n in buckets.items() if end_of(bucket) <= bound * 1000)
        lines.append(_sample(f"{name}_bucket", within, **its, le=f"{bound:g}".replace("inf", "+Inf")))
    sums = _sample(f"{name}_sum", row.of("ms") / 1000, **its), _sample(f"{name}_count", sum(buckets.values()), **its)
    return [*lines, *sums]


def _start(name: str, kind: str, help: str) -> list[str]:
    return [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]


def _sample(name: str, number: float, **labels: str) -> str:
    escaped = (v.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"') for v in labels.values())
    pairs = ",".join(f'{label}="{value}"' for label, value in zip(labels, escaped, strict=True))
    return f"{name}{{{pairs}}} {number:.15g}"
