"""Validation runs in the background, and the operations that start, watch, cancel and resume them.

They continue when the client leaves, and can be watched from anywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import attrs
from flexchat import ConfigError, FlexChat
from flexchat.host import error_name
from flexchat_web.shapes import Schema, body_schema, listed, record, schema_of
from flexchat_web.typing import ApiError, Call, Event, Operations, Reply, Serving

from ..attempts import Attempt, attempt_to_dict
from ..cases import table_of
from ..pricing import estimate
from ..running import Plan, ValidationRun
from ..store import Run, Tally, ValidationStore, run_to_dict
from .records import Stores, readable, select, store_of

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 100_000
"""Maximum number of attempts of a run."""

_SECONDS_BETWEEN = 1.0
"""Shortest time between two reports on a run."""

Begin = Callable[[FlexChat, ValidationStore], Awaitable[ValidationRun]]


_COST: Schema = {"type": ["number", "null"]}
_COUNTS = dict.fromkeys(("done", "passed", "failed", "errors"), int)
_RUN = schema_of(Run, "settings", "tenant", plus={**_COUNTS, "cost": _COST})
_NAMES = {"type": "array", "items": {"type": "string", "minLength": 1}}
_REPETITIONS = {"type": "integer", "minimum": 1, "maximum": 1000}
_PLAN = {**body_schema({}, models=_NAMES, cases=_NAMES, tags=_NAMES, runs=_REPETITIONS), "examples": [{"runs": 1}]}
_COST_OF_PLAN = {**_COST, "description": "US dollars, estimated; without the models in unpriced."}
ATTEMPT = schema_of(
    Attempt, "key", "run", "case_hash", "usage", "cost", "details", "tests", "successes", plus={"model_id": str}
)

operation = Operations("validation", problems=(503,))


@attrs.define(eq=False)
class Live:
    """A run in progress.

    Attributes:
        made: The attempts since it was started or resumed.
        changed: Set when there is more to report; then replaced by a new one for the next wait.
    """

    models: tuple[str, ...]
    made: list[Attempt] = attrs.field(factory=list)
    changed: asyncio.Event = attrs.field(factory=asyncio.Event)
    run: ValidationRun | None = None
    task: asyncio.Task[None] | None = None
    over: bool = False

    def wake(self) -> None:
        """Wake the watchers."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


