"""A run: every case with every model, as often as planned; concurrent, kept attempt by attempt, and resumable."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import time
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any, Self

import attrs
from flexchat import ChatRequestError, FlexChat, ProviderError, Usage
from flexchat.host import CIRCUIT_OPEN, DEFAULT_TENANT, did_you_mean
from flexchat_sdk import ProviderOverloadedError, ProviderRateLimitError

from .attempting import AttemptOutcome, attempt_case, is_late, split_model
from .attempts import Attempt, ModelKey, now
from .cases import Case, ValidationTable, table_of
from .fingerprint import case_hashes, model_keys, stale_reasons
from .planning import Lane, Plan, Progress, Task
from .store import Run, RunState, ValidationStore

__all__ = ["MAX_ERRORS", "MAX_ROUNDS", "MAX_WAIT_S", "Plan", "Progress", "Task", "ValidationRun"]

MAX_ROUNDS = 3
"""Maximum number of times an attempt is made if it fails for a temporary reason."""

MAX_ERRORS = 3
"""After this many consecutive errors, the run gives a model up."""

MAX_WAIT_S = 300.0
"""If a service requests a longer pause, the run does not wait."""


class ValidationRun:
    """A validation run. Made with ``begin`` or ``resume``; ``events`` does the work.

    An attempt is reported once it is on disk. However the run ends, ``resume`` makes the missing attempts, and none
    twice: errors are retried, and so are attempts made with another text of their case, with other tools, or with a
    model that has since been replaced.

    After a rate limit or overload, a service gets no attempts for the time that it requests, and then half as many
    simultaneous ones. A model whose attempts keep ending in errors is skipped.

    Attributes:
        run: Its record, as last saved.
        plan: The models, cases and repetitions.
        keys: The current key of each model.
        hashes: The hashes of the cases, by name; see case_hashes.
    """

    def __init__(
        self,
        chat: FlexChat,
        plan: Plan,
        store: ValidationStore,
        *,
        run: Run,
        keys: Mapping[str, ModelKey],
        table: ValidationTable,
        before: Iterable[Attempt] = (),
        pause_s: float = 2.0,
    ) -> None:
        self.run, self.plan, self.keys = run, plan, dict(keys)
        self._chat, self._store, self._table, self._pause_s = chat, store, table, pause_s
        self.hashes = case_hashes(plan.cases, chat.tools.get_registry().list(), table)
        self._tasks = {(task.model_id, task.case.name, task.repetition): task for task in plan.tasks()}
        self._counts = Progress(run=run.id, state=run.state, planned=run.planned)
        self._made, self._made_s = 0, 0.0  # and how long that took
        self._began: float | None = None
        self._ended: float | None = None
        self._lanes: list[Lane] = []
        self._given_up: dict[str, str] = {}
        self._errors_in_a_row: Counter[str] = Counter()
        self._last_error = ""
        self._workers: list[asyncio.Task[None]] = []
        self._cancelled = False
        self._failure: Exception | None = None
        for attempt in before:
            self._recall(attempt)

    @classmethod
    async def begin(
        cls,
        chat: FlexChat,
        plan: Plan,
        store: ValidationStore,
        *,
        table: ValidationTable | None = None,
        settings: Mapping[str, Any] | None = None,
        tenant: str = DEFAULT_TENANT,
        pause_s: float = 2.0,
    ) -> Self:
        """Return a new run, already saved in the store.

        Args:
            table: Instead of the config's ``validation``.
            settings: Kept with the run, for resuming it; JSON data.
            tenant: The owner of the run.
            pause_s: First pause after a failure of a service that does not name one; doubles.

        Raises:
            ChatRequestError: A model's service is not configured, or there is nothing to do.
            StorageError: The store cannot be used.
        """
        if not (plan.models and plan.cases):
            raise ChatRequestError("a run needs at least one model and one case")
        plan = attrs.evolve(plan, models=_whole_ids(chat, plan.models))
        run = Run(
            id=uuid.uuid4().hex,
            state="running",
            models=plan.models,
            cases=tuple(case.name for case in plan.cases),
            runs=plan.runs,
            planned=plan.planned,
            started_at=now(),
            settings=dict(settings or {}),
            tenant=tenant,
        )
        keys = await model_keys(chat, plan.models)
        await store.save_run(run)
        return cls(chat, plan, store, run=run, keys=keys, table=table or table_of(chat.config), pause_s=pause_s)

    @classmethod
    async def resume(
        cls,
        chat: FlexChat,
        run_id: str,
        cases: Sequence[Case],
        store: ValidationStore,
        *,
        table: ValidationTable | None = None,
        pause_s: float = 2.0,
    ) -> Self:
        """Return an earlier run, to make its missing attempts.

        Args:
            cases: Where its cases are looked up, by name.

        Raises:
            ChatRequestError: One of its cases or services no longer exists, or the run is still in progress.
            StorageError: The store cannot be used, or has no such run.
        """
        run = await store.run(run_id)
        if run.state == "running":
            raise ChatRequestError(f"run {run.id} is still in progress")
        by_name = {case.name: case for case in cases}
        for name in run.cases:
            if name not in by_name:
                raise ChatRequestError(
                    f"run {run.id} tries the case '{name}', which no longer exists{did_you_mean(name, by_name)}"
                )
        plan = Plan(
            models=_whole_ids(chat, run.models), cases=tuple(by_name[name] for name in run.cases), runs=run.runs
        )
        keys = await model_keys(chat, plan.models)
        before = await store.attempts(run=run.id)
        run = attrs.evolve(run, state="running", ended_at=None, problem=None)
        await store.save_run(run)
        table = table or table_of(chat.config)
        return cls(chat, plan, store, run=run, keys=keys, table=table, before=before, pause_s=pause_s)

    @property
    def progress(self) -> Progress:
        """Its current progress."""
        missing = self.run.planned - self._counts.done
        elapsed = (self._ended or time.monotonic()) - self._began if self._began is not None else 0.0
        over = self.run.state != "running"
        return attrs.evolve(
            self._counts,
            state=self.run.state,
            elapsed_s=elapsed,
            eta_s=None if over or missing <= 0 else self._left_s(elapsed, missing),
            waiting="" if over else "; ".join(lane.waiting for lane in self._lanes if lane.paused_s() > 0),
        )

    def _left_s(self, elapsed: float, missing: int) -> float | None:
        """Estimate the remaining time at the pace so far, minus the time waited; None once that has passed."""
        if not self._made:
            return None
        seconds = self._made_s / self._made * missing - (elapsed - self._made_s)
        return seconds if seconds > 0 else None

    async def events(self) -> AsyncGenerator[Attempt | Progress, None]:
        """Make the missing attempts; yield each one when it is done, and the run's progress.

        The first and the last are a Progress. Closing the generator interrupts the run; so does cancelling.

        Raises:
            StorageError: An attempt cannot be kept.
        """
        queue: asyncio.Queue[Attempt | Progress | None] = asyncio.Queue()
        self._began = time.monotonic()
        self._lanes = self._planned_lanes()
        ended: Run | None = None
        # However the generator ends (completed, closed, cancelled, failed), its workers are stopped and the run's state
        # is saved: a run left as "running" could not be resumed while this process lives.
        try:
            yield self.progress
            self._workers = [
                asyncio.create_task(self._work(lane, queue)) for lane in self._lanes for _ in range(lane.limit)
            ]
            over = asyncio.gather(*self._workers, return_exceptions=True)
            over.add_done_callback(lambda _: queue.put_nowait(None))
            while (event := await queue.get()) is not None:
                yield event
            ended = self._ended_run()
        finally:
            await self._stop()
            self._ended = time.monotonic()
            self.run = ended or attrs.evolve(self.run, state="interrupted", ended_at=now())
            if self._failure is None:
                await self._store.save_run(self.run)
            else:
                with contextlib.suppress(Exception):  # the store's first error is raised below
                    await self._store.save_run(self.run)
        if self._failure is not None:
            raise self._failure
        yield self.progress

    def cancel(self) -> None:
        """Cancel it: running attempts are stopped, and ``events`` ends with state "cancelled"."""
        self._cancelled = True
        for worker in self._workers:
            worker.cancel()

    async def _stop(self) -> None:
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        self._workers = []

    def _ended_run(self) -> Run:
        missing = self.run.planned - self._counts.passed - self._counts.failed
        problem: str | None = None
        if self._failure is not None:
            problem = str(self._failure)
        elif self._given_up:
            problem = "; ".join(
                f"{model_id} was given up after {MAX_ERRORS} errors in a row: {why}"
                for model_id, why in self._given_up.items()
            )
        elif missing and not self._cancelled:
            problem = (
                f"{missing} of {self.run.planned} attempts ended in an error, the last one because {self._last_error}"
            )
        state: RunState = "cancelled" if self._cancelled and missing else "failed" if problem else "finished"
        return attrs.evolve(self.run, state=state, ended_at=now(), problem=problem)

    def _planned_lanes(self) -> list[Lane]:
        lanes: dict[str, Lane] = {}
        for task in self._tasks.values():
            service, _ = split_model(self._chat, task.model_id)
            lanes.setdefault(service, Lane(service)).queue.append((task, 1))
        for lane in lanes.values():
            lane.limit = lane.workers = min(self._table.concurrency, len(lane.queue))
        return [*lanes.values()]

    async def _work(self, lane: Lane, queue: asyncio.Queue[Attempt | Progress | None]) -> None:
        try:
            while True:
                await lane.ready()
                planned = lane.take(self._given_up)
                if planned is None:
                    return
                task, round_ = planned
                asked_at = time.monotonic()
                outcome = await attempt_case(
                    self._chat,
                    task.model_id,
                    task.case,
                    self._table,
                    key=self.keys[task.model_id],
                    run=self.run.id,
                    repetition=task.repetition,
                )
                outcome = _with_cause(outcome, lane)
                wait_s = self._wait_s(outcome, round_)
                if wait_s is not None:
                    lane.queue.appendleft((task, round_ + 1))
                    lane.hold(outcome.attempt.problems, wait_s, slower=_is_busy(outcome), asked_at=asked_at)
                    queue.put_nowait(self.progress)
                    continue
                queue.put_nowait(await self._keep(task, outcome))
        except Exception as error:  # noqa: BLE001  raised by events, once the others have stopped
            # The first failure counts. The other workers end at once: what they would make could not be kept either.
            if self._failure is None:
                self._failure = error
            current = asyncio.current_task()
            for worker in self._workers:
                if worker is not current:
                    worker.cancel()
        finally:
            lane.workers -= 1

    def _wait_s(self, outcome: AttemptOutcome, round_: int) -> float | None:
        """Return the delay before an attempt is repeated, in seconds; None if it is final."""
        error = outcome.error
        if not isinstance(error, ProviderError) or not error.retryable:
            return None
        wait_s = error.retry_after_s if error.retry_after_s is not None else self._pause_s * 2 ** (round_ - 1)
        return wait_s if round_ < MAX_ROUNDS and wait_s <= MAX_WAIT_S else None

    async def _keep(self, task: Task, outcome: AttemptOutcome) -> Attempt:
        attempt = outcome.attempt
        # One that counts has an id derived from its content: making it a second time adds nothing.
        attempt = attempt if attempt.outcome == "error" else attrs.evolve(attempt, id=self._id(task))
        await self._store.add(attempt)
        self._count(attempt)
        self._made += 1
        self._made_s = time.monotonic() - self._began if self._began is not None else 0.0
        model_id = attempt.key.model_id
        if attempt.outcome != "error" and not is_late(outcome.error):
            self._errors_in_a_row[model_id] = 0
            return attempt
        self._last_error = " ".join(attempt.problems)
        self._errors_in_a_row[model_id] += 1
        if self._errors_in_a_row[model_id] >= MAX_ERRORS:
            self._given_up.setdefault(model_id, self._last_error)
        return attempt

    def _recall(self, attempt: Attempt) -> None:
        """Count an earlier attempt as made, if it is still valid."""
        if attempt.outcome == "error" or attempt.case is None or attempt.case_hash != self.hashes.get(attempt.case):
            return
        key = self.keys.get(attempt.key.model_id)
        if key is None or stale_reasons(attempt.key, _for_a_case(key)):
            return
        if self._tasks.pop((attempt.key.model_id, attempt.case, attempt.repetition), None) is not None:
            self._count(attempt)

    def _count(self, attempt: Attempt) -> None:
        counts, usage = self._counts, attempt.usage or Usage()
        outcome = "errors" if attempt.outcome == "error" else attempt.outcome
        unpriced = [attempt.key.model_id] if attempt.usage is not None and attempt.cost is None else []
        self._counts = attrs.evolve(
            counts,
            done=counts.done + 1,
            input_tokens=counts.input_tokens + (usage.input_tokens or 0),
            output_tokens=counts.output_tokens + (usage.output_tokens or 0),
            cost=counts.cost + (attempt.cost or 0.0),
            unpriced=tuple(dict.fromkeys([*counts.unpriced, *unpriced])),
            **{outcome: getattr(counts, outcome) + 1},
        )

    def _id(self, task: Task) -> str:
        """Return the id for an attempt that counts: the same for the same case, tools and model in the same run."""
        key = attrs.astuple(_for_a_case(self.keys[task.model_id]))
        parts = [self.run.id, key, task.case.name, self.hashes[task.case.name], task.repetition]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _with_cause(outcome: AttemptOutcome, lane: Lane) -> AttemptOutcome:
    """Replace the error of an open circuit breaker with the failure that opened it."""
    if outcome.attempt.outcome != "error" or not isinstance(outcome.error, ProviderError):
        return outcome
    if outcome.error.code != CIRCUIT_OPEN:
        lane.cause = outcome.attempt.problems
    problems = lane.cause or outcome.attempt.problems
    return attrs.evolve(outcome, attempt=attrs.evolve(outcome.attempt, problems=problems))


def _is_busy(outcome: AttemptOutcome) -> bool:
    return isinstance(outcome.error, (ProviderRateLimitError, ProviderOverloadedError))


def _for_a_case(key: ModelKey) -> ModelKey:
    """Return the relevant part of a key if the case's own hash is known too, which covers the tools it offered."""
    return attrs.evolve(key, tools=None)


def _whole_ids(chat: FlexChat, model_ids: Iterable[str]) -> tuple[str, ...]:
    """Return the models as LLM/MODEL, each once.

    Raises:
        ChatRequestError: Everything that is wrong with them.
    """
    whole: dict[str, None] = {}
    wrong: list[str] = []
    for model_id in dict.fromkeys(model_ids):
        try:
            whole["/".join(split_model(chat, model_id))] = None
        except ChatRequestError as error:
            wrong.append(str(error))
    if wrong:
        raise ChatRequestError("\n".join(wrong))
    return tuple(whole)
