"""Where attempts and runs are kept: one SQLite file."""

from __future__ import annotations

import json
import os
import pickle
import platform
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import attrs
from flexchat import StorageError
from flexchat.host import DEFAULT_TENANT
from flexchat.store import data_folder
from flexchat_sqlite import Database

from .attempts import Attempt, attempt_from_dict, attempt_to_dict, json_data, known_keys, structured

FILE_NAME = "validation.db"
APPLICATION_ID = 0x666C7876  # "flxv"
QUIET_S = 900.0
"""Seconds without a new attempt after which another machine's run counts as interrupted."""

_ROWS_IN_PART = 500

T = TypeVar("T")

RunState = Literal["running", "finished", "cancelled", "failed", "interrupted"]

# Ordered by number, not by time: clocks go back.
_TABLES = """
CREATE TABLE attempts (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    run TEXT,
    model_id TEXT NOT NULL,
    case_name TEXT,
    repetition INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    cost REAL,
    attempt TEXT NOT NULL
);
CREATE INDEX attempts_by_model ON attempts (model_id, number);
CREATE INDEX attempts_by_run ON attempts (run, number);
CREATE TABLE runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    state TEXT NOT NULL,
    owner TEXT NOT NULL,
    heard_at REAL NOT NULL,
    run TEXT NOT NULL
);
CREATE INDEX runs_by_tenant ON runs (tenant, number);
"""
_MIGRATIONS = (_TABLES,)


@attrs.frozen(kw_only=True)
class Run:
    """A validation run: models, each tried with the same cases a number of times.

    Attributes:
        id: 32 hexadecimal digits.
        state: "running" is read as "interrupted" if its process no longer exists; such a run can be resumed.
        cases: Names, in their order.
        runs: How often each case is tried with each model.
        planned: Attempts in all.
        started_at, ended_at: ISO 8601, UTC.
        problem: Why it failed.
        settings: What else is needed to resume it; JSON data.
        tenant: Its owner.
    """

    id: str
    state: RunState
    models: tuple[str, ...]
    cases: tuple[str, ...]
    runs: int = 1
    planned: int = 0
    started_at: str = ""
    ended_at: str | None = None
    problem: str | None = None
    settings: Mapping[str, Any] = attrs.field(factory=dict)
    tenant: str = DEFAULT_TENANT


@attrs.frozen(kw_only=True)
class Tally:
    """A run's progress. A try that is repeated after an error counts once, by its final outcome.

    Attributes:
        cost: US dollars, of all attempts; None if no price is known.
    """

    passed: int = 0
    failed: int = 0
    errors: int = 0
    cost: float | None = None

    @property
    def done(self) -> int:
        """How many of the planned attempts were made."""
        return self.passed + self.failed + self.errors


@attrs.frozen
class Rows:
    """Attempts and runs prepared for ValidationStore.add_rows; they can be sent to another process.

    Attributes:
        attempts: Pickled parts of a few hundred attempts each, so that not all are in memory at once.
    """

    attempts: tuple[bytes, ...]
    runs: tuple[tuple[Any, ...], ...]


def rows_of(attempts: Iterable[Attempt], runs: Iterable[Run] = ()) -> Rows:
    """Convert attempts and runs into rows of the database.

    Raises:
        StorageError: One of them cannot be stored.
    """
    rows = list(map(_attempt_row, attempts))
    parts = (rows[start : start + _ROWS_IN_PART] for start in range(0, len(rows), _ROWS_IN_PART))
    return Rows(tuple(map(pickle.dumps, parts)), tuple(map(_run_row, runs)))


