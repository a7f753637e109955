"""Connections to one database: opened on demand, pooled, and replaced after a restart of the server.

psycopg_pool is not used: it opens connections in background tasks, so a caller waiting for one gets a timeout in place
of the cause, and a pool is bound to one event loop for its lifetime.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, LiteralString, TypeVar

import psycopg
from flexchat.plugin import FlexChatError
from psycopg import sql
from psycopg.pq import TransactionStatus

from .config import PostgresConfig
from .trouble import Place, public_reason

T = TypeVar("T")
Connection = psycopg.AsyncConnection[tuple[Any, ...]]

_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_WRITE_SOON = _WRITE + "; SET LOCAL synchronous_commit = off"
_ON_DISK = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
# Held while tables are created or migrated: several processes may start at the same time.
_LOCK = 0x666C6578


class Connections:
    """The connection pool of one store. Serves one event loop at a time; entering another loop empties the pool.

    Args:
        name: The store's name, for error texts.
        part: The group of tables. Each part has a schema version of its own.
        steps: Migrations from an empty schema to the newest tables of this part. Append only. ``{s}`` is the schema.
        error: The exception raised when the database is unusable.
    """

    def __init__(
        self,
        config: PostgresConfig,
        *,
        name: str,
        part: str,
        steps: Sequence[LiteralString],
        error: type[FlexChatError],
    ) -> None:
        self._config, self._name, self._part, self._steps, self._error = config, name, part, steps, error
        self._schema = sql.Identifier(config.schema)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0
        self._idle: list[Connection] = []
        self._statements: dict[str, sql.SQL] = {}
        self._is_ready = self._is_closed = False

    def sql(self, text: LiteralString, **parts: sql.Composable) -> sql.SQL:
        """Compose a statement, replacing {s} with the schema."""
        statement = self._statements.get(text) if not parts else None
        if statement is None:
            # As one text: composing it for each execution takes longer than sending it.
            composed = sql.SQL(text).format(s=self._schema, **parts).as_string()
            statement = sql.SQL(composed)
            if not parts:
                self._statements[text] = statement
        return statement

    async def execute(self, connection: Connection, text: LiteralString, values: Any = None) -> Any:
        """Execute a statement, replacing {s} with the schema, and return its cursor."""
        return await connection.execute(self.sql(text), values)

    @contextlib.asynccontextmanager
    async def transaction(self, *, write: bool = False) -> AsyncIterator[Connection]:
        """Acquire a connection for one transaction: committed on exit, rolled back on an exception.

        A transaction that only reads is REPEATABLE READ, so all its statements see the same snapshot.
        """
        with self.explaining():
            async with self._acquire(_WRITE if write else _READ) as connection:
                yield connection

    async def repeated(
        self, work: Callable[[Connection, bool], Awaitable[T]], *, soon: bool = False, alone: bool = False
    ) -> T:
        """Run *work* in a transaction and return its result once committed, retrying across a server restart.

        If the connection breaks, even during COMMIT, *work* is run again, for at most connect_timeout_s.

        Args:
            work: Takes a connection and whether this is a retry. On a retry the changes may already be committed.
            alone: Run each statement in its own transaction, which saves two round trips.
            soon: Commit asynchronously: a server crash may lose commits of the last second.
        """
        begin = None if alone else _WRITE_SOON if soon else _WRITE
        until, is_again, pause = time.monotonic() + self._config.connect_timeout_s, False, 0.02
        with self.explaining():
            while True:
                try:
                    async with self._acquire(begin) as connection:
                        result = await work(connection, is_again)
                    return result
                except (psycopg.Error, OSError) as error:
                    # A failure before the first success is a configuration problem: report it at once.
                    if not self._is_ready or not _may_pass(error) or time.monotonic() + pause > until:
                        raise
                await asyncio.sleep(pause)
                is_again, pause = True, min(2 * pause, 0.5)

    async def make_tables(self) -> None:
        """Create or migrate the tables, over a separate connection."""
        with self.explaining():
            connection = await self._connect()
            try:
                await self._migrate(connection)
            finally:
                await connection.close()

    async def aclose(self) -> None:
        """Close idle connections; those in use are closed on release. Idempotent."""
        self._is_closed = True
        while self._idle:
            await self._idle.pop().close()

    @contextlib.asynccontextmanager
    async def _acquire(self, begin: LiteralString | None) -> AsyncIterator[Connection]:
        self._enter_loop()
        async with self._slots:
            if not self._is_ready:
                await self._prepare()
            connection = await self._open(begin)
            try:
                yield connection
                if begin is not None:
                    await connection.execute("COMMIT")
            finally:
                await self._release(connection)

    def _enter_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # Their loop may be closed, so close() cannot be awaited; finish() closes the socket synchronously. A
            # parent's connections are left alone: finishing them here would end its sessions.
            if self._process == os.getpid():
                for connection in self._idle:
                    connection.pgconn.finish()
            self._process, self._idle, self._loop = os.getpid(), [], loop
            self._slots, self._preparing = asyncio.Semaphore(self._config.pool_size), asyncio.Lock()

    async def _open(self, begin: LiteralString | None) -> Connection:
        """Take a connection from the pool, or connect, and execute *begin* unless it is None."""
        # A connection may have broken while idle. Its first statement finds that out, before any work is done.
        while self._idle:
            connection = self._idle.pop()
            try:
                if begin is not None:
                    await connection.execute(begin)
                return connection
            except psycopg.OperationalError:
                await connection.close()
            except BaseException:
                await connection.close()
                raise
        connection = await self._connect()
        try:
            if begin is not None:
                await connection.execute(begin)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _release(self, connection: Connection) -> None:
        try:
            if connection.pgconn.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
                await connection.rollback()
        except psycopg.Error:
            pass  # The connection is broken; the error that broke it is already propagating.
        finally:
            if connection.pgconn.transaction_status == TransactionStatus.IDLE and not self._is_closed:
                self._idle.append(connection)
            else:
                await connection.close()

    async def _connect(self) -> Connection:
        async with asyncio.timeout(self._config.connect_timeout_s):
            # No prepared statements: a generic plan does not depend on the collection, and so misses its index.
            connection = await psycopg.AsyncConnection.connect(
                self._config.dsn, autocommit=True, prepare_threshold=None, application_name="flexchat"
            )
            try:
                await connection.execute(_ON_DISK)
            except BaseException:
                await connection.close()
                raise
            return connection

    async def _prepare(self) -> None:
        async with self._preparing:
            # Another task may have prepared the tables while this one waited for the lock.
            if self._is_ready:
                return
            if Place.of(self._config.dsn) is None:
                raise self._error(
                    f"{self._name}: dsn cannot be read; write postgresql://USER:PASSWORD@HOST:5432/DATABASE, with "
                    f"special characters of the password as %40 and so on"
                )
            connection = await self._connect()
            try:
                if await self._version(connection) != len(self._steps):
                    await self._migrate(connection)
            except BaseException:
                await connection.close()
                raise
            self._idle.append(connection)
            self._is_ready = True

    async def _version(self, connection: Connection) -> int:
        try:
            query = self.sql("SELECT version FROM {s}.versions WHERE part = %s")
            row = await (await connection.execute(query, (self._part,))).fetchone()
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            return 0
        return int(row[0]) if row else 0

    async def _migrate(self, connection: Connection) -> None:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            existing = await (
                await connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (self._config.schema,))
            ).fetchone()
            # CREATE SCHEMA IF NOT EXISTS requires the CREATE privilege even if the schema exists.
            if existing is None:
                await connection.execute(self.sql("CREATE SCHEMA {s}"))
            await connection.execute(
                self.sql("CREATE TABLE IF NOT EXISTS {s}.versions (part text PRIMARY KEY, version int NOT NULL)")
            )
            version = await self._version(connection)
            if version > len(self._steps):
                raise self._error(
                    f"{self._name}: the tables in schema '{self._config.schema}' were made by a newer FlexChat: "
                    f"update this one"
                )
            for step in self._steps[version:]:
                await connection.execute(self.sql(step))
            await connection.execute(
                self.sql(
                    "INSERT INTO {s}.versions VALUES (%s, %s) "
                    "ON CONFLICT (part) DO UPDATE SET version = excluded.version"
                ),
                (self._part, len(self._steps)),
            )

    @contextlib.contextmanager
    def explaining(self) -> Iterator[None]:
        """Convert database errors to this store's error class."""
        try:
            yield
        except (psycopg.Error, TimeoutError, OSError) as error:
            place = Place.of(self._config.dsn)
            text = place.explained(error) if place is not None else "the database cannot be used"
            raised = self._error(f"{self._name}: {text}")
            raised.public = f"{self._name}: {public_reason(error)}"
            raise raised from error
        except UnicodeEncodeError as error:
            raise self._error(f"{self._name}: PostgreSQL cannot hold this text: {error}") from error


def _may_pass(error: Exception) -> bool:
    """Return True for transient errors: a server restart, a serialization failure or a deadlock."""
    code = getattr(error, "sqlstate", None) or ""
    is_broken = isinstance(error, (psycopg.OperationalError, OSError)) and not code
    return is_broken or code[:2] in ("08", "40") or code[:3] == "57P"
