"""Operations that start, watch, cancel and resume validation runs."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import attrs
from flexchat import ConfigError, FlexChat

from ..attempts import attempt_to_dict
from ..cases import table_of
from ..running import Plan, ValidationRun
from ..store import Run, Tally, ValidationStore
from . import cases as case_files
from .background import Live, Runs
from .records import Records
from .shapes import COUNT, NULLABLE_TEXT, NUMBER, TABLE, TEXT, TEXTS, body_schema, listed, record

if TYPE_CHECKING:
    from flexchat_web.typing import Call, Event, Operation, Reply, Web

MOST_TRIES = 100_000
"""Tries a run may plan."""

_SECONDS_BETWEEN = 1.0
"""Shortest time between two reports on a run."""


async def _start(call: Call) -> Reply:
    async with call.serving.chat() as chat:
        plan = await plan_of(call, chat)

    async def make(chat: FlexChat, store: ValidationStore) -> ValidationRun:
        return await ValidationRun.begin(chat, plan, store, tenant=call.tenant)

    return await _under_way(call, await Runs.of(call).begin(plan.models, make, call.tenant))


async def plan_of(call: Call, chat: FlexChat) -> Plan:
    """Read the plan of a request.

    Raises:
        ApiError: 404: there is no such case; 422: there is nothing to try, or too much.
    """
    body = call.body or {}
    table = table_of(chat.config)
    found = await case_files.select(call, chat, names=body.get("cases", ()), tags=body.get("tags", ()))
    if not found:
        raise call.web.ApiError(
            422, "there are no cases to try; write some in a file that [validation] names", kind="no-cases"
        )
    wanted = body.get("models") or table.models or [*call.web.named_models(call.serving, chat)]
    models = tuple(dict.fromkeys("/".join(call.web.chosen_model(chat, model)) for model in wanted))
    plan = Plan(models=models, cases=found, runs=int(body.get("runs", table.runs)))
    attempts = len(models) * len(found) * plan.runs
    if attempts > MOST_TRIES:
        raise call.web.ApiError(422, f"that would be {attempts:,} attempts; a run makes at most {MOST_TRIES:,}")
    return plan


async def _resume(call: Call) -> Reply:
    earlier, _ = await _own(call)
    if earlier.state in ("running", "finished"):
        under_way = "is in progress" if earlier.state == "running" else "is finished: nothing is missing"
        raise call.web.ApiError(409, f"run {earlier.id} {under_way}", kind="not-resumable")

    async def make(chat: FlexChat, store: ValidationStore) -> ValidationRun:
        found, problems = await case_files.readable(call.serving, chat)
        if problems and not {case.name for case in found.cases} >= {*earlier.cases}:
            raise ConfigError(problems)
        return await ValidationRun.resume(chat, earlier.id, found.cases, store)

    return await _under_way(call, await Runs.of(call).begin(earlier.models, make, call.tenant))


async def _under_way(call: Call, run: Run) -> Reply:
    live = Runs.of(call).live(run.id)
    data = _run_data(run, live, Tally())
    return call.web.Json(data, status=202, headers={"location": f"{call.base}/api/validation/runs/{run.id}"})


async def _list(call: Call) -> Reply:
    runs = Runs.of(call)
    async with call.serving.chat() as chat:
        store = Records.of(call).store(chat)
        found = await store.runs(call.query["limit"], tenant=call.tenant)
        tallies = await store.tallies([run.id for run in found])
    return call.web.Json({"runs": [_run_data(run, runs.live(run.id), tallies[run.id]) for run in found]})


async def _show(call: Call) -> Reply:
    run, store = await _own(call)
    tallies, attempts = await store.tallies([run.id]), await store.attempts(run=run.id)
    data = _run_data(run, Runs.of(call).live(run.id), tallies[run.id])
    return call.web.Json({**data, "attempts": [attempt_to_dict(attempt) for attempt in attempts]})


async def _cancel(call: Call) -> Reply:
    run, store = await _own(call)
    live = Runs.of(call).live(run.id)
    if live is not None and live.run is not None and live.task is not None:
        live.run.cancel()
        await asyncio.wait({live.task})
    elif run.state in ("interrupted", "failed"):
        await store.save_run(attrs.evolve(run, state="cancelled"))
    return call.web.Text(status=204)


async def _watch(call: Call) -> Reply:
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
        "id": run.id,
        "state": run.state,
        "models": list(run.models),
        "cases": list(run.cases),
        "runs": run.runs,
        "planned": run.planned,
        "done": tally.done,
        "passed": tally.passed,
        "failed": tally.failed,
        "errors": tally.errors,
        "cost": tally.cost,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "problem": run.problem,
    }
    if live is not None and live.run is not None:
        now = live.run.progress
        data |= {name: getattr(now, name) for name in ("state", "done", "passed", "failed", "errors")}
        data |= {"eta_s": now.eta_s, "waiting": now.waiting}
    return data


_RUN = {
    "id": TEXT,
    "state": {"enum": ["running", "finished", "cancelled", "failed", "interrupted"]},
    "models": TEXTS,
    "cases": TEXTS,
    "runs": COUNT,
    "planned": COUNT,
    "done": COUNT,
    "passed": COUNT,
    "failed": COUNT,
    "errors": COUNT,
    "cost": {"type": ["number", "null"]},
    "started_at": TEXT,
    "ended_at": NULLABLE_TEXT,
    "problem": NULLABLE_TEXT,
}
ATTEMPT = record(
    {
        "id": TEXT,
        "model_id": TEXT,
        "case": NULLABLE_TEXT,
        "repetition": COUNT,
        "outcome": {"enum": ["passed", "failed", "error"]},
        "aspects": TABLE,
        "problems": TEXTS,
        "calls": listed(TABLE),
        "content": TEXT,
        "elapsed_ms": NUMBER,
        "at": TEXT,
    }
)
_NAMES = {"type": "array", "items": {"type": "string", "minLength": 1}}
_REPETITIONS = {"type": "integer", "minimum": 1, "maximum": 1000}
WANTED = {**body_schema({}, models=_NAMES, cases=_NAMES, tags=_NAMES, runs=_REPETITIONS), "examples": [{"runs": 1}]}


def operations(web: Web) -> tuple[Operation, ...]:
    """Create the operations of the HTTP API."""
    return (
        web.Operation(
            method="POST",
            path="/api/validation/runs",
            name="start_run",
            summary="Try cases with models in the background.",
            tag="validation",
            handle=_start,
            body=WANTED,
            body_required=False,
            answers={202: record(_RUN)},
            problems=(404, 409, 422, 503),
        ),
        web.Operation(
            method="GET",
            path="/api/validation/runs",
            name="list_runs",
            summary="List runs, the last one first.",
            tag="validation",
            handle=_list,
            query={"limit": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50}},
            answers={200: record({"runs": listed(record(_RUN))})},
            problems=(503,),
        ),
        web.Operation(
            method="GET",
            path="/api/validation/runs/{id}",
            name="show_run",
            summary="Return a run with its attempts.",
            tag="validation",
            handle=_show,
            answers={200: record({**_RUN, "attempts": listed(ATTEMPT)})},
            problems=(404, 503),
        ),
        web.Operation(
            method="DELETE",
            path="/api/validation/runs/{id}",
            name="cancel_run",
            summary="Cancel a run; what it has found is kept.",
            tag="validation",
            handle=_cancel,
            answers={204: None},
            problems=(404, 503),
        ),
        web.Operation(
            method="POST",
            path="/api/validation/runs/{id}/resume",
            name="resume_run",
            summary="Go on with a run that was interrupted, cancelled, or failed: what is missing is tried.",
            tag="validation",
            handle=_resume,
            answers={202: record(_RUN)},
            problems=(404, 409, 422, 503),
        ),
        web.Operation(
            method="GET",
            path="/api/validation/runs/{id}/events",
            name="watch_run",
            summary="Follow a run: every attempt, and how far it is.",
            tag="validation",
            handle=_watch,
            answers={200: None},
            problems=(404, 503),
            streams=True,
        ),
    )
