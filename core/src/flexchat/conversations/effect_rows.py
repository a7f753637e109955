"""The changes a row of the ledger may undergo: the rules every ledger follows, as functions of rows."""

from __future__ import annotations

import functools
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import attrs

from ..domain import Effect, EffectCall
from ..domain.effects import ClaimOutcome
from ..errors import CannotSettleError

RESTORED_EFFECT = "it was under way when this data was backed up"
"""The note of an effect that was claimed or pending in a backup."""

EndState = Literal["done", "failed", "unknown"]

DELETED = "its conversation was deleted while it waited for a reply"
DELETED_JOB = f"{DELETED}, but it had started a job"
DELETED_OWNER = "deleted"
"""Of a claim whose job goes on without its handle: with no owner, it would count as released, and start another one."""

_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", None)


def seconds_since_boot() -> float:
    """Return the clock for leases: the same for all processes of this machine, and never adjusted.

    Uses a clock that keeps running while the machine sleeps, if there is one: others may take over meanwhile.
    """
    return time.monotonic() if _SINCE_BOOT is None else time.clock_gettime(_SINCE_BOOT)


@functools.cache
def boot_id() -> str:
    """Return what identifies this boot of the machine, for rows; empty where the system has no such file."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        return ""


def now_text() -> str:
    """Return the time as rows store it, for people."""
    return time_text(time.time())


def time_text(seconds: float) -> str:
    """Return a time, in seconds since the epoch, as rows store it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def outcome_of(row: Effect, call: EffectCall, owner_lives: bool, take_over: bool) -> ClaimOutcome:
    """Return the outcome of claiming a key that already has a row."""
    is_same = (row.tool, row.digest, row.tenant) == (call.tool, call.digest, call.tenant)
    # Released: no tool has run, so even a different call may claim it. A pending one has a handle perhaps.
    if not row.owner and (is_same or row.state != "pending"):
        return "yours"
    if not is_same:
        return "other"
    may_repeat = row.handle is not None or (row.honours_key and call.honours_key)
    if row.state == "unknown" and may_repeat and take_over:
        return "yours"
    if row.state != "claimed":
        return "ended"
    if owner_lives:
        return "running"
    return "yours" if take_over else "lost"


def claimed_anew(call: EffectCall, before: Effect | None, owner: str, now: str) -> Effect:
    """Return the row of a claim that is "yours". The handle of an earlier claim of the same call stays."""
    has_run = before is not None and (before.owner or before.state == "pending")
    return Effect(
        **attrs.asdict(call, recurse=False, filter=lambda field, _: field.name != "honours_key"),
        state="claimed",
        owner=owner,
        fence=1 if before is None else before.fence + 1,
        claimed_at=now,
        handle=before.handle if before is not None and has_run else None,
        # An earlier attempt without the key is not undone by this one, which has it.
        honours_key=call.honours_key and (before is None or not before.owner or before.honours_key),
    )


def remembered(row: Effect, handle: str) -> Effect | None:
    """Return the row with a handle; None if this comes too late."""
    return attrs.evolve(row, handle=handle) if row.owner and row.state in ("claimed", "unknown") else None


def finished(row: Effect, state: EndState, result: str | None, note: str, now: str) -> Effect | None:
    """Return the row of a claim that has ended; None if this comes too late."""
    if row.state not in ("claimed", "unknown"):
        return None
    return attrs.evolve(row, state=state, result=result, note=note, ended_at=now)


def released(row: Effect, note: str, now: str, is_pending: bool = False) -> Effect | None:
    """Return the row of a released claim; None if this comes too late, or if its tool has started a job."""
    if row.state != "claimed" or (row.handle is not None and not is_pending):
        return None
    if is_pending:
        pending = attrs.evolve(row, state="pending", owner="", note=note)
        return forgotten(pending, now) if row.note == DELETED else pending
    return attrs.evolve(row, state="failed", owner="", note=note, ended_at=now)


def settled(
    row: Effect, owner_lives: bool, state: Literal["done", "failed"], by: str, note: str, result: str | None, now: str
) -> Effect:
    """Return the row as settled by a person. Raises CannotSettleError if there is nothing to settle."""
    if row.state == "claimed" and owner_lives:
        raise CannotSettleError(f"the effect {row.key[:8]} ('{row.tool}') is still running: wait for its end")
    if row.state == "pending":
        raise CannotSettleError(f"the effect {row.key[:8]} ('{row.tool}') has changed nothing yet: {row.note}")
    if row.state in ("done", "failed"):
        by_whom = f"settled by {row.settled_by}" if row.settled_by else "its tool said so"
        text = f"the effect {row.key[:8]} ('{row.tool}') is {row.state} since {row.ended_at}: {by_whom}"
        raise CannotSettleError(text)
    return attrs.evolve(row, state=state, settled_by=by, note=note, result=result, ended_at=now)


def mark_if_dead(row: Effect, owner_lives: bool) -> Effect:
    """Return the row as shown to people: a claim whose owner is dead counts as unknown."""
    if row.state != "claimed" or owner_lives:
        return row
    return attrs.evolve(row, state="unknown", note="the process that ran it has died")


def forgotten(row: Effect, now: str) -> Effect:
    """Return the row without its texts. One whose call waited for a reply ends: its question is deleted as well.

    One that is claimed keeps its handle, as its call goes on, and is marked by its note: it must not wait any more.
    """
    if row.state == "claimed":
        return attrs.evolve(row, arguments="", result=None, note=DELETED)
    without = attrs.evolve(row, arguments="", result=None, note="", handle=None)
    if row.state != "pending":
        return without
    if row.handle is None:
        return attrs.evolve(without, state="failed", note=DELETED, ended_at=now)
    return attrs.evolve(without, state="unknown", owner=DELETED_OWNER, note=DELETED_JOB, ended_at=now)
