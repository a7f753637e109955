"""A new kept turn, and the claim of an accepted one, where 100,000 turns are suspended and 10,000 accepted.

    .venv/bin/python benchmarks/pending_growth.py                  in a SQLite file
    .venv/bin/python benchmarks/pending_growth.py --postgresql     in PostgreSQL, in a server of its own

Turns alternate between an empty database and the full one, so that whatever else the machine does meets both. The model
has no part in it: a turn is what the store does for it. Aims: p95 of a turn at most 1.1 times that of the empty one, a
claim at most 4 bare commits of the same run, a notice within 50 ms (p95).
"""

import argparse
import asyncio
import contextlib
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

from flexchat import UserMessage
from flexchat.conversations.journal_rows import QUESTION_COLUMNS, question_to_row
from flexchat.store import (
    ConversationTurn,
    JournaledTurn,
    JournalEntry,
    PendingQuestion,
    Question,
    Reply,
    TurnEnd,
    UnknownConversationError,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "servers"))

LIVES = 600.0
AT, LATER = "2026-11-27T12:00:00.000+00:00", "2999-01-01T00:00:00.000+00:00"
CROWDED = 5_000  # of the accepted turns are in one conversation


def percentiles(figures):
    ordered = sorted(1000 * figure for figure in figures)
    return ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.95)]


async def turn_of(store, id):
    """What a turn with one answer and one tool does, in a conversation of its own."""
    conversation, start = f"c{id}", time.perf_counter()
    await store.journal.list_interrupted(conversation, tenant="t")
    with contextlib.suppress(UnknownConversationError):
        await store.history(conversation, tenant="t")
    turn = JournaledTurn(id=id, tenant="t", conversation=conversation, state="running", message="hello", owner="o")
    for number in range(1, 5):
        entry = JournalEntry(number=number, kind="phase", data={"text": "x" * 400}, at=AT)
        await store.journal.write(turn, [entry], lease_s=LIVES)
    end = TurnEnd(turn=turn, entries=(), state="done", lease_s=LIVES)
    added = ConversationTurn(id=id, messages=(UserMessage(content="hello"),))
    await store.append(conversation, added, tenant="t", end=end)
    return time.perf_counter() - start


async def compare(empty, full, count):
    figures = ([], [])
    for n in range(20 + count):
        for index in (n % 2, 1 - n % 2):
            taken = await turn_of((empty, full)[index], f"e{n:07x}")
            if n >= 20:
                figures[index].append(taken)
    (p50, p95), (full_p50, full_p95) = map(percentiles, figures)
    print(f"turn, empty: p50 {p50:.2f}, p95 {p95:.2f} ms; full: p50 {full_p50:.2f}, p95 {full_p95:.2f} ms; ", end="")
    print(f"p50 x {full_p50 / p50:.2f}, p95 x {full_p95 / p95:.2f}")


async def claims(store, commit, count):
    first = (await store.journal.list_resumable(limit=1))[0]
    blocking = await store.journal.acquire(first.id, tenant="t", owner="o", lease_s=LIVES)
    start = time.perf_counter()
    await store.journal.list_resumable(limit=1)
    print(f"list_resumable behind {CROWDED} of a conversation that runs: {1000 * (time.perf_counter() - start):.1f} ms")
    added = ConversationTurn(id=first.id, messages=(UserMessage(content="hello"),))
    await store.append(first.conversation, added, tenant="t", end=TurnEnd(turn=blocking, entries=(), state="done"))
    listed, taken, bare = [], [], []
    for _ in range(count):
        start = time.perf_counter()
        (turn,) = await store.journal.list_resumable(limit=1)
        listed.append(time.perf_counter() - start)
        start = time.perf_counter()
        turn = await store.journal.acquire(turn.id, tenant=turn.tenant, owner="o", lease_s=LIVES)
        taken.append(time.perf_counter() - start)
        start = time.perf_counter()
        await commit()
        bare.append(time.perf_counter() - start)
        added = ConversationTurn(id=turn.id, messages=(UserMessage(content="hello"),))
        end = TurnEnd(turn=turn, entries=(), state="done")
        await store.append(turn.conversation, added, tenant=turn.tenant, end=end)
    p50, p95 = percentiles(bare)
    print(f"bare commit: p50 {p50:.2f}, p95 {p95:.2f} ms")
    both = [a + b for a, b in zip(listed, taken, strict=True)]
    for name, figures in (("list_resumable", listed), ("acquire", taken), ("both", both)):
        its_p50, its_p95 = percentiles(figures)
        print(f"{name}: p50 {its_p50:.2f}, p95 {its_p95:.2f} ms = {its_p50 / p50:.1f} and {its_p95 / p95:.1f} commits")


async def other_queries(store):
    """What else meets the full database: how long each takes once."""
    journal = store.journal
    for name, work in {
        "questions, open": lambda: journal.questions(tenant="t", states=["open"]),
        "answer": lambda: journal.answer("q0000500", tenant="t", reply=Reply(action="accept"), by="ann"),
        "list_commands": lambda: journal.list_commands("o"),
        "expire_questions": journal.expire_questions,
        "forget": lambda: journal.forget(older_than_s=86_400, events_older_than_s=86_400),
    }.items():
        start = time.perf_counter()
        await work()
        print(f"{name}: {1000 * (time.perf_counter() - start):.1f} ms")


