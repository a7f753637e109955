"""The attempts of a run, the queue of those for each service, and the run's progress."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import deque
from collections.abc import Mapping, Sequence

import attrs

from .cases import Case
from .store import RunState


@attrs.frozen(kw_only=True)
class Task:
    """One planned attempt."""

    model_id: str
    case: Case
    repetition: int


@attrs.frozen(kw_only=True)
class Plan:
    """The models and cases of a run, and the number of repetitions."""

    models: tuple[str, ...]
    cases: tuple[Case, ...]
    runs: int = 1

    @property
    def planned(self) -> int:
        """The number of attempts."""
        return len(self.models) * len(self.cases) * self.runs

    def tasks(self) -> list[Task]:
        """Return all attempts in the order they begin.

        Wherever a run is stopped, its attempts are spread evenly: each case is tried once before any a second time,
        all models in parallel, and the cases in an order shuffled for each repetition, reproducibly.
        """

        def place(repetition: int, case: Case) -> bytes:
            return hashlib.sha256(f"{repetition}/{case.name}".encode(errors="surrogatepass")).digest()

        return [
            Task(model_id=model_id, case=case, repetition=repetition)
            for repetition in range(self.runs)
            for case in sorted(self.cases, key=lambda case: place(repetition, case))
            for model_id in self.models
        ]


@attrs.frozen(kw_only=True)
class Progress:
    """The progress of a run.

    Attributes:
        planned: Attempts of the whole run; done includes those from before it was resumed.
        errors: Attempts that ended in an error since it was started or resumed.
        input_tokens, output_tokens, cost: Of all attempts that report them; cost in US dollars.
        unpriced: Models with attempts whose price is not known.
        elapsed_s: Since it was started or resumed.
        eta_s: Seconds left at the current pace; None until known.
        waiting: The reason for which a service gets no requests for a while; empty if none is paused.
    """

    run: str
    state: RunState
    planned: int
    done: int = 0
    passed: int = 0
    failed: int = 0
    errors: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    unpriced: tuple[str, ...] = ()
    elapsed_s: float = 0.0
    eta_s: float | None = None
    waiting: str = ""


@attrs.define
class Lane:
    """The attempts to make at one service.

    Attributes:
        queue: Waiting attempts, each with the number of this try.
        limit: How many may run at once.
        workers: How many take from it.
        cause: The service's own text of its last failure; empty if there was none.
    """

    service: str
    queue: deque[tuple[Task, int]] = attrs.field(factory=deque)
    limit: int = 1
    workers: int = 0
    waiting: str = ""
    cause: tuple[str, ...] = ()
    _paused_until: float = 0.0
    _slowed_at: float = 0.0

    def take(self, given_up: Mapping[str, str]) -> tuple[Task, int] | None:
        """Return the next task; None if there is none, or the lane's limit of simultaneous attempts is reached."""
        if self.workers > self.limit:
            return None  # the limit was lowered since: this worker ends
        while self.queue:
            planned = self.queue.popleft()
            if planned[0].model_id not in given_up:
                return planned
        return None

    def hold(self, problems: Sequence[str], wait_s: float, *, slower: bool, asked_at: float) -> None:
        """Pause requests to the service; slower: also halve the number of simultaneous ones afterwards."""
        now = time.monotonic()
        self._paused_until = max(self._paused_until, now + wait_s)
        self.waiting = f"{self.service}: {' '.join(problems)}"
        # One limit may refuse several simultaneous attempts. Only the first of them halves the number: the others were
        # sent before it was halved.
        if slower and asked_at >= self._slowed_at:
            self.limit = max(1, self.limit // 2)
            self._slowed_at = now

    async def ready(self) -> None:
        """Wait until requests to the service are allowed again."""
        while (wait_s := self.paused_s()) > 0:  # noqa: ASYNC110  the end of the pause may move meanwhile
            await asyncio.sleep(wait_s)

    def paused_s(self) -> float:
        """Return the remaining pause of the service, in seconds."""
        return self._paused_until - time.monotonic()