class ValidationStore:
    """Keeps attempts and runs. Once a writing method has returned, its data survives ``kill -9`` and a power failure.

    Several processes may use one file. Methods raise StorageError if the file cannot be used.

    Args:
        path: The file; None for validation.db in this user's data.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.database = Database(
            data_folder() / FILE_NAME if path is None else path,
            kind="validation results",
            application_id=APPLICATION_ID,
            migrations=_MIGRATIONS,
        )

    @property
    def path(self) -> Path:
        """The file."""
        return self.database.path

    async def add(self, *attempts: Attempt) -> int:
        """Add attempts, all or none; return the number of new ones. Those whose id exists are not changed."""
        return await self.add_rows(rows_of(attempts))

    async def add_rows(self, rows: Rows) -> int:
        """Add the rows that rows_of has prepared, all or none; return how many attempts are new."""
        return await self.database.write(lambda database: _insert_rows(database, rows))

    async def count(self) -> int:
        """Count the attempts."""
        rows = await self.database.read(lambda database: database.execute("SELECT count(*) FROM attempts").fetchall())
        return int(rows[0][0])

    async def attempts(self, *, run: str | None = None, model_id: str | None = None) -> Sequence[Attempt]:
        """Return attempts in the order they were added: all, or those of a run, of a model."""
        return self._attempts(await self.database.read(lambda database: _select(database, run, model_id)))

    async def save_run(self, run: Run) -> None:
        """Add a run, or replace its earlier version. A running one belongs to this process."""
        row, names = _run_row(run), ("state", "owner", "heard_at", "run")
        statement = f"{_INSERT_RUN} UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in names)}"
        await self.database.write(lambda database: database.execute(statement, row))

    async def run(self, id: str) -> Run:
        """Return a run.

        Raises:
            StorageError: There is none with this id.
        """
        row = await self.database.read(
            lambda database: database.execute(f"SELECT {_RUN} FROM runs WHERE id = ?", (id,)).fetchone()
        )
        if row is None:
            raise StorageError(f"there is no validation run '{id}'")
        return self._run(row)

    async def runs(self, limit: int = 50, *, tenant: str | None = None) -> Sequence[Run]:
        """Return runs, newest first.

        Args:
            tenant: The owner; None for the runs of all.
        """
        rows = await self.database.read(lambda database: _select_runs(database, limit, tenant))
        return [self._run(row) for row in rows]

    async def interrupted(self) -> Sequence[Run]:
        """Return the runs that were neither finished nor cancelled, and that no process is continuing."""
        return [run for run in await self.runs(-1) if run.state == "interrupted"]

    async def tallies(self, runs: Iterable[str]) -> Mapping[str, Tally]:
        """Return runs' progress, by id."""
        tallies = dict.fromkeys(runs, Tally())
        ids = json.dumps(list(tallies))
        rows = await self.database.read(lambda database: database.execute(_COUNT, (ids,)).fetchall())
        for run, passed, failed, errors, cost in rows:
            tallies[run] = Tally(passed=passed, failed=failed, errors=errors, cost=cost)
        return tallies

    async def aclose(self) -> None:
        """Close the file."""
        await self.database.aclose()

    def add_blocking(self, attempts: Iterable[Attempt], runs: Iterable[Run] = ()) -> int:
        """Add attempts from synchronous code, as add does; runs that do not exist yet are added in the same step."""
        rows = rows_of(attempts, runs)
        return self.database.write_blocking(lambda database: _insert_rows(database, rows))

    def attempts_blocking(self, *, model_id: str | None = None) -> Sequence[Attempt]:
        """Return attempts to synchronous code, as attempts does."""
        return self._attempts(self.database.read_blocking(lambda database: _select(database, None, model_id)))

    def models_blocking(self) -> Sequence[str]:
        """Return the ids of the models with attempts, in the order of their first ones."""
        rows = self.database.read_blocking(
            lambda db: db.execute("SELECT model_id FROM attempts GROUP BY model_id ORDER BY min(number)").fetchall()
        )
        return [id for (id,) in rows]

    def runs_blocking(self) -> Sequence[Run]:
        """Return all runs, newest first, for synchronous code."""
        return [self._run(row) for row in self.database.read_blocking(lambda db: _select_runs(db, -1, None))]

    def close(self) -> None:
        """Close the file from synchronous code."""
        self.database.close()

    def _attempts(self, rows: Iterable[tuple[str, str]]) -> Sequence[Attempt]:
        return [self._decode("an attempt", id, text, attempt_from_dict) for id, text in rows]

    def _run(self, row: tuple[str, str, str, float, str]) -> Run:
        id, state, owner, heard_at, text = row
        run = self._decode("a run", id, text, run_from_dict)
        if state != "running":
            return run
        # A killed process leaves its runs "running". Whether one of this machine still exists is certain: its id
        # includes its start time. Of another machine's, only the time since its last attempt is known.
        alive = is_alive(owner)
        is_running = time.time() - heard_at <= QUIET_S if alive is None else alive
        return run if is_running else attrs.evolve(run, state="interrupted")

    def _decode(self, kind: str, id: str, text: str, read: Callable[[Any], T]) -> T:
        try:
            return read(json.loads(text))
        except ValueError as error:
            raise StorageError(
                f"validation results: '{self.path}' has {kind} '{id}' that cannot be read: {error}"
            ) from None


