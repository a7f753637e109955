"""The ledger of a process without a store: its effects are forgotten when it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from ..domain import Claim, Effect, EffectCall, EffectState
from ..errors import UnknownEffectError
from .effect_rows import (
    claimed_anew,
    finished,
    forgotten,
    now_text,
    outcome_of,
    released,
    remembered,
    seconds_since_boot,
    settled,
    told,
)

MOST_ROWS = 10_000
"""Rows it keeps: beyond that, the oldest rows that are done or failed are dropped."""


class MemoryLedger:
    """A ledger in memory; see EffectLedger. Any number of threads may use it."""

    def __init__(self) -> None:
        self._rows: dict[str, Effect] = {}  # in the order of their first claims
        self._leases: dict[str, float] = {}  # when each owner's lease expires
        self._lock = threading.Lock()

    async def claim(self, call: EffectCall, *, owner: str, lease_s: float, take_over: bool = False) -> Claim:
        """Claim an effect; see EffectLedger."""
        with self._lock:
            # Look-up and claim under one lock: of two threads with the same call, only one may run its tool.
            row = self._rows.get(call.key)
            outcome = "yours" if row is None else outcome_of(row, call, self._lives(row.owner), take_over)
            if outcome == "yours":
                row = self._rows[call.key] = claimed_anew(call, row, owner, now_text())
                self._leases[owner] = seconds_since_boot() + lease_s
                self._stay_small()
            assert row is not None
            return Claim(outcome, row)

    def renew(self, owner: str, lease_s: float) -> None:
        """Renew an owner's lease; see EffectLedger."""
        with self._lock:
            self._leases[owner] = seconds_since_boot() + lease_s

    async def remember(self, key: str, fence: int, *, handle: str) -> bool:
        """Keep a handle with a claim; see EffectLedger."""
        return self._change(key, fence, lambda row: remembered(row, handle))

    async def finish(
        self, key: str, fence: int, *, state: Literal["done", "failed", "unknown"], result: str | None, note: str = ""
    ) -> bool:
        """Record how a claim ended; see EffectLedger."""
        return self._change(key, fence, lambda row: finished(row, state, result, note, now_text()))

    async def release(self, key: str, fence: int, *, note: str) -> bool:
        """Release a claim; see EffectLedger."""
        return self._change(key, fence, lambda row: released(row, note, now_text()))

    async def settle(
        self,
        key: str,
        *,
        tenant: str,
        state: Literal["done", "failed"],
        by: str,
        note: str = "",
        result: str | None = None,
    ) -> Effect:
        """Replace "unknown" with a person's verdict; see EffectLedger."""
        with self._lock:
            row = self._found(key, tenant)
            changed = settled(row, self._lives(row.owner), state, by, note, result, now_text())
            self._rows[row.key] = changed
            return changed

    async def get(self, key: str, *, tenant: str) -> Effect:
        """Return an effect; see EffectLedger."""
        with self._lock:
            return self._told(self._found(key, tenant))

    async def list(
        self,
        *,
        tenant: str,
        states: Iterable[EffectState] | None = None,
        conversation: str | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> Sequence[Effect]:
        """Return effects, the newest first; see EffectLedger."""
        wanted = None if states is None else frozenset(states)
        with self._lock:
            rows = [row for row in self._rows.values() if row.tenant == tenant]
            if before is not None:
                rows = rows[: rows.index(self._found(before, tenant))]
            rows = [self._told(row) for row in rows]
        fitting = (
            row
            for row in reversed(rows)
            if (wanted is None or row.state in wanted) and conversation in (None, row.conversation)
        )
        return [row for row, _ in zip(fitting, range(max(limit, 0)), strict=False)]

    async def forget(self, *, older_than_s: float) -> None:
        """Forget old texts; see EffectLedger. No rows are deleted: their number is bounded anyway."""
        until = (datetime.now(UTC) - timedelta(seconds=older_than_s)).isoformat()
        with self._lock:
            for row in self._rows.values():
                if row.state in ("done", "failed") and row.ended_at < until:
                    self._rows[row.key] = forgotten(row)

    async def forget_conversation(self, conversation: str, *, tenant: str) -> None:
        """Forget the texts of a conversation; see EffectLedger."""
        with self._lock:
            for row in self._rows.values():
                if (row.tenant, row.conversation) == (tenant, conversation):
                    self._rows[row.key] = forgotten(row)

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""

    def _lives(self, owner: str) -> bool:
        return self._leases.get(owner, 0.0) > seconds_since_boot()

    def _told(self, row: Effect) -> Effect:
        return told(row, self._lives(row.owner))

    def _change(self, key: str, fence: int, change: Callable[[Effect], Effect | None]) -> bool:
        with self._lock:
            row = self._rows.get(key)
            changed = change(row) if row is not None and row.fence == fence else None
            if changed is not None:
                self._rows[key] = changed
            return changed is not None

    def _found(self, key: str, tenant: str) -> Effect:
        row = self._rows.get(key)
        if row is not None and row.tenant == tenant:
            return row
        found = [row for row in self._rows.values() if row.tenant == tenant and row.key.startswith(key)] if key else []
        if len(found) != 1:
            raise UnknownEffectError(key, [row.key for row in found[:3]])
        return found[0]

    def _stay_small(self) -> None:
        if len(self._rows) > MOST_ROWS:
            # Claimed and unknown rows stay: without its row, such an effect could run a second time.
            oldest = (key for key, row in self._rows.items() if row.state in ("done", "failed"))
            for key in [key for key, _ in zip(oldest, range(MOST_ROWS // 10), strict=False)]:
                del self._rows[key]
