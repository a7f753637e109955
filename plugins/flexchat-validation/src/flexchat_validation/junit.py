"""A run as JUnit XML, which CI systems show: a testsuite for each model, a testcase for each attempt."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from xml.etree import ElementTree

from .attempts import Attempt
from .running import Plan

# What XML 1.0 cannot contain, not even escaped; a model may write it.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(plan: Plan, attempts: Iterable[Attempt]) -> str:
    """Return a plan's results: failed is a failure, an error is an error, and missing attempts are skipped.

    If an attempt was repeated, the last one counts.
    """
    latest = {(a.key.model_id, a.case, a.repetition): a for a in attempts}
    root = ElementTree.Element("testsuites", name="flexchat validate")
    for model_id in plan.models:
        suite = ElementTree.SubElement(root, "testsuite", name=_text(model_id))
        for task in (task for task in plan.tasks() if task.model_id == model_id):
            attempt = latest.get((model_id, task.case.name, task.repetition))
            name = task.case.name if plan.runs == 1 else f"{task.case.name} [{task.repetition + 1}]"
            case = ElementTree.SubElement(suite, "testcase", name=_text(name), classname=_text(model_id))
            _fill(case, attempt)
        _count(suite)
    _count(root)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _fill(case: ElementTree.Element, attempt: Attempt | None) -> None:
    case.set("time", f"{(attempt.elapsed_ms if attempt else 0) / 1000:.3f}")
    if attempt is None:
        ElementTree.SubElement(case, "skipped", message="the run ended before this was tried")
        return
    if attempt.outcome == "passed":
        return
    kind = "failure" if attempt.outcome == "failed" else "error"
    first = attempt.problems[0] if attempt.problems else attempt.outcome
    element = ElementTree.SubElement(case, kind, message=_text(first))
    answer = [f"answered: {attempt.content}"] if attempt.content else []
    element.text = _text("\n".join([*attempt.problems, *_calls(attempt), *answer]))


def _calls(attempt: Attempt) -> Iterable[str]:
    for call in attempt.calls:
        params: Mapping[str, object] = call.params
        arguments = (f"{name}={json.dumps(value, ensure_ascii=False, default=str)}" for name, value in params.items())
        yield f"called: {call.tool}({', '.join(arguments)})"


def _count(element: ElementTree.Element) -> None:
    cases = [*element.iter("testcase")]
    element.set("tests", str(len(cases)))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(name, str(sum(case.find(tag) is not None for case in cases)))
    element.set("time", f"{sum(float(case.get('time', '0')) for case in cases):.3f}")


def _text(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