async def notices(store, other, count):
    """From a commit in one store to its id in the watch of another."""
    watch, figures, whole = store.journal.watch(), [], []
    asking = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0.5)  # the watch has begun
    turn = JournaledTurn(id="e", tenant="t", conversation="ce", state="running", message="hello", owner="o")
    await other.journal.write(turn, [JournalEntry(number=1, kind="phase", data={}, at=AT)], lease_s=LIVES)
    while asking.done():
        asking = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0.2)
    for _ in range(count):
        begun = time.perf_counter()
        await other.journal.request_cancel("e", tenant="t", by="ann")
        start = time.perf_counter()
        await asking
        figures.append(time.perf_counter() - start)
        whole.append(time.perf_counter() - begun)
        asking = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0.03)
    asking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asking
    await watch.aclose()
    print("a notice after its commit: p50 {:.2f}, p95 {:.2f} ms".format(*percentiles(figures)))
    print("with the commit: p50 {:.2f}, p95 {:.2f} ms".format(*percentiles(whole)))


def rows(suspended, accepted):
    """Rows of the tables: journal_turns, journal_entries and questions."""
    for n in range(suspended + accepted):
        is_suspended = n < suspended
        id = f"{'5a' if is_suspended else 'ac'}{n:07x}"
        conversation = f"c{id}" if is_suspended or n - suspended >= CROWDED else "crowded"
        state, fence = ("suspended", 1) if is_suspended else ("accepted", 0)
        turn = (id, "t", conversation, state, "hello", "", fence, AT)
        entries = [(id, m, "phase", '{"text": "' + "x" * 400 + '"}', AT) for m in range(1, 4 if is_suspended else 2)]
        asked = Question(
            id=f"q{n:07}", message="May it?", digest="d" * 64, details={"arguments": {"amount": "x" * 200}}
        )
        pending = PendingQuestion(
            question=asked, tenant="t", conversation=conversation, turn=id, asked_at=AT, expires_at=LATER
        )
        yield turn, entries, question_to_row(pending) if is_suspended else None


TURN_COLUMNS = "id, tenant, conversation, state, message, owner, fence, began_at"
QUESTION_TABLE = (
    "id, tenant, conversation, turn, digest, state, asked_at, expires_at, replied_by, replied_at, used_by, "
)
QUESTION_TABLE += "remembered, question, reply"


def fill_sqlite(path, args):
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        for turn, entries, asked in rows(args.suspended, args.accepted):
            database.execute(f"INSERT INTO journal_turns ({TURN_COLUMNS}) VALUES ({', '.join('?' * 8)})", turn)
            database.executemany("INSERT INTO journal_entries VALUES (?, ?, ?, ?, ?)", entries)
            if asked is not None:
                marks = ", ".join("?" * 14)
                database.execute(f"INSERT INTO questions ({', '.join(QUESTION_COLUMNS)}) VALUES ({marks})", asked)
        database.execute("ANALYZE")


def fill_postgresql(dsn, args):
    import psycopg

    made = list(rows(args.suspended, args.accepted))
    with psycopg.connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
        tables = (
            (f"journal_turns ({TURN_COLUMNS})", [turn for turn, _, _ in made]),
            ("journal_entries (turn, number, kind, data, at)", [entry for _, entries, _ in made for entry in entries]),
            (f"questions ({', '.join(QUESTION_COLUMNS)})", [asked for _, _, asked in made if asked is not None]),
        )
        for table, values in tables:
            with cursor.copy(f"COPY full_one.{table} FROM STDIN") as copy:
                for value in values:
                    copy.write_row(value)
        cursor.execute("VACUUM ANALYZE")


async def measure(stores, other, commit, args):
    await compare(*stores, args.turns)
    await claims(stores[1], commit, args.claims)
    await other_queries(stores[1])
    await notices(stores[1], other, args.notices)
    for store in (*stores, other):
        await store.aclose()


async def in_sqlite(args):
    from flexchat_sqlite.conversations import SqliteConversations

    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder) / "empty.db", Path(folder) / "full.db"
        stores = [SqliteConversations(path) for path in paths]
        for store in stores:
            await store.list(tenant="t")
        fill_sqlite(paths[1], args)
        with contextlib.closing(sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)) as database:
            database.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE bare (x TEXT)")

            async def commit():
                await asyncio.to_thread(database.execute, "INSERT INTO bare VALUES ('hello')")

            database = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None, check_same_thread=False)
            database.execute("PRAGMA synchronous = FULL")
            with contextlib.closing(database):
                await measure(stores, SqliteConversations(paths[1]), commit, args)


async def in_postgresql(args):
    import psycopg
    from flexchat_postgresql.config import PostgresqlConfig
    from flexchat_postgresql.conversation_store import PostgresqlConversations
    from postgres_server import Server, binaries

    server = Server(binaries(), fsync=True)
    try:
        configs = [PostgresqlConfig(dsn=server.dsn(), schema=schema) for schema in ("empty_one", "full_one")]
        stores = [PostgresqlConversations(config) for config in configs]
        for store in stores:
            await store.list(tenant="t")
        fill_postgresql(server.dsn(), args)
        async with await psycopg.AsyncConnection.connect(server.dsn(), autocommit=True) as connection:
            await connection.execute("CREATE TABLE bare (x text)")

            async def commit():
                await connection.execute("INSERT INTO bare VALUES ('hello')")

            await measure(stores, PostgresqlConversations(configs[1]), commit, args)
    finally:
        server.remove()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--suspended", type=int, default=100_000)
    parser.add_argument("--accepted", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=600)
    parser.add_argument("--claims", type=int, default=200)
    parser.add_argument("--notices", type=int, default=200)
    options = parser.parse_args()
    asyncio.run(in_postgresql(options) if options.postgresql else in_sqlite(options))
