"""The laws of a queue of turns, and the queue of this package as their subject.

Used by tests/, and by ``flexchat plugins verify queue`` if FLEXCHAT_TEST_POSTGRES holds the dsn of a scratch database.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import time
import unittest
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from flexchat_postgresql import PostgresConfig
from flexchat_testing.laws.law import Conformance, expect, law, require

from .procrastinate_queue import ProcrastinateQueue
from .turn_queue import Lease, QueuedTurn, TurnQueue

DSN_VARIABLE = "FLEXCHAT_TEST_POSTGRES"
WITHIN_S = 20.0
"""How long a law waits for what must happen soon."""


class TurnQueueConformance(Conformance):
    """The laws of every queue of turns. Define make_queue and ``supports``."""

    capabilities: ClassVar[Mapping[str, str]] = {
        "sequence": "the turns of a conversation are leased in order, one at a time",
        "priority": "turns with a higher priority come first",
        "fair": "a tenant's many turns do not delay those of others",
        "count": "count_waiting counts at once what was enqueued",
    }

    def make_queue(self, folder: Path, *, lease_s: float = 30.0) -> TurnQueue:
        """Return a new worker of a queue, an empty one for every new folder; same folder, same queue."""
        raise NotImplementedError(f"{type(self).__name__} must write make_queue")

    @law()
    async def test_a_turn_is_leased_once(self, folder: Path) -> None:
        """Of two workers, one gets it; and it has the id and the tenant with which it was enqueued."""
        async with _two(self, folder) as (one, other):
            require(await one.lease() is None, "an empty queue leased a turn")
            expect(await one.enqueue([_turn("a1", tenant="t-ü '%s")]), 1, "enqueue returns how many were added")
            lease = await _leased(one)
            expect((lease.turn, lease.tenant), ("a1", "t-ü '%s"), "the leased turn")
            require(await other.lease() is None, "a leased turn was leased by another worker")
            require(await one.lease() is None, "a leased turn was leased again")

    @law()
    async def test_a_turn_is_in_the_queue_once(self, folder: Path) -> None:
        """While it waits, or is leased, it is not added again; once completed, it may be."""
        async with _two(self, folder) as (one, other):
            await one.enqueue([_turn("a1")])
            expect(await other.enqueue([_turn("a1"), _turn("b1")]), 1, "of two, one is new")
            first, second = await _leased(one), await _leased(one)
            expect({first.turn, second.turn}, {"a1", "b1"}, "what was leased")
            expect(await other.enqueue([_turn("a1")]), 0, "a leased turn is in the queue")
            await one.complete(first)
            await one.complete(second)
            require(await other.lease() is None, "a completed turn was leased")
            expect(await other.enqueue([_turn(first.turn)]), 1, "a completed turn may be enqueued again")
            expect((await _leased(other)).turn, first.turn, "a turn that is enqueued again")

    @law()
    async def test_a_released_turn_is_leased_again(self, folder: Path) -> None:
        """By any worker, once its delay is over."""
        async with _two(self, folder) as (one, other):
            await one.enqueue([_turn("a1")])
            await one.release(await _leased(one))
            lease = await _leased(other)
            expect(lease.turn, "a1", "the released turn")
            began = time.monotonic()
            await other.release(lease, delay_s=1.0)
            require(await one.lease() is None, "a turn was leased before its delay was over")
            await _leased(one)
            require(time.monotonic() - began >= 0.9, "a turn was leased before its delay was over")

    @law()
    async def test_the_turns_of_a_worker_that_died_go_to_another(self, folder: Path) -> None:
        """One that does not renew its leases loses them; one that does keeps them."""
        live, other = self.make_queue(folder, lease_s=2.0), self.make_queue(folder, lease_s=2.0)
        dead = self.make_queue(folder, lease_s=2.0)
        async with contextlib.aclosing(live), contextlib.aclosing(other), contextlib.aclosing(dead):
            await dead.enqueue([_turn("a1")])
            await _leased(dead)
            await live.enqueue([_turn("b1")])
            expect((await _leased(live)).turn, "b1", "the other turn")
            until, lease = time.monotonic() + WITHIN_S, None
            while lease is None and time.monotonic() < until:
                await live.renew()
                await other.renew()
                lease = await other.lease()
                await other.wait(0.2)
            require(lease is not None and lease.turn == "a1", f"after the death of a worker, {lease} was leased")
            require(await other.lease() is None, "a turn whose worker lives was leased by another")

    @law()
    async def test_a_lost_lease_changes_nothing(self, folder: Path) -> None:
        """A worker that was believed dead neither completes nor releases a turn that another has leased."""
        late, other = self.make_queue(folder, lease_s=1.0), self.make_queue(folder, lease_s=1.0)
        async with contextlib.aclosing(late), contextlib.aclosing(other):
            await late.enqueue([_turn("a1")])
            lost = await _leased(late)
            until, lease = time.monotonic() + WITHIN_S, None
            while lease is None and time.monotonic() < until:
                await other.renew()
                lease = await other.lease()
                await other.wait(0.2)
            require(lease is not None, "the turn of a worker that does not renew was not leased by another")
            await late.complete(lost)
            await late.release(lost)
            expect(await other.enqueue([_turn("a1")]), 0, "a leased turn after its former worker completed it")
            await other.renew()
            require(await late.lease() is None, "the former worker of a turn gave it to others")

    @law()
    async def test_a_queue_survives_its_workers(self, folder: Path) -> None:
        """What was enqueued is there after all have closed it; what was leased then is released."""
        async with contextlib.aclosing(self.make_queue(folder)) as queue:
            await queue.enqueue([_turn("a1"), _turn("b1")])
            await _leased(queue)
        async with contextlib.aclosing(self.make_queue(folder)) as queue:
            expect({(await _leased(queue)).turn for _ in range(2)}, {"a1", "b1"}, "the turns of a closed queue")

    @law()
    async def test_waiting_ends_with_news(self, folder: Path) -> None:
        """A worker that waits for long is woken by a turn that another process enqueues."""
        async with _two(self, folder) as (one, other):
            await one.wait(0.1)
            began = time.monotonic()
            await other.enqueue([_turn("a1")])
            await _leased(one, WITHIN_S / 2)
            require(time.monotonic() - began < WITHIN_S / 2, "a turn that was enqueued woke no worker")

    @law("count")
    async def test_what_waits_is_counted(self, folder: Path) -> None:
        """Leased turns are not."""
        async with _two(self, folder) as (one, other):
            await one.enqueue([_turn(f"a{number}", conversation=f"c{number}") for number in range(5)])
            lease = await _leased(one)
            expect(await other.count_waiting(), 4, "five, of which one is leased")
            await one.release(lease, delay_s=60)
            expect(await other.count_waiting(), 5, "five, of which one was released")

    @law("sequence")
    async def test_a_conversation_is_a_sequence(self, folder: Path) -> None:
        """Its next turn is leased once the one before is completed; other conversations do not wait for it."""
        async with _two(self, folder) as (one, other):
            await one.enqueue([_turn("a1", conversation="c")])
            await one.enqueue([_turn("a2", conversation="c", priority=9)])
            await one.enqueue([_turn("b1", conversation="d")])
            await one.enqueue([_turn("x1", conversation="c", tenant="another")])
            first = await _leased(one)
            expect(first.turn, "a1", "the first turn of a conversation, though the second has a higher priority")
            expect({(await _leased(other)).turn for _ in range(2)}, {"b1", "x1"}, "the other conversations")
            require(await other.lease() is None, "two turns of a conversation were leased at once")
            await one.complete(first)
            expect((await _leased(other)).turn, "a2", "the second turn of the conversation")

    @law("sequence")
    async def test_the_first_of_a_conversation_is_never_behind(self, folder: Path) -> None:
        """A turn that nothing precedes comes before those of its conversation that are in the queue already."""
        async with _two(self, folder) as (one, other):
            await one.enqueue([_turn("a2", conversation="c", priority=3)])
            await one.enqueue([_turn("a1", conversation="c", is_first=True)])
            expect((await _leased(other)).turn, "a1", "the first of its conversation")

    @law("priority")
    async def test_higher_priorities_come_first(self, folder: Path) -> None:
        """Equal ones in the order in which they were enqueued."""
        async with _two(self, folder) as (one, other):
            for id, priority in (("a", 0), ("b", -5), ("c", 7), ("d", 0), ("e", 1_000_000), ("f", -1_000_000)):
                await one.enqueue([_turn(id, conversation=id, tenant=id, priority=priority)])
            came = [(await _leased(other)).turn for _ in range(6)]
            expect(came, ["e", "c", "a", "d", "b", "f"], "by priority and age")

    @law("fair")
    async def test_a_tenants_kth_turn_follows_the_first_of_others(self, folder: Path) -> None:
        """For each k: of turns that wait together, its k-th is behind the first k-1 of every other tenant."""
        async with _two(self, folder) as (one, other):
            await one.enqueue([_turn(f"a{k}", conversation=f"a{k}", tenant="a") for k in range(1, 8)])
            for k in range(1, 4):
                await one.enqueue([_turn(f"b{k}", conversation=f"b{k}", tenant="b")])
            await one.enqueue([_turn("c1", conversation="c1", tenant="c")])
            came = [(await _leased(other)).turn for _ in range(11)]
            for turn in came:
                before = came[: came.index(turn)]
                for tenant, most in (("a", 7), ("b", 3), ("c", 1)):
                    needed = [f"{tenant}{k}" for k in range(1, min(int(turn[1:]) - 1, most) + 1)]
                    require({*needed} <= {*before}, f"{turn} came before one of {needed}: {came}")

    @law("fair")
    async def test_a_long_queue_delays_others_by_one_turn(self, folder: Path) -> None:
        """While it is worked off: a single turn of another tenant is next, and those behind it are not overtaken."""
        async with _two(self, folder) as (one, other):
            await one.enqueue([_turn(f"a{n}", conversation=f"a{n}", tenant="a") for n in range(300)])
            for n in range(150):
                lease = await _leased(other)
                expect(lease.turn, f"a{n}", "the long queue, in order")
                await other.complete(lease)
            running = await _leased(other)
            for tenant in ("b", "c"):
                await one.enqueue([_turn(f"{tenant}{n}", conversation=f"{tenant}{n}", tenant=tenant) for n in range(2)])
            came = [(await _leased(other)).turn for _ in range(8)]
            expect(came[:2], ["b0", "c0"], f"the turns behind {running.turn}")
            require({*came[2:6]} >= {"b1", "c1"} and "a151" in came[2:5], f"tenants in turn: {came}")


class ProcrastinateTurns(TurnQueueConformance):
    """The queue of this package."""

    supports = frozenset({"sequence", "priority", "fair", "count"})

    def make_queue(self, folder: Path, *, lease_s: float = 30.0) -> ProcrastinateQueue:
        """Return a queue with a schema of its own for each folder."""
        dsn = os.environ.get(DSN_VARIABLE)
        if not dsn:
            raise unittest.SkipTest(f"no database to try it with: set {DSN_VARIABLE}")
        schema = "kit_" + hashlib.sha256(f"queue {folder}".encode()).hexdigest()[:16]
        if not _schemas:
            atexit.register(_drop, dsn)
        _schemas.add(schema)
        return ProcrastinateQueue(PostgresConfig(dsn=dsn), schema=schema, lease_s=lease_s)


_schemas: set[str] = set()


def _drop(dsn: str) -> None:
    import psycopg

    # If the server is gone, a scratch schema that survives it is harmless.
    with contextlib.suppress(psycopg.Error), psycopg.connect(dsn, autocommit=True, connect_timeout=3) as connection:
        for schema in _schemas:
            connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE'.encode())


def _turn(id: str, *, tenant: str = "t", conversation: str | None = None, **rest: Any) -> QueuedTurn:
    return QueuedTurn(id=id, tenant=tenant, conversation=conversation or f"c-{id}", **rest)


async def _leased(queue: TurnQueue, within_s: float = WITHIN_S) -> Lease:
    """Lease a turn that must come soon."""
    until = time.monotonic() + within_s
    while (lease := await queue.lease()) is None:
        require(time.monotonic() < until, "no turn was leased though one waits")
        await queue.wait(within_s / 10)
    return lease


@contextlib.asynccontextmanager
async def _two(laws: TurnQueueConformance, folder: Path) -> Any:
    async with (
        contextlib.aclosing(laws.make_queue(folder)) as one,
        contextlib.aclosing(laws.make_queue(folder)) as other,
    ):
        yield one, other