def run_to_dict(run: Run) -> dict[str, Any]:
    """Return a run as JSON data."""
    return dict(json_data(attrs.asdict(run)))


def run_from_dict(data: Any) -> Run:
    """Rebuild a run from the data of run_to_dict; unknown keys are ignored.

    Raises:
        ValueError: The data is not a run; the message names the problem.
    """
    run = structured(known_keys(data, Run), Run, "a run")
    if not run.id:
        raise ValueError("a run must have an id")
    return run


_RUN = "id, state, owner, heard_at, run"
_COUNT = """
SELECT run, sum(did = 1), sum(did = 0), sum(did IS NULL), sum(cost) FROM (
    SELECT run, max(CASE outcome WHEN 'passed' THEN 1 WHEN 'failed' THEN 0 END) AS did, sum(cost) AS cost
    FROM attempts WHERE run IN (SELECT value FROM json_each(?))
    GROUP BY run, model_id, case_name, repetition
) GROUP BY run
"""
_INSERT_RUN = "INSERT INTO runs (id, tenant, state, owner, heard_at, run) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO"


def _attempt_row(attempt: Attempt) -> tuple[Any, ...]:
    data = attempt_to_dict(attempt)
    try:
        row = attempt_from_dict(data)  # as it will be read: an attempt that is written must be readable
    except ValueError as error:
        raise StorageError(f"validation results: this attempt cannot be kept: {error}") from None
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return row.id, row.run, row.key.model_id, row.case, row.repetition, row.outcome, row.cost, text


def _insert_rows(database: sqlite3.Connection, rows: Rows) -> int:
    for row in rows.runs:
        database.execute(f"{_INSERT_RUN} NOTHING", row)
    return sum(_insert(database, pickle.loads(part)) for part in rows.attempts)


def _insert(database: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> int:
    new = database.executemany(
        "INSERT INTO attempts (id, run, model_id, case_name, repetition, outcome, cost, attempt) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
        rows,
    ).rowcount
    # Each attempt shows that its run is alive: another machine cannot look for the process, see _run.
    for run in {row[1] for row in rows if row[1]}:
        database.execute("UPDATE runs SET heard_at = ? WHERE id = ? AND state = 'running'", (time.time(), run))
    return new


def _select(database: sqlite3.Connection, run: str | None, model_id: str | None) -> list[tuple[str, str]]:
    values = {"run": run, "model_id": model_id}
    conditions = " AND ".join(f"{name} = :{name}" for name, value in values.items() if value is not None) or "true"
    return database.execute(f"SELECT id, attempt FROM attempts WHERE {conditions} ORDER BY number", values).fetchall()


def _run_row(run: Run) -> tuple[Any, ...]:
    owner = this_process() if run.state == "running" else ""
    data = run_to_dict(run)
    try:
        run_from_dict(data)
    except ValueError as error:
        raise StorageError(f"validation results: this run cannot be kept: {error}") from None
    return data["id"], data["tenant"], run.state, owner, time.time(), json.dumps(data, ensure_ascii=False)


def _select_runs(
    database: sqlite3.Connection, limit: int, tenant: str | None
) -> list[tuple[str, str, str, float, str]]:
    return database.execute(
        f"SELECT {_RUN} FROM runs WHERE :tenant IS NULL OR tenant = :tenant ORDER BY number DESC LIMIT :limit",
        {"tenant": tenant, "limit": limit},
    ).fetchall()


def this_process() -> str:
    """Return an identifier of this process, different even from a later one with the same number."""
    return f"{platform.node()} {os.getpid()} {_started(os.getpid()) or ''}".strip()


def is_alive(owner: str) -> bool | None:
    """Return whether the process that called this_process still runs; None if this cannot be determined here."""
    host, _, rest = owner.partition(" ")
    number, _, started = rest.partition(" ")
    if host != platform.node() or not number.isdecimal():
        return None
    if started:
        return _started(int(number)) == started
    if os.name != "posix":  # elsewhere os.kill would end it
        return None
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _started(number: int) -> str | None:
    """Return the start time of a process in the kernel's ticks; None where the kernel does not report it.

    Source: proc_pid_stat(5), field 22; the name before it is in brackets and may contain anything.
    """
    try:
        stat = Path(f"/proc/{number}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] not in "ZX" else None
