"""Validation runs in the background: they continue when the client leaves, and can be watched from anywhere."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

import attrs
from flexchat import FlexChat
from flexchat.host import error_name
from flexchat_web.typing import ApiError, Call, Serving

from ..attempts import Attempt
from ..running import ValidationRun
from ..store import Run, ValidationStore
from .records import Records

log = logging.getLogger(__name__)

Begin = Callable[[FlexChat, ValidationStore], Awaitable[ValidationRun]]


@attrs.define(eq=False)
class Live:
    """A run in progress.

    Attributes:
        made: The attempts since it was started or resumed.
        changed: Set when there is more to report; then replaced by a new one for the next wait.
    """

    models: tuple[str, ...]
    made: list[Attempt] = attrs.field(factory=list)
    changed: asyncio.Event = attrs.field(factory=asyncio.Event)
    run: ValidationRun | None = None
    task: asyncio.Task[None] | None = None
    over: bool = False

    def wake(self) -> None:
        """Wake the watchers."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


class Runs:
    """The runs of a server. When it ends they are interrupted, and can be resumed."""

    def __init__(self, serving: Serving, records: Records) -> None:
        self._serving, self._records = serving, records
        self._live: dict[str, Live] = {}
        self._beginning: set[Live] = set()

    @classmethod
    def of(cls, call: Call) -> Runs:
        """Return the instance of a call's server."""
        records = Records.of(call)  # made first, and so closed last: runs write to its stores as they end
        return call.serving.shared(cls, lambda: cls(call.serving, records))

    async def begin(self, models: tuple[str, ...], make: Begin, tenant: str) -> Run:
        """Start or continue a tenant's run in the background; return its record.

        Raises:
            ApiError: 409: one of its models is being tried by another run.
        """
        live = Live(models)
        for other in {*self._live.values(), *self._beginning}:
            if not other.over and (shared := set(models) & set(other.models)):
                run = other.run.run if other.run is not None else None
                under_way = f" ({run.id})" if run is not None and run.tenant == tenant else ""
                text = f"a run{under_way} is trying {', '.join(sorted(shared))} already; wait for it, or cancel it"
                raise ApiError(409, text, kind="run-under-way")
        self._beginning.add(live)
        begun: asyncio.Future[Run] = asyncio.get_running_loop().create_future()
        begun.add_done_callback(lambda it: it.cancelled() or it.exception())  # the client may have left
        live.task = asyncio.create_task(self._work(live, make, begun))
        return await asyncio.shield(begun)

    def live(self, id: str) -> Live | None:
        """Return a run that is in progress; None if it is not."""
        return self._live.get(id)

    async def aclose(self) -> None:
        """Interrupt the runs in progress."""
        tasks = [live.task for live in {*self._live.values(), *self._beginning} if live.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, live: Live, make: Begin, begun: asyncio.Future[Run]) -> None:
        try:
            async with self._serving.chat() as chat:
                live.run = run = await make(chat, self._records.store(chat))
                self._live[run.run.id] = live
                self._beginning.discard(live)
                begun.set_result(run.run)
                async with contextlib.aclosing(run.events()) as events:
                    async for event in events:
                        if isinstance(event, Attempt):
                            live.made.append(event)
                        live.wake()
        except Exception as error:  # noqa: BLE001  reported to the client or stored with the run, and logged
            if not begun.done():
                begun.set_exception(error)
            else:
                log.error("validation run: %s", self._serving.mask(error_name(error)))
        finally:
            begun.cancel()
            live.over = True
            self._beginning.discard(live)
            if live.run is not None:
                self._live.pop(live.run.run.id, None)
            live.wake()
