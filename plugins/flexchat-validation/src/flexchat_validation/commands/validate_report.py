"""A validation run: its progress, and its results for people, as JSON, and as JUnit XML, which CI systems show."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import attrs
from flexchat import StorageError
from flexchat.host import counted
from flexchat.store import replacing
from flexchat_cli import Style, Terminal, one_line

from ..attempts import Attempt, attempt_to_dict
from ..running import Plan, Progress, ValidationRun
from ..statistics import LINE, Verdict
from ..store import Run, ValidationStore, run_to_dict
from ..summary import ModelSummary, summarise

_MAX_FAILURES = 20
_MAX_PROBLEMS = 3
# What XML 1.0 cannot contain, not even escaped; a model may write it.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STYLES: dict[str, Style] = {"not_validated": "red", "validated": "bold"}


@attrs.frozen(kw_only=True)
class Report:
    """A run and what it proves.

    Attributes:
        attempts: Of this run; errors that were retried later are left out.
        models: What is known about its models from these cases, including earlier runs.
        known_cases: How many cases there were to choose from.
    """

    run: Run
    plan: Plan
    progress: Progress
    attempts: tuple[Attempt, ...]
    models: tuple[ModelSummary, ...]
    known_cases: int

    @property
    def complete(self) -> bool:
        """Whether every planned attempt was made and gave a result."""
        return self.progress.passed + self.progress.failed == self.progress.planned

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data."""
        progress = self.progress
        counted = {name: getattr(progress, name) for name in ("done", "passed", "failed", "errors")}
        return {
            "run": run_to_dict(self.run) | counted,
            "models": [model.to_dict() for model in self.models],
            "attempts": [attempt_to_dict(attempt) for attempt in self.attempts],
            "elapsed_s": round(progress.elapsed_s, 3),
            "input_tokens": progress.input_tokens,
            "output_tokens": progress.output_tokens,
            "cost": None if progress.unpriced else progress.cost,
            "unpriced": list(progress.unpriced),
        }


async def report_of(run: ValidationRun, store: ValidationStore, *, known_cases: int) -> Report:
    """Return the results of a run."""
    last: dict[tuple[str, str | None, int], Attempt] = {}
    for attempt in await store.attempts(run=run.run.id):
        place = (attempt.key.model_id, attempt.case, attempt.repetition)
        if attempt.outcome != "error" or place not in last or last[place].outcome == "error":
            last[place] = attempt
    all_attempts = [attempt for model_id in run.plan.models for attempt in await store.attempts(model_id=model_id)]
    return Report(
        run=run.run,
        plan=run.plan,
        progress=run.progress,
        attempts=tuple(last.values()),
        models=summarise(all_attempts, run.keys, run.hashes, runs=await store.runs(-1)),
        known_cases=known_cases,
    )


def write_junit(path: Path, report: Report) -> None:
    """Write the run as JUnit XML.

    Raises:
        StorageError: The file cannot be written.
    """
    try:
        with replacing(path) as file:
            file.write(junit_xml(report.plan, report.attempts))
    except OSError as error:
        raise StorageError(f"'{path}' cannot be written: {error.strerror or error}") from None


def print_report(report: Report, terminal: Terminal, *, as_json: bool) -> None:
    """Print the verdicts, what failed, and what it took."""
    if as_json:
        terminal.json(report.to_dict())
        return
    for model in report.models:
        _print_model(model, report, terminal)
    _print_failures(report, terminal)
    _print_errors(report, terminal)
    terminal.paragraph(_summary(report), indent="")
    if report.run.problem:
        terminal.paragraph(_problem(report), indent="")


def print_verdicts(rows: Sequence[tuple[str, Verdict]], terminal: Terminal) -> None:
    """Print verdicts in columns: the subject, the verdict, how many were right, the interval, what is missing.

    The interval is rounded outwards: one that touches the threshold must not look as if it cleared it.
    """
    columns = [
        (
            f"  {name}",
            verdict.status.replace("_", " "),
            f"{verdict.successes:,} of {verdict.tests:,} right" if verdict.tests else "no tests",
            f"{math.floor(verdict.low * 100)}-{math.ceil(verdict.high * 100)} %" if verdict.tests else "",
            f"needs {verdict.more:,} more" if verdict.more else "",
        )
        for name, verdict in rows
    ]
    widths = [max(map(len, column)) for column in zip(*columns, strict=True)]
    for (_, verdict), cells in zip(rows, columns, strict=True):
        line = "  ".join(f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True))
        terminal.out(line.rstrip(), _STYLES.get(verdict.status, "plain"))


