"""Validation runs: work of the server's own, which goes on when the client goes, and can be watched from anywhere."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import attrs
from flexchat import FlexChat
from flexchat.validation.attempt_json import attempt_to_dict
from flexchat.validation.attempts import Attempt
from flexchat.validation.running import Plan, ValidationRun
from flexchat.validation.store import Run, Tally, ValidationStore

from ..operations import Call, Event, Json, Operation, Reply, Stream, Text
from ..problems import ApiError
from ..serving import Serving
from . import cases as case_files
from .records import Records, chosen_model, named_models, validation_table
from .shapes import COUNT, NULLABLE_TEXT, NUMBER, TABLE, TEXT, TEXTS, listed, record, taken

log = logging.getLogger(__name__)

MOST_TRIES = 100_000
"""Tries a run may plan."""

_SECONDS_BETWEEN = 1.0
"""How often a run is told at most while it goes on."""

Begin = Callable[[FlexChat, ValidationStore], Awaitable[ValidationRun]]


@attrs.define(eq=False)
class Live:
    """A run under way.

    Attributes:
        made: The attempts since it was begun or resumed.
        changed: Set when there is more to tell; whoever waits takes the one that is there.
    """

    models: tuple[str, ...]
    made: list[Attempt] = attrs.field(factory=list)
    changed: asyncio.Event = attrs.field(factory=asyncio.Event)
    run: ValidationRun | None = None
    task: asyncio.Task[None] | None = None
    over: bool = False

    def tell(self) -> None:
        """Wake those who watch."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


class Runs:
    """The runs of a server. When it ends they are interrupted, and can be resumed."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._live: dict[str, Live] = {}
        self._beginning: set[Live] = set()

    @classmethod
    def of(cls, serving: Serving) -> Runs:
        """Return the one of a server."""
        Records.of(serving)  # made first, and so closed last: runs write to its stores as they end
        return serving.kept(cls, lambda: cls(serving))

    async def begin(self, models: tuple[str, ...], make: Begin, tenant: str) -> Run:
        """Begin a run of a tenant in the background, or go on with one; return its record.

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
        begun.add_done_callback(lambda it: it.cancelled() or it.exception())  # who asked may have gone
        live.task = asyncio.create_task(self._work(live, make, begun))
        return await asyncio.shield(begun)

    def live(self, id: str) -> Live | None:
        """Return a run that is under way; None if it is not."""
        return self._live.get(id)

    async def aclose(self) -> None:
        """Interrupt what is under way."""
        tasks = [live.task for live in {*self._live.values(), *self._beginning} if live.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, live: Live, make: Begin, begun: asyncio.Future[Run]) -> None:
        try:
            async with self._serving.chat() as chat:
                live.run = run = await make(chat, Records.of(self._serving).store(chat))
                self._live[run.run.id] = live
                self._beginning.discard(live)
                begun.set_result(run.run)
                async with contextlib.aclosing(run.events()) as events:
                    async for event in events:
                        if isinstance(event, Attempt):
                            live.made.append(event)
                        live.tell()
        except Exception as error:  # noqa: BLE001  told to who asked, or kept with the run, and in the log
            if not begun.done():
                begun.set_exception(error)
            else:
                log.error("validation run: %s", self._serving.mask(f"{type(error).__name__}: {error}"))
        finally:
            begun.cancel()
            live.over = True
            self._beginning.discard(live)
            if live.run is not None:
                self._live.pop(live.run.run.id, None)
            live.tell()


async def _start(call: Call) -> Reply:
    async with call.serving.chat() as chat:
        plan = await plan_of(call, chat)

    async def make(chat: FlexChat, store: ValidationStore) -> ValidationRun:
        return await ValidationRun.begin(chat, plan, store, tenant=call.tenant)

    return await _under_way(call, await Runs.of(call.serving).begin(plan.models, make, call.tenant))


async def plan_of(call: Call, chat: FlexChat) -> Plan:
    """Return what a request wants to be tried.

    Raises:
        ApiError: 404: there is no such case; 422: there is nothing to try, or too much.
    """
    body = call.body or {}
    table = validation_table(chat)
    found = case_files.chosen(
        await case_files.read(call.serving, chat), names=body.get("cases", ()), tags=body.get("tags", ())
    )
    if not found:
        raise ApiError(422, "there are no cases to try; write some in a file that [validation] names", kind="no-cases")
    wanted = body.get("models") or table.models or [*named_models(chat)]
    models = tuple(dict.fromkeys("/".join(chosen_model(chat, model)) for model in wanted))
    plan = Plan(models=models, cases=found, runs=int(body.get("runs", table.runs)))
    tries = len(models) * len(found) * plan.runs
    if tries > MOST_TRIES:
        raise ApiError(422, f"that would be {tries:,} tries; a run makes at most {MOST_TRIES:,}")
    return plan


