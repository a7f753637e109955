"""Files that users name: found and opened so that nothing hangs, and what goes wrong is said in a user's words.

The OSErrors raised here have a ``strerror`` that goes on with "FILE cannot be read: …". A name may belong to a folder,
a FIFO that nobody writes to, an endless device or a link to itself; ``open`` would hang at some of them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from .errors import PathError

_OTHER = (
    (stat.S_ISDIR, errno.EISDIR, "this is a folder, not a file"),
    (stat.S_ISFIFO, errno.EINVAL, "this is a FIFO (a named pipe), not a file"),
    (stat.S_ISSOCK, errno.ENXIO, "this is a socket, not a file"),
    (lambda mode: True, errno.EINVAL, "this is a device, not a file"),
)
_WORDS = {
    errno.ENOENT: "there is no such file",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EISDIR: "this is a folder, not a file",
    errno.ELOOP: "the link leads back to itself",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EACCES: "permission denied",
    errno.ENOSPC: "the disk is full",
}
_OPENED_BEFORE = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Where a pipe is not a FIFO that somebody left behind, but given on purpose: <(command) in a shell."""


def located(named: str | Path, folder: Path | None = None) -> Path:
    """Return the path a user wrote, ~ and ~user filled in; a relative one starts in the folder, or where one stands.

    Raises:
        PathError: The system takes no such name, or does not know that user's home.
    """
    if "\0" in str(named):
        raise PathError(str(named), "the name holds a NUL character")
    try:
        path = Path(named).expanduser()
    except RuntimeError:
        user = str(named)[1:].partition(os.sep)[0]
        why = f"there is no user {user}" if user else "your home folder is not known: set HOME"
        raise PathError(str(named), why) from None
    return path if folder is None else folder / path


def working_folder() -> Path:
    """Return where one stands.

    Raises:
        PathError: It has been deleted.
    """
    try:
        return Path.cwd()
    except OSError:
        raise PathError(".", "the working folder is gone: change to another one") from None


def is_there(path: Path) -> bool:
    """Return whether a name is taken, by whatever: a link to nothing counts, and what may not be looked at."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        return True
    return True


def refuse_other(path: str | Path) -> None:
    """Refuse what is no regular file and cannot become one; a name that is free is fine.

    Raises:
        OSError: The name belongs to something else, or cannot be had.
    """
    with _in_words(path):
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            return
        _refuse(mode)


def open_file(path: str | Path) -> BinaryIO:
    """Open a regular file to read its bytes; also a pipe that was opened before, as in ``<(command)``.

    Raises:
        OSError: There is none, it is something else, or it may not be read.
    """
    with _in_words(path):
        given = str(path).startswith(_OPENED_BEFORE)
        mode = os.stat(path).st_mode
        if not (given and stat.S_ISFIFO(mode)):
            _refuse(mode)
        # What took its place since then must not make this wait: without a writer, opening a FIFO would.
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            if not given:
                _refuse(os.fstat(number).st_mode)
            if hasattr(os, "set_blocking"):
                os.set_blocking(number, True)
            return os.fdopen(number, "rb")
        except BaseException:
            os.close(number)
            raise


def read_file(path: str | Path, *, most: int) -> bytes:
    """Return the bytes of a file that open_file opens.

    Args:
        most: How many bytes it may have.

    Raises:
        OSError: As open_file, or it is larger.
    """
    with open_file(path) as file, _in_words(path):
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"the file is larger than {most // 1024 // 1024} MiB", str(path))
    return content


def _refuse(mode: int) -> None:
    if not stat.S_ISREG(mode):
        number, text = next((number, text) for is_it, number, text in _OTHER if is_it(mode))
        raise OSError(number, text)


@contextlib.contextmanager
def _in_words(path: str | Path) -> Iterator[None]:
    try:
        yield
    except ValueError:  # a NUL, or half of a surrogate pair
        raise OSError(errno.EINVAL, "no file can have this name", str(path)) from None
    except OSError as error:
        number = error.errno or 0
        text = _WORDS.get(number, error.strerror or str(error))
        if number == errno.ENOENT and os.path.islink(path):
            text = f"the link leads to what is not there: {os.readlink(path)}"
        raise OSError(number, text, str(path)) from None
