"""One SQLite file, used from asyncio: one connection that writes and several that read, each in its own thread.

Write-ahead log and full synchronisation: once a write returns, it survives ``kill -9`` and power loss, and readers
never wait for a writer. Several processes may use one file. A damaged file is renamed, and a new one started.

Source: sqlite.org/wal.html and pragma.html; durability figures from our own measurements.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import re
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from flexchat.errors import StorageError
from flexchat.files import IN_MEMORY, refuse_other
from flexchat.plugin.contracts import SchemaState

from .damage import FileId, file_id, is_damage, put_aside

_log = logging.getLogger(__name__)

T = TypeVar("T")
Migration = str | Callable[[sqlite3.Connection], None]

BUSY_S = 5.0
"""Seconds that a write waits for another process's write before it fails."""

READERS = 4


class Database:
    """A SQLite file, opened on first use: creating a Database costs nothing and touches no disk.

    Args:
        path: The file; its folder is created. New files are readable by their owner only. ":memory:" keeps the data
            in this process until ``close``.
        kind: The contents, for errors: "documents".
        application_id: A 32-bit number stored in the file; databases of other programs are refused.
        migrations: Steps from an empty file to the newest schema: SQL, or functions of a connection. Only ever append
            steps.
        prepare: Sets up each new connection, for example with custom functions.
        compatible_from: Steps that a FlexChat must know to use the newest schema, because the later ones only add to
            it; None: all. It is the file's user_version, so that older programs refuse what they cannot use.
        after_restore: Statements that change the data of a backup before they are used again.

    Attributes:
        migrates: Whether opening the file also does the missing steps; see StoreDatabase.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        kind: str,
        application_id: int,
        migrations: Sequence[Migration],
        prepare: Callable[[sqlite3.Connection], None] | None = None,
        compatible_from: int | None = None,
        after_restore: str = "",
    ) -> None:
        self.path = Path(path)
        self.migrates = True
        self._in_memory = str(path) == IN_MEMORY
        self._kind = kind
        self._application_id = application_id
        self._migrations = tuple(migrations)
        self._compatible_from = len(self._migrations) if compatible_from is None else compatible_from
        self._after_restore = after_restore
        self._prepare = prepare
        self._writing = ThreadPoolExecutor(1, thread_name_prefix=f"flexchat {kind} writer")
        # Each connection to :memory: would open a database of its own, so one thread and one connection do everything.
        self._reading = (
            self._writing
            if self._in_memory
            else ThreadPoolExecutor(READERS, thread_name_prefix=f"flexchat {kind} reader")
        )
        self._writer: sqlite3.Connection | None = None
        self._local = threading.local()
        self._readers: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._process = 0  # the one that uses it, once one does
        self._opened: FileId | None = None  # the file the writer has open
        # Stays True when the file disappears, so that a deleted file is reported rather than replaced by an empty one.
        self._was_opened = False
        self._quick: sqlite3.Connection | None = None
        self._quick_opened: FileId | None = None
        self._quick_lock = threading.Lock()
        self._watching: sqlite3.Connection | None = None  # under the lock: it is used in the event loop's thread
        self._watching_opened: FileId | None = None
        self._is_closed = False

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run *work* in a transaction and return its result once the data is on disk.

        If *work* raises, the transaction is rolled back. Cancelling the wait does not stop the work.

        Raises:
            StorageError: The file cannot be used.
        """
        return await self._run(self._writing, lambda: self._write(work))

    async def write_soon(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Run *work* in a transaction that survives the end of the process, without waiting for the disk.

        A power failure loses the transaction, unless a later ``write`` has returned. It runs in the calling thread
        while no other writer is active, because switching threads costs more than most work does: *work* must be
        short. It may run twice; the first run is then rolled back.

        Raises:
            StorageError: The file cannot be used.
        """
        if not self._run_inline(lambda connection: self._in_transaction(connection, work, waits=False)):
            await self._run(self._writing, lambda: self._write(work, is_lasting=False))

    async def read_soon(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Read in the calling thread if the file is open, otherwise as ``read`` does. *work* must be short.

        Raises:
            StorageError: The file cannot be used.
        """
        results: list[T] = []
        if self._run_inline(lambda connection: results.append(work(connection))):
            return results[-1]
        return await self.read(work)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run *work* on one consistent snapshot of the data and return its result.

        Raises:
            StorageError: The file cannot be used.
        """
        return await self._run(self._reading, lambda: self._read(work))

    def write_blocking(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Write from synchronous code: like ``write``, blocking the calling thread."""
        return self._submit(self._writing, lambda: self._write(work)).result()

    def read_blocking(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Read from synchronous code: like ``read``, blocking the calling thread."""
        return self._submit(self._reading, lambda: self._read(work)).result()

    async def version(self) -> object:
        """Return a value that differs after each commit, by any process and through any connection.

        Raises:
            StorageError: The file cannot be used.
        """
        self._refuse_fork()
        if self._is_new():
            await self._run(self._writing, self._open_file)
        if self._in_memory:
            return self._connection().total_changes
        with self._lock:
            if self._watching is None or self._watching_opened != self._opened:
                if self._watching is not None:
                    self._watching.close()
                # It never writes: SQLite counts the commits of all other connections.
                self._watching, self._watching_opened = self._connect(timeout=0), self._opened
            return self._opened, self._watching.execute("PRAGMA data_version").fetchone()

    async def change(self, version: object, *, poll_s: float) -> object:
        """Wait until ``version`` would return another value, and return that.

        Commits leave no other trace for other processes, so the value is polled: that takes microseconds. While the
        file cannot be used, nothing changes.

        Raises:
            StorageError: The database was closed.
        """
        while True:
            await asyncio.sleep(poll_s)
            try:
                now = await self.version()
            except (sqlite3.Error, StorageError):
                if self._is_closed:
                    raise
                continue
            if now != version:
                return now

    async def empty_log(self) -> None:
        """Checkpoint and truncate the write-ahead log, in which deleted text would remain readable.

        The log stays while a reader is active.

        Raises:
            StorageError: The file cannot be used.
        """

        def truncate() -> None:
            with self._guarding():
                self._connection().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

        await self._run(self._writing, truncate)

    @property
    def place(self) -> str:
        """The file, as an absolute path; see StoreDatabase."""
        return IN_MEMORY if self._in_memory else str(self.path.absolute())

    async def schema(self) -> SchemaState:
        """Read how far the tables are; see StoreDatabase."""
        return await self._run(self._reading, self._schema)

    def _schema(self) -> SchemaState:
        if self._in_memory or not self.path.exists():
            return self._state(0, 0)
        with self._guarding(), contextlib.closing(self._connect()) as connection:
            self._check_owner(connection)
            return self._state(*_applied(connection))

    async def migrate(self) -> None:
        """Create the file, or do the missing steps; see StoreDatabase."""
        self.migrates = True
        await self._run(self._writing, self._open_file)

    async def copy_to(self, file: Path) -> SchemaState:
        """Copy everything to a new file, while others read and write; see StoreDatabase."""
        return await self._run(self._reading, lambda: self._copy_to(file))

    def _copy_to(self, file: Path) -> SchemaState:
        if self._in_memory:
            raise StorageError(f"{self._kind}: they are in memory only, so there is nothing to copy")
        # A connection of its own: the file is neither created nor migrated, nor put aside if it is damaged.
        with self._guarding(), contextlib.closing(self._connect()) as source:
            self._check_owner(source)
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as target:
                # In one step, it is a single read: it has the file's state at one moment, and no writer waits for it.
                source.backup(target)
                target.execute("PRAGMA journal_mode = DELETE")  # the copy is one file, without -wal beside it
                return self._state(*_applied(target))

    async def check_copy(self, file: Path) -> SchemaState:
        """Check that a copy is complete and can be restored here; see StoreDatabase."""
        return await self._run(self._reading, lambda: self._check_copy(file))

    def _check_copy(self, file: Path) -> SchemaState:
        for path in (self.path, *(self.path.with_name(self.path.name + end) for end in ("-wal", "-shm"))):
            if path.exists():
                raise StorageError(f"{self._kind}: '{path}' is there already: move it away, and nothing is overwritten")
        try:
            # Immutable: reading a backup must leave no files beside it.
            address = f"{file.absolute().as_uri()}?mode=ro&immutable=1"
            with contextlib.closing(sqlite3.connect(address, isolation_level=None, uri=True)) as connection:
                if self._prepare is not None:
                    self._prepare(connection)
                (application_id,) = connection.execute("PRAGMA application_id").fetchone()
                if application_id != self._application_id:
                    raise StorageError(f"'{file}' is no copy of FlexChat's {self._kind}")
                state = self._state(*_applied(connection))
                faults = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        except sqlite3.Error as error:
            raise StorageError(f"{self._kind}: '{file}' {_explain(error)}") from error
        if faults != "ok":
            raise StorageError(f"{self._kind}: '{file}' is damaged: {faults}")
        if not state.is_usable:
            raise StorageError(f"'{file}' {_NEWER}")
        return state

    async def restore(self, file: Path) -> None:
        """Fill this place, which has no file, from a copy; see StoreDatabase."""
        await self._run(self._writing, lambda: self._restore(file))

    def _restore(self, file: Path) -> None:
        self._check_copy(file)
        new = self.path.with_name(self.path.name + ".restoring")
        with self._guarding():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            new.unlink(missing_ok=True)
            os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            shutil.copyfile(file, new)
            with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as connection:
                if self._prepare is not None:
                    self._prepare(connection)
                self._migrate(connection)
                self._in_transaction(connection, self._adapt)
                connection.execute("VACUUM")  # writes the whole file anew, and syncs it
            # The file gets its name last: a server that starts meanwhile finds all of it, or none. A link fails if
            # there is a file by now, where renaming would replace it.
            os.link(new, self.path)
            new.unlink()

    def _adapt(self, connection: sqlite3.Connection) -> None:
        for statement in _statements(self._after_restore):
            connection.execute(statement)

    def _state(self, version: int, oldest: int) -> SchemaState:
        return SchemaState(version=version, oldest=oldest, newest=len(self._migrations))

    async def aclose(self) -> None:
        """Close the file after finishing pending writes. May be called twice."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self.close)

    def close(self) -> None:
        """Close from synchronous code: like ``aclose``, blocking the calling thread."""
        if self._is_from_a_fork():
            return  # closing would drop the locks by which the parent's connections are safe
        self._is_closed = True
        # Threads first: a connection must not be closed while one of them uses it.
        self._writing.shutdown(wait=True)
        self._reading.shutdown(wait=True)
        with contextlib.suppress(sqlite3.Error), self._lock:
            for connection in (*self._readers, self._writer, self._quick, self._watching):
                if connection is not None:
                    connection.close()
        self._readers, self._writer, self._quick, self._watching, self._opened = [], None, None, None, None

    async def _run(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        running = asyncio.wrap_future(self._submit(threads, work))
        # A cancelled caller no longer awaits the future; asyncio would log its exception as never retrieved.
        running.add_done_callback(lambda done: done.cancelled() or done.exception())
        # Without the shield, cancelling would withdraw work that is still queued for its thread.
        return await asyncio.shield(running)

    def _submit(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> Future[T]:
        self._refuse_fork()
        try:
            return threads.submit(work)
        except RuntimeError:
            raise StorageError(f"{self._kind}: '{self.path}' is closed") from None

    def _is_from_a_fork(self) -> bool:
        return self._process not in (0, os.getpid())

    def _refuse_fork(self) -> None:
        # A fork has none of the threads, and SQLite's locks are those of the process that opened the file.
        if self._is_from_a_fork():
            raise StorageError(
                f"{self._kind}: '{self.path}' was opened by process {self._process}, from which this one was forked: "
                "open it in each process, after the fork"
            )
        self._process = os.getpid()

    def _write(self, work: Callable[[sqlite3.Connection], T], *, is_lasting: bool = True) -> T:
        with self._guarding():
            connection = self._connection()
            if is_lasting:
                return self._in_transaction(connection, work)
            connection.execute("PRAGMA synchronous = NORMAL")
            try:
                return self._in_transaction(connection, work)
            finally:
                connection.execute("PRAGMA synchronous = FULL")

    def _run_inline(self, work: Callable[[sqlite3.Connection], object]) -> bool:
        """Run *work* in the calling thread if that needs no waiting; return whether it ran and was committed."""
        self._refuse_fork()
        # Never block here: this is the event loop's thread. A second caller goes through the writer's thread.
        if self._in_memory or self._is_new() or not self._quick_lock.acquire(blocking=False):
            return False
        try:
            if self._quick is None or self._quick_opened != self._opened:
                self._open_quick()
            assert self._quick is not None
            work(self._quick)
        except sqlite3.Error:
            # Rolled back, so running it again is safe. The thread of the writer waits, repairs or reports.
            return False
        finally:
            self._quick_lock.release()
        return True

    def _open_quick(self) -> None:
        """Open the connection of _run_inline: it waits for neither locks nor the disk, and never checkpoints."""
        if self._quick is not None:
            self._quick.close()
        self._quick, self._quick_opened = self._connect(timeout=0), self._opened
        self._quick.execute("PRAGMA synchronous = NORMAL")
        self._quick.execute("PRAGMA wal_autocheckpoint = 0")

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._is_new() and not self._in_memory:  # only the writer creates a file and migrates it
            self._submit(self._writing, self._open_file).result()
        with self._guarding():
            connection = self._reader()
            connection.execute("BEGIN")
            try:
                return work(connection)
            finally:
                connection.execute("ROLLBACK")

    def _open_file(self) -> None:
        with self._guarding():
            self._connection()

    def _reader(self) -> sqlite3.Connection:
        """Return this thread's reading connection; reopen it if the writer has since opened another file."""
        if self._in_memory:
            return self._connection()
        current: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if current is not None and self._local.opened == self._opened:
            return current
        connection = self._connect()
        connection.execute("PRAGMA query_only = ON")
        with self._lock:
            self._readers = [*(each for each in self._readers if each is not current), connection]
        if current is not None:
            current.close()
        self._local.connection, self._local.opened = connection, self._opened
        return connection

    def _is_new(self) -> bool:
        """Return whether no file is open, or the path now leads to another file than the open one."""
        if self._in_memory:
            return self._writer is None
        return self._opened is None or file_id(self.path) != self._opened

    def _in_transaction(
        self, connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T], *, waits: bool = True
    ) -> T:
        # IMMEDIATE takes the write lock now: a transaction that reads first and writes later would fail at once with
        # SQLITE_BUSY, without waiting, if another process wrote in between.
        if waits:
            _begin_in_turn(connection)
        else:
            connection.execute("BEGIN IMMEDIATE")
        try:
            # A newer FlexChat may have changed the schema while this process was running.
            if connection.execute("PRAGMA user_version").fetchone()[0] > len(self._migrations):
                raise StorageError(f"'{self.path}' {_NEWER}")
            result = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # a full disk may have rolled back already
                connection.execute("ROLLBACK")
            raise
        return result

    def _connection(self) -> sqlite3.Connection:
        """Return the writing connection; create and migrate the file on first use.

        Raises:
            StorageError: The file was deleted. Creating a new one would hide the loss of its data.
        """
        if self._writer is not None and not self._is_new():
            return self._writer
        self._close_writer()
        if self._in_memory:
            self._writer = self._connect()
            self._migrate(self._writer)
            return self._writer
        refuse_other(self.path)
        if self._was_opened:
            self._check_deleted()
            _log.warning("%s: '%s' was replaced while in use; the new file is used", self._kind, self.path)
        try:
            return self._begin()
        except sqlite3.Error as error:
            if not is_damage(error) or self._put_aside(file_id(self.path)) is None:
                raise
        return self._begin()

    def _check_deleted(self) -> None:
        if self._was_opened and not self.path.exists():
            raise StorageError(f"{self._kind}: '{self.path}' {_DELETED}")

    def _begin(self) -> sqlite3.Connection:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.path.exists():
            # SQLite would create the file with the umask's permissions: other users could read it for a moment.
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = self._connect()
        try:
            self._check_owner(connection)
            _switch_to_wal(connection)
            connection.execute("PRAGMA synchronous = FULL")
            self._migrate(connection)
        except BaseException:
            connection.close()
            raise
        # Published last: readers and _run_inline use the file only once it is migrated.
        self._writer, self._opened, self._was_opened = connection, file_id(self.path), True
        return connection

    def _close_writer(self) -> None:
        if self._writer is not None:
            with contextlib.suppress(sqlite3.Error):
                self._writer.close()  # SQLite leaves the log alone if the file has moved
        self._writer, self._opened = None, None

    def _put_aside(self, damaged: FileId | None) -> Path | None:
        """Rename the damaged file, in the writer's thread, and return its new path; None if it must stay."""
        self._close_writer()
        try:
            aside = put_aside(self.path, damaged, self._application_id)
        except OSError as error:
            _log.error(
                "%s: '%s' is damaged and cannot be put aside: %s", self._kind, self.path, error.strerror or error
            )
            return None
        if aside is not None:
            self._was_opened = False
            _log.error(
                "%s: '%s' is damaged: it was put aside as '%s', and a new one was started; restore a copy, or see what "
                "can still be read: sqlite3 '%s' .recover",
                *(self._kind, self.path, aside, aside),
            )
        return aside

    def _recover_from_damage(self) -> str | None:
        """Rename a file that turned out damaged while in use; return the clause for the error, None if it stays."""
        damaged = self._opened
        # Only the writer's thread renames; from that thread itself, waiting for it would never end.
        if threading.current_thread().name.startswith(f"flexchat {self._kind} writer"):
            aside = self._put_aside(damaged)
        else:
            aside = self._submit(self._writing, lambda: self._put_aside(damaged)).result()
        return f"is damaged: it was put aside as '{aside}', and a new one was started" if aside is not None else None

    def _connect(self, timeout: float = BUSY_S) -> sqlite3.Connection:
        # mode=rw: only _begin creates a file. A reader that ran after a deletion would start an empty database.
        address = IN_MEMORY if self._in_memory else f"{self.path.absolute().as_uri()}?mode=rw"
        try:
            connection = sqlite3.connect(
                address, timeout=timeout, isolation_level=None, check_same_thread=False, uri=True
            )
        except sqlite3.OperationalError:
            self._check_deleted()
            raise
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            if self._prepare is not None:
                self._prepare(connection)
        except BaseException:  # sqlite3 in Python 3.13 warns about connections that are never closed
            connection.close()
            raise
        return connection

    def _check_owner(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN")  # one consistent look: another process may be filling the file
        try:
            application_id = connection.execute("PRAGMA application_id").fetchone()[0]
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        finally:
            connection.execute("ROLLBACK")
        if application_id != self._application_id and (application_id or tables):
            raise StorageError(f"'{self.path}' is a database of something else, not of FlexChat's {self._kind}")

    def _migrate(self, connection: sqlite3.Connection) -> None:
        def bring_up_to_date(connection: sqlite3.Connection) -> None:
            # Read again inside the transaction: another process may have migrated the file since the check below.
            version, oldest = _applied(connection)
            for step in self._migrations[version:]:
                if callable(step):
                    step(connection)
                    continue
                for statement in _statements(step):
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {self._application_id}")
            connection.execute(f"PRAGMA user_version = {max(oldest, self._compatible_from)}")
            if len(self._migrations) > max(version, self._compatible_from):
                connection.execute("CREATE TABLE IF NOT EXISTS schema_steps (applied INTEGER NOT NULL)")
                connection.execute("INSERT INTO schema_steps VALUES (?)", (len(self._migrations),))

        state = self._state(*_applied(connection))
        if not state.is_usable:
            raise StorageError(f"'{self.path}' {_NEWER}")
        if state.is_behind:
            if not self.migrates:
                text = (
                    f"has {state.version} of the {state.newest} steps of its schema: flexchat migrate does the others"
                )
                raise StorageError(f"'{self.path}' {text}")
            self._in_transaction(connection, bring_up_to_date)

    @contextlib.contextmanager
    def _guarding(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            recovery = self._recover_from_damage() if self._opened is not None and is_damage(error) else None
            raise StorageError(f"{self._kind}: '{self.path}' {recovery or _explain(error)}") from error
        except OSError as error:
            raise StorageError(f"{self._kind}: '{self.path}' cannot be used: {error.strerror or error}") from error
        except (OverflowError, UnicodeEncodeError) as error:
            raise StorageError(f"{self._kind}: '{self.path}' cannot hold this: {error}") from error


def _applied(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return how many steps a file has, and how many a FlexChat must know to use it."""
    oldest = connection.execute("PRAGMA user_version").fetchone()[0]
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema_steps'").fetchone():
        return oldest, oldest
    # The greatest: two versions of FlexChat may each have added steps.
    return max(oldest, connection.execute("SELECT max(applied) FROM schema_steps").fetchone()[0] or 0), oldest


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log, a setting stored in the file.

    SQLite ignores the busy timeout while another process switches, so the wait is here.
    """
    _execute_once_free(connection, "PRAGMA journal_mode = WAL")


def _begin_in_turn(connection: sqlite3.Connection) -> None:
    """Begin a transaction with the write lock.

    SQLite would wait as well, but for up to a tenth of a second between two attempts: then of many processes that write
    all the time, most wait while the lock is free, and some never get it.
    """
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        _execute_once_free(connection, "BEGIN IMMEDIATE")
    finally:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_S * 1000:.0f}")


def _execute_once_free(connection: sqlite3.Connection, statement: str) -> None:
    """Execute a statement as soon as no other process is in its way."""
    end = time.monotonic() + BUSY_S
    while True:
        try:
            connection.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        time.sleep(random.uniform(0.0005, 0.005))


def _statements(script: str) -> list[str]:
    """Split a script at the semicolons that end its statements (executescript would commit in between)."""
    statements, statement = [], ""
    for piece in re.split("(?<=;)", script):
        statement += piece
        if sqlite3.complete_statement(statement):
            statements.append(statement.strip())
            statement = ""
    return [*statements, statement.strip()] if statement.strip() else statements


_NEWER = "was written by a newer FlexChat: update this one"
_DELETED = "was deleted or moved while in use: put it back, or restart this program, which then begins a new one"

_REASONS = {
    "SQLITE_NOTADB": "is not a SQLite database, or is damaged",
    "SQLITE_CORRUPT": "is damaged; restore it from a copy, or fill a new one",
    "SQLITE_FULL": "cannot grow: the disk is full",
    "SQLITE_READONLY": "cannot be written: the file or its folder is read-only",
    "SQLITE_CANTOPEN": "cannot be opened: does its folder exist, and is it writable?",
    "SQLITE_BUSY": f"is in use: another process has been writing for {BUSY_S:g} seconds",
    "SQLITE_IOERR": "cannot be read or written: the disk reports an error",
}


def _explain(error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", "")
    for code, reason in _REASONS.items():
        if name.startswith(code):
            return reason
    return f"refused: {error}"
