"""The queue of turns on procrastinate: jobs in PostgreSQL, in a schema of their own.

Only the engine's job manager is used. Its worker stops when the database restarts, and its rescue of jobs ignores who
runs them; see ``renew``, ``complete`` and ``release``.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, LiteralString, TypeVar

import attrs
import psycopg
from flexchat.store import StorageError
from flexchat_postgresql import Connection, Connections, PostgresConfig
from procrastinate import BaseConnector, sql
from procrastinate.manager import JobManager, get_channel_for_queues
from procrastinate.schema import SchemaManager
from psycopg.rows import dict_row

from .turn_queue import Lease, QueuedTurn

T = TypeVar("T")

QUEUE = "flexchat"
_STEP = 1 << 25
"""Tags per priority: how many turns can be ranked before the queue is empty once. Later ones share the last tag."""
_MAX_PRIORITY = 31
_START = 1 << 10  # Tags below are for turns that precede all others of their conversation.
_GONE = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedFunction, psycopg.errors.InvalidSchemaName)

_TABLES: tuple[LiteralString, ...] = (
    """
    CREATE TABLE {s}.clocks (class int PRIMARY KEY, tag int NOT NULL);
    CREATE UNIQUE INDEX jobs_turn ON {s}.procrastinate_jobs ((args->>'turn')) WHERE status IN ('todo', 'doing');
    CREATE INDEX jobs_tenant ON {s}.procrastinate_jobs ((args->>'tenant'), priority)
        WHERE status IN ('todo', 'doing');
    CREATE INDEX jobs_lock ON {s}.procrastinate_jobs (lock, priority) WHERE status IN ('todo', 'doing');
    ALTER TABLE {s}.procrastinate_jobs SET (autovacuum_vacuum_scale_factor = 0.01)""",
)

# The engine's query finds the first turn that may be leased by walking along an index. Without statistics, as after a
# table has grown at once, the planner would sort all of them instead.
_SETUP: LiteralString = """
    SET search_path TO {s}; SET synchronous_commit = off;
    SET enable_seqscan = off; SET enable_sort = off; SET enable_hashjoin = off; SET enable_mergejoin = off"""

# Start-time fair queueing. A turn's tag is one more than that of its tenant's last turn, but at least the clock, which
# is the highest tag that was leased: a tenant with nothing in the queue is next, and one with much waits for itself.
# Counting a tenant's waiting turns instead would let those who arrive later overtake all that is left of a long queue.
_ENQUEUE: LiteralString = """
    WITH new AS (
        SELECT n.*, row_number() OVER (PARTITION BY n.tenant, n.class, n.has_begun ORDER BY n.place)::int - 1 AS nth
        FROM ROWS FROM (json_to_recordset(%(turns)s::json)
            AS (turn text, tenant text, lock text, class int, is_first bool, has_begun bool)
        ) WITH ORDINALITY AS n(turn, tenant, lock, class, is_first, has_begun, place)
        WHERE NOT EXISTS (
            SELECT FROM procrastinate_jobs j WHERE j.args->>'turn' = n.turn AND j.status IN ('todo', 'doing'))
    ), clocked AS (
        SELECT new.*, new.class * %(step)s AS top, coalesce(c.tag, %(start)s) AS clock
        FROM new LEFT JOIN {s}.clocks c ON c.class = new.class
    ), tagged AS (
        SELECT k.*, k.top - least(%(step)s - 1, CASE WHEN k.has_begun THEN k.clock ELSE k.nth + greatest(k.clock, (
            SELECT k.top - j.priority + 1 FROM procrastinate_jobs j
            WHERE j.args->>'tenant' = k.tenant AND j.status IN ('todo', 'doing')
            AND j.priority > k.top - %(step)s AND j.priority <= k.top ORDER BY j.priority LIMIT 1
        )) END) AS rank
        FROM clocked k
    )
    SELECT cardinality(procrastinate_defer_jobs_v1(array_agg(ROW(%(queue)s, 'turn', CASE
        WHEN t.is_first THEN greatest(t.rank, (SELECT max(j.priority) + 1 FROM procrastinate_jobs j
            WHERE j.lock = t.lock AND j.status IN ('todo', 'doing') AND j.status = 'todo'))
        ELSE least(t.rank, (SELECT min(j.priority) FROM procrastinate_jobs j
            WHERE j.lock = t.lock AND j.status IN ('todo', 'doing') AND j.status = 'todo'))
        END, t.lock, NULL, jsonb_build_object('turn', t.turn, 'tenant', t.tenant), NULL
    )::procrastinate_job_to_defer_v1 ORDER BY t.place))) FROM tagged t HAVING count(*) > 0"""
_LEASE: LiteralString = f"""
    WITH job AS ({sql.queries["fetch_job"].rstrip("; ")}), tick AS (
        INSERT INTO {{s}}.clocks AS c
        SELECT class, class * %(step)s - priority
        FROM (SELECT priority, ceil(priority / %(step)s::numeric)::int AS class FROM job WHERE id IS NOT NULL) leased
        ON CONFLICT (class) DO UPDATE SET tag = excluded.tag WHERE c.tag < excluded.tag
    ) SELECT id, args->>'turn', args->>'tenant' FROM job WHERE id IS NOT NULL"""
_COMPLETE: LiteralString = f"""
    WITH ours AS MATERIALIZED (
        SELECT id FROM procrastinate_jobs
        WHERE id = %(job_id)s AND status = 'doing' AND worker_id = %(worker_id)s FOR UPDATE
    ) SELECT ({sql.queries["finish_job"].rstrip("; ")}) FROM ours"""
_RESET: LiteralString = """
    DELETE FROM {s}.clocks WHERE NOT EXISTS (SELECT FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))"""
_OWN: LiteralString = """
    SELECT clock_timestamp() + make_interval(secs => %s) FROM procrastinate_jobs
    WHERE id = %s AND status = 'doing' AND worker_id IS NOT DISTINCT FROM %s FOR UPDATE"""


class ProcrastinateQueue:
    """A TurnQueue in the database of the conversations. Connects, and makes its tables, on first use.

    Its commits do not wait for the disk: a crash of the server may lose the last ones, as the queue may be lost.

    Args:
        lease_s: Seconds after which a worker that has not renewed its leases loses them.
    """

    def __init__(self, config: PostgresConfig, *, schema: str = "flexchat_queue", lease_s: float = 30.0) -> None:
        self._config = attrs.evolve(config, schema=schema, pool_size=4)
        self._connections = self._part("queue", _TABLES)
        self._lease_s = lease_s
        self._worker: int | None = None
        self._held: dict[int, Lease] = {}
        self._leasing = asyncio.Lock()
        self._is_made = False
        self._listener: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    async def enqueue(self, turns: Sequence[QueuedTurn]) -> int:
        """Add turns; see TurnQueue."""
        rows = [
            {
                "turn": turn.id,
                "tenant": turn.tenant,
                "lock": _lock_of(turn),
                "class": max(-_MAX_PRIORITY, min(turn.priority, _MAX_PRIORITY)),
                "is_first": turn.is_first,
                "has_begun": turn.has_begun,
            }
            for turn in turns
        ]
        values = {"turns": json.dumps(rows), "step": _STEP, "start": _START, "queue": QUEUE}

        async def add(connection: Connection) -> int:
            row = await connection.row(_ENQUEUE, values)
            return int(row[0]) if row else 0

        if not turns:
            return 0
        try:
            return await self._transact(add, alone=True)
        except StorageError as error:
            if not isinstance(error.__cause__, psycopg.errors.UniqueViolation):
                raise
            return await self._transact(add, alone=True)  # another process has just enqueued one of them

    async def lease(self) -> Lease | None:
        """Lease the next turn; see TurnQueue."""

        async with self._leasing:
            if self._worker is None:
                await self._transact(self._register)
            values = {"queues": [QUEUE], "worker_id": self._worker, "step": _STEP}
            try:
                row = await self._transact(lambda connection: connection.row(_LEASE, values), alone=True)
            except StorageError as error:
                if isinstance(error.__cause__, psycopg.errors.ForeignKeyViolation):
                    self._worker = None  # it was taken for dead: the next call registers it again
                elif not isinstance(error.__cause__, psycopg.errors.UniqueViolation):
                    raise
                return None  # or another worker has just leased a turn of the same conversation
            if row is None:
                return None
            lease = Lease(turn=row[1], tenant=row[2], entry=row[0])
            self._held[row[0]] = lease
        return lease

    async def renew(self) -> None:
        """Renew this worker's leases, and release those of dead workers; see TurnQueue.

        The release is not a job of the queue: one would wait behind those it is to release.
        """

        async def renew(connection: Connection) -> None:
            manager = _manager(connection)
            await self._register(connection)
            assert self._worker is not None
            await manager.update_heartbeat(self._worker)
            ours = await manager.list_jobs_async(queue=QUEUE, status="doing", worker_id=self._worker)
            # Leased by a transaction whose commit was cut off: this worker does not know of it.
            for job in (job for job in ours if job.id not in self._held):
                await _put_back(connection, job.id, self._worker)
            for job in await manager.get_stalled_jobs(queue=QUEUE, seconds_since_heartbeat=self._lease_s):
                await _put_back(connection, job.id, job.worker_id)
            await manager.prune_stalled_workers(self._lease_s)
            await connection.execute(_RESET)

        # Not during a lease, whose job is held by this worker only once its transaction has returned.
        async with self._leasing:
            await self._transact(renew)

    async def complete(self, lease: Lease) -> None:
        """Remove a leased turn; see TurnQueue."""

        values = {"job_id": lease.entry, "worker_id": self._worker, "status": "succeeded", "delete_job": True}
        await self._transact(lambda connection: connection.row(_COMPLETE, values), alone=True)
        self._held.pop(lease.entry, None)

    async def release(self, lease: Lease, *, delay_s: float = 0.0) -> None:
        """Give a leased turn to the next worker; see TurnQueue."""
        await self._transact(lambda connection: _put_back(connection, lease.entry, self._worker, delay_s))
        self._held.pop(lease.entry, None)

    async def wait(self, timeout_s: float) -> None:
        """Wait for a turn that is enqueued; see TurnQueue."""
        if self._listener is None:
            self._listener = asyncio.create_task(self._listen())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        self._news.clear()

    async def count_waiting(self) -> int:
        """Count the turns that wait; see TurnQueue."""
        query = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'todo'"
        rows = await self._transact(lambda connection: connection.rows(query))
        return int(rows[0][0])

    async def aclose(self) -> None:
        """Release this worker's leases, and close the connections; see TurnQueue."""
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)
            self._listener = None

        async def leave(connection: Connection) -> None:
            for entry in self._held:
                await _put_back(connection, entry, self._worker)
            assert self._worker is not None
            await _manager(connection).unregister_worker(self._worker)

        if self._worker is not None:
            with contextlib.suppress(StorageError):  # then others find out that this worker is gone
                await self._transact(leave)
            self._worker = None
            self._held.clear()
        await self._connections.aclose()

    async def _transact(self, work: Callable[[Connection], Awaitable[T]], *, alone: bool = False) -> T:
        if not self._is_made:
            await self._part("procrastinate", _engine_tables()).make_tables()
            await self._connections.make_tables()
            self._is_made = True
        try:
            return await self._connections.repeated(work, alone=alone)
        except StorageError as error:
            if isinstance(error.__cause__, _GONE):
                self._is_made = False  # the schema was dropped: the next call makes it again
            raise

    async def _register(self, connection: Connection) -> None:
        """Register this worker, or register it again: one without a heartbeat for long was removed with its leases."""
        worker_query = "SELECT 1 FROM procrastinate_workers WHERE id = %s FOR KEY SHARE"
        if self._worker is None or await connection.row(worker_query, (self._worker,)) is None:
            self._worker = await _manager(connection).register_worker()

    def _part(self, part: str, steps: Sequence[LiteralString]) -> Connections:
        return Connections(self._config, name="queue", part=part, steps=steps, error=StorageError, setup=_SETUP)

    async def _listen(self) -> None:
        channels = get_channel_for_queues([QUEUE])
        while True:
            with contextlib.suppress(psycopg.Error, OSError):
                connecting = psycopg.AsyncConnection.connect(
                    self._config.dsn, autocommit=True, application_name="flexchat queue"
                )
                async with await connecting as raw:
                    for channel in channels:
                        await raw.execute(psycopg.sql.SQL("LISTEN {}").format(psycopg.sql.Identifier(channel)))
                    self._news.set()  # what was enqueued meanwhile
                    async for _ in raw.notifies():
                        self._news.set()
            await asyncio.sleep(1)


