"""Race for effects: of all processes that claim one key, one runs the tool; and what a claim and a finish cost.

    python benchmarks/effects_race.py [--store sqlite|postgresql] [--processes 8] [--attempts 16000] [--keys 2000]

Each process goes through all keys in an order of its own, until the attempts are used up, and appends a line to a file
for each effect. Cost is taken in one process, unraced, in turns with two bare commits to a table of the same database:
the median of the ratios. PostgreSQL is the one of the tests, started for this. Exit status 1 if an effect is missing or
there twice.
"""

import argparse
import asyncio
import collections
import contextlib
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path

from flexchat.store import EffectCall
from flexchat_sqlite.conversations import SqliteConversations

SERVERS = Path(__file__).resolve().parents[1] / "tests" / "servers"


def effect(key):
    """Return the call that a key stands for."""
    return EffectCall(
        key=key, tenant="t", conversation=None, turn="", place=f"key:{key}", tool="pay", digest="d", arguments="{}"
    )


class Sqlite:
    """Stores in one SQLite file."""

    def __init__(self, folder):
        self.path = folder / "kept.db"

    def store(self):
        return SqliteConversations(self.path)

    @contextlib.asynccontextmanager
    async def bare(self):
        """Yield what makes one bare commit, in the database's own thread as FlexChat does."""
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)) as database:
            database.execute("PRAGMA synchronous = FULL")
            database.execute("CREATE TABLE IF NOT EXISTS bare (number INTEGER PRIMARY KEY, text TEXT)")

            def commit():
                database.execute("BEGIN IMMEDIATE")
                database.execute("INSERT INTO bare (text) VALUES ('x')")
                database.execute("COMMIT")

            loop = asyncio.get_running_loop()
            yield lambda: loop.run_in_executor(None, commit)


class Postgresql:
    """Stores in one PostgreSQL database."""

    def __init__(self, dsn):
        self.dsn = dsn

    def store(self):
        from flexchat_postgresql.config import PostgresqlConfig
        from flexchat_postgresql.conversation_store import PostgresqlConversations

        return PostgresqlConversations(PostgresqlConfig(dsn=self.dsn))

    @contextlib.asynccontextmanager
    async def bare(self):
        """Yield what makes one bare commit."""
        import psycopg

        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as connection:
            await connection.execute("CREATE TABLE IF NOT EXISTS bare (number bigserial PRIMARY KEY, text text)")
            yield lambda: connection.execute("INSERT INTO bare (text) VALUES ('x')")


async def race(database, keys, attempts, chance, effects):
    """Try to make so many effects; return how the claims came out."""
    store = database.store()
    ledger, owner, outcomes = store.ledger(), f"{os.getpid()}", collections.Counter()
    order = []
    for _ in range(attempts):
        if not order:
            order = chance.sample(keys, len(keys))
        key = order.pop()
        claim = await ledger.claim(effect(key), owner=owner, lease_s=600)
        outcomes[claim.outcome] += 1
        if claim.outcome == "yours":
            os.write(effects, f"{key}\n".encode())
            if not await ledger.finish(key, claim.effect.fence, state="done", result=None):
                outcomes["finish refused"] += 1
    await store.aclose()
    return outcomes


def forked(work):
    """Run work in a process of its own, which exits with 1 if it fails; return its id."""
    child = os.fork()
    if not child:
        status = 1
        try:
            asyncio.run(work())
            status = 0
        finally:
            os._exit(status)
    return child


async def cost(database, pairs):
    """Return the medians of claim and finish, of two bare commits, in ms, and of their ratio."""
    store = database.store()
    ledger, ours, bare = store.ledger(), [], []
    async with database.bare() as commit:
        for number in range(pairs + 10):
            began = time.perf_counter()
            claim = await ledger.claim(effect(f"cost {number}"), owner="cost", lease_s=600)
            await ledger.finish(f"cost {number}", claim.effect.fence, state="done", result='{"ok":true}')
            between = time.perf_counter()
            await commit()
            await commit()
            ended = time.perf_counter()
            if number >= 10:
                ours.append((between - began) * 1e3)
                bare.append((ended - between) * 1e3)
    await store.aclose()
    ratio = statistics.median(one / other for one, other in zip(ours, bare, strict=True))
    return statistics.median(ours), statistics.median(bare), ratio


def measure(database, args, folder):
    """Race, and take the cost; return whether every effect happened once."""

    async def first():
        store = database.store()
        await store.ledger().list(tenant="t")  # makes the tables
        await store.aclose()

    asyncio.run(first())
    keys = [f"key {number}" for number in range(args.keys)]
    path = folder / "effects"
    effects = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    began = time.perf_counter()
    children = [
        forked(lambda n=n: race(database, keys, args.attempts // args.processes, random.Random(n), effects))
        for n in range(args.processes)
    ]
    failed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
    took = time.perf_counter() - began
    happened = collections.Counter(path.read_text().splitlines())
    twice, missing = sum(count > 1 for count in happened.values()), sum(key not in happened for key in keys)
    print(f"{args.processes} processes, {args.attempts:,} attempts on {args.keys:,} keys in {took:.1f} s:")
    print(f"  {sum(happened.values()):,} effects; {twice} twice, {missing} missing, {failed} processes failed")
    ours, bare, ratio = asyncio.run(cost(database, args.pairs))
    print(f"  claim and finish p50 {ours:.2f} ms, two bare commits {bare:.2f} ms: ratio {ratio:.2f}")
    return not (twice or missing or failed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--attempts", type=int, default=16_000)
    parser.add_argument("--keys", type=int, default=2_000)
    parser.add_argument("--pairs", type=int, default=300)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="flexchat-race-") as name:
        folder = Path(name)
        if args.store == "sqlite":
            return 0 if measure(Sqlite(folder), args, folder) else 1
        sys.path.insert(0, str(SERVERS))
        from postgres_server import Server, binaries

        server = Server(binaries(), fsync=True)
        try:
            return 0 if measure(Postgresql(server.dsn()), args, folder) else 1
        finally:
            server.remove()


if __name__ == "__main__":
    sys.exit(main())
