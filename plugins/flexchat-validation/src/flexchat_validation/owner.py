"""Which process a run belongs to, and whether it still exists."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def this_process() -> str:
    """Return an identifier of this process, different even from a later one with the same number."""
    return f"{platform.node()} {os.getpid()} {_started(os.getpid()) or ''}".strip()


def is_there(owner: str) -> bool | None:
    """Return whether the process that called this_process still runs; None if this cannot be determined here."""
    host, _, rest = owner.partition(" ")
    number, _, started = rest.partition(" ")
    if host != platform.node() or not number.isdecimal():
        return None
    if started:
        return _started(int(number)) == started
    if os.name != "posix":  # elsewhere os.kill would end it
        return None
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _started(number: int) -> str | None:
    """Return the start time of a process in the kernel's ticks; None where the kernel does not report it.

    Source: proc_pid_stat(5), field 22; the name before it is in brackets and may contain anything.
    """
    try:
        stat = Path(f"/proc/{number}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] not in "ZX" else None
