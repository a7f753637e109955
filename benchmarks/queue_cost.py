"""What a queue of turns costs on PostgreSQL, beside the bare commits of the same run, and how it shares among tenants.

    python benchmarks/queue_cost.py --waiting 10000

Prints the times of a claim, of its completion and of enqueuing with so many turns waiting; how many turns come before
the single one of another tenant; and the CPU time of a turn that is accepted and run by a worker, beside that of a
stored turn. The server is this program's own, and waits for the disk.
"""

import argparse
import asyncio
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "servers"))

import postgres_server
import psycopg
from flexchat import FlexChat
from flexchat_postgresql import PostgresConfig
from flexchat_queue import ProcrastinateQueue, QueuedTurn, Worker
from flexchat_queue.config import QueueTable
from flexchat_queue.producer import open_queue
from flexchat_testing import ScriptedProvider, says


class Times(list):
    def __str__(self):
        ordered = sorted(self)
        return f"p50 {ordered[len(self) // 2] * 1e3:.2f} ms, p95 {ordered[int(len(self) * 0.95)] * 1e3:.2f} ms"

    async def of(self, work):
        began = time.perf_counter()
        result = await work
        self.append(time.perf_counter() - began)
        return result


def bare_commits(dsn, rounds=300):
    times = Times()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS bare (number int)")
        for number in range(rounds):
            began = time.perf_counter()
            connection.execute("INSERT INTO bare VALUES (%s)", (number,))
            times.append(time.perf_counter() - began)
    return times


async def claims(dsn, waiting):
    config = PostgresConfig(dsn=dsn)
    producer, worker = ProcrastinateQueue(config), ProcrastinateQueue(config)
    for first in range(0, waiting, 1000):
        numbers = range(first, min(first + 1000, waiting))
        await producer.enqueue([QueuedTurn(id=f"a{n}", tenant="a", conversation=f"a{n}") for n in numbers])
    lease, complete, enqueue, before = Times(), Times(), Times(), []
    for number in range(200):
        for _ in range(2):
            leased = await lease.of(worker.lease())
            await complete.of(worker.complete(leased))
        single = QueuedTurn(id=f"b{number}", tenant="b", conversation=f"b{number}")
        await enqueue.of(producer.enqueue([single]))
        passed = 0
        while (leased := await worker.lease()).turn != single.id:
            await worker.complete(leased)
            passed += 1
        await worker.complete(leased)
        before.append(passed)
    print(f"with {waiting:,} turns waiting: claim {lease}; complete {complete}; enqueue {enqueue}")
    print(f"turns of the long queue before a single one of another tenant, beside the running: at most {max(before)}")
    await producer.aclose()
    await worker.aclose()


async def cpu(dsn, turns=300):
    """Print the CPU time of a stored turn, of one that is accepted and run by a worker, and of what the latter adds.

    All in this process, each the best of some repeats, which alternate.
    """

    def chat():
        config = {
            "llms": {"bot": {"provider": "scripted"}},
            "responses": [{"llm": "bot", "model": "m"}],
            "conversations": {"provider": "postgresql", "dsn": dsn, "schema": "cpu"},
            "queue": {"schema": "cpu_queue"},
        }
        return FlexChat.from_config(config, providers={"bot": ScriptedProvider([says("hi")], repeat=True)})

    async with chat() as stored:
        await stored.respond("warm up", conversation="w")
        best = [float("inf")] * 4
        queue = open_queue(stored, QueueTable(schema="cpu_queue"))
        connections = stored.conversations.store.connections
        for repeat in range(5):
            began = time.process_time()
            for number in range(turns):
                await stored.respond("hello", conversation=f"s{repeat} {number}")
            best[0] = min(best[0], (time.process_time() - began) / turns)
            began = time.process_time()
            ids = [await stored.submit("hello", conversation=f"q{repeat} {number}") for number in range(turns)]
            worker = Worker(stored, queue)
            running = asyncio.create_task(worker.run())
            while worker.ended < len(ids):  # noqa: ASYNC110  a worker has no event to wait for
                await asyncio.sleep(0.01)
            best[1] = min(best[1], (time.process_time() - began) / turns)
            worker.stop()
            await running
            began = time.process_time()
            for _ in range(turns):
                await connections.repeated(lambda each: each.execute("INSERT INTO bare VALUES (1)"), alone=True)
            best[2] = min(best[2], (time.process_time() - began) / turns)
            began = time.process_time()
            for number in range(turns):
                await queue.enqueue([QueuedTurn(id=f"{number}", tenant="t", conversation=f"{number}")])
                await queue.complete(await queue.lease())
            best[3] = min(best[3], (time.process_time() - began) / turns)
        await queue.aclose()
    stored_s, queued_s, commit_s, queue_s = best
    print(
        f"CPU: stored turn {stored_s * 1e3:.2f} ms, queued turn {queued_s * 1e3:.2f} ms, "
        f"{queued_s / stored_s:.2f} times; "
        f"commit {commit_s * 1e3:.2f} ms, less two of them {(queued_s - 2 * commit_s) / stored_s:.2f} times; "
        f"queue alone (enqueue, lease, complete) {queue_s * 1e3:.2f} ms"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--waiting", type=int, default=10_000)
    args = parser.parse_args()
    server = postgres_server.Server(postgres_server.binaries(), fsync=True)
    try:
        print(f"bare commit: {bare_commits(server.dsn())}")
        asyncio.run(claims(server.dsn(), args.waiting))
        print(f"bare commit: {bare_commits(server.dsn())}")
        asyncio.run(cpu(server.dsn()))
    finally:
        server.remove()


if __name__ == "__main__":
    main()
