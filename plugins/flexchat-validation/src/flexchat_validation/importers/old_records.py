"""Records of earlier trackers as attempts: a list of pairs, as in the specification, or {savedAt, records}."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from ..attempts import Attempt, ModelKey

IMPORTED = "00000000"
"""Imported ids start with this; the rest is a hash, so that nothing is imported twice."""

_NO_TOOL = "the test called no tool, so it is not a success"


@attrs.frozen(kw_only=True)
class OldRecord:
    """A model's record.

    Attributes:
        attempts: Those in its history.
        tests, successes: How many the record counts, which may be more than the history has.
    """

    model_id: str
    attempts: tuple[Attempt, ...]
    tests: int
    successes: int
    last_tested: str

    def beyond(self, there: Iterable[Attempt]) -> tuple[Attempt, ...]:
        """Return an attempt that stands for the tests which are neither in the history nor kept already.

        Args:
            there: The model's attempts that are kept already; only imported ones matter.
        """
        imported = {a.id: a for a in (*there, *self.attempts) if a.id.startswith(IMPORTED)}
        tests = self.tests - sum(a.tests for a in imported.values())
        if tests < 1:
            return ()
        successes = self.successes - sum(_was_success(a) for a in imported.values())
        successes = min(max(successes, 0), tests)
        return (
            Attempt(
                id=_id(self.model_id, "beyond", self.tests, self.successes, tests, successes),
                key=ModelKey(model_id=self.model_id),
                outcome="passed" if successes == tests else "failed",
                at=self.last_tested,
                details={"imported": "tests before the first in the history", "tests": tests, "successes": successes},
                tests=tests,
                successes=successes,
            ),
        )


def old_records(data: Any) -> tuple[OldRecord, ...]:
    """Read the records of an earlier tracker's file.

    A success in {savedAt, records} without a tool call is imported as failed: that format counted it because nothing
    was raised.

    Raises:
        ValueError: The data has another form; the message names the place and the problem.
    """
    return tuple(_record(model_id, record, where) for model_id, record, where in _entries(data))


def _entries(data: Any) -> Iterator[tuple[Any, Any, str]]:
    if isinstance(data, list):
        for index, pair in enumerate(data):
            if not isinstance(pair, list) or len(pair) != 2:
                raise ValueError(f"[{index}] must be a pair of a model's id and its record")
            yield pair[0], pair[1], f"[{index}]"
        return
    records = data.get("records") if isinstance(data, Mapping) else None
    if isinstance(records, Mapping):
        for model_id, record in records.items():
            yield model_id, record, f"records[{model_id!r}]"
    elif isinstance(records, list):
        for index, record in enumerate(records):
            pair = isinstance(record, list) and len(record) == 2
            yield (record[0] if pair else None), (record[1] if pair else record), f"records[{index}]"
    else:
        raise ValueError("it has no validation records: neither a list of pairs nor an object with 'records'")


def _record(model_id: Any, record: Any, where: str) -> OldRecord:
    if not isinstance(record, Mapping):
        raise ValueError(f"{where} must be an object")
    model_id = record.get("model_id") or record.get("modelId") or model_id
    if not isinstance(model_id, str) or not model_id:
        raise ValueError(f"{where} has no model_id")
    history = _either(record, "test_history", "history", [])
    if not isinstance(history, list) or not all(isinstance(entry, Mapping) for entry in history):
        raise ValueError(f"{where}: the history must be a list of objects")
    last_tested = _either(record, "last_tested", "lastTestedAt", None)
    last_tested = last_tested if isinstance(last_tested, str) else ""
    attempts = tuple(_attempts(model_id, history, last_tested))
    tests = _count(_either(record, "test_count", "totalTests", len(history)), where, "number of tests")
    successes = _count(_either(record, "success_count", "successCount", 0), where, "number of successes")
    if successes > tests:
        raise ValueError(f"{where}: {successes} of {tests} tests cannot have succeeded")
    return OldRecord(
        model_id=model_id, attempts=attempts, tests=tests, successes=successes, last_tested=last_tested or _NEVER
    )


_NEVER = "1970-01-01T00:00:00.000Z"


def _attempts(model_id: str, history: Sequence[Mapping[str, Any]], last_tested: str) -> Iterator[Attempt]:
    counts: dict[str, int] = {}
    for entry in history:
        text = json.dumps(entry, sort_keys=True)
        counts[text] = counts.get(text, 0) + 1
        at = entry.get("timestamp")
        success = entry.get("success") is True if "success" in entry else "error" not in entry
        no_tool = success and entry.get("tools_used") == []
        error = entry.get("error")
        problems = _NO_TOOL if no_tool else "" if success else error if isinstance(error, str) else json.dumps(error)
        yield Attempt(
            id=_id(model_id, text, counts[text]),
            key=ModelKey(model_id=model_id),
            outcome="passed" if success and not no_tool else "failed",
            at=at if isinstance(at, str) and at else last_tested or _NEVER,
            problems=(problems,) if problems else (),
            details=_details(entry, no_tool),
        )


def _details(entry: Mapping[str, Any], no_tool: bool) -> Any:
    if "details" in entry:
        return entry["details"]
    rest = {key: value for key, value in entry.items() if key not in ("timestamp", "success", "error")}
    return {**rest, "imported": _NO_TOOL} if no_tool else rest or None


def _was_success(attempt: Attempt) -> int:
    """Count the successes as the earlier tracker did."""
    if attempt.tests > 1:
        return attempt.successes
    return int(attempt.outcome == "passed" or _NO_TOOL in attempt.problems)


def _either(record: Mapping[str, Any], name: str, other: str, default: Any) -> Any:
    value = record.get(name, record.get(other))
    return default if value is None else value


def _count(value: Any, where: str, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise ValueError(f"{where}: the {what} must be a whole number from 0, not {value!r:.40}")
    return value


def _id(*parts: Any) -> str:
    return IMPORTED + hashlib.sha256(json.dumps(parts).encode()).hexdigest()[: 32 - len(IMPORTED)]
