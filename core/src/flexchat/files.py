"""Files named by users: opened without hanging, replaced in one step, with errors a user understands.

The OSErrors raised here have a ``strerror`` that completes "FILE cannot be read: …". A name may belong to a folder, a
FIFO without a writer, an endless device or a link to itself; ``open`` would hang on some of them.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TextIO

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
# Where a pipe is not a leftover FIFO, but given on purpose: <(command) in a shell.
_OPENED_BEFORE = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
_STEP_BYTES = 256 * 1024
IN_MEMORY = ":memory:"  # the path of a database without a file


def located(named: str | Path, folder: Path | None = None) -> Path:
    """Return a user's path, with ~ and ~user expanded; a relative one starts in the folder or the working folder.

    IN_MEMORY is returned unchanged.

    Raises:
        PathError: The system does not accept the name, or has no home for that user.
    """
    if "\0" in str(named):
        raise PathError(str(named), "the name contains a NUL character")
    try:
        path = Path(named).expanduser()
    except RuntimeError:
        user = str(named)[1:].partition(os.sep)[0]
        why = f"there is no user {user}" if user else "your home folder is unknown: set HOME"
        raise PathError(str(named), why) from None
    return path if folder is None or str(named) == IN_MEMORY else folder / path


def working_folder() -> Path:
    """Return the working folder.

    Raises:
        PathError: It has been deleted.
    """
    try:
        return Path.cwd()
    except OSError:
        raise PathError(".", "the working folder no longer exists: change to another one") from None


def path_exists(path: Path) -> bool:
    """Return whether a name is taken by anything: a broken link counts, and so does something we may not look at."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        return True
    return True


def refuse_other(path: str | Path) -> None:
    """Refuse anything that is not, and cannot become, a regular file; a free name is fine.

    Raises:
        OSError: The name belongs to something else, or cannot be used.
    """
    with _in_words(path):
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            return
        _refuse(mode)


def open_file(path: str | Path) -> BinaryIO:
    """Open a regular file to read its bytes, or a pipe that is already open, as in ``<(command)``.

    Raises:
        OSError: It does not exist, is something else, or may not be read.
    """
    with _in_words(path):
        is_open_already = str(path).startswith(_OPENED_BEFORE)
        mode = os.stat(path).st_mode
        if not (is_open_already and stat.S_ISFIFO(mode)):
            _refuse(mode)
        # Another kind of file that replaced it meanwhile must not block this: opening a FIFO without a writer would.
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            if not is_open_already:
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
        most: Maximum size in bytes.

    Raises:
        OSError: As for open_file, or it is larger.
    """
    with open_file(path) as file, _in_words(path):
        content = read_at_most(file, most)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"the file is larger than {_size(most)}", str(path))
    return content


def read_at_most(file: Any, most: int) -> bytes:
    """Return the content of an open file, encoded if it is text; of a larger one, more than *most* bytes.

    It is read in steps, because a read of n bytes allocates n bytes before it reads the first.
    """
    content = io.BytesIO()
    while content.tell() <= most and (piece := file.read(_STEP_BYTES)):
        content.write(piece.encode() if isinstance(piece, str) else piece)
    return content.getvalue()


def _size(size: int) -> str:
    return f"{size // 1024**2} MiB" if size >= 1024**2 else f"{size // 1024} KiB"


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
            text = f"the link leads to something that does not exist: {os.readlink(path)}"
        raise OSError(number, text, str(path)) from None


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """Yield a UTF-8 file that replaces the one at path once it is on disk, unless the block raises.

    A link still points to the file, and permissions stay. Missing folders are created. The yielded file's ``name`` is
    its temporary path, with the same suffix; flush before reading it.

    Raises:
        OSError: It cannot be written, or something at the path is not a file.
    """
    refuse_other(path)
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.stem}.{os.urandom(4).hex()}{target.suffix}")
    try:
        with part.open("x", encoding="utf-8", errors="replace", newline="\n") as file:
            if target.exists():
                part.chmod(target.stat().st_mode & 0o7777)
            yield file
            file.flush()
            # On disk before the rename: after a power failure the name must not lead to an empty file.
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # some systems cannot do this
        # The rename is an entry of the folder, which is not on disk before the folder is.
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def data_folder() -> Path:
    """Return this user's data folder: FLEXCHAT_DATA or, if not set, where the platform wants such data.

    Raises:
        PathError: This user's home folder is unknown.

    Source: XDG Base Directory specification; Apple's and Microsoft's locations on their systems.
    """
    variable = os.environ.get("FLEXCHAT_DATA")
    if variable:
        return located(variable)
    if sys.platform == "darwin":
        return located("~/Library") / "Application Support" / "flexchat"
    if os.name == "nt":
        return located(os.environ.get("LOCALAPPDATA") or "~/AppData/Local") / "flexchat"
    return located(os.environ.get("XDG_DATA_HOME") or "~/.local/share") / "flexchat"
