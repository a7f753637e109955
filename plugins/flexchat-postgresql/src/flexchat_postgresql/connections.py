"""Connections to one database: opened when they are needed, kept, and replaced when the server was restarted.

Not psycopg_pool: it opens connections in tasks of its own, so that whoever waits for one learns only that it took too
long, not why, and it belongs to one event loop for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
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
_LOCK = 0x666C6578  # whoever makes or changes tables holds it: several processes may start at once


class Connections:
    """The connections of one store. Used by one event loop at a time; in another one it starts anew.

    Args:
        name: Of the store, for errors.
        part: Which tables: each part has a version of its own.
        steps: From nothing to the newest tables of this part. Steps are only ever appended. ``{s}`` is the schema.
        error: What is raised where the database cannot be used.
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
        self._idle: list[Connection] = []
        self._is_ready = self._is_closed = False

    def sql(self, text: LiteralString, **parts: sql.Composable) -> sql.Composed:
        """Return a statement with the schema in the place of {s}."""
        return sql.SQL(text).format(s=self._schema, **parts)

    @contextlib.asynccontextmanager
    async def transaction(self, *, write: bool = False) -> AsyncIterator[Connection]:
        """Lend a connection for one transaction, committed at the end, or rolled back if anything is raised.

        What only reads sees one unchanging state of the data.
        """
        with self.explaining():
            async with self._lent(_WRITE if write else _READ) as connection:
                yield connection

    async def repeated(
        self, work: Callable[[Connection, bool], Awaitable[T]], *, soon: bool = False, alone: bool = False
    ) -> T:
        """Run work in a transaction and return its result once that is committed, across a restart of the server.

        If the connection breaks, even while it is committed, work is run again, for connect_timeout_s at most.

        Args:
            work: Gets a connection, and whether it has been run before: then its changes may be there already.
            alone: Each statement is a transaction by itself, which saves two trips to the server.
            soon: Do not wait for the disk: if the server crashes, it may lose what it committed within the last second.
        """
        begin = None if alone else _WRITE_SOON if soon else _WRITE
        until, is_again, pause = time.monotonic() + self._config.connect_timeout_s, False, 0.02
        with self.explaining():
            while True:
                try:
                    async with self._lent(begin) as connection:
                        result = await work(connection, is_again)
                    return result
                except (psycopg.Error, OSError) as error:
                    if not self._is_ready or not _may_pass(error) or time.monotonic() + pause > until:
                        raise
                await asyncio.sleep(pause)
                is_again, pause = True, min(2 * pause, 0.5)

    async def make_tables(self) -> None:
        """Make the tables, or bring them up to date, over a connection of its own."""
        with self.explaining():
            connection = await self._connect()
            try:
                await self._migrate(connection)
            finally:
                await connection.close()

    async def aclose(self) -> None:
        """Close what is open; what is lent is closed when it comes back. May be called twice."""
        self._is_closed = True
        while self._idle:
            await self._idle.pop().close()

    @contextlib.asynccontextmanager
    async def _lent(self, begin: LiteralString | None) -> AsyncIterator[Connection]:
        self._enter_loop()
        async with self._slots:
            if not self._is_ready:
                await self._prepare()
            connection = await self._begun(begin)
            try:
                yield connection
                if begin is not None:
                    await connection.execute("COMMIT")
            finally:
                await self._give_back(connection)

    def _enter_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            for connection in self._idle:
                connection.pgconn.finish()
            self._idle, self._loop = [], loop
            self._slots, self._preparing = asyncio.Semaphore(self._config.pool_size), asyncio.Lock()

    async def _begun(self, begin: LiteralString | None) -> Connection:
        """Return a connection in a new transaction, if any. One that broke while nobody used it is replaced."""
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

    async def _give_back(self, connection: Connection) -> None:
        try:
            if connection.pgconn.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
                await connection.rollback()
        except psycopg.Error:
            pass  # it is broken, and the error that broke it is on its way
        finally:
            if connection.pgconn.transaction_status == TransactionStatus.IDLE and not self._is_closed:
                self._idle.append(connection)
            else:
                await connection.close()

    async def _connect(self) -> Connection:
        async with asyncio.timeout(self._config.connect_timeout_s):
            # Plans are made anew each time: a prepared one would not know which collection, and so which index.
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
            asked = self.sql("SELECT version FROM {s}.versions WHERE part = %s")
            row = await (await connection.execute(asked, (self._part,))).fetchone()
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            return 0
        return int(row[0]) if row else 0

    async def _migrate(self, connection: Connection) -> None:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            made = await (
                await connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (self._config.schema,))
            ).fetchone()
            if made is None:  # IF NOT EXISTS asks for the right to create one even where it is there
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
        """Raise this store's error in the place of the database's."""
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
    """Return whether the same may succeed soon: the server was restarted, or two changes excluded each other."""
    code = getattr(error, "sqlstate", None) or ""
    is_broken = isinstance(error, (psycopg.OperationalError, OSError)) and not code
    return is_broken or code[:2] in ("08", "40") or code[:3] == "57P"
