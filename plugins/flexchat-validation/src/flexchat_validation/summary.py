"""Many attempts, and what they prove about each model, each thing a case can show, and each case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
from flexchat import Usage

from .attempts import ASPECTS, Attempt, ModelKey
from .fingerprint import stale_reasons
from .statistics import Verdict, verdict
from .store import Run

FEW_CASES = 10
"""With fewer different cases, a verdict says little about questions that are not among them."""

NO_CALL_EXPECTED = "no case expects a call, so this says nothing about calling tools"

_MOST_PROBLEMS = 5


@attrs.frozen(kw_only=True)
class Cell:
    """One case at one model.

    Attributes:
        errors: Attempts that ended in an error and were not repeated successfully.
        stale: There are only results for another model, other tools or another text of the case; those are counted.
        last_problems: What was wrong with the last try that did not pass.
    """

    model_id: str
    case: str
    passed: int = 0
    failed: int = 0
    errors: int = 0
    stale: bool = False
    last_problems: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {**attrs.asdict(self), "last_problems": list(self.last_problems)}


@attrs.frozen(kw_only=True)
class ModelSummary:
    """What is known about one model.

    Attributes:
        verdict: From all results that are valid now or, if there are none, from the last that were. Without a test that
        expected a call it is never "validated". aspects: One for each of ASPECTS that was judged. cells: One for each
        case, in their order. stale: No result is still valid. stale_reasons: Why some are not, one sentence each; they
        are not counted. cases: How many different cases the verdict rests on. errors: Attempts that ended in an error;
        not counted. cost: US dollars; None if no price is known. elapsed_ms: Milliseconds of all attempts together.
        last_tested: ISO 8601, UTC. note: What the numbers do not show; empty if they show everything.
    """

    model_id: str
    verdict: Verdict
    aspects: Mapping[str, Verdict] = attrs.field(factory=dict)
    cells: tuple[Cell, ...] = ()
    stale: bool = False
    stale_reasons: tuple[str, ...] = ()
    cases: int = 0
    errors: int = 0
    cost: float | None = None
    elapsed_ms: float = 0.0
    usage: Usage | None = None
    last_tested: str | None = None
    note: str = ""

    @property
    def validated(self) -> bool:
        """Whether the model is validated now."""
        return self.verdict.status == "validated" and not self.stale

    def status(self) -> dict[str, Any]:
        """Return the short form for a list of models, as JSON data, in the specification's words (TC-94)."""
        found = self.verdict
        return {
            "model_id": self.model_id,
            "tested": found.tests > 0,
            "validated": self.validated,
            "test_count": found.tests,
            "success_count": found.successes,
            "errors": self.errors,
            "rate": found.rate,
            "low": found.low,
            "high": found.high,
            "verdict": found.status,
            "more": found.more,
            "reason": found.reason,
            "stale": self.stale,
            "stale_reasons": list(self.stale_reasons),
            "last_tested": self.last_tested,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON data."""
        return {
            **self.status(),
            "aspects": self.aspect_dicts(),
            "cells": [cell.to_dict() for cell in self.cells],
            "cases": self.cases,
            "cost": self.cost,
            "elapsed_ms": round(self.elapsed_ms, 3),
            "usage": self.usage.to_dict() if self.usage else None,
            "note": self.note,
        }

    def aspect_dicts(self) -> list[dict[str, Any]]:
        """Convert the counts of each aspect to JSON data."""
        return [
            {
                "model_id": self.model_id,
                "aspect": aspect,
                "successes": found.successes,
                "tests": found.tests,
                "low": found.low,
                "high": found.high,
                "verdict": found.status,
                "more": found.more,
                "reason": found.reason,
            }
            for aspect, found in self.aspects.items()
        ]


def summarise(
    attempts: Iterable[Attempt],
    keys: Mapping[str, ModelKey],
    cases: Mapping[str, str] | None = None,
    *,
    runs: Iterable[Run] = (),
) -> tuple[ModelSummary, ...]:
    """Summarise the attempts of each model: first those in *keys*, in their order, then others with attempts.

    Tests without a case count like any other. Attempts at cases that are not given are left out.

    Args:
        keys: The current keys; see model_keys. A model without one has no stale results.
        cases: The cases that count, with their hashes (see case_hashes). None: all, in any version of their text.
        runs: The known runs: a model's first one, if complete, was planned beforehand.
    """
    known = {run.id: run for run in runs}
    by_model: dict[str, list[Attempt]] = {id: [] for id in keys}
    for attempt in attempts:
        by_model.setdefault(attempt.key.model_id, []).append(attempt)
    return tuple(
        _summary(id, found, keys.get(id) or ModelKey(model_id=id), cases, known) for id, found in by_model.items()
    )


def matrix(summaries: Sequence[ModelSummary], cases: Iterable[str]) -> dict[str, Any]:
    """Return models × cases as JSON data: models, cases, cells, aspects."""
    names = dict.fromkeys(cases)
    return {
        "models": [summary.status() for summary in summaries],
        "cases": [*names],
        "cells": [cell.to_dict() for summary in summaries for cell in summary.cells if cell.case in names],
        "aspects": [aspect for summary in summaries for aspect in summary.aspect_dicts()],
    }


def counts(attempt: Attempt) -> tuple[int, int]:
    """Return the successes and tests that an attempt represents; both are 0 if it ended in an error."""
    if attempt.outcome == "error":
        return 0, 0
    if attempt.tests > 1:
        return attempt.successes, attempt.tests
    return int(attempt.outcome == "passed"), 1


def _summary(
    model_id: str,
    attempts: Sequence[Attempt],
    now: ModelKey,
    cases: Mapping[str, str] | None,
    runs: Mapping[str, Run],
) -> ModelSummary:
    attempts = [a for a in attempts if a.case is None or cases is None or a.case in cases]
    stale = {a.id: reasons for a in attempts if (reasons := stale_attempt(a, now, cases))}
    valid = [a for a in attempts if a.id not in stale]
    is_stale = bool(stale) and not any(counts(a)[1] for a in valid)
    told = _of_the_last_key([a for a in attempts if a.id in stale]) if is_stale else valid
    first = _first_run(told, runs)
    names = dict.fromkeys(a.case for a in told if a.case is not None and counts(a)[1])
    tested = [a.at for a in told if counts(a)[1]]
    by_case: dict[str | None, list[Attempt]] = {}
    for attempt in attempts:
        by_case.setdefault(attempt.case, []).append(attempt)
    overall = _verdict([counts(a) for a in told], [counts(a) for a in first])
    if overall.tests and overall.status != "not_validated" and not any(map(_expects_a_call, told)):
        overall = overall.undecided(NO_CALL_EXPECTED)
    aspects = {
        aspect: _verdict(found, _aspect(first, aspect)) for aspect in ASPECTS if (found := _aspect(told, aspect))
    }
    if is_stale:
        overall, aspects = _of_before(overall), {aspect: _of_before(found) for aspect, found in aspects.items()}
    costs = [a.cost for a in told if a.cost is not None]
    usages = [a.usage for a in told if a.usage is not None]
    return ModelSummary(
        model_id=model_id,
        verdict=overall,
        aspects=aspects,
        cells=tuple(
            _cell(model_id, name, by_case.get(name, []), stale) for name in (names if cases is None else cases)
        ),
        stale=is_stale,
        stale_reasons=tuple(dict.fromkeys(reason for reasons in stale.values() for reason in reasons)),
        cases=len(names),
        errors=len(_errors(told)),
        cost=sum(costs) if costs else None,
        elapsed_ms=sum(a.elapsed_ms for a in told),
        usage=sum(usages[1:], start=usages[0]) if usages else None,
        last_tested=tested[-1] if tested else None,
        note=_note(told, len(names)),
    )


def stale_attempt(attempt: Attempt, now: ModelKey, cases: Mapping[str, str] | None) -> tuple[str, ...]:
    """Return the reasons for which an attempt is stale, one sentence each; *cases* maps names to hashes."""
    expected = cases.get(attempt.case) if cases is not None and attempt.case is not None else None
    if expected is None or attempt.case_hash is None:
        return stale_reasons(attempt.key, now)
    # A case's hash covers the tools it offered; whether others have changed does not matter.
    reasons = stale_reasons(attempt.key, attrs.evolve(now, tools=None))
    if attempt.case_hash == expected:
        return reasons
    tools_changed = attempt.key.tools and now.tools and attempt.key.tools != now.tools
    changed = f"the case '{attempt.case}', or how it is asked, has changed"
    return (*reasons, "the tools have changed" if tools_changed else changed)


def _of_the_last_key(attempts: Sequence[Attempt]) -> list[Attempt]:
    tried = [a for a in attempts if counts(a)[1]]
    return [a for a in tried if not stale_reasons(a.key, tried[-1].key)]


def _first_run(attempts: Sequence[Attempt], runs: Mapping[str, Run]) -> list[Attempt]:
    """Return the attempts of the model's first run, if it is complete: then, and only then, their number was fixed.

    A later run does not count: a plan means nothing if you may start over until a run looks good. A run with nothing
    but errors, for lack of a key, has shown nothing that could be liked or not.
    """
    first = next((a.run for a in attempts if a.run is not None and counts(a)[1]), None)
    run = runs.get(first) if first is not None else None
    if run is None or run.state != "finished":
        return []
    made = [a for a in attempts if a.run == run.id and counts(a)[1]]
    return made if len(made) == len(run.cases) * run.runs else []


def _verdict(found: Sequence[tuple[int, int]], planned: Sequence[tuple[int, int]]) -> Verdict:
    successes, tests = sum(s for s, _ in found), sum(n for _, n in found)
    if not planned:
        return verdict(successes, tests)
    return verdict(successes, tests, planned=sum(n for _, n in planned), planned_successes=sum(s for s, _ in planned))


def _expects_a_call(attempt: Attempt) -> bool:
    """Return whether an attempt counts for calling tools; a test without a case was recorded as one that does."""
    return bool(counts(attempt)[1]) and (attempt.case is None or "right_tool" in attempt.aspects)


def _of_before(found: Verdict) -> Verdict:
    """Return a verdict as one on results that are no longer valid: more like them would decide nothing."""
    reason = f"{found.successes} of {found.tests} right, which no longer counts"
    return attrs.evolve(found, more=None, reason=reason, lacking="")


def _aspect(attempts: Iterable[Attempt], aspect: str) -> list[tuple[int, int]]:
    return [(int(a.aspects[aspect]), 1) for a in attempts if aspect in a.aspects and a.outcome != "error"]


def _cell(model_id: str, name: str, tried: Sequence[Attempt], stale: Mapping[str, Any]) -> Cell:
    valid = [a for a in tried if a.id not in stale]
    is_stale = bool(tried) and not valid
    told = tried if is_stale else valid
    wrong = [a for a in told if a.outcome == "failed"] or [a for a in told if a.outcome == "error"]
    return Cell(
        model_id=model_id,
        case=name,
        passed=sum(a.outcome == "passed" for a in told),
        failed=sum(a.outcome == "failed" for a in told),
        errors=len(_errors(told)),
        stale=is_stale,
        last_problems=wrong[-1].problems[:_MOST_PROBLEMS] if wrong else (),
    )


def _errors(attempts: Sequence[Attempt]) -> set[tuple[str | None, str | None, int]]:
    """Return the attempts that ended in an error and were not repeated successfully."""

    def place(attempt: Attempt) -> tuple[str | None, str | None, int]:
        return attempt.run, attempt.case, attempt.repetition

    return {place(a) for a in attempts if a.outcome == "error"} - {place(a) for a in attempts if a.outcome != "error"}


def _note(attempts: Sequence[Attempt], cases: int) -> str:
    if not 0 < cases < FEW_CASES:
        return ""
    results: dict[str | None, set[str]] = {}
    judged = 0
    for attempt in attempts:
        if attempt.case is not None and attempt.outcome != "error":
            results.setdefault(attempt.case, set()).add(attempt.outcome)
            judged += 1
    different = f"{cases} different case{'s' if cases > 1 else ''}"
    little = f"{different}: this says little about other questions"
    if judged > cases and all(len(outcomes) == 1 for outcomes in results.values()):
        return f"{little}, and repetitions that always end alike add nothing"
    return little
