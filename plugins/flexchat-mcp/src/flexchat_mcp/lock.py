"""A lock on a file, between programs and between tasks; a program that is killed holds it no longer."""

from __future__ import annotations

import asyncio
import sys

_LOOK_S = 0.02
"""A call that waits for the lock in a thread could not be cancelled, so the lock is tried again and again."""


async def take_lock(number: int, within_s: float) -> None:
    """Acquire the lock of an open file; closing the file releases it.

    On a system without file locks, every caller gets it.

    Args:
        number: The file descriptor; each waiting caller needs one of its own.

    Raises:
        TimeoutError: Another process still holds the lock.
    """
    async with asyncio.timeout(within_s):
        while not _is_taken(number):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)  # the release of a file lock sends no notification


if sys.platform == "win32":
    import msvcrt

    def _is_taken(number: int) -> bool:
        try:
            msvcrt.locking(number, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        except OSError:
            return True
        return True

else:
    import fcntl

    def _is_taken(number: int) -> bool:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return True
        return True
