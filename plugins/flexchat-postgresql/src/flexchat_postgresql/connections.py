"""Connections to one database: opened on demand, pooled, and replaced after a restart of the server.

psycopg_pool is not used: it opens connections in background tasks, so a caller waiting for one gets a timeout in place
of the cause, and a pool is bound to one event loop for its lifetime.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, LiteralString, TypeVar

import attrs
import psycopg
from flexchat.plugin import FlexChatError
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from .config import PostgresConfig

T = TypeVar("T")
Row = tuple[Any, ...]
Raw = psycopg.AsyncConnection[Row]

_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_WRITE_SOON = _WRITE + "; SET LOCAL synchronous_commit = off"
_ON_DISK = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
# Held while tables are created or migrated: several processes may start at the same time.
_LOCK = 0x666C6578
_RECORD_VERSION = "INSERT INTO {s}.versions VALUES (%s, %s) ON CONFLICT (part) DO UPDATE SET version = excluded.version"


@attrs.frozen
class Connection:
    """A connection that is in use. Its statements name the schema {s}.

    Attributes:
        compose: See Connections.
        is_again: Whether the work is run again: what it changes may already be committed.
        notices: Sent on the store's channel once the transaction is committed.
    """

    raw: Raw
    compose: Callable[..., sql.SQL]
    is_again: bool = False
    notices: list[str] = attrs.field(factory=list)

    async def execute(
        self, statement: LiteralString, values: Any = None, **parts: sql.Composable
    ) -> psycopg.AsyncCursor[Row]:
        """Execute a statement and return its cursor."""
        return await self.raw.execute(self.compose(statement, **parts), values)

    async def rows(self, statement: LiteralString, values: Any = None, **parts: sql.Composable) -> list[Row]:
        """Execute a statement and return its rows."""
        return await (await self.execute(statement, values, **parts)).fetchall()

    async def row(self, statement: LiteralString, values: Any = None) -> Row | None:
        """Execute a statement and return its first row, if any."""
        return await (await self.execute(statement, values)).fetchone()


class Connections:
    """The connection pool of one store. Serves one event loop at a time; entering another loop empties the pool.

    Args:
        name: The store's name, for error texts.
        part: The group of tables. Each part has a schema version of its own.
        steps: Migrations from an empty schema to the newest tables of this part. Append only. ``{s}`` is the schema.
        error: The exception raised when the database is unusable.
        setup: Settings of each connection, as statements.

    Attributes:
        config: Where the database is, for packages that add tables of their own to it.
    """

    def __init__(
        self,
        config: PostgresConfig,
        *,
        name: str,
        part: str,
        steps: Sequence[LiteralString],
        error: type[FlexChatError],
        setup: LiteralString = "",
    ) -> None:
        self.config = config
        self._setup = setup
        self._config, self._name, self._part, self._steps, self._error = config, name, part, steps, error
        self._schema = sql.Identifier(config.schema)
        # Channels belong to the database, and their names may be no longer than a schema's.
        self.channel = f"flexchat_{hashlib.sha256(config.schema.encode()).hexdigest()[:16]}"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0
        self._idle: list[Raw] = []
        self._statements: dict[str, sql.SQL] = {}
        self._is_ready = self._is_closed = False

    def compose(self, text: LiteralString, **parts: sql.Composable) -> sql.SQL:
        """Compose a statement, replacing {s} with the schema."""
        if not parts and text in self._statements:
            return self._statements[text]
        # As one text: composing it for each execution takes longer than sending it.
        statement = sql.SQL(sql.SQL(text).format(s=self._schema, **parts).as_string())
        if not parts:
            self._statements[text] = statement
        return statement

    @contextlib.asynccontextmanager
    async def transaction(self, *, write: bool = False) -> AsyncIterator[Connection]:
        """Acquire a connection for one transaction: committed on exit, rolled back on an exception.

        A transaction that only reads is REPEATABLE READ, so all its statements see the same snapshot.
        """
        with self.explaining():
            async with self._acquire(_WRITE if write else _READ) as connection:
                yield connection

    async def repeated(
        self, work: Callable[[Connection], Awaitable[T]], *, soon: bool = False, alone: bool = False
    ) -> T:
        """Run *work* in a transaction and return its result once committed, retrying across a server restart.

        If the connection breaks, even during COMMIT, *work* is run again, for at most connect_timeout_s.

        Args:
            alone: Run each statement in its own transaction, which saves two round trips.
            soon: Commit asynchronously: a server crash may lose commits of the last second.
        """
        begin = None if alone else _WRITE_SOON if soon else _WRITE
        until, is_again, pause = time.monotonic() + self._config.connect_timeout_s, False, 0.02
        with self.explaining():
            while True:
                try:
                    async with self._acquire(begin) as connection:
                        result = await work(attrs.evolve(connection, is_again=True) if is_again else connection)
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
            async with await self._connect() as raw:
                await self._migrate(raw)

    async def listen(self) -> Raw:
        """Open a connection outside the pool that listens to the store's channel; the caller closes it."""
        with self.explaining():
            # The server may vanish without a word, and a connection that only listens would not find out.
            alive = {"keepalives_idle": 15, "keepalives_interval": 5, "keepalives_count": 3}
            raw = await self._connect(application_name="flexchat watch", **alive)
            try:
                await raw.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self.channel)))
            except BaseException:
                await raw.close()
                raise
            return raw

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
            raw = await self._open(begin)
            connection = Connection(raw, self.compose)
            try:
                yield connection
                if begin is not None:
                    await raw.execute(self._commit(connection.notices))
            finally:
                await self._release(raw)

    def _commit(self, notices: Sequence[str]) -> sql.SQL | sql.Composed:
        if not notices:
            return sql.SQL("COMMIT")
        # A transaction with a NOTIFY holds a lock of the whole server until it is on disk, so that none of those would
        # share a write to the disk. So the notices are a transaction of their own, without a write. Both are one
        # message: the server executes the second even if this process dies, and if the server dies in between,
        # listeners have to connect again, and count everything as changed.
        return sql.SQL("COMMIT; SELECT pg_notify({}, notice) FROM unnest({}::text[]) notice").format(
            self.channel, [*notices]
        )

    def _enter_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # Their loop may be closed, so close() cannot be awaited; finish() closes the socket synchronously. A
            # parent's connections are left alone: finishing them here would end its sessions.
            if self._process == os.getpid():
                for raw in self._idle:
                    raw.pgconn.finish()
            self._process, self._idle, self._loop = os.getpid(), [], loop
            self._slots, self._preparing = asyncio.Semaphore(self._config.pool_size), asyncio.Lock()

    async def _open(self, begin: LiteralString | None) -> Raw:
        """Take a connection from the pool, or connect, and execute *begin* unless it is None."""
        while True:
            is_idle = bool(self._idle)
            raw = self._idle.pop() if is_idle else await self._connect()
            try:
                if begin is not None:
                    await raw.execute(begin)
                return raw
            except BaseException as error:
                await raw.close()
                # It may have broken while idle. Its first statement finds that out, before any work is done.
                if not (is_idle and isinstance(error, psycopg.OperationalError)):
                    raise

    async def _release(self, raw: Raw) -> None:
        try:
            if raw.pgconn.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
                await raw.rollback()
        except psycopg.Error:
            pass  # The connection is broken; the error that broke it is already propagating.
        finally:
            if raw.pgconn.transaction_status == TransactionStatus.IDLE and not self._is_closed:
                self._idle.append(raw)
            else:
                await raw.close()

    async def _connect(self, **settings: Any) -> Raw:
        async with asyncio.timeout(self._config.connect_timeout_s):
            # No prepared statements: a generic plan does not depend on the collection, and so misses its index.
            raw = await psycopg.AsyncConnection.connect(
                self._config.dsn,
                autocommit=True,
                prepare_threshold=None,
                **{"application_name": "flexchat", **settings},
            )
            try:
                await raw.execute(_ON_DISK)
                if self._setup:
                    await raw.execute(self.compose(self._setup))
            except BaseException:
                await raw.close()
                raise
            return raw

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
            raw = await self._connect()
            try:
                if await self._version(raw) != len(self._steps):
                    await self._migrate(raw)
            except BaseException:
                await raw.close()
                raise
            self._idle.append(raw)
            self._is_ready = True

    async def _version(self, raw: Raw) -> int:
        try:
            query = self.compose("SELECT version FROM {s}.versions WHERE part = %s")
            row = await (await raw.execute(query, (self._part,))).fetchone()
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            return 0
        return int(row[0]) if row else 0

    async def _migrate(self, raw: Raw) -> None:
        connection, version = Connection(raw, self.compose), -1
        # A transaction for each: PostgreSQL before 16 lets a step use a new value of an enum only once it is committed.
        while version < len(self._steps):
            async with raw.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                # CREATE SCHEMA IF NOT EXISTS requires the CREATE privilege even if the schema exists.
                if not await connection.row("SELECT 1 FROM pg_namespace WHERE nspname = %s", (self._config.schema,)):
                    await connection.execute("CREATE SCHEMA {s}")
                await connection.execute(
                    "CREATE TABLE IF NOT EXISTS {s}.versions (part text PRIMARY KEY, version int NOT NULL)"
                )
                version = await self._version(raw)  # another process may have taken the last step
                if version > len(self._steps):
                    where = f"{self._name}: the tables in schema '{self._config.schema}'"
                    raise self._error(f"{where} were made by a newer FlexChat: update this one")
                for step in self._steps[version : version + 1]:
                    await connection.execute(step)
                version = min(version + 1, len(self._steps))
                await connection.execute(_RECORD_VERSION, (self._part, version))

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


