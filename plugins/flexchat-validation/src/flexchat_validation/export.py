"""Validation results as one JSON file, which reads back without loss."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs
from flexchat import StorageError
from flexchat.host import json_error_message
from flexchat.host import read_file as read_bytes
from flexchat.store import replacing

from .attempts import Attempt, attempt_from_dict, attempt_to_dict, now
from .store import Run, run_from_dict, run_to_dict
from .summary import ValidationRecord

T = TypeVar("T")

FORMAT = "flexchat-validation/1"
MAX_BYTES = 1 << 30
"""Maximum size of a results file, which is read as a whole."""


def exported(
    records: Iterable[ValidationRecord], attempts: Mapping[str, Sequence[Attempt]], runs: Sequence[Run]
) -> dict[str, Any]:
    """Return records, each with its model's attempts, and runs as JSON data.

    Args:
        attempts: By model.
        runs: The last one first.
    """
    return {
        "format": FORMAT,
        "saved_at": now(),
        "records": [
            {
                **record.status(),
                "attempts": [attempt_to_dict(attempt) for attempt in attempts[record.model_id]],
            }
            for record in records
        ],
        "runs": [run_to_dict(run) for run in reversed(runs)],
    }


def read_exported(data: Mapping[str, Any]) -> tuple[list[Attempt], list[Run]]:
    """Read the attempts and runs from the JSON data of ``exported``. Runs in progress become interrupted.

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


def read_file(path: Path) -> Any:
    """Read a file of JSON data.

    Raises:
        FileNotFoundError: There is no such file.
        StorageError: The file is not JSON; the text names the line.
    """
    try:
        return json.loads(read_bytes(path, most=MAX_BYTES).decode("utf-8-sig"))
    except FileNotFoundError:
        raise
    except json.JSONDecodeError as error:
        raise StorageError(
            f"validation results: '{path}', line {error.lineno}, is not JSON: {json_error_message(error)}; "
            "nothing was loaded"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise StorageError(f"validation results: '{path}' cannot be read: {reason}; nothing was loaded") from None


def write_file(path: Path, data: Any) -> None:
    """Write JSON data to a file, keeping its old content until the new content is complete.

    Raises:
        StorageError: It cannot be written.
    """
    text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    try:
        with replacing(path) as file:
            file.write(text)
    except OSError as error:
        raise StorageError(f"validation results: '{path}' cannot be written: {error.strerror or error}") from error
