"""A process and the stores it uses: its identity there and its lease; its ledger, and what could not be written yet."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import math
import os
import secrets
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Literal, TypeVar

from ..conversations.effect_rows import EndState, claimed_anew, now_text, seconds_since_boot
from ..conversations.memory_ledger import MemoryLedger, NewEffect, Row
from ..domain import Claim, Effect, EffectCall, ToolResult
from ..domain.questions import Approval
from ..errors import StorageError
from ..plugin.contracts import EffectLedger, TurnJournal

log = logging.getLogger(__name__)

T = TypeVar("T")

# Long enough for a process that stands still for a while, short enough that a person waits for a resumption.
LEASE_S = 30.0
"""How long a process that has stopped counts as alive."""

KEEP_S = 30 * 24 * 3600.0
"""How long the texts of effects, and the steps of a turn after its end, are kept."""

_DAY_S = 24 * 3600.0
_AGAIN_S = 1.0  # failed writes are retried after this long


class Lease:
    """Proves to other processes that this one is alive, as long as it holds something.

    A thread renews it, and not a task: an event loop that is blocked for a while must not look dead. It starts with the
    first hold, and ends on its own once there has been none for a while. A process has two, each with its own owner id:
    one for its turns, whose writes renew it when it is ``due``, and one for its effects, whose claims renew it and are
    followed by ``extend``.

    Args:
        renew: Renews it once, blocking, for so many seconds; called with the owner's id and the seconds.
        seconds: How long it lasts; it is renewed three times as often.
    """

    def __init__(self, renew: Callable[[str, float], None], seconds: float) -> None:
        self.seconds = seconds
        self._renew = renew
        self._begin()

    def _begin(self) -> None:
        self._process, self._owner = os.getpid(), secrets.token_hex(16)
        self._lock = threading.Lock()
        self._holds = 0
        self._next = self._valid_until = 0.0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def owner(self) -> str:
        """The id of this process's use of the store: 32 hexadecimal digits, new after a fork."""
        # Parent and child with one id would renew each other's leases, and both own the same turns.
        if self._process != os.getpid():
            self._begin()  # a fork is a process of its own, without our thread
        return self._owner

    @property
    def is_valid(self) -> bool:
        """Whether it is certain not to have expired since it was last extended."""
        return seconds_since_boot() < self._valid_until

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Keep the lease alive while the block runs."""
        self.take()
        try:
            yield
        finally:
            self.drop()

    def take(self) -> None:
        """Keep the lease alive until ``drop``."""
        with self._lock:
            self._holds += 1
            if self._thread is None and not self._ended.is_set():
                self._thread = threading.Thread(target=self._keep, name="flexchat lease", daemon=True)
                self._thread.start()

    def drop(self) -> None:
        """End what ``take`` began."""
        with self._lock:
            self._holds -= 1

    def extend(self, since: float) -> None:
        """Record that the lease was renewed by a transaction that began at that time of seconds_since_boot."""
        self._valid_until = max(self._valid_until, since + self.seconds)

    def due(self) -> float | None:
        """Return the seconds for which the caller's transaction is to renew the lease; None if it is fresh enough."""
        now = seconds_since_boot()
        if now < self._next:
            return None
        # Moved before the caller's transaction: if that fails, the thread renews the lease in time.
        self._next = now + self.seconds / 3
        return self.seconds

    def end(self) -> None:
        """Stop renewing it."""
        self._ended.set()

    def _keep(self) -> None:
        while True:
            self._ended.wait(self.seconds / 3)
            # Decided under the lock: a hold that begins now either is counted here or starts a new thread.
            with self._lock:
                if not self._holds or self._ended.is_set():
                    self._thread = None
                    return
            # Measured before the request, so that our idea of the lease's end is never too late.
            asked_at = seconds_since_boot()
            try:
                self._renew(self.owner, self.seconds)
                self._next = asked_at + self.seconds / 3
                self.extend(asked_at)
            except Exception as error:  # noqa: BLE001  of any store; the next try may succeed, until then the lease runs
                log.warning("a lease could not be renewed: %s", error)


async def finish_uncancelled(work: Coroutine[Any, Any, T]) -> tuple[T, asyncio.CancelledError | None]:
    """Await a write that a cancellation must not stop; return its result, and the cancellation if one arrived.

    Raises what the work raises, and a CancelledError if there was both.
    """
    # In a task of its own: cancelled half-way, a write leaves it open whether the row has changed. Every cancellation
    # is held until the write has ended, and is then raised by the caller.
    task, cancelled = asyncio.ensure_future(work), None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    failed = task.exception()
    if failed is not None and cancelled is not None:
        # The cancellation wins, since the canceller waits for it; the failure stays visible as its cause.
        raise cancelled from failed
    return task.result(), cancelled


