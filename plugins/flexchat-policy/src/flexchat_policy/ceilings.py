"""The hooks that keep budgets and limits: what is reserved before a turn, a request or a call, and settled after it."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import attrs
from flexchat.host import Lease, is_stand_in
from flexchat.plugin import (
    AppInfo,
    Call,
    CeilingReachedError,
    LastRequestError,
    Rest,
    ServiceRequest,
    Stage,
    Step,
    ToolResult,
    TurnInfo,
    hookimpl,
)
from flexchat.store import Charge, CounterStore, Refusal, StorageError

from .budgets import Budget, estimate, is_free, real_amounts, trillionths_of, unit_of
from .limits import RateLimit
from .subjects import Subject, subject_of_call, subject_of_request

log = logging.getLogger(__name__)

LEASE_S = 30.0
POLL_S = 0.05
"""How soon to look again for a place that another call holds."""

CLOSING_S = 5.0
"""How long closing waits for settlements that the store refuses: until they are made, they count in full."""

_AGAIN_S = 1.0  # failed settlements are retried after this long


@attrs.define(eq=False)
class Ceilings:
    """Keeps the budgets and limits of one chat, in the counters of its conversation store.

    Attributes:
        counters: None until the chat is opened: until then, everything is refused.
    """

    name: ClassVar[str] = "ceilings"
    stage: ClassVar[Stage] = "reserve"
    budgets: Sequence[Budget] = ()
    limits: Sequence[RateLimit] = ()
    counters: CounterStore | None = None
    _lease: Lease | None = None
    _turns: set[str] = attrs.field(factory=set)
    _background: set[asyncio.Task[Any]] = attrs.field(factory=set)

    @hookimpl
    def flexchat_register_steps(self) -> Iterable[Step]:
        """Register this as a step of the chat's calls."""
        yield self

    @hookimpl
    async def flexchat_app_opened(self, app: AppInfo) -> None:
        """Find the counters: in the conversation store, or in memory for limits without one."""
        kept = app.chat.conversations
        if kept is None:
            from flexchat_sqlite import SqliteConversations

            self.counters = SqliteConversations(":memory:").counters
        else:
            self.counters = getattr(kept.store, "counters", None)
        if self.counters is not None:
            self._lease = Lease(self.counters.renew, LEASE_S)
            try:
                await self.counters.forget()
            except StorageError as error:
                log.warning("old counters could not be forgotten: %s", error)

    @hookimpl
    async def flexchat_app_closed(self) -> None:
        """End the lease, once what is being settled is."""
        if self._background:
            await asyncio.wait(self._background, timeout=CLOSING_S)
        if self._lease is not None:
            self._lease.end()

    @hookimpl
    async def flexchat_before_turn(self, info: TurnInfo) -> None:
        """Reserve a turn; one that a tool starts is its call's."""
        charges = [] if info.parent else self._limit_charges(Subject(info=info, turn=info.id))
        if not charges:
            return
        refusal = await self._reserve(f"turn {info.id}", charges)
        if refusal is not None:
            text, _ = self._explained(refusal, charges)
            raise CeilingReachedError(text + _later(refusal), retry_after_s=refusal.retry_after_s or POLL_S)
        if any(not charge.refill_us for charge, _ in charges):
            self._turns.add(info.id)
        else:
            await self._settle(f"turn {info.id}", {})

    @hookimpl
    async def flexchat_turn_finished(self, info: TurnInfo) -> None:
        """Return the turn's place, however it ends; a suspended one holds nothing while it waits."""
        if info.id in self._turns:
            self._turns.discard(info.id)
            await self._settle(f"turn {info.id}", {})

    flexchat_turn_failed = flexchat_turn_cancelled = flexchat_turn_suspended = flexchat_turn_finished

    @hookimpl
    async def flexchat_around_request(self, request: ServiceRequest, send: Callable[[], Awaitable[Any]]) -> Any:
        """Reserve the most that an attempt can cost, and settle what it did."""
        if not self.budgets:
            return await send()
        subject, most = subject_of_request(request), await estimate(request)
        amounts = {"tokens": most.tokens or 0, "usd": most.usd or 0}
        charges = self._budget_charges(subject, amounts)
        units = {unit_of(charge) for charge, _ in charges}
        if ("usd" in units and most.usd is None) or ("tokens" in units and most.tokens is None):
            raise CeilingReachedError(f"a budget cannot be kept: {most.why}")
        # Near the ceiling the turn gets one last request, which offers no tools.
        has_tools = request.options is not None and bool(request.options.tools)
        needed = self._budget_charges(subject, amounts, has_spare=True) if has_tools else charges
        labels, id = subject.labels(f"{request.llm.name}/{request.model}"), secrets.token_hex(16)
        worst = {**amounts, "requests": 1, **({"unpriced": 1} if most.usd is None else {})}
        refusal = await self._reserve(id, needed, labels, worst)
        if refusal is not None:
            text, charge = self._explained(refusal, charges)
            if has_tools and refusal.left >= charge.amount:
                raise LastRequestError(f"{text} once more")
            raise CeilingReachedError(text + _later(refusal), retry_after_s=refusal.retry_after_s)
        # An attempt that ends in any other way than an answer may have cost it all.
        real = worst
        try:
            answer = await send()
            real = worst | await real_amounts(request, answer)
            return answer
        except Exception as error:
            real = {"requests": 1} if is_free(error) else worst
            raise
        finally:
            await self._settle(id, _by_key(charges, real), {name: value for name, value in real.items() if value})

    async def __call__(self, call: Call, rest: Rest) -> ToolResult:
        """Reserve a call of a tool: its price, and its place in the limits."""
        tool = call.tool
        assert tool is not None
        if is_stand_in(tool):
            return await rest()
        subject = subject_of_call(call)
        cost = 0 if tool.price is None else trillionths_of(tool.price.usd)
        amounts = {"usd": cost, "calls": 1}
        charges = self._budget_charges(subject, amounts)
        limits = self._limit_charges(subject)
        if not (charges or limits or (self.budgets and cost)):
            return await rest()
        # One that has run before a crash is not refused now: the ledger has its outcome.
        if not call.is_new and await call.was_claimed():
            return await rest()
        id, all_charges = secrets.token_hex(16), [*charges, *limits]
        worst = {"usd": cost, "calls": 1} if self.budgets else None
        left_s = call.seconds_left() if call.seconds_left is not None else None
        refusal = await self._reserve(id, all_charges, subject.labels(), worst, at_most_s=left_s)
        if refusal is not None:
            text, _ = self._explained(refusal, all_charges)
            retry_s = refusal.retry_after_s
            hint = None if retry_s is None else f"retry_after: {max(1, round(retry_s))} s"
            return ToolResult.failed(call.name, f"Not executed: {text}", hint=hint)
        try:
            return await rest()
        finally:
            # Only a tool that was never started has cost nothing.
            real = amounts if call.has_started else dict.fromkeys(amounts, 0)
            await self._settle(id, _by_key(charges, real), real if worst is not None else None)

    def _budget_charges(
        self, subject: Subject, amounts: Mapping[str, int], *, has_spare: bool = False
    ) -> list[tuple[Charge, Budget | RateLimit]]:
        charges: dict[str, tuple[Charge, Budget | RateLimit]] = {}
        for budget in self.budgets:
            for charge in budget.charges(subject, amounts, has_spare=has_spare):
                # Of two budgets for one counter, the lower counts.
                if charge.key not in charges or charge.ceiling < charges[charge.key][0].ceiling:
                    charges[charge.key] = charge, budget
        return [*charges.values()]

    def _limit_charges(self, subject: Subject) -> list[tuple[Charge, Budget | RateLimit]]:
        charges = [(charge, limit) for limit in self.limits for charge in limit.charges(subject)]
        return [*{charge.key: (charge, limit) for charge, limit in reversed(charges)}.values()]

    async def _reserve(
        self,
        id: str,
        charges: Sequence[tuple[Charge, Budget | RateLimit]],
        labels: Mapping[str, str] | None = None,
        worst: Mapping[str, int] | None = None,
        *,
        at_most_s: float | None = None,
    ) -> Refusal | None:
        """Reserve, and wait in the queue where a limit allows that; return the refusal."""
        counters, lease = self.counters, self._lease
        if counters is None or lease is None:
            raise CeilingReachedError("budgets and limits cannot be kept: there is no store with counters")
        waits = {charge.key: limit.max_wait_s for charge, limit in charges if isinstance(limit, RateLimit)}
        longest_s = min(max(waits.values(), default=0.0), at_most_s if at_most_s is not None else 3_600)
        began, is_reserved, pause_s = time.monotonic(), False, POLL_S
        lease.take()
        try:
            while True:
                left_s = began + longest_s - time.monotonic()
                refusal = await counters.reserve(
                    id,
                    [charge for charge, _ in charges],
                    owner=lease.owner,
                    lease_s=lease.due(),
                    labels=labels,
                    worst=worst,
                    wait_s=max(left_s, 0.0),
                )
                is_reserved = refusal is None
                if refusal is None:
                    return None
                left_s = min(left_s, began + waits.get(refusal.key, 0.0) - time.monotonic())
                needed_s = refusal.retry_after_s if refusal.retry_after_s is not None else pause_s
                if needed_s > left_s:
                    return refusal
                await asyncio.sleep(max(needed_s, 0.002))
                pause_s = min(pause_s * 1.2, 1.0)
        finally:
            if not is_reserved:
                await self._settle(id, {})

    async def _settle(self, id: str, amounts: Mapping[str, int], sums: Mapping[str, int] | None = None) -> None:
        """Settle a reservation; a cancellation of the caller does not stop it."""
        await asyncio.shield(self._in_background(self._settle_now(id, amounts, sums)))

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def _settle_now(self, id: str, amounts: Mapping[str, int], sums: Mapping[str, int] | None) -> None:
        assert self.counters is not None
        assert self._lease is not None
        try:
            await self.counters.settle(id, amounts, sums=sums)
        except StorageError as error:
            # Not retried here, where a turn waits: it counts in full until it is settled.
            log.warning("what was spent could not be settled yet: %s", error)
            self._in_background(self._settle_later(id, amounts, sums))
            return
        self._lease.drop()

    async def _settle_later(self, id: str, amounts: Mapping[str, int], sums: Mapping[str, int] | None) -> None:
        assert self.counters is not None
        assert self._lease is not None
        try:
            while True:
                await asyncio.sleep(_AGAIN_S)
                try:
                    await self.counters.settle(id, amounts, sums=sums)
                    return
                except StorageError as error:
                    log.debug("not settled yet: %s", error)
        finally:
            self._lease.drop()

    @staticmethod
    def _explained(refusal: Refusal, charges: Sequence[tuple[Charge, Budget | RateLimit]]) -> tuple[str, Charge]:
        charge, source = next(pair for pair in charges if pair[0].key == refusal.key)
        if isinstance(source, Budget):
            return source.explained(charge, refusal.left), charge
        return source.explained(charge), charge


def _later(refusal: Refusal) -> str:
    """Return the end of the sentence that refuses: the time to wait, rounded up, if it is known."""
    if refusal.retry_after_s is None:
        return ""
    for size, unit in ((3600, "h"), (60, "min")):
        if refusal.retry_after_s > 2 * size:
            return f"; there is room in {math.ceil(refusal.retry_after_s / size)} {unit}"
    return f"; there is room in {max(1, math.ceil(refusal.retry_after_s))} s"


def _by_key(charges: Sequence[tuple[Charge, Budget | RateLimit]], real: Mapping[str, int]) -> dict[str, int]:
    """Return the real amount of each budget's counter: its unit is in its key."""
    return {charge.key: real.get(unit_of(charge), 0) for charge, _ in charges}
