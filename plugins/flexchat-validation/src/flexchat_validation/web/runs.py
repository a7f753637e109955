"""Operations that start, watch, cancel and resume validation runs."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from typing import Any

import attrs
from flexchat import ConfigError, FlexChat
from flexchat_web.shapes import COUNT, TEXT, TEXTS, Schema, body_schema, listed, record, schema_of
from flexchat_web.typing import Call, Event, Operations, Reply

from ..attempts import Attempt, attempt_to_dict
from ..cases import table_of
from ..pricing import estimate
from ..running import Plan, ValidationRun
from ..store import Run, Tally, ValidationStore, run_to_dict
from .background import Live, Runs
from .records import Records, readable, select

MAX_ATTEMPTS = 100_000
"""Maximum number of attempts of a run."""

_SECONDS_BETWEEN = 1.0
"""Shortest time between two reports on a run."""


_COST: Schema = {"type": ["number", "null"]}
_COUNTS = dict.fromkeys(("done", "passed", "failed", "errors"), COUNT)
_RUN = schema_of(Run, "settings", "tenant", plus={**_COUNTS, "cost": _COST})
_NAMES = {"type": "array", "items": {"type": "string", "minLength": 1}}
_REPETITIONS = {"type": "integer", "minimum": 1, "maximum": 1000}
_PLAN = {**body_schema({}, models=_NAMES, cases=_NAMES, tags=_NAMES, runs=_REPETITIONS), "examples": [{"runs": 1}]}
_COST_OF_PLAN = {**_COST, "description": "US dollars, estimated; without the models in unpriced."}
ATTEMPT = schema_of(
    Attempt, "key", "run", "case_hash", "usage", "cost", "details", "tests", "successes", plus={"model_id": TEXT}
)

operation = Operations("validation", problems=(503,))


@operation(
    "POST",
    "/api/validation/runs",
    body=_PLAN,
    body_required=False,
    answers={202: _RUN},
    problems=(404, 409, 422, 503),
)
async def start_run(call: Call) -> Reply:
    """Try cases with models in the background."""
    async with call.serving.chat() as chat:
        plan = await _read_plan(call, chat)

    async def make(chat: FlexChat, store: ValidationStore) -> ValidationRun:
        return await ValidationRun.begin(chat, plan, store, tenant=call.tenant)

    return await _under_way(call, await Runs.of(call).begin(plan.models, make, call.tenant))


async def _read_plan(call: Call, chat: FlexChat) -> Plan:
    """Read the plan of a request.

    Raises:
        ApiError: 404: there is no such case; 422: there is nothing to try, or too much.
    """
    body = call.body or {}
    table = table_of(chat.config)
    cases = await select(call, chat, names=body.get("cases", ()), tags=body.get("tags", ()))
    if not cases:
        raise call.web.ApiError(
            422, "there are no cases to try; write some in a file that [validation] names", kind="no-cases"
        )
    models = body.get("models") or table.models or [*call.web.named_models(call.serving, chat)]
    ids = tuple(dict.fromkeys("/".join(call.web.chosen_model(chat, model)) for model in models))
    plan = Plan(models=ids, cases=cases, runs=int(body.get("runs", table.runs)))
    if plan.planned > MAX_ATTEMPTS:
        raise call.web.ApiError(422, f"that would be {plan.planned:,} attempts; a run makes at most {MAX_ATTEMPTS:,}")
    return plan


@operation(
    "POST",
    "/api/validation/plan",
    body=_PLAN,
    body_required=False,
    answers={
        200: record(
            {
                **dict.fromkeys(("planned", "runs"), COUNT),
                **dict.fromkeys(("models", "cases", "unpriced"), TEXTS),
                "cost": _COST_OF_PLAN,
            }
        )
    },
    problems=(404, 422, 503),
)
async def plan_run(call: Call) -> Reply:
    """Return the number of tests a run would make, and their estimated cost; begins nothing."""
    async with call.serving.chat() as chat:
        plan = await _read_plan(call, chat)
        store = Records.of(call).store(chat)
        costs = {
            model: await estimate(
                chat, table_of(chat.config), model, plan.cases, plan.runs, await store.attempts(model_id=model)
            )
            for model in plan.models
        }
    priced = [cost for cost in costs.values() if cost is not None]
    return call.web.Json(
        {
            "planned": plan.planned,
            "models": list(plan.models),
            "cases": [case.name for case in plan.cases],
            "runs": plan.runs,
            "cost": sum(priced) if priced else None,
            "unpriced": [model for model, cost in costs.items() if cost is None],
        }
    )


@operation("POST", "/api/validation/runs/{id}/resume", answers={202: _RUN}, problems=(404, 409, 422, 503))
async def resume_run(call: Call) -> Reply:
    """Resume a run that was interrupted, cancelled, or failed: its missing attempts are made."""
    earlier, _ = await _own(call)
    if earlier.state in ("running", "finished"):
        under_way = "is in progress" if earlier.state == "running" else "is finished: nothing is missing"
        raise call.web.ApiError(409, f"run {earlier.id} {under_way}", kind="not-resumable")

    async def make(chat: FlexChat, store: ValidationStore) -> ValidationRun:
        cases, problems = await readable(call.serving, chat)
        if problems and not {case.name for case in cases.cases} >= {*earlier.cases}:
            raise ConfigError(problems)
        return await ValidationRun.resume(chat, earlier.id, cases.cases, store)

    return await _under_way(call, await Runs.of(call).begin(earlier.models, make, call.tenant))


async def _under_way(call: Call, run: Run) -> Reply:
    live = Runs.of(call).live(run.id)
    data = _run_data(run, live, Tally())
    return call.web.Json(data, status=202, headers={"location": f"{call.base}/api/validation/runs/{run.id}"})


@operation(
    "GET",
    "/api/validation/runs",
    query={"limit": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50}},
    answers={200: record({"runs": listed(_RUN)})},
)
async def list_runs(call: Call) -> Reply:
    """List runs, the last one first."""
    runs = Runs.of(call)
    async with call.serving.chat() as chat:
        store = Records.of(call).store(chat)
        stored = await store.runs(call.query["limit"], tenant=call.tenant)
        tallies = await store.tallies([run.id for run in stored])
    return call.web.Json({"runs": [_run_data(run, runs.live(run.id), tallies[run.id]) for run in stored]})


@operation(
    "GET",
    "/api/validation/runs/{id}",
    answers={200: record({**_RUN["properties"], "attempts": listed(ATTEMPT)})},
    problems=(404, 503),
)
async def show_run(call: Call) -> Reply:
    """Return a run with its attempts."""
    run, store = await _own(call)
    tallies, attempts = await store.tallies([run.id]), await store.attempts(run=run.id)
    data = _run_data(run, Runs.of(call).live(run.id), tallies[run.id])
    return call.web.Json({**data, "attempts": [attempt_to_dict(attempt) for attempt in attempts]})


@operation("DELETE", "/api/validation/runs/{id}", answers={204: None}, problems=(404, 503))
async def cancel_run(call: Call) -> Reply:
    """Cancel a run; its results are kept."""
    run, store = await _own(call)
    live = Runs.of(call).live(run.id)
    if live is not None and live.run is not None and live.task is not None:
        live.run.cancel()
        await asyncio.wait({live.task})
    elif run.state in ("interrupted", "failed"):
        await store.save_run(attrs.evolve(run, state="cancelled"))
    return call.web.Text(status=204)


@operation("GET", "/api/validation/runs/{id}/events", answers={200: None}, problems=(404, 503), streams=True)
async def watch_run(call: Call) -> Reply:
    """Follow a run: every attempt, and its progress."""
    await _own(call)
    return call.web.Stream(_events(call))


async def _events(call: Call) -> AsyncGenerator[Event, None]:
    """Yield the run, each of its attempts exactly once no matter when watching began, and the run at its end."""
    run, store = await _own(call)
    live = Runs.of(call).live(run.id)

    async def snapshot() -> Event:
        tallies = await store.tallies([run.id])
        return call.web.Event("run", _run_data(await store.run(run.id), live, tallies[run.id]))

    yield await snapshot()
    sent: set[str] = set()
    for attempt in await store.attempts(run=run.id):
        sent.add(attempt.id)
        yield call.web.Event("attempt", attempt_to_dict(attempt))
    at, last = 0, time.monotonic()
    while live is not None:
        changed, over = live.changed, live.over
        while at < len(live.made):
            attempt = live.made[at]
            at += 1
            if attempt.id not in sent:
                yield call.web.Event("attempt", attempt_to_dict(attempt))
        if over:
            break
        if time.monotonic() - last >= _SECONDS_BETWEEN:
            last = time.monotonic()
            yield await snapshot()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS_BETWEEN):
                await changed.wait()
    live = None
    yield await snapshot()


async def _own(call: Call) -> tuple[Run, ValidationStore]:
    """Return one of the caller's runs, and where it is kept.

    Raises:
        ApiError: 404, for others' runs as well as missing ones.
    """
    id = call.path["id"]
    async with call.serving.chat() as chat:
        store = Records.of(call).store(chat)
    run = next((run for run in await store.runs(-1, tenant=call.tenant) if run.id == id), None)
    if run is None:
        raise call.web.ApiError(404, f"there is no validation run '{id[:80]}'", kind="unknown-run")
    return run, store


def _run_data(run: Run, live: Live | None, tally: Tally) -> dict[str, Any]:
    """Convert a run to JSON data, with its live progress while it runs, otherwise with the stored one."""
    data: dict[str, Any] = {
        **{name: value for name, value in run_to_dict(run).items() if name not in ("settings", "tenant")},
        **{name: getattr(tally, name) for name in ("done", "passed", "failed", "errors", "cost")},
    }
    if live is not None and live.run is not None:
        now = live.run.progress
        data |= {name: getattr(now, name) for name in ("state", "done", "passed", "failed", "errors")}
        data |= {"eta_s": now.eta_s, "waiting": now.waiting}
    return data