async def _resume(call: Call) -> Reply:
    earlier, _ = await _own(call)
    if earlier.state in ("running", "finished"):
        under_way = "is under way" if earlier.state == "running" else "is finished: nothing is missing"
        raise ApiError(409, f"run {earlier.id} {under_way}", kind="not-resumable")

    async def make(chat: FlexChat, store: ValidationStore) -> ValidationRun:
        found = await case_files.read(call.serving, chat)
        return await ValidationRun.resume(chat, earlier.id, found.cases, store)

    return await _under_way(call, await Runs.of(call.serving).begin(earlier.models, make, call.tenant))


async def _under_way(call: Call, run: Run) -> Reply:
    live = Runs.of(call.serving).live(run.id)
    told = _told(run, live, Tally())
    return Json(told, status=202, headers={"location": f"{call.base}/api/validation/runs/{run.id}"})


async def _list(call: Call) -> Reply:
    runs = Runs.of(call.serving)
    async with call.serving.chat() as chat:
        store = Records.of(call.serving).store(chat)
        found = await store.runs(call.query["limit"], tenant=call.tenant)
        tallies = await store.tallies([run.id for run in found])
    return Json({"runs": [_told(run, runs.live(run.id), tallies[run.id]) for run in found]})


async def _show(call: Call) -> Reply:
    run, store = await _own(call)
    tallies, attempts = await store.tallies([run.id]), await store.attempts(run=run.id)
    told = _told(run, Runs.of(call.serving).live(run.id), tallies[run.id])
    return Json({**told, "attempts": [attempt_to_dict(attempt) for attempt in attempts]})


async def _cancel(call: Call) -> Reply:
    run, store = await _own(call)
    live = Runs.of(call.serving).live(run.id)
    if live is not None and live.run is not None and live.task is not None:
        live.run.cancel()
        await asyncio.wait({live.task})
    elif run.state in ("interrupted", "failed"):
        await store.save_run(attrs.evolve(run, state="cancelled"))
    return Text(status=204)


async def _watch(call: Call) -> Reply:
    await _own(call)
    return Stream(_events(call))


async def _events(call: Call) -> AsyncGenerator[Event, None]:
    """Yield the run, each of its attempts exactly once whenever one begins to watch, and the run at its end."""
    run, store = await _own(call)
    live = Runs.of(call.serving).live(run.id)

    async def told() -> Event:
        tallies = await store.tallies([run.id])
        return Event("run", _told(await store.run(run.id), live, tallies[run.id]))

    yield await told()
    sent: set[str] = set()
    for attempt in await store.attempts(run=run.id):
        sent.add(attempt.id)
        yield Event("attempt", attempt_to_dict(attempt))
    at, last = 0, time.monotonic()
    while live is not None:
        changed, over = live.changed, live.over
        while at < len(live.made):
            attempt = live.made[at]
            at += 1
            if attempt.id not in sent:
                yield Event("attempt", attempt_to_dict(attempt))
        if over:
            break
        if time.monotonic() - last >= _SECONDS_BETWEEN:
            last = time.monotonic()
            yield await told()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS_BETWEEN):
                await changed.wait()
    live = None
    yield await told()


async def _own(call: Call) -> tuple[Run, ValidationStore]:
    """Return a run of who asks, and where it is kept.

    Raises:
        ApiError: 404; of others no less than of none.
    """
    id = call.path["id"]
    async with call.serving.chat() as chat:
        store = Records.of(call.serving).store(chat)
    run = next((run for run in await store.runs(-1, tenant=call.tenant) if run.id == id), None)
    if run is None:
        raise ApiError(404, f"there is no validation run '{id[:80]}'", kind="unknown-run")
    return run, store


def _told(run: Run, live: Live | None, tally: Tally) -> dict[str, Any]:
    """Return a run as JSON data: with its progress while it is under way, else with what is kept."""
    told: dict[str, Any] = {
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
        told |= {name: getattr(now, name) for name in ("state", "done", "passed", "failed", "errors")}
        told |= {"eta_s": now.eta_s, "waiting": now.waiting}
    return told


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
WANTED = {**taken({}, models=_NAMES, cases=_NAMES, tags=_NAMES, runs=_REPETITIONS), "examples": [{"runs": 1}]}

OPERATIONS = (
    Operation(
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
    Operation(
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
    Operation(
        method="GET",
        path="/api/validation/runs/{id}",
        name="show_run",
        summary="Return a run with its attempts.",
        tag="validation",
        handle=_show,
        answers={200: record({**_RUN, "attempts": listed(ATTEMPT)})},
        problems=(404, 503),
    ),
    Operation(
        method="DELETE",
        path="/api/validation/runs/{id}",
        name="cancel_run",
        summary="Cancel a run; what it has found is kept.",
        tag="validation",
        handle=_cancel,
        answers={204: None},
        problems=(404, 503),
    ),
    Operation(
        method="POST",
        path="/api/validation/runs/{id}/resume",
        name="resume_run",
        summary="Go on with a run that was interrupted, cancelled, or failed: what is missing is tried.",
        tag="validation",
        handle=_resume,
        answers={202: record(_RUN)},
        problems=(404, 409, 422, 503),
    ),
    Operation(
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
