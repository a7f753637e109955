"""Runs turns: those that are accepted, and those that were interrupted. Any number of workers share one journal."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable

import flexchat
from flexchat import FlexChat, FlexChatError, StuckTurnError, TurnHandle
from flexchat.store import TurnNotWaitingError, UnknownTurnError

from .turn_queue import Lease, QueuedTurn, TurnQueue

log = logging.getLogger(__name__)

SWEEP_S = 0.5
"""Interval between two looks for turns that the queue lacks: interrupted, due, or lost by the queue."""

EXPIRE_S = 5.0
"""Interval between two looks for questions whose time has passed: a turn that waits for one goes on then."""

SWEPT = 100
"""Turns looked at in a sweep; all, if so many are waiting, once a while."""

POLL_S = 1.0
"""Interval between two requests for a turn, if no news comes: one may have been put back, or its delay is over."""

MISFIT_DELAY_S = 2.0
"""Delay after which a turn that does not fit this worker's configuration may be leased again, by any worker."""

CLOSING_S = 10.0
"""How long turns have to stop where they are, so that others can resume them."""


class Worker:
    """Runs the turns of a chat's journal that the queue leases to it, some at once.

    The queue only proposes turns. One is run if the journal lets this process acquire it; so a queue that has lost a
    turn, or has it twice, delays turns at most.

    Args:
        chat: Is open, and keeps conversations; its configuration is what the turns run with.
        stuck_after_s: Seconds after which a turn that fits no worker's configuration is reported as stuck.
        follow: Returns what is to be awaited beside a turn: that which keeps its events.

    Attributes:
        ended: How many turns have ended here.
        interrupted: How many were stopped here, to be resumed by others.
    """

    def __init__(
        self,
        chat: FlexChat,
        queue: TurnQueue,
        *,
        concurrency: int = 8,
        stuck_after_s: float = 600.0,
        follow: Callable[[TurnHandle], Iterable[Awaitable[None]]] = lambda handle: (),
    ) -> None:
        self.ended = self.interrupted = 0
        assert chat.journal is not None, "a worker needs a journal of turns"
        self._chat, self._queue, self._journal, self._follow = chat, queue, chat.journal, follow
        self._concurrency, self._stuck_after_s = concurrency, stuck_after_s
        self._running: dict[asyncio.Task[None], TurnHandle | None] = {}
        self._unreleased: dict[
            str, str
        ] = {}  # turn -> tenant, of turns that may still be this process's in the journal
        self._misfits: dict[str, float] = {}  # turn -> when it was first leased here, by the monotonic clock
        self._changed = asyncio.Event()
        self._is_stopping = False
        self._swept_until = 0.0
        self._problem = ""

    def stop(self) -> None:
        """Make ``run`` return, once the turns that run here are interrupted. For signal handlers."""
        self._is_stopping = True
        self._changed.set()

    async def run(self) -> None:
        """Run turns until stopped. Errors of the database are logged, and it is asked again."""
        lease_s = self._chat.tools.effects.lease_s
        loops = [
            asyncio.create_task(self._repeat(self._queue.renew, lease_s / 8)),
            asyncio.create_task(self._repeat(self._journal.expire_questions, EXPIRE_S)),
            asyncio.create_task(self._repeat(self._sweep, SWEEP_S)),
        ]
        try:
            while not self._is_stopping:
                await self._attempt(self._fill)
                await self._pause()
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            await self._interrupt()

    async def _fill(self) -> None:
        """Start the turns that the queue leases, until there is no room or no turn."""
        while len(self._running) < self._concurrency and not self._is_stopping:
            lease = await self._queue.lease()
            if lease is None:
                return
            task = asyncio.create_task(self._serve(lease))
            self._running[task] = None
            task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._changed.set()

    async def _pause(self) -> None:
        """Wait until a turn here has ended or, with room for another, until the queue may have one."""
        if len(self._running) < self._concurrency and not self._changed.is_set():
            # At random times: news wakes all workers together, and the same one would be first from then on.
            news = self._queue.wait(POLL_S * random.uniform(0.5, 1))
            waiting = [asyncio.create_task(self._changed.wait()), asyncio.create_task(news)]
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in waiting:
                    task.cancel()
                await asyncio.gather(*waiting, return_exceptions=True)
        else:
            await self._changed.wait()
        self._changed.clear()

    async def _serve(self, lease: Lease) -> None:
        try:
            is_over = await self._run_turn(lease)
        except Exception as error:  # noqa: BLE001  of the database, or of a plugin: the sweep finds the turn again
            self._report(error)
            self._unreleased[lease.turn] = lease.tenant
            is_over = True
        if is_over:
            await self._attempt(lambda: self._queue.complete(lease))

    async def _run_turn(self, lease: Lease) -> bool:
        """Run a turn, and return whether its row is to be removed; otherwise it was released."""
        try:
            handle = await self._chat.start_resumed(lease.turn, tenant=lease.tenant, only_if_fit=True)
        except StuckTurnError as error:
            return await self._pass_on(lease, error)
        except (TurnNotWaitingError, UnknownTurnError):
            # It has ended, runs elsewhere, or waits for an earlier turn of its conversation: which may be behind this
            # row, so that putting it back could block both. The sweep enqueues it once it can be acquired.
            return True
        task = asyncio.current_task()
        assert task is not None
        self._running[task] = handle
        self._misfits.pop(lease.turn, None)
        if self._is_stopping:
            handle.interrupt()
        outcomes = await asyncio.gather(handle.last(), *self._follow(handle), return_exceptions=True)
        for problem in outcomes[1:]:
            if isinstance(problem, Exception):
                log.warning("the events of the turn %s are not complete: %s", lease.turn, problem)
        end = outcomes[0]
        if isinstance(end, flexchat.TurnFailed):
            self._unreleased[lease.turn] = lease.tenant  # if its end, or its release, could not be written
            if isinstance(end.error, flexchat.InterruptedTurnError):
                self.interrupted += 1
                await self._queue.release(lease)
                return False
        self.ended += 1
        return True

    async def _pass_on(self, lease: Lease, error: StuckTurnError) -> bool:
        """Leave a turn to workers with another configuration, or report it as stuck after a time."""
        row, _ = await self._journal.read(lease.turn, tenant=lease.tenant)
        if row.error:  # it was interrupted too often, and is left to a person
            return True
        since = self._misfits.setdefault(lease.turn, time.monotonic())
        if time.monotonic() - since < self._stuck_after_s:
            await self._queue.release(lease, delay_s=min(MISFIT_DELAY_S, self._stuck_after_s))
            return False
        self._misfits.pop(lease.turn)
        with contextlib.suppress(TurnNotWaitingError, UnknownTurnError):  # it has ended, so it fits nothing
            await self._chat.report_stuck(lease.turn, error.why, tenant=lease.tenant)
        return True

    async def _sweep(self) -> None:
        """Enqueue the turns that can go on and that the queue lacks."""
        began = time.monotonic()
        for turn, tenant in [*self._unreleased.items()]:
            with contextlib.suppress(UnknownTurnError):
                await self._chat.release_turn(turn, tenant=tenant)
            del self._unreleased[turn]
        turns = await self._journal.list_resumable(limit=SWEPT)
        if len(turns) == SWEPT and began > self._swept_until:
            # As many as wait in the queue, and more: so at least some of those that it lacks are among them.
            turns = await self._journal.list_resumable(limit=SWEPT + await self._queue.count_waiting())
        await self._queue.enqueue(
            [
                QueuedTurn(
                    id=turn.id,
                    tenant=turn.tenant,
                    conversation=turn.conversation,
                    priority=turn.priority,
                    is_first=True,
                    has_begun=turn.state != "accepted",
                )
                for turn in turns
            ]
        )
        if len(turns) > SWEPT:
            self._swept_until = time.monotonic() + 20 * (time.monotonic() - began)

    async def _repeat(self, work: Callable[[], Awaitable[object]], interval_s: float) -> None:
        while True:
            await self._attempt(work)
            await asyncio.sleep(interval_s)

    async def _attempt(self, work: Callable[[], Awaitable[object]]) -> None:
        try:
            await work()
            self._problem = ""
        except FlexChatError as error:
            self._report(error)
            await asyncio.sleep(min(POLL_S, 0.5))

    def _report(self, error: Exception) -> None:
        if str(error) != self._problem:  # each once, while the database is away
            self._problem = str(error)
            log.warning("worker: %s", self._chat.mask(self._problem))

    async def _interrupt(self) -> None:
        """Stop the turns that run here where they are, and release them."""
        self._is_stopping = True
        for handle in self._running.values():
            if handle is not None:
                handle.interrupt()
        if self._running:
            await asyncio.wait([*self._running], timeout=CLOSING_S)
