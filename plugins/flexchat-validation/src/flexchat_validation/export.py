"""Validation results as one JSON file, which reads back without loss."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
from flexchat import StorageError
from flexchat.host import read_file as read_bytes
from flexchat.host import said_of_json
from flexchat.store import replacing

from .attempt_json import attempt_from_dict, attempt_to_dict
from .attempts import Attempt
from .store import Run, run_from_dict, run_to_dict
from .validation_record import ValidationRecord

FORMAT = "flexchat-validation/1"
MOST_BYTES = 1 << 30
"""Most bytes of a results file; it is read as a whole."""


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
        "saved_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "records": [
            {
                **{key: value for key, value in record.to_dict().items() if key != "test_history"},
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
    return _attempts(data), _runs(data)


def _attempts(data: Mapping[str, Any]) -> list[Attempt]:
    found = []
    for index, record in enumerate(_list(data, "records")):
        attempts = record.get("attempts") if isinstance(record, Mapping) else None
        if not isinstance(attempts, list):
            raise ValueError(f"records[{index}] must be an object with a list of attempts")
        for number, attempt in enumerate(attempts):
            try:
                found.append(attempt_from_dict(attempt))
            except ValueError as error:
                raise ValueError(f"records[{index}].attempts[{number}]: {error}") from None
    return found


def _runs(data: Mapping[str, Any]) -> list[Run]:
    found = []
    for index, run in enumerate(_list(data, "runs")):
        try:
            read = run_from_dict(run)
        except ValueError as error:
            raise ValueError(f"runs[{index}]: {error}") from None
        found.append(attrs.evolve(read, state="interrupted") if read.state == "running" else read)
    return found


def _list(data: Mapping[str, Any], name: str) -> list[Any]:
    found = data.get(name, [])
    if not isinstance(found, list):
        raise ValueError(f"{name} must be a list, not {type(found).__name__}")
    return found


def read_file(path: Path) -> Any:
    """Read a file of JSON data.

    Raises:
        FileNotFoundError: There is no such file.
        StorageError: The file is not JSON; the text names the line.
    """
    try:
        return json.loads(read_bytes(path, most=MOST_BYTES).decode("utf-8-sig"))
    except FileNotFoundError:
        raise
    except json.JSONDecodeError as error:
        raise StorageError(
            f"validation results: '{path}', line {error.lineno}, is not JSON: {said_of_json(error)}; nothing was loaded"
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
