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
from pathlib import Path
from typing import Any, LiteralString, TypeVar

import attrs
import psycopg
from flexchat.plugin import FlexChatError
from flexchat.store import SchemaState
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from . import copying
from .config import PostgresConfig
from .copying import Raw

T = TypeVar("T")
Row = tuple[Any, ...]

_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_WRITE_SOON = _WRITE + "; SET LOCAL synchronous_commit = off"
# Older programs have the three names. If such a one uses another schema, it connects again and goes on.
_DISCONNECT: LiteralString = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
    AND usename = current_user AND pid <> pg_backend_pid()
    AND (application_name LIKE %s OR application_name IN ('flexchat', 'flexchat watch', 'flexchat lease'))"""
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
        compatible_from: Steps that a FlexChat must know to use the newest tables, because the later ones only add to
            them; None: all. ``versions`` has it under the part's name, so that older programs refuse what they cannot
            use, and the steps done, if they are more, under the name and " steps".
        after_restore: Statements, with values, that change the data of a backup before they are used again.

    Attributes:
        config: Where the database is, for packages that add tables of their own to it.
        migrates: Whether the first use also does the missing steps; see StoreDatabase.
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
        compatible_from: int | None = None,
        after_restore: Sequence[tuple[LiteralString, Sequence[Any]]] = (),
    ) -> None:
        self.config = config
        self.migrates = True
        self._compatible_from = len(steps) if compatible_from is None else compatible_from
        self._after_restore = after_restore
        self._setup = setup
        self._config, self._name, self._part, self._steps, self._error = config, name, part, steps, error
        self._schema = sql.Identifier(config.schema)
        # Names of channels and applications belong to the database, and may be no longer than a schema's.
        self._mark = hashlib.sha256(config.schema.encode()).hexdigest()[:16]
        self.channel = f"flexchat_{self._mark}"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0
        self._idle: list[Raw] = []
        self._statements: dict[str, sql.SQL] = {}
        self._is_ready = self._is_closed = False

    def application_name(self, purpose: str = "store") -> str:
        """Return what pg_stat_activity shows of a connection: its purpose, and a digest of the schema."""
        return f"flexchat {purpose} {self._mark}"

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

    @property
    def place(self) -> str:
        """The server, the schema and the part, without the password; see StoreDatabase."""
        place = Place.of(self._config.dsn)
        where = "PostgreSQL" if place is None else place.shown
        return f"{where}, schema {self._config.schema}, {self._part}"

    async def schema(self) -> SchemaState:
        """Read how far the tables are; see StoreDatabase."""
        with self.explaining():
            async with await self._connect() as raw:
                return await self._state(raw)

    async def migrate(self) -> None:
        """Create the tables, or do the missing steps; see StoreDatabase."""
        self.migrates = True
        with self.explaining():
            async with await self._connect() as raw:
                await self._migrate(raw)

    async def copy_to(self, file: Path) -> SchemaState:
        """Copy everything to a new file, while others read and write; see StoreDatabase."""
        with self.explaining():
            async with await self._connect() as raw:
                await raw.execute(_READ)  # one snapshot for all tables
                state = await self._state(raw)
                if state.version > state.newest:
                    raise self._error(f"{self._name}: {self.place}: {_BACK_UP_WITH_NEWER}")
                await copying.dump(
                    raw,
                    self.compose,
                    file,
                    self._steps[: state.version],
                    schema=self._config.schema,
                    part=self._part,
                    state=state,
                )
                return state

    async def check_copy(self, file: Path) -> SchemaState:
        """Check that a copy is complete and can be restored here; see StoreDatabase."""
        state = attrs.evolve(copying.check(file, self._part, self._error), newest=len(self._steps))
        if state.version > state.newest:
            raise self._error(f"{self._name}: '{file}' was written by a newer FlexChat: update this one")
        with self.explaining():
            async with await self._connect() as raw:
                for table in copying.tables_with_data(self._steps[: (await self._state(raw)).version]):
                    query = self.compose("SELECT FROM {s}.{table} LIMIT 1", table=sql.Identifier(table))
                    if (await raw.execute(query)).rowcount:
                        raise self._error(f"{self._name}: {self.place} has data already: restore into an empty schema")
        return state

    async def restore(self, file: Path) -> None:
        """Fill tables without data from a copy; see StoreDatabase."""
        state = await self.check_copy(file)
        with self.explaining():
            # In one transaction: a server that starts meanwhile finds all of it, or nothing.
            async with await self._connect() as raw, raw.transaction():
                connection = Connection(raw, self.compose)
                done = (await self._state(raw)).version
                if done not in (0, state.version):
                    text = f"has tables of another version ({done} steps, not {state.version}), although they are empty"
                    raise self._error(f"{self._name}: {self.place} {text}: drop the schema first")
                await self._migrate(raw, state.version)
                await copying.load(raw, self.compose, file, self._steps[: state.version])
                await self._migrate(raw)
                for statement, values in self._after_restore:
                    await connection.execute(statement, values)

    async def listen(self) -> Raw:
        """Open a connection outside the pool that listens to the store's channel; the caller closes it."""
        with self.explaining():
            # The server may vanish without a word, and a connection that only listens would not find out.
            alive = {"keepalives_idle": 15, "keepalives_interval": 5, "keepalives_count": 3}
            raw = await self._connect(application_name=self.application_name("watch"), **alive)
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
                if not is_idle and not (await self._state(raw)).is_usable:
                    raise self._error(self._newer())
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
                # Without an encoding, a database in SQL_ASCII returns texts as bytes.
                **{"application_name": self.application_name(), "client_encoding": "utf8", **settings},
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
                state = await self._state(raw)
                if not state.is_usable:
                    raise self._error(self._newer())
                if state.is_behind and not self.migrates:
                    text = f"{state.version} of {state.newest} steps of the schema are done: run flexchat migrate"
                    raise self._error(f"{self._name}: {self.place}: {text}")
                if state.is_behind:
                    await self._migrate(raw)
            except BaseException:
                await raw.close()
                raise
            self._idle.append(raw)
            self._is_ready = True

    async def _state(self, raw: Raw) -> SchemaState:
        try:
            async with raw.transaction():  # a savepoint: the tables may be missing
                query = self.compose("SELECT part, version FROM {s}.versions WHERE part = ANY(%s)")
                rows = await (await raw.execute(query, ([self._part, f"{self._part} steps"],))).fetchall()
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            rows = []
        done: dict[str, int] = dict(rows)
        return SchemaState(
            version=max(done.values(), default=0), oldest=done.get(self._part, 0), newest=len(self._steps)
        )

    def _newer(self) -> str:
        where = f"{self._name}: the tables in schema '{self._config.schema}'"
        return f"{where} were made by a newer FlexChat: update this one"

    async def _migrate(self, raw: Raw, to: int | None = None) -> None:
        to = len(self._steps) if to is None else to
        connection, version = Connection(raw, self.compose), -1
        # Held by the connection from the first step to the last: a process that starts meanwhile must find all of them
        # done. If it found some, it would take the first process for a program that is too old.
        await connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        was_there = (await self._state(raw)).version > 0
        # A transaction for each: PostgreSQL before 16 lets a step use a new value of an enum only once it is committed.
        while version < to:
            async with raw.transaction():
                # To its end, for programs of older versions, and where a copy is restored in one transaction.
                await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                # CREATE SCHEMA IF NOT EXISTS requires the CREATE privilege even if the schema exists.
                if not await connection.row("SELECT 1 FROM pg_namespace WHERE nspname = %s", (self._config.schema,)):
                    await connection.execute("CREATE SCHEMA {s}")
                await connection.execute(
                    "CREATE TABLE IF NOT EXISTS {s}.versions (part text PRIMARY KEY, version int NOT NULL)"
                )
                state = await self._state(raw)  # another process may have taken the last step
                if not state.is_usable:
                    raise self._error(self._newer())
                for step in self._steps[state.version : min(state.version + 1, to)]:
                    await connection.execute(step)
                version = max(state.version, min(state.version + 1, to))
                oldest = max(state.oldest, min(version, self._compatible_from))
                await connection.execute(_RECORD_VERSION, (self._part, oldest))
                if version > oldest:
                    await connection.execute(_RECORD_VERSION, (f"{self._part} steps", version))
            if was_there and oldest > state.oldest:
                # Programs that are too old now find that out as they reconnect.
                await connection.execute(_DISCONNECT, (self.application_name("%"),))
        await connection.execute("SELECT pg_advisory_unlock(%s)", (_LOCK,))

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


_BACK_UP_WITH_NEWER = "a newer FlexChat has added tables: make the backup with that one"

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