# SQLSTATE codes, or two or three leading characters for a class: postgresql.org/docs/18/errcodes-appendix.
_REASONS = {
    "28": "refuses the user or the password: check both in dsn, and the server's pg_hba.conf",
    "3D000": "has no such database: create it, or correct dsn",
    "42501": "forbids it: let the user of dsn create and use the schema, or have the tables made by one who may",
    "53300": "has no connection left: lower pool_size, or raise the server's max_connections",
    "53100": "has no disk space left",
    "53": "has no resources left",
    "25006": "can only be read: dsn must name the primary server, not a standby",
    "57P03": "is starting up or shutting down: try again soon",
    "57P": "was shut down meanwhile: try again soon",
    "57014": "stopped the statement: its statement_timeout is too short",
    "40": "found two changes that excluded each other: try again",
    "54": "refuses what is too large",
}
_QUOTED = re.compile(r"""(?P<mark>["']).*?(?:(?P=mark)(?: \([0-9a-fA-F.:]+\))?|$)""")
_NO_VECTOR = "has no extension 'vector' (pgvector 0.7 or later): install it on the server, then CREATE EXTENSION vector"


@attrs.frozen
class Place:
    """A database's address.

    Attributes:
        shown: User, host, port and database, for error texts.
        secret: The password, to mask it in the server's messages; None without one.
    """

    shown: str
    secret: str | None = attrs.field(default=None, repr=False)

    @classmethod
    def of(cls, dsn: str) -> Place | None:
        """Parse a connection string; None if it is invalid."""
        try:
            parts = conninfo_to_dict(dsn)
        except psycopg.Error:
            return None
        if "@" in f"{parts.get('host')}{parts.get('user')}{parts.get('dbname')}":
            # An @ in the password that is not written as %40 ends the password early: the rest would be shown.
            return None
        host, port = parts.get("host") or parts.get("hostaddr") or "local", parts.get("port") or 5432
        user = f"{parts['user']}@" if parts.get("user") else ""
        password = parts.get("password")
        return cls(
            f"PostgreSQL at {user}{host}:{port}/{parts.get('dbname') or ''}", str(password) if password else None
        )

    def explained(self, error: Exception) -> str:
        """Format an error with its cause and remedy, in one sentence, with the password masked."""
        text = f"{self.shown} {_reason(error)}"
        return text.replace(self.secret, "***") if self.secret and len(self.secret) > 3 else text