class _Connector(BaseConnector):
    """Runs the engine's statements in the transaction of a connection."""

    def __init__(self, connection: Connection) -> None:
        self._raw = connection.raw

    async def execute_query_async(self, query: LiteralString, **arguments: Any) -> None:
        await self._raw.execute(query, arguments)

    async def execute_query_one_async(self, query: LiteralString, **arguments: Any) -> dict[str, Any]:
        return (await self.execute_query_all_async(query, **arguments))[0]

    async def execute_query_all_async(self, query: LiteralString, **arguments: Any) -> list[dict[str, Any]]:
        async with self._raw.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(query, arguments)
            return await cursor.fetchall()


def _manager(connection: Connection) -> JobManager:
    return JobManager(_Connector(connection))


async def _put_back(connection: Connection, entry: int | None, worker: int | None, delay_s: float = 0.0) -> None:
    # The engine's own retry has no condition on the worker: of several that rescue a job, or after another has leased
    # it, each would put it back once more.
    row = await connection.row(_OWN, (delay_s, entry, worker))
    if row is not None and entry is not None:
        await _manager(connection).retry_job_by_id_async(entry, retry_at=row[0])


def _lock_of(turn: QueuedTurn) -> str:
    return hashlib.sha256(f"{turn.tenant}\0{turn.conversation}".encode("utf-8", "replace")).hexdigest()[:32]


def _engine_tables() -> tuple[LiteralString, ...]:
    """Return the engine's migrations, oldest first: a new version of it appends some."""
    files = sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql"))
    texts = (file.read_text("utf-8").replace("{", "{{").replace("}", "}}") for file in files)
    return tuple(f"SET LOCAL search_path TO {{s}};\n{text}" for text in texts)