class Effects:
    """Claims and finishes effects as one owner, whose lease is kept alive while any of its claims is open.

    Args:
        ledger: None for one in memory.
        lease_s: Seconds without a renewal after which others may take over this process's claims.
        keep_s: Seconds for which arguments and results are kept.
        is_fixed: Whether the config sets where effects are kept: then keeping conversations does not move them.

    Attributes:
        local: The ledger if it is the one in memory, which is used without awaiting anything.
        questions: The journal that has the questions; None if none are kept.
        is_apart: Whether the ledger is in another database than the journal.
    """

    def __init__(
        self,
        ledger: EffectLedger | None = None,
        *,
        lease_s: float = LEASE_S,
        keep_s: float = KEEP_S,
        is_fixed: bool = False,
    ) -> None:
        self.ledger = ledger or MemoryLedger()
        self.lease_s = lease_s
        self.is_fixed = is_fixed
        self.keep_s = keep_s
        self.questions: TurnJournal | None = None
        self.is_apart = True
        self._begin()

    @property
    def ledger(self) -> EffectLedger:
        """Where effects are recorded."""
        return self._ledger

    @ledger.setter
    def ledger(self, ledger: EffectLedger) -> None:
        self._ledger = ledger
        # By its exact class: a subclass may do anything in the methods that a local ledger is used without.
        self.local = ledger if type(ledger) is MemoryLedger else None

    @property
    def is_kept(self) -> bool:
        """Whether another process can see the ledger, the command line, for one."""
        return not isinstance(self.ledger, MemoryLedger)

    @property
    def owner(self) -> str:
        """The id under which this process claims effects."""
        return self._lease.owner

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lease = Lease(lambda owner, lease_s: self.ledger.renew(owner, lease_s), self.lease_s)
        self._is_closed = False
        self._forget_at = 0.0
        self._background: set[asyncio.Task[Any]] = set()

    def end_new(self, row: NewEffect, state: Literal["done", "failed"], result: ToolResult) -> bool:
        """Record how a new call ended, in memory; False if its row has been read meanwhile."""
        self._forget_old()
        return row.ledger.end(row, state, result)

    async def use_approval(self, approval: Approval, tenant: str, by: str, *, may_repeat: bool = False) -> bool:
        """Use up an approval where the questions are; see TurnJournal. Raises StorageError."""
        journal = self.questions
        return journal is not None and await journal.use_approval(approval, tenant=tenant, by=by, may_repeat=may_repeat)

    async def claim(self, call: EffectCall, *, take_over: bool = False, approval: Approval | None = None) -> Claim:
        """Claim an effect, and use up its approval. One that is "yours" must be finished or released.

        Raises StorageError.

        A cancellation waits until the outcome is known, and gives the claim back; one that was taken over from an
        earlier call, which may have taken effect, becomes unknown.
        """
        if self._process != os.getpid():
            self._begin()  # a fork is a separate process, without our thread
        used: dict[str, Any] = {}
        if approval is not None:
            if not self.is_apart and getattr(self.ledger, "holds_questions", False):
                used = {"approval": approval}
            # Two transactions: a process that dies between them leaves an approval that only this effect can use again.
            elif not await self.use_approval(approval, call.tenant, call.key, may_repeat=True):
                return Claim("unapproved", claimed_anew(call, None, self.owner, now_text()))
        if self.local is not None:
            return await self.local.claim(call, owner=self.owner, lease_s=math.inf, take_over=take_over)
        # Taken before the ledger is asked, so that the thread cannot end between the claim and its first renewal.
        self._lease.take()
        # Measured before the request: the ledger starts the lease later, so our idea of its end is never too late.
        asked_at, is_ours = seconds_since_boot(), False
        try:
            claiming = self.ledger.claim(call, owner=self.owner, lease_s=self.lease_s, take_over=take_over, **used)
            claim, cancelled = await self._finish_uncancelled(claiming)
            is_ours = claim.outcome == "yours"
        finally:
            if not is_ours:
                self._lease.drop()
        if is_ours:
            self._lease.extend(asked_at)
        if cancelled is not None:
            # A cancelled call does not start its tool. A new claim is therefore released; one that was taken over may
            # stand for an effect of the earlier call, and stays unknown.
            if is_ours and take_over:
                why = "an earlier call broke off, and the turn ended before anybody could see to it"
                await self.finish(claim.effect, "unknown", None, why)
            elif is_ours:
                await self.release(claim.effect, "the turn ended before the tool was started")
            raise cancelled
        return claim

    async def remember(self, row: Row, handle: str) -> bool:
        """Keep a handle with our claim, even on cancellation; return False if the claim was taken over or settled.

        Raises StorageError.
        """
        effect = _effect(row)
        writing = self.ledger.remember(effect.key, effect.fence, handle=handle)
        is_written, cancelled = await self._finish_uncancelled(writing)
        if cancelled is not None:
            raise cancelled
        return is_written

    def is_held(self) -> bool:
        """Return whether our claims are certain not to have been taken over."""
        return self.local is not None or self._lease.is_valid

    async def finish(self, row: Row, state: EndState, result: str | None, note: str = "") -> bool:
        """Record how a claim of ours ended; False if it has been taken over. A cancellation waits for it.

        Raises StorageError; writing is then retried until it succeeds or this is closed.
        """
        return await self._write(self.ledger.finish, row, state=state, result=result, note=note)

    async def release(self, row: Row, note: str, *, is_pending: bool = False) -> bool:
        """Release a claim of ours whose tool was never started, or waits for a reply. Returns and raises as finish."""
        pending = {"is_pending": True} if is_pending else {}
        return await self._write(self.ledger.release, row, note=note, **pending)

    def finish_late(self, row: Row, state: Literal["done", "failed"], result: str | None) -> None:
        """Settle an effect of ours that was unknown; on the event loop, in the background."""
        self._in_background(self._settle(_effect(row), state, result))

    async def _settle(self, effect: Effect, state: Literal["done", "failed"], result: str | None) -> None:
        try:
            is_written = await self.ledger.finish(effect.key, effect.fence, state=state, result=result)
        except StorageError as error:
            log.error("tool %s: it answered late (%s), which could not be recorded: %s", effect.tool, state, error)
            return
        what = "it answered late" if is_written else "it answered too late: its effect had already been settled"
        log.warning("tool %s: %s: %s (effect %s)", effect.tool, what, state, effect.key[:8])

    async def aclose(self) -> None:
        """End the lease and the retries, and close the ledger."""
        self._lease.end()
        self._is_closed = True
        # The retries write once more, which needs the ledger still open.
        if self._background:
            await asyncio.wait(self._background)
        await self.ledger.aclose()

    async def _write(self, method: Callable[..., Coroutine[Any, Any, bool]], row: Row, **values: Any) -> bool:
        effect = _effect(row)
        write = functools.partial(method, effect.key, effect.fence, **values)
        if self.local is not None:  # memory never waits, so that nothing can come meanwhile, and no lease is needed
            is_written = await write()
            self._forget_old()
            return is_written
        try:
            is_written, cancelled = await self._finish_uncancelled(write())
        except (StorageError, asyncio.CancelledError):
            # The call ends here, the claim does not: its lease is renewed until the outcome is on record, so that no
            # other process takes it for lost.
            self._in_background(self._until_written(write))
            raise
        except BaseException:
            self._lease.drop()
            raise
        self._lease.drop()
        self._forget_old()
        if cancelled is not None:
            raise cancelled
        return is_written

    async def _until_written(self, write: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        """Retry a write while the claim stays ours; once more when this is closed."""
        try:
            is_last = False
            while not is_last:
                # In short sleeps, so that closing does not have to wait for a long one.
                for _ in range(10):
                    if not self._is_closed:
                        await asyncio.sleep(_AGAIN_S / 10)
                is_last = self._is_closed
                try:
                    await write()
                    return
                except StorageError as error:
                    log.warning("the outcome of an effect could not be recorded yet: %s", error)
        finally:
            self._lease.drop()

    async def _finish_uncancelled(self, work: Coroutine[Any, Any, T]) -> tuple[T, asyncio.CancelledError | None]:
        if not self.is_kept:  # memory never waits, so that nothing can come meanwhile
            return await work, None
        return await finish_uncancelled(work)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _forget_old(self) -> None:
        if time.monotonic() > self._forget_at:
            # Set first: a ledger that fails is not asked again after every call.
            self._forget_at = time.monotonic() + _DAY_S
            self._in_background(self._forget())

    async def _forget(self) -> None:
        try:
            await self.ledger.forget(older_than_s=self.keep_s)
        except StorageError as error:
            log.warning("old effects could not be forgotten: %s", error)


def _effect(row: Row) -> Effect:
    return row.ledger.write_out(row) if isinstance(row, NewEffect) else row
