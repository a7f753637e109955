"""Many attempts, and what they prove about each model, each of its abilities, and each case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
from flexchat import Usage
from flexchat.host import counted

from .attempts import ASPECTS, Attempt, ModelKey, json_data
from .fingerprint import stale_reasons
from .statistics import Status, Verdict, verdict
from .store import Run

FEW_CASES = 10
"""With fewer different cases, a verdict says little about questions that are not among them."""

NO_CALL_EXPECTED = "no case expects a call, so this shows nothing about calling tools"

_MAX_PROBLEMS = 5


@attrs.frozen(kw_only=True)
class ValidationRecord:
    """The validation record of a model. The first seven fields are the specification's; the others are statistics.

    Attributes:
        validated: The tests prove a rate of at least 80 %, and are still valid; always recomputed (C4).
        last_tested: ISO 8601, UTC; None if it was never tested.
        test_history: The last 50: timestamp, success, and details or error.
        errors: Tests that ended in an error of the service; they do not count.
        rate, low, high: The fraction that succeeded, and its 95 % interval.
        more: Further tests that would decide it, if the rate stays the same.
        stale: The model, its plugin or the tools are no longer those that were tested.

    Source: seed specification, "Model Validation Schema" (requirements TC-94 to TC-98).
    """

    model_id: str
    tested: bool = False
    validated: bool = False
    test_count: int = 0
    success_count: int = 0
    errors: int = 0
    last_tested: str | None = None
    test_history: tuple[Mapping[str, Any], ...] = ()
    rate: float | None = None
    low: float = 0.0
    high: float = 1.0
    verdict: Status = "undecided"
    more: int | None = None
    reason: str = ""
    stale: bool = False
    stale_reasons: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data."""
        data: dict[str, Any] = json_data(attrs.asdict(self, recurse=False))
        return data

    def status(self) -> dict[str, Any]:
        """Return it as JSON data, without its history, as in a list of models."""
        return {name: value for name, value in self.to_dict().items() if name != "test_history"}


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


_OF_SUMMARY = ("model_id", "validated", "errors", "last_tested", "stale", "stale_reasons")


