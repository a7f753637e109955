"""The ledger of a process without a store: its effects are forgotten when it ends."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Literal

import attrs

from ..domain import Claim, Effect, EffectCall, EffectState, ToolDefinition, ToolResult, TurnInfo
from ..domain.effects import effect_key
from ..domain.questions import Approval
from ..errors import UnknownEffectError
from . import effect_rows
from .effect_rows import EndState, now_text, seconds_since_boot

Site = tuple[str, str | None, str, str]
"""Tenant, conversation, turn and place of a call: what its key is the digest of."""

MAX_ROWS = 10_000
"""Rows it keeps: beyond that, the oldest rows that are done or failed are dropped."""


@attrs.define(eq=False)
class NewEffect:
    """The row of a call that cannot have been made before, as begun in a ledger in memory.

    ``write`` makes an Effect of it when it is first read: most rows never are, and to digest and mask arguments and
    result takes longer than many a tool.
    """

    ledger: MemoryLedger
    turn: TurnInfo
    place: str
    definition: ToolDefinition
    arguments: Any
    write: Callable[[NewEffect], Effect]
    state: Literal["claimed", "done", "failed"] = "claimed"
    result: ToolResult | None = None
    started_at: float = attrs.field(factory=time.time)
    ended_at: float = 0.0
    site: Site = attrs.field(init=False)
    tenant: str = attrs.field(init=False)
    conversation: str | None = attrs.field(init=False)
    fence: ClassVar[int] = 1
    handle: ClassVar[None] = None

    def __attrs_post_init__(self) -> None:
        self.tenant, self.conversation = self.turn.tenant, self.turn.conversation
        self.site = (self.tenant, self.conversation, self.turn.id, self.place)

    @property
    def key(self) -> str:
        """The key of the effect."""
        return effect_key(*self.site)

    @property
    def tool(self) -> str:
        """The name of the tool."""
        return self.definition.name


Row = Effect | NewEffect


class MemoryLedger:
    """A ledger in memory; see EffectLedger. Any number of threads may use it."""

    def __init__(self) -> None:
        # In the order of their first claims, each in a slot: the key of its effect, or the site of a call that was new,
        # whose key takes long to compute. The row stays in its slot when it is written out.
        self._rows: dict[str | Site, Effect | NewEffect] = {}
        self._slots: dict[str, Site] = {}  # by key, of written rows whose slot is a site
        self._leases: dict[str, float] = {}  # when each owner's lease expires
        self._lock = threading.Lock()

    async def claim(
        self,
        call: EffectCall,
        *,
        owner: str,
        lease_s: float,
        take_over: bool = False,
        approval: Approval | None = None,
    ) -> Claim:
        """Claim an effect; see EffectLedger."""
        with self._lock:
            # Look-up and claim under one lock: of two threads with the same call, only one may run its tool.
            # A call that was new then may be made again: its turn was resumed in this process.
            slot = call.key if call.key in self._rows else (call.tenant, call.conversation, call.turn, call.place)
            row = self._read(slot)
            outcome = "yours" if row is None else effect_rows.outcome_of(row, call, self._lives(row.owner), take_over)
            if outcome == "yours":
                row = effect_rows.claimed_anew(call, row, owner, now_text())
                self._rows[slot if slot in self._rows else call.key] = row
                self._leases[owner] = seconds_since_boot() + lease_s
                self._stay_small()
            assert row is not None
            return Claim(outcome, row)

    def renew(self, owner: str, lease_s: float) -> None:
        """Renew an owner's lease; see EffectLedger."""
        with self._lock:
            self._leases[owner] = seconds_since_boot() + lease_s

    def begin(self, row: NewEffect) -> bool:
        """Add the row of a new call, claimed until it ends; False if its site has one, so that ``claim`` decides."""
        with self._lock:
            if row.site in self._rows:
                return False
            self._rows[row.site] = row
            self._stay_small()
            return True

    def end(self, row: NewEffect, state: Literal["done", "failed"], result: ToolResult) -> bool:
        """Record how such a call ended; False if its row has been written out, so that ``finish`` decides."""
        with self._lock:
            if self._rows.get(row.site) is not row:
                return False
            row.state, row.result, row.ended_at = state, result, time.time()
            return True

    def write_out(self, row: NewEffect) -> Effect:
        """Return such a row as an Effect, which the other methods find from then on."""
        with self._lock:
            effect = self._read(row.site)
            assert effect is not None  # claimed rows are not dropped
            return effect

    async def remember(self, key: str, fence: int, *, handle: str) -> bool:
        """Keep a handle with a claim; see EffectLedger."""
        return self._change(key, fence, lambda row: effect_rows.remembered(row, handle))

    async def finish(self, key: str, fence: int, *, state: EndState, result: str | None, note: str = "") -> bool:
        """Record how a claim ended; see EffectLedger."""
        return self._change(key, fence, lambda row: effect_rows.finished(row, state, result, note, now_text()))

    async def release(self, key: str, fence: int, *, note: str, is_pending: bool = False) -> bool:
        """Release a claim; see EffectLedger."""
        return self._change(key, fence, lambda row: effect_rows.released(row, note, now_text(), is_pending))

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
            changed = effect_rows.settled(row, self._lives(row.owner), state, by, note, result, now_text())
            self._rows[self._slots.get(row.key, row.key)] = changed
            return changed

    async def get(self, key: str, *, tenant: str) -> Effect:
        """Return an effect; see EffectLedger."""
        with self._lock:
            return self._mark_if_dead(self._find(key, tenant))

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
            slots = [slot for slot, row in self._rows.items() if row.tenant == tenant]
            if last is not None:
                slots = slots[: slots.index(self._slots.get(last.key, last.key))]
            fitting = (
                slot
                for slot in reversed(slots)
                if (requested is None or self._state(slot) in requested)
                and conversation in (None, self._rows[slot].conversation)
            )
            page = [slot for slot, _ in zip(fitting, range(max(limit, 0)), strict=False)]
            return [self._mark_if_dead(row) for row in map(self._read, page) if row is not None]

    async def forget(self, *, older_than_s: float) -> None:
        """Forget old texts; see EffectLedger. No rows are deleted: their number is bounded anyway."""
        until, until_s = (datetime.now(UTC) - timedelta(seconds=older_than_s)).isoformat(), time.time() - older_than_s
        with self._lock:
            for slot, row in [*self._rows.items()]:
                is_old = row.ended_at < (until_s if isinstance(row, NewEffect) else until)  # type: ignore[operator]
                if row.state in ("done", "failed") and is_old:
                    self._forget(slot)

    async def forget_conversation(self, conversation: str, *, tenant: str) -> None:
        """Forget the texts of a conversation; see EffectLedger."""
        with self._lock:
            for slot, row in [*self._rows.items()]:
                if (row.tenant, row.conversation) == (tenant, conversation):
                    self._forget(slot)

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""

    def _lives(self, owner: str) -> bool:
        return self._leases.get(owner, 0.0) > seconds_since_boot()

    def _mark_if_dead(self, row: Effect) -> Effect:
        return effect_rows.mark_if_dead(row, self._lives(row.owner))

    def _state(self, slot: str | Site) -> EffectState:
        row = self._rows[slot]
        return row.state if isinstance(row, NewEffect) else self._mark_if_dead(row).state

    def _read(self, slot: str | Site) -> Effect | None:
        row = self._rows.get(slot)
        if isinstance(row, NewEffect):
            self._slots[row.key] = row.site
            row = self._rows[slot] = row.write(row)
            # Its owner is this process, which lives as long as the ledger: it needs no lease until it is written out.
            self._leases[row.owner] = math.inf
        return row

    def _forget(self, slot: str | Site) -> None:
        row = self._read(slot)
        if row is not None:
            self._rows[slot] = effect_rows.forgotten(row, now_text())

    def _change(self, key: str, fence: int, change: Callable[[Effect], Effect | None]) -> bool:
        with self._lock:
            slot = self._slots.get(key, key)
            row = self._read(slot)
            changed = change(row) if row is not None and row.fence == fence else None
            if changed is not None:
                self._rows[slot] = changed
            return changed is not None

    def _find(self, key: str, tenant: str) -> Effect:
        row = self._read(self._slots.get(key, key))
        if row is not None and row.tenant == tenant:
            return row
        # The beginning of a key is enough, and a row that is not written out yet is not found by its key either.
        rows = {row.key: slot for slot, row in self._rows.items() if row.tenant == tenant} if key else {}
        slots = [slot for each, slot in rows.items() if each.startswith(key)]
        row = self._read(slots[0]) if len(slots) == 1 else None
        if row is None:
            raise UnknownEffectError(key, [each for each in rows if each.startswith(key)][:3])
        return row

    def _stay_small(self) -> None:
        if len(self._rows) > MAX_ROWS:
            # Claimed and unknown rows stay: without its row, such an effect could run a second time.
            oldest = (slot for slot, row in self._rows.items() if row.state in ("done", "failed"))
            for slot in [slot for slot, _ in zip(oldest, range(MAX_ROWS // 10), strict=False)]:
                row = self._rows.pop(slot)
                if isinstance(row, Effect):
                    self._slots.pop(row.key, None)
