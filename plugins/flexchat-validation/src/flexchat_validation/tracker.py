"""Which models are validated for calling tools: the specification's tracker, based on their stored tests.

It saves all results as one JSON file, which reads back without loss.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs
from flexchat import StorageError
from flexchat.host import json_error_message, read_file
from flexchat.store import replacing

from .attempts import Attempt, ModelKey, attempt_from_dict, attempt_to_dict, json_data, now
from .importers.old_records import old_records
from .store import Run, ValidationStore, run_from_dict, run_to_dict
from .summary import ValidationRecord, counts, summarise

log = logging.getLogger(__name__)

T = TypeVar("T")

FORMAT = "flexchat-validation/1"
MAX_BYTES = 1 << 30
"""Maximum size of a results file, which is read as a whole."""

MAX_HISTORY = 50
"""Number of tests in the history of a record; all are kept."""


class ModelValidationTracker:
    """Records tests of models, and decides which are validated.

    Once a recording method has returned, its data is on disk and survives ``kill -9``. Recording waits some
    milliseconds for the disk: on an event loop that serves others, call it with ``asyncio.to_thread``.

    Args:
        path: The database, or a store that is open already. None keeps everything in memory.
        current: Returns the current key of a model; default: results never become stale.
        cases: The cases that count now, with their hashes (see case_hashes); default: all.
    """

    def __init__(
        self,
        path: str | Path | ValidationStore | None = None,
        *,
        current: Callable[[str], ModelKey] | None = None,
        cases: Callable[[], Mapping[str, str] | None] | None = None,
    ) -> None:
        self._store: ValidationStore | _Memory
        if path is None:
            self._store = _Memory()
        else:
            self._store = path if isinstance(path, ValidationStore) else ValidationStore(path)
        self._is_own = path is None or not isinstance(path, ValidationStore)
        self._current = current or (lambda model_id: ModelKey(model_id=model_id))
        self._cases = cases or (lambda: None)

    def record_success(self, model_id: str, details: Any = None) -> ValidationRecord:
        """Record a test that succeeded (TC-95); return the model's record.

        Args:
            details: JSON data for the history.
        """
        return self._recorded(model_id, "passed", details=details)

    def record_failure(self, model_id: str, error: Any = None) -> ValidationRecord:
        """Record a test that failed (TC-96); return the model's record. An error of its service is not a test.

        Args:
            error: What was wrong: text or JSON data.
        """
        problem = error if isinstance(error, str) else "" if error is None else json.dumps(json_data(error))
        return self._recorded(
            model_id, "failed", problems=(problem,) if problem else (), details=None if problem == error else error
        )

    def is_validated(self, model_id: str) -> bool:
        """Return whether a model is validated; one that was never tested is not (TC-97)."""
        return self.get_status(model_id).validated

    def get_status(self, model_id: str) -> ValidationRecord:
        """Return a model's record; for one that was never tested, an empty one (TC-97)."""
        attempts = self._store.attempts_blocking(model_id=model_id)
        return self._records([model_id], attempts)[0]

    def get_all_validations(self) -> list[ValidationRecord]:
        """Return the records of all models that were tested (TC-98)."""
        attempts = self._store.attempts_blocking()
        ids = dict.fromkeys(a.key.model_id for a in attempts if counts(a)[1])
        return self._records(ids, attempts)

    async def save(self, path: str | Path) -> None:
        """Write everything to a JSON file that load reads without loss, all or nothing (TC-99).

        Raises:
            StorageError: The file cannot be written.
        """
        await asyncio.to_thread(self._save, Path(path))

    async def load(self, path: str | Path) -> int:
        """Add a file's contents, and return how many attempts were new; loading it again adds nothing (TC-99).

        Reads what save wrote, the specification's form (pairs of id and record), and {savedAt, records}. A missing file
        is only logged.

        Raises:
            StorageError: The file cannot be read; nothing was added.
        """
        return await asyncio.to_thread(self._load, Path(path))

    def export(self) -> dict[str, Any]:
        """Return everything as the JSON data that save writes."""
        attempts = self._store.attempts_blocking()
        by_model: dict[str, list[Attempt]] = {}
        for attempt in attempts:
            by_model.setdefault(attempt.key.model_id, []).append(attempt)
        return {
            "format": FORMAT,
            "saved_at": now(),
            "records": [
                {**record.status(), "attempts": [attempt_to_dict(each) for each in by_model[record.model_id]]}
                for record in self._records(by_model, attempts)
            ],
            "runs": [run_to_dict(run) for run in reversed(self._store.runs_blocking())],
        }

    def merge(self, data: Any) -> int:
        """Add JSON data in any form that load reads, all or nothing; return the number of new attempts.

        Raises:
            ValueError: The data has another form; the text names the place and the problem.
        """
        return self._store.add_blocking(*self.read(data))

    def read(self, data: Any) -> tuple[Sequence[Attempt], Sequence[Run]]:
        """Parse the JSON data that merge would add; some of it may already exist.

        Raises:
            ValueError: The data has another form; the text names the place and the problem.
        """
        try:
            return self._read(data)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None

    def close(self) -> None:
        """Close the database, unless a store was passed in: its owner closes it."""
        if self._is_own:
            self._store.close()

    def _read(self, data: Any) -> tuple[Sequence[Attempt], Sequence[Run]]:
        if isinstance(data, Mapping) and "format" in data:
            return _read_exported(data)
        attempts: list[Attempt] = []
        for record in old_records(data):
            attempts += record.attempts
            attempts += record.beyond(self._store.attempts_blocking(model_id=record.model_id))
        return attempts, ()

    def _save(self, path: Path) -> None:
        if self._store.path is not None and path.absolute() == self._store.path.absolute():
            raise StorageError(f"validation results: '{path}' is the database; choose another name for the copy")
        text = json.dumps(self.export(), indent=2, ensure_ascii=False) + "\n"
        try:
            with replacing(path) as file:
                file.write(text)
        except OSError as error:
            reason = error.strerror or error
            raise StorageError(f"validation results: '{path}' cannot be written: {reason}") from error

    def _load(self, path: Path) -> int:
        try:
            data = json.loads(read_file(path, most=MAX_BYTES).decode("utf-8-sig"))
        except FileNotFoundError:
            log.info("no validation results at '%s'", path)
            return 0
        except json.JSONDecodeError as error:
            problem = f"'{path}', line {error.lineno}, is not JSON: {json_error_message(error)}"
            raise StorageError(f"validation results: {problem}; nothing was loaded") from None
        except (OSError, ValueError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise StorageError(f"validation results: '{path}' cannot be read: {reason}; nothing was loaded") from None
        try:
            return self.merge(data)
        except ValueError as error:
            raise StorageError(f"validation results: '{path}': {error}; nothing was loaded") from None

    def _recorded(self, model_id: str, outcome: Any, **rest: Any) -> ValidationRecord:
        key = attrs.evolve(self._current(model_id), model_id=model_id)
        attempt = Attempt(id=uuid.uuid4().hex, key=key, outcome=outcome, at=now(), **rest)
        self._store.add_blocking([attempt])
        return self.get_status(model_id)

    def _records(self, model_ids: Iterable[str], attempts: Sequence[Attempt]) -> list[ValidationRecord]:
        keys = {id: self._current(id) for id in model_ids}
        if not keys:
            return []
        attempts = [attempt for attempt in attempts if attempt.key.model_id in keys]
        history: dict[str, list[Attempt]] = {}
        for attempt in attempts:
            if counts(attempt)[1]:
                history.setdefault(attempt.key.model_id, []).append(attempt)
        return [
            summary.record(map(_entry, history.get(summary.model_id, [])[-MAX_HISTORY:]))
            for summary in summarise(attempts, keys, self._cases(), runs=self._store.runs_blocking())
        ]


class _Memory:
    """A store for a tracker, without a file."""

    path: Path | None = None

    def __init__(self) -> None:
        self._attempts: dict[str, Attempt] = {}
        self._runs: dict[str, Run] = {}

    def add_blocking(self, attempts: Iterable[Attempt], runs: Iterable[Run] = ()) -> int:
        new = {a.id: attempt_from_dict(attempt_to_dict(a)) for a in attempts if a.id not in self._attempts}
        self._attempts |= new
        self._runs = {run.id: run for run in runs} | self._runs
        return len(new)

    def attempts_blocking(self, *, model_id: str | None = None) -> Sequence[Attempt]:
        return [a for a in self._attempts.values() if model_id is None or a.key.model_id == model_id]

    def runs_blocking(self) -> Sequence[Run]:
        return [*reversed(self._runs.values())]

    def close(self) -> None:
        """Nothing is open."""


def _entry(attempt: Attempt) -> dict[str, Any]:
    """Return a test as the history shows it (TC-95, TC-96)."""
    success = attempt.outcome == "passed"
    entry: dict[str, Any] = {"timestamp": attempt.at, "success": success}
    details = attempt.details
    if details is None and attempt.case is not None:
        details = {"case": attempt.case, "run": attempt.run, "calls": len(attempt.calls)}
    if success or details is not None:
        entry["details"] = details
    if not success:
        entry["error"] = "; ".join(attempt.problems)
    return entry


def _read_exported(data: Mapping[str, Any]) -> tuple[list[Attempt], list[Run]]:
    """Read the attempts and runs from the JSON data of ``export``. Runs in progress become interrupted.

    Raises:
        ValueError: The data has another form; the message names the place and the problem.
    """
    if data.get("format") != FORMAT:
        raise ValueError(f"format {data.get('format')!r:.60} is not known (this FlexChat reads {FORMAT})")
    attempts: list[Attempt] = []
    for index, record in enumerate(_list(data, "records")):
        entries = record.get("attempts") if isinstance(record, Mapping) else None
        if not isinstance(entries, list):
            raise ValueError(f"records[{index}] must be an object with a list of attempts")
        attempts += _read_all(entries, f"records[{index}].attempts", attempt_from_dict)
    runs = _read_all(_list(data, "runs"), "runs", run_from_dict)
    # The process that was making a run is not known here: nothing continues it until it is resumed.
    return attempts, [attrs.evolve(run, state="interrupted") if run.state == "running" else run for run in runs]


def _read_all(entries: Iterable[Any], place: str, read: Callable[[Any], T]) -> list[T]:
    items = []
    for index, entry in enumerate(entries):
        try:
            items.append(read(entry))
        except ValueError as error:
            raise ValueError(f"{place}[{index}]: {error}") from None
    return items


def _list(data: Mapping[str, Any], name: str) -> list[Any]:
    entries = data.get(name, [])
    if not isinstance(entries, list):
        raise ValueError(f"{name} must be a list, not {type(entries).__name__}")
    return entries