def public_reason(error: Exception) -> str:
    """Format an error without the hosts, users and databases that libpq and the server quote."""
    return f"PostgreSQL {_QUOTED.sub('…', _reason(error))}"


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "did not answer within connect_timeout_s: is the server running, and the address in dsn right?"
    code = getattr(error, "sqlstate", None) or ""
    message = " ".join(str(error).split())[:300]
    if "vector" in message and (code in ("0A000", "58P01") or (code == "42704" and '"vector"' in message)):
        return _NO_VECTOR
    if code == "42704" and "text search configuration" in message:
        return f"does not know this language: {message} (SELECT cfgname FROM pg_ts_config lists those it knows)"
    for prefix in (code, code[:3], code[:2]):
        if prefix in _REASONS:
            return f"{_REASONS[prefix]} ({message})"
    if isinstance(error, psycopg.OperationalError) and not code:
        # Without an SQLSTATE the error is libpq's own, which includes failed logins: it drops their code.
        if "authentication failed" in message or "no password supplied" in message:
            return f"{_REASONS['28']} ({message})"
        if "does not exist" in message and "database" in message:
            return f"{_REASONS['3D000']} ({message})"
        if "too many clients" in message or "remaining connection slots" in message:
            return f"{_REASONS['53300']} ({message})"
        return f"cannot be reached: is the server running, and the address in dsn right? ({message})"
    return f"refused: {message}"
