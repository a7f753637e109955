"""Puts a damaged database aside under a telling name, never deleting it, so that work can continue with a new one."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

MAGIC = b"SQLite format 3\0"
"""How every SQLite file starts. Source: sqlite.org/fileformat.html, 1.3."""

_DAMAGE = ("SQLITE_NOTADB", "SQLITE_CORRUPT")
_INDEX_ONLY = "SQLITE_CORRUPT_VTAB"
_NAMES = (".db", ".sqlite", ".sqlite3")

Place = tuple[int, int]


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error says that the file itself is damaged, not just a full-text index in it."""
    name = getattr(error, "sqlite_errorname", "") or ""
    return name.startswith(_DAMAGE) and name != _INDEX_ONLY


def place_of(path: Path) -> Place | None:
    """Return which file a path leads to right now; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def put_aside(path: Path, seen: Place | None, application_id: int) -> Path | None:
    """Rename a damaged database, with its log, and return its new path; None if that is not ours to do.

    It is not if another process has done so already, if the file says it belongs to another program, or if it neither
    starts like a database nor is named like one: then the path in the config is wrong, not the file.

    Args:
        seen: The file that was found damaged.

    Raises:
        OSError: It cannot be renamed.
    """
    with path.open("rb") as file, _alone(file.fileno()):
        head = file.read(100)
        theirs = int.from_bytes(head[68:72], "big") if head.startswith(MAGIC) and len(head) == 100 else 0
        if place_of(path) != seen or theirs not in (0, application_id):
            return None
        if not head.startswith(MAGIC) and path.suffix.casefold() not in _NAMES:
            return None
        aside = _free_name(path)
        # The log first: a new database must never find the old one's log.
        for end in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                path.with_name(path.name + end).rename(aside.with_name(aside.name + end))
        path.rename(aside)
        return aside


def _free_name(path: Path) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    number = 1
    while True:
        more = f"-{number}" if number > 1 else ""
        aside = path.with_name(f"{path.stem}.damaged-{stamp}{more}{path.suffix}")
        if not aside.exists():
            return aside
        number += 1


@contextlib.contextmanager
def _alone(file: int) -> Iterator[None]:
    """Keep other processes from putting aside the same file, or the new one that replaces it."""
    try:
        import fcntl
    except ImportError:  # Windows does not rename files that are open elsewhere
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