def _print_model(model: ModelSummary, report: Report, terminal: Terminal) -> None:
    terminal.out(model.model_id, "bold")
    aspects = [(aspect.replace("_", " "), verdict) for aspect, verdict in model.aspects.items()]
    rows = [("stale results" if model.stale else _tried(report), model.verdict), *aspects]
    print_verdicts(rows, terminal)
    here = sum(a.key.model_id == model.model_id and a.outcome != "error" for a in report.attempts)
    notes = [*_lacking(rows), *([model.note] if model.note else [])]
    if model.verdict.tests > here:
        notes.append(f"{model.verdict.tests - here:,} of these tests are from earlier runs")
    if model.stale_reasons:
        those = "these results no longer count" if model.stale else "earlier results are not counted"
        notes.append(f"{those}: {'; '.join(model.stale_reasons)}")
    for note in notes:
        terminal.paragraph(note, indent="  ")
    terminal.out()


def _tried(report: Report) -> str:
    tried = len(report.plan.cases)
    return "all cases" if tried >= report.known_cases else f"{tried} of {counted(report.known_cases, 'case')}"


def _lacking(rows: Sequence[tuple[str, Verdict]]) -> list[str]:
    """Explain the rows that are undecided although their interval is clear, or that no number of tests would decide."""
    names_by_reason: dict[str, list[str]] = {}
    for name, verdict in rows:
        if verdict.lacking and (verdict.more is None or verdict.low >= LINE or verdict.high < LINE):
            names_by_reason.setdefault(verdict.lacking, []).append(name)
    return [f"{', '.join(names)}: {lacking}" for lacking, names in names_by_reason.items()]


def _print_failures(report: Report, terminal: Terminal) -> None:
    groups: dict[tuple[str, str], list[Attempt]] = {}
    for attempt in report.attempts:
        if attempt.outcome == "failed":
            groups.setdefault((attempt.key.model_id, attempt.case or ""), []).append(attempt)
    failed = dict(sorted(groups.items()))
    if not failed:
        return
    many = len(report.plan.models) > 1
    runs = report.plan.runs
    limit = len(failed) if terminal.verbose else _MAX_FAILURES
    terminal.out(f"failed: {counted(sum(map(len, failed.values())), 'attempt')}", "bold")
    for (model_id, case), attempts in [*failed.items()][:limit]:
        of = f" ({len(attempts)} of {runs})" if runs > 1 else ""
        terminal.out(f"  {one_line(case, 60)}{f' with {model_id}' if many else ''}{of}")
        problems = [*dict.fromkeys(text for attempt in attempts for text in attempt.problems)]
        for text in problems if terminal.verbose else problems[:_MAX_PROBLEMS]:
            terminal.paragraph(text if terminal.verbose else one_line(text, 300), indent="      ")
    if len(failed) > limit:
        terminal.out(f"  … and {counted(len(failed) - limit, 'case')} more: -v shows them all")
    terminal.out()


def _print_errors(report: Report, terminal: Terminal) -> None:
    counts = Counter((a.key.model_id, " ".join(a.problems)) for a in report.attempts if a.outcome == "error")
    if not counts:
        return
    terminal.out("ended in an error and is not counted:", "bold")
    for (model_id, why), number in counts.items():
        terminal.paragraph(f"{counted(number, 'attempt')} with {model_id}: {one_line(why, 300)}", indent="  ")
    terminal.out()


def _problem(report: Report) -> str:
    """Return the problem of the run, without the causes, which are shown with the attempts."""
    text = report.run.problem or ""
    for attempt in report.attempts:
        if attempt.outcome == "error":
            why = " ".join(attempt.problems)
            text = text.replace(f": {why}", "").replace(f", the last one because {why}", "")
    return text


def _summary(report: Report) -> str:
    progress = report.progress
    done = progress.passed + progress.failed
    parts = [f"run {report.run.id[:8]} {report.run.state}: {done:,} of {counted(progress.planned, 'attempt')}"]
    parts[0] += f" in {duration(progress.elapsed_s)}"
    if progress.input_tokens or progress.output_tokens:
        parts.append(f"{progress.input_tokens:,} tokens read, {progress.output_tokens:,} written")
    if progress.cost:
        parts.append(f"${progress.cost:.4f}")
    if progress.unpriced:
        parts.append(f"no price is known for {', '.join(progress.unpriced)} ([validation.prices] has none)")
    return "; ".join(parts)