@attrs.frozen(kw_only=True)
class ModelSummary:
    """The results of one model.

    Attributes:
        verdict: From all results that are valid now or, if there are none, from the last that were. Without a test that
            expected a call it is never "validated".
        aspects: One for each of ASPECTS that was judged.
        cells: One for each case, in their order.
        stale: No result is still valid.
        stale_reasons: The reasons for which results are not counted, one sentence each.
        cases: The number of different cases the verdict is based on.
        errors: Attempts that ended in an error; not counted.
        cost: US dollars; None if no price is known.
        elapsed_ms: The time of all attempts together.
        last_tested: ISO 8601, UTC.
        note: A limitation that the numbers do not show; empty if there is none.
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

    def record(self, history: Iterable[Mapping[str, Any]] = ()) -> ValidationRecord:
        """Return it in the specification's form (TC-94), with these entries as its history."""
        verdict = self.verdict
        return ValidationRecord(
            tested=verdict.tests > 0,
            test_count=verdict.tests,
            success_count=verdict.successes,
            test_history=tuple(history),
            verdict=verdict.status,
            **{name: getattr(verdict, name) for name in ("rate", "low", "high", "more", "reason")},
            **{name: getattr(self, name) for name in _OF_SUMMARY},
        )

    def status(self) -> dict[str, Any]:
        """Return the short form for a list of models, as JSON data."""
        return self.record().status()

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
        names = ("successes", "tests", "low", "high", "more", "reason")
        return [
            {"model_id": self.model_id, "aspect": aspect, "verdict": each.status}
            | {name: getattr(each, name) for name in names}
            for aspect, each in self.aspects.items()
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
    runs_by_id = {run.id: run for run in runs}
    by_model: dict[str, list[Attempt]] = {id: [] for id in keys}
    for attempt in attempts:
        by_model.setdefault(attempt.key.model_id, []).append(attempt)
    return tuple(
        _summary(id, group, keys.get(id) or ModelKey(model_id=id), cases, runs_by_id) for id, group in by_model.items()
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
    # Results that are all stale are still shown, but only those of one key: others were for other tools or models.
    counted = _of_last_key([a for a in attempts if a.id in stale]) if is_stale else valid
    first = _first_run(counted, runs)
    names = dict.fromkeys(a.case for a in counted if a.case is not None and counts(a)[1])
    times = [a.at for a in counted if counts(a)[1]]
    by_case: dict[str | None, list[Attempt]] = {}
    for attempt in attempts:
        by_case.setdefault(attempt.case, []).append(attempt)
    overall = _verdict([counts(a) for a in counted], [counts(a) for a in first])
    if overall.tests and overall.status != "not_validated" and not any(map(_expects_a_call, counted)):
        overall = overall.undecided(NO_CALL_EXPECTED)
    aspects = {
        aspect: _verdict(results, _aspect(first, aspect)) for aspect in ASPECTS if (results := _aspect(counted, aspect))
    }
    if is_stale:
        overall, aspects = _outdated(overall), {aspect: _outdated(each) for aspect, each in aspects.items()}
    costs = [a.cost for a in counted if a.cost is not None]
    case_names = names if cases is None else cases
    return ModelSummary(
        model_id=model_id,
        verdict=overall,
        aspects=aspects,
        cells=tuple(_cell(model_id, name, by_case.get(name, []), stale) for name in case_names),
        stale=is_stale,
        stale_reasons=tuple(dict.fromkeys(reason for reasons in stale.values() for reason in reasons)),
        cases=len(names),
        errors=len(_errors(counted)),
        cost=sum(costs) if costs else None,
        elapsed_ms=sum(a.elapsed_ms for a in counted),
        usage=total_usage(a.usage for a in counted),
        last_tested=times[-1] if times else None,
        note=_note(counted, len(names)),
    )


def total_usage(usages: Iterable[Usage | None]) -> Usage | None:
    """Add up tokens; None if no usage is known."""
    reported = [usage for usage in usages if usage is not None]
    return sum(reported[1:], start=reported[0]) if reported else None


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


def _of_last_key(attempts: Sequence[Attempt]) -> list[Attempt]:
    tests = [a for a in attempts if counts(a)[1]]
    return [a for a in tests if not stale_reasons(a.key, tests[-1].key)]


def _first_run(attempts: Sequence[Attempt], runs: Mapping[str, Run]) -> list[Attempt]:
    """Return the attempts of the model's first run, if it is complete: then, and only then, their number was fixed.

    A later run does not count: a plan is void if it may be started over until a run looks good. A run with nothing but
    errors, for example for lack of a key, does not count as the first: it had no results to choose by.
    """
    first = next((a.run for a in attempts if a.run is not None and counts(a)[1]), None)
    run = runs.get(first) if first is not None else None
    if run is None or run.state != "finished":
        return []
    tests = [a for a in attempts if a.run == run.id and counts(a)[1]]
    return tests if len(tests) == len(run.cases) * run.runs else []


def _verdict(results: Sequence[tuple[int, int]], planned: Sequence[tuple[int, int]]) -> Verdict:
    successes, tests = sum(s for s, _ in results), sum(n for _, n in results)
    if not planned:
        return verdict(successes, tests)
    return verdict(successes, tests, planned=sum(n for _, n in planned), planned_successes=sum(s for s, _ in planned))


def _expects_a_call(attempt: Attempt) -> bool:
    """Return whether an attempt counts for calling tools; a test without a case was recorded as one that does."""
    return bool(counts(attempt)[1]) and (attempt.case is None or "right_tool" in attempt.aspects)


def _outdated(result: Verdict) -> Verdict:
    """Return a verdict as one on results that are no longer valid: more like them would decide nothing."""
    reason = f"{result.successes} of {result.tests} right, which no longer counts"
    return attrs.evolve(result, more=None, reason=reason, lacking="")


def _aspect(attempts: Iterable[Attempt], aspect: str) -> list[tuple[int, int]]:
    return [(int(a.aspects[aspect]), 1) for a in attempts if aspect in a.aspects and a.outcome != "error"]


def _cell(model_id: str, name: str, tried: Sequence[Attempt], stale: Mapping[str, Any]) -> Cell:
    valid = [a for a in tried if a.id not in stale]
    is_stale = bool(tried) and not valid
    counted = tried if is_stale else valid
    wrong = [a for a in counted if a.outcome == "failed"] or [a for a in counted if a.outcome == "error"]
    return Cell(
        model_id=model_id,
        case=name,
        passed=sum(a.outcome == "passed" for a in counted),
        failed=sum(a.outcome == "failed" for a in counted),
        errors=len(_errors(counted)),
        stale=is_stale,
        last_problems=wrong[-1].problems[:_MAX_PROBLEMS] if wrong else (),
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
    different = counted(cases, "different case")
    little = f"{different}: this shows little about other questions"
    if judged > cases and all(len(outcomes) == 1 for outcomes in results.values()):
        return f"{little}, and repetitions that always end alike add nothing"
    return little
