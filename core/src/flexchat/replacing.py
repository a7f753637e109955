"""Replacing a file in one step, so that no reader ever sees half of it."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from .files import refuse_other


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
    part = target.with_name(f".{target.stem}.{secrets.token_hex(4)}{target.suffix}")
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
