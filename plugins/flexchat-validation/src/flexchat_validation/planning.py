"""What a run does, and its progress."""

from __future__ import annotations

import hashlib

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
    """Which models are tried with which cases, and how often each."""

    models: tuple[str, ...]
    cases: tuple[Case, ...]
    runs: int = 1

    def tasks(self) -> list[Task]:
        """Return all attempts in the order they begin.

        Wherever a run is stopped, it has tried something of everything: each case once before any a second time, all
        models in parallel, and the cases in an order shuffled for each repetition, reproducibly.
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
        unpriced: Models that were asked but whose price is not known.
        elapsed_s: Since it was started or resumed.
        eta_s: Seconds left at the current pace; None until known.
        waiting: Why a service is left alone for a while; empty if none is.
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