async def watch(run: ValidationRun, terminal: Terminal) -> None:
    """Make a run's attempts and show the progress on standard error."""
    plan = run.plan
    parts = [counted(len(plan.models), "model"), counted(len(plan.cases), "case"), counted(plan.runs, "run")]
    before = f", {run.progress.done} of them made before" if run.progress.done else ""
    terminal.say(f"{counted(run.run.planned, 'attempt')}: {' x '.join(parts)}{before}", "dim")
    ticking = asyncio.create_task(_tick(run, terminal))
    try:
        async with contextlib.aclosing(run.events()) as events:
            async for event in events:
                if isinstance(event, Attempt) and terminal.verbose:
                    name = f"{event.key.model_id}: {event.case}"
                    terminal.say(f"{event.outcome}: {name}{''.join(f'; {text}' for text in event.problems)}", "dim")
                terminal.status(progress_line(run.progress, terminal.width))
    finally:
        ticking.cancel()
        terminal.status("")


async def _tick(run: ValidationRun, terminal: Terminal) -> None:
    while True:
        await asyncio.sleep(0.5)
        terminal.status(progress_line(run.progress, terminal.width))


def progress_line(progress: Progress, width: int) -> str:
    """Return a run's progress on one line: counts, a bar if there is room, the time left."""
    counts = f"{progress.done} of {progress.planned}"
    parts = [f"{progress.passed} passed", f"{progress.failed} failed"]
    parts += [counted(progress.errors, "error")] if progress.errors else []
    if progress.waiting:
        return f"{counts}: {', '.join(parts)}; waiting: {progress.waiting}"
    parts += [f"about {duration(progress.eta_s)} left"] if progress.eta_s is not None else []
    rest = f"{counts}: {', '.join(parts)}"
    room = min(30, width - len(rest) - 5)
    if room < 5:
        return rest
    filled = room * min(progress.done, progress.planned) // max(progress.planned, 1)
    return f"[{'#' * filled}{'.' * (room - filled)}] {rest}"


def duration(seconds: float) -> str:
    """Return a time for people: "40 ms", "0.4 s", "12 s", "3 min 5 s", "2 h 10 min"."""
    if seconds < 0.095:
        return f"{max(1, round(seconds * 1000))} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def junit_xml(plan: Plan, attempts: Iterable[Attempt]) -> str:
    """Return a plan's results: a testsuite for each model, a testcase for each attempt.

    A failed attempt is a failure, an error is an error, and missing attempts are skipped.

    If an attempt was repeated, the last one counts.
    """
    latest = {(a.key.model_id, a.case, a.repetition): a for a in attempts}
    root = ElementTree.Element("testsuites", name="flexchat validate")
    for model_id in plan.models:
        suite = ElementTree.SubElement(root, "testsuite", name=_xml_text(model_id))
        for task in (task for task in plan.tasks() if task.model_id == model_id):
            attempt = latest.get((model_id, task.case.name, task.repetition))
            name = task.case.name if plan.runs == 1 else f"{task.case.name} [{task.repetition + 1}]"
            case = ElementTree.SubElement(suite, "testcase", name=_xml_text(name), classname=_xml_text(model_id))
            _fill_testcase(case, attempt)
        _count_testcases(suite)
    _count_testcases(root)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _fill_testcase(case: ElementTree.Element, attempt: Attempt | None) -> None:
    case.set("time", f"{(attempt.elapsed_ms if attempt else 0) / 1000:.3f}")
    if attempt is None:
        ElementTree.SubElement(case, "skipped", message="the run ended before this was tried")
        return
    if attempt.outcome == "passed":
        return
    kind = "failure" if attempt.outcome == "failed" else "error"
    first = attempt.problems[0] if attempt.problems else attempt.outcome
    element = ElementTree.SubElement(case, kind, message=_xml_text(first))
    answer = [f"answered: {attempt.content}"] if attempt.content else []
    element.text = _xml_text("\n".join([*attempt.problems, *_calls_made(attempt), *answer]))


def _calls_made(attempt: Attempt) -> Iterable[str]:
    for call in attempt.calls:
        params: Mapping[str, object] = call.params
        arguments = (f"{name}={json.dumps(value, ensure_ascii=False, default=str)}" for name, value in params.items())
        yield f"called: {call.tool}({', '.join(arguments)})"


def _count_testcases(element: ElementTree.Element) -> None:
    cases = [*element.iter("testcase")]
    element.set("tests", str(len(cases)))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(name, str(sum(case.find(tag) is not None for case in cases)))
    element.set("time", f"{sum(float(case.get('time', '0')) for case in cases):.3f}")


def _xml_text(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
