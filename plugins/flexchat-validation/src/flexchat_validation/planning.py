"""What a run is to do, and how far it is."""

from __future__ import annotations

import hashlib

import attrs

from .cases import Case
from .store import RunState


@attrs.frozen(kw_only=True)
class Task:
    """One attempt that is planned."""

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
        """Return all attempts in the order in which they begin.

        Wherever a run is stopped, it has seen something of everything: each case once before any a second time, all
        models side by side, and the cases in an order that is shuffled for each repetition, the same way every time.
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
    """How far a run is.

    Attributes:
        planned: Attempts of the whole run; done has those of before it was resumed, too.
        errors: Attempts that came to nothing since it was started or resumed.
        input_tokens, output_tokens, cost: Of all attempts that tell; US dollars.
        unpriced: Models that were asked and whose price is not known.
        elapsed_s: Since it was started or resumed.
        eta_s: Seconds that are left at the present pace; None until that is known.
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
