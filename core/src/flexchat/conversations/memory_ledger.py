"""The ledger of a process without a store: its effects are forgotten when it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from ..domain import Claim, Effect, EffectCall, EffectState, ToolDefinition, ToolResult, TurnInfo
from ..domain.effects import effect_key
from ..errors import UnknownEffectError
from .effect_rows import (
    claimed_anew,
    finished,
    forgotten,
    mark_if_dead,
    now_text,
    outcome_of,
    released,
    remembered,
    seconds_since_boot,
    settled,
)

MOST_ROWS = 10_000
"""Rows it keeps: beyond that, the oldest rows that are done or failed are dropped."""


class NewEffect:
    """The row of a call that cannot have been made before, as begun in a ledger in memory.

    It is written out as an Effect when it is first read: most rows never are, and to digest and mask arguments and
    result takes longer than many a tool.

    Args:
        write: Makes the Effect.
    """

    __slots__ = (
        "_write",
        "arguments",
        "conversation",
        "definition",
        "ended_at",
        "ledger",
        "place",
        "result",
        "started_at",
        "state",
        "tenant",
        "tool",
        "turn",
    )
    fence = 1
    handle = None

    def __init__(
        self,
        ledger: MemoryLedger,
        turn: TurnInfo,
        place: str,
        definition: ToolDefinition,
        arguments: Any,
        write: Callable[[NewEffect], Effect],
    ) -> None:
        self.ledger, self.turn, self.place, self.arguments = ledger, turn, place, arguments
        self.definition, self.tool = definition, definition.name
        self.tenant, self.conversation = turn.tenant, turn.conversation
        self.state: Literal["claimed", "done", "failed"] = "claimed"
        self.result: ToolResult | None = None
        self.started_at, self.ended_at = time.time(), 0.0
        self._write = write

    @property
    def key(self) -> str:
        """The key of the effect."""
        return effect_key(self.tenant, self.conversation, self.turn.id, self.place)

    def to_effect(self) -> Effect:
        """Write the row out."""
        return self._write(self)


class MemoryLedger:
    """A ledger in memory; see EffectLedger. Any number of threads may use it."""

    def __init__(self) -> None:
        # In the order of their first claims; a row that is not written out is its own key.
        self._rows: dict[str | NewEffect, Effect | NewEffect] = {}
        self._leases: dict[str, float] = {}  # when each owner's lease expires
        self._lock = threading.Lock()

    async def claim(self, call: EffectCall, *, owner: str, lease_s: float, take_over: bool = False) -> Claim:
        """Claim an effect; see EffectLedger."""
        with self._lock:
            # Look-up and claim under one lock: of two threads with the same call, only one may run its tool.
            row = self._rows.get(call.key)
            assert not isinstance(row, NewEffect)
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

    def begin(self, row: NewEffect) -> None:
        """Add the row of a call that cannot have been made before; it is claimed until it ends."""
        with self._lock:
            self._rows[row] = row
            self._stay_small()

    def end(self, row: NewEffect, state: Literal["done", "failed"], result: ToolResult) -> bool:
        """Record how such a call ended; False if its row has been written out, so that ``finish`` decides."""
        with self._lock:
            if row not in self._rows:
                return False
            row.state, row.result, row.ended_at = state, result, time.time()
            return True

    def write_out(self, row: NewEffect) -> Effect:
        """Return such a row as an Effect, which the other methods know from then on."""
        with self._lock:
            return self._find(row.key, row.tenant)

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
            row = self._find(key, tenant)
            changed = settled(row, self._lives(row.owner), state, by, note, result, now_text())
            self._rows[row.key] = changed
            return changed

    async def get(self, key: str, *, tenant: str) -> Effect:
        """Return an effect; see EffectLedger."""
        with self._lock:
            row = self._as_seen(self._find(key, tenant))
            assert isinstance(row, Effect)
            return row

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
        requested = None if states is None else frozenset(states)
        with self._lock:
            last = None if before is None else self._find(before, tenant)
            rows = [self._as_seen(row) for row in self._rows.values() if row.tenant == tenant]
            if last is not None:
                rows = rows[: rows.index(self._as_seen(last))]
            fitting = (
                row
                for row in reversed(rows)
                if (requested is None or row.state in requested) and conversation in (None, row.conversation)
            )
            page = [row for row, _ in zip(fitting, range(max(limit, 0)), strict=False)]
            written = self._write_out(page)
            return [written[row] if isinstance(row, NewEffect) else row for row in page]

    async def forget(self, *, older_than_s: float) -> None:
        """Forget old texts; see EffectLedger. No rows are deleted: their number is bounded anyway."""
        until, until_s = (datetime.now(UTC) - timedelta(seconds=older_than_s)).isoformat(), time.time() - older_than_s
        with self._lock:
            rows = [row for row in self._rows.values() if isinstance(row, NewEffect)]
            self._write_out([row for row in rows if row.state != "claimed" and row.ended_at < until_s])
            for row in self._effects():
                if row.state in ("done", "failed") and row.ended_at < until:
                    self._rows[row.key] = forgotten(row)

    async def forget_conversation(self, conversation: str, *, tenant: str) -> None:
        """Forget the texts of a conversation; see EffectLedger."""
        with self._lock:
            self._write_out([row for row in self._rows.values() if row.conversation == conversation])
            for row in self._effects():
                if (row.tenant, row.conversation) == (tenant, conversation):
                    self._rows[row.key] = forgotten(row)

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""

    def _lives(self, owner: str) -> bool:
        return self._leases.get(owner, 0.0) > seconds_since_boot()

    def _as_seen(self, row: Effect | NewEffect) -> Effect | NewEffect:
        return row if isinstance(row, NewEffect) else mark_if_dead(row, self._lives(row.owner))

    def _effects(self) -> Sequence[Effect]:
        return [row for row in self._rows.values() if isinstance(row, Effect)]

    def _write_out(self, rows: Iterable[Effect | NewEffect]) -> dict[NewEffect, Effect]:
        written = {row: row.to_effect() for row in rows if isinstance(row, NewEffect) and row in self._rows}
        if written:  # the order stays
            effects = (written.get(row, row) if isinstance(row, NewEffect) else row for row in self._rows.values())
            self._rows = {row if isinstance(row, NewEffect) else row.key: row for row in effects}
        return written

    def _change(self, key: str, fence: int, change: Callable[[Effect], Effect | None]) -> bool:
        with self._lock:
            row = self._rows.get(key)
            assert not isinstance(row, NewEffect)
            changed = change(row) if row is not None and row.fence == fence else None
            if changed is not None:
                self._rows[key] = changed
            return changed is not None

    def _find(self, key: str, tenant: str) -> Effect:
        row = self._rows.get(key)
        if row is None or row.tenant != tenant:
            rows = (
                [row for row in self._rows.values() if row.tenant == tenant and row.key.startswith(key)] if key else []
            )
            if len(rows) != 1:
                raise UnknownEffectError(key, [row.key for row in rows[:3]])
            row = rows[0]
        if isinstance(row, NewEffect):
            key = row.key
            self._write_out([row])
            row = self._rows[key]
        assert isinstance(row, Effect)
        return row

    def _stay_small(self) -> None:
        if len(self._rows) > MOST_ROWS:
            # Claimed and unknown rows stay: without its row, such an effect could run a second time.
            oldest = (key for key, row in self._rows.items() if row.state in ("done", "failed"))
            for key in [key for key, _ in zip(oldest, range(MOST_ROWS // 10), strict=False)]:
                del self._rows[key]