class Runs:
    """The runs of a server. When it ends they are interrupted, and can be resumed."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._stores = serving.shared(Stores)  # made first, and so closed last: runs write to them as they end
        self._live: dict[str, Live] = {}
        self._beginning: set[Live] = set()

    async def begin(self, models: tuple[str, ...], make: Begin, tenant: str) -> Run:
        """Start or continue a tenant's run in the background; return its record.

        Raises:
            ApiError: 409: one of its models is being tried by another run.
        """
        live = Live(models)
        for other in {*self._live.values(), *self._beginning}:
            if not other.over and (shared := set(models) & set(other.models)):
                run = other.run.run if other.run is not None else None
                under_way = f" ({run.id})" if run is not None and run.tenant == tenant else ""
                text = f"a run{under_way} is trying {', '.join(sorted(shared))} already; wait for it, or cancel it"
                raise ApiError(409, text, kind="run-under-way")
        self._beginning.add(live)
        begun: asyncio.Future[Run] = asyncio.get_running_loop().create_future()
        begun.add_done_callback(lambda it: it.cancelled() or it.exception())  # the client may have left
        live.task = asyncio.create_task(self._work(live, make, begun))
        return await asyncio.shield(begun)

    def live(self, id: str) -> Live | None:
        """Return a run that is in progress; None if it is not."""
        return self._live.get(id)

    async def aclose(self) -> None:
        """Interrupt the runs in progress."""
        tasks = [live.task for live in {*self._live.values(), *self._beginning} if live.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, live: Live, make: Begin, begun: asyncio.Future[Run]) -> None:
        try:
            async with self._serving.chat() as chat:
                live.run = run = await make(chat, self._stores.of(chat))
                self._live[run.run.id] = live
                self._beginning.discard(live)
                begun.set_result(run.run)
                async with contextlib.aclosing(run.events()) as events:
                    async for event in events:
                        if isinstance(event, Attempt):
                            live.made.append(event)
                        live.wake()
        except Exception as error:  # noqa: BLE001  reported to the client or stored with the run, and logged
            if not begun.done():
                begun.set_exception(error)
            else:
                log.error("validation run: %s", self._serving.mask(error_name(error)))
        finally:
            begun.cancel()
            live.over = True
            self._beginning.discard(live)
            if live.run is not None:
                self._live.pop(live.run.run.id, None)
            live.wake()


@operation(
    "POST",
    "/api/validation/runs",
    body=_PLAN,
    body_required=False,
    answers={202: _RUN},
    problems=(404, 409, 422, 503),
)
async def start_run(call: Call, chat: FlexChat) -> Reply:
    """Try cases with models in the background."""
    plan = await _read_plan(call, chat)

    async def make(chat: FlexChat, store: ValidationStore) -> ValidationRun:
        return await ValidationRun.begin(chat, plan, store, tenant=call.tenant)

    return await _under_way(call, await call.serving.shared(Runs).begin(plan.models, make, call.tenant))


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
    answer=record(
        {
            **dict.fromkeys(("planned", "runs"), int),
            **dict.fromkeys(("models", "cases", "unpriced"), list[str]),
            "cost": _COST_OF_PLAN,
        }
    ),
    problems=(404, 422, 503),
)
async def plan_run(call: Call, chat: FlexChat) -> Reply:
    """Return the number of tests a run would make, and their estimated cost; begins nothing."""
    plan, store, table = await _read_plan(call, chat), store_of(call, chat), table_of(chat.config)
    costs = {
        model: await estimate(chat, table, model, plan.cases, plan.runs, await store.attempts(model_id=model))
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

    return await _under_way(call, await call.serving.shared(Runs).begin(earlier.models, make, call.tenant))


async def _under_way(call: Call, run: Run) -> Reply:
    live = call.serving.shared(Runs).live(run.id)
    data = _run_data(run, live, Tally())
    return call.web.Json(data, status=202, headers={"location": f"{call.base}/api/validation/runs/{run.id}"})


@operation(
    "GET",
    "/api/validation/runs",
    query={"limit": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50}},
    answer=record({"runs": listed(_RUN)}),
)
async def list_runs(call: Call, chat: FlexChat) -> Reply:
    """List runs, newest first."""
    runs, store = call.serving.shared(Runs), store_of(call, chat)
    stored = await store.runs(call.query["limit"], tenant=call.tenant)
    tallies = await store.tallies([run.id for run in stored])
    return call.web.Json({"runs": [_run_data(run, runs.live(run.id), tallies[run.id]) for run in stored]})


@operation(
    "GET",
    "/api/validation/runs/{id}",
    answer=record({**_RUN["properties"], "attempts": listed(ATTEMPT)}),
    problems=(404, 503),
)
async def show_run(call: Call) -> Reply:
    """Return a run with its attempts."""
    run, store = await _own(call)
    tallies, attempts = await store.tallies([run.id]), await store.attempts(run=run.id)
    data = _run_data(run, call.serving.shared(Runs).live(run.id), tallies[run.id])
    return call.web.Json({**data, "attempts": [attempt_to_dict(attempt) for attempt in attempts]})


@operation("DELETE", "/api/validation/runs/{id}", answers={204: None}, problems=(404, 503))
async def cancel_run(call: Call) -> Reply:
    """Cancel a run; its results are kept."""
    run, store = await _own(call)
    live = call.serving.shared(Runs).live(run.id)
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
    live = call.serving.shared(Runs).live(run.id)

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
        store = store_of(call, chat)
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
