"""What other processes do to the turns that run in this one: replies to their questions, requests to cancel them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator

from ..calls.effects import Lease
from ..errors import StorageError, UnknownTurnError
from ..plugin.contracts import TurnJournal
from .active import ActiveTurn
from .journal import read_row
from .live_questions import LiveQuestions

log = logging.getLogger(__name__)

WATCH_AFTER_S = 0.1
"""How long a turn runs before its journal is watched: most turns end sooner, and watching has its price."""

IDLE_S = 5.0
"""How long the journal is watched after the last turn has ended."""

AGAIN_S = 1.0
"""Pause after a journal that cannot be watched."""


class Watcher:
    """Watches a journal while turns of this process run, or someone waits for another's."""

    def __init__(self, journal: TurnJournal, lease: Lease, questions: LiveQuestions) -> None:
        self._journal, self._lease, self._questions = journal, lease, questions
        self._turns: dict[str, tuple[ActiveTurn, asyncio.Task[object]]] = {}
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._task: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def running(self, turn: ActiveTurn) -> Iterator[None]:
        """Cancel the task that runs this block when the turn's cancellation is requested."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._turns[turn.info.id] = turn, task
        timer = loop.call_later(WATCH_AFTER_S, self._start)
        try:
            yield
        finally:
            timer.cancel()
            del self._turns[turn.info.id]
            self._stop_later(loop)

    async def wait(self, id: str, timeout_s: float) -> None:
        """Wait until another process may have changed a turn, or for so many seconds."""
        loop = asyncio.get_running_loop()
        changed: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(id, set()).add(changed)
        try:
            self._start()
            await asyncio.wait((changed,), timeout=timeout_s)
        finally:
            waiting = self._waiting[id]
            waiting.discard(changed)
            if not waiting:
                del self._waiting[id]
            self._stop_later(loop)

    def close(self) -> None:
        """Stop watching."""
        if self._task is not None and not self._task.get_loop().is_closed():
            self._task.cancel()
        self._task = None

    def _start(self) -> None:
        loop = asyncio.get_running_loop()
        # A program may use one chat on several loops, one after the other: a task ends with its loop.
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._task = loop.create_task(self._watch())

    def _stop_later(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._task is not None and not self._turns and not self._waiting:
            loop.call_later(IDLE_S, self._stop_if_idle)

    def _stop_if_idle(self) -> None:
        if not self._turns and not self._waiting:
            self.close()

    async def _watch(self) -> None:
        last_error = ""
        while True:
            try:
                async with contextlib.aclosing(self._journal.watch()) as changes:
                    async for id in changes:
                        last_error = ""
                        self._wake(id)
                        # An empty id stands for any turn, and is the first item: what came before it is found here.
                        if not id or id in self._turns:
                            await self._look()
            except StorageError as error:
                if not self._turns and not self._waiting:
                    return  # the store may have been closed since
                if str(error) != last_error:
                    last_error = str(error)
                    log.warning("changes of turns by other processes cannot be seen: %s", error)
            await asyncio.sleep(AGAIN_S)

    def _wake(self, id: str) -> None:
        for waiting in [*self._waiting] if not id else [id]:
            for each in self._waiting.get(waiting, ()):
                if not each.done():
                    each.set_result(None)

    async def _look(self) -> None:
        """Pass on the replies that have come, and cancel the turns whose cancellation is requested."""
        await self._questions.look()
        for id in await self._journal.list_commands(self._lease.owner) if self._turns else ():
            turn, task = self._turns.get(id, (None, None))
            if turn is None or task is None or turn.is_stopped:
                continue
            with contextlib.suppress(UnknownTurnError):
                row = await read_row(self._journal, id, tenant=turn.info.tenant)
                # It may have ended meanwhile: the task goes on with other work then.
                if row.cancelled_by and id in self._turns:
                    turn.is_stopped = True
                    task.cancel()
