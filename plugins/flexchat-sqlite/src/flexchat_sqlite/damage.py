"""Renames a damaged database, never deleting it, so that work can continue with a new file."""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

MAGIC = b"SQLite format 3\0"
"""The first 16 bytes of every SQLite file. Source: sqlite.org/fileformat.html, 1.3."""

_DAMAGE = ("SQLITE_NOTADB", "SQLITE_CORRUPT")
_INDEX_ONLY = "SQLITE_CORRUPT_VTAB"
_NAMES = (".db", ".sqlite", ".sqlite3")

FileId = tuple[int, int]
"""Device and inode."""


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error means that the file itself is damaged, not only a full-text index in it."""
    name = getattr(error, "sqlite_errorname", "") or ""
    return name.startswith(_DAMAGE) and name != _INDEX_ONLY


def file_id(path: Path) -> FileId | None:
    """Identify the file that a path leads to at this moment; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def put_aside(path: Path, damaged: FileId | None, application_id: int) -> Path | None:
    """Rename a damaged database together with its log; return the new path, or None if the file must stay.

    The file stays if another process has already renamed it, if its application id is another program's, or if it
    neither starts like a database nor is named like one: then the path in the config is wrong, not the file.

    Args:
        damaged: The file in which the damage was detected.

    Raises:
        OSError: The file cannot be renamed.
    """
    with path.open("rb") as file, _lock_file(file.fileno()):
        # Read after the lock is held: a process that waited for it sees the file that another one has already renamed.
        head = file.read(100)
        owner_id = int.from_bytes(head[68:72], "big") if head.startswith(MAGIC) and len(head) == 100 else 0
        if file_id(path) != damaged or owner_id not in (0, application_id):
            return None
        if not head.startswith(MAGIC) and path.suffix.casefold() not in _NAMES:
            return None
        new_path = _free_name(path)
        # The log first: a new database must never find the old one's log.
        for end in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                path.with_name(path.name + end).rename(new_path.with_name(new_path.name + end))
        path.rename(new_path)
        return new_path


def _free_name(path: Path) -> Path:
    begin = f"{path.stem}.damaged-{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}"
    endings = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    paths = (path.with_name(f"{begin}{ending}{path.suffix}") for ending in endings)
    return next(each for each in paths if not each.exists())


@contextlib.contextmanager
def _lock_file(file: int) -> Iterator[None]:
    """Lock the file, so that no other process renames it, or the new file that replaces it."""
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
