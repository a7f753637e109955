"""Turns on several workers, which are killed while PostgreSQL is restarted: all finish, none acts twice.

    python benchmarks/workers.py --turns 1000 --restarts 10     the counts and times; exit status 1 if one is wrong
    python benchmarks/workers.py --engine temporal              with Temporal's server as the queue
    python benchmarks/workers.py --engine none --workers 1 --concurrency 2    in a SQLite file, without a queue
    python benchmarks/workers.py --kill-every 0 --restarts 0    undisturbed

A turn asks a scripted model, which takes 0.2 s, for two calls and an answer: one tool reads, and the other changes
something, in one of four ways: without more, with a key its service honours, with a handle of a job, or with a tool
that verifies it. A tenth of the turns need a person's approval, which this driver gives. What the tools did is counted
by a service of its own. Conversations have four turns each, which are submitted at once. Every few seconds a worker is
killed (SIGKILL), and another takes its place. PostgreSQL is a server of the driver's own; every second restart is a
crash. Without a queue, each process looks for turns to run, as a server does. A takeover is the time from the kill of a
worker to the moment at which another goes on with one of its turns.
"""

import argparse
import asyncio
import collections
import contextlib
import functools
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "servers"))

import postgres_server
import psycopg
from flexchat import FlexChat, FlexChatError, Reply, ToolContext, tool
from flexchat.assembly import installed_plugins
from flexchat_queue import Worker
from flexchat_queue.config import QueueTable
from flexchat_queue.producer import open_queue
from flexchat_testing import ScriptedProvider, calls, says

PLUGINS = installed_plugins()
"""Loaded once: the processes are forked from this one."""
KINDS = ("pay", "pay_with_key", "pay_by_job", "pay_and_ask")
TURNS_EACH = 4
MODEL_S = 0.2
SERVICE = """
CREATE TABLE effects (number INTEGER PRIMARY KEY, message TEXT, tool TEXT);
CREATE TABLE keys (key TEXT PRIMARY KEY);
CREATE TABLE runs (turn TEXT, pid INTEGER, began REAL, ended REAL, PRIMARY KEY (turn, pid, began));
"""


class Service:
    """Counts what tools did, and who ran which turn when, in a file."""

    def __init__(self, folder):
        self.path = folder / "service.db"

    def ask(self, statement, *values):
        with contextlib.closing(sqlite3.connect(self.path, timeout=30, isolation_level=None)) as database:
            database.execute("PRAGMA synchronous = OFF")
            return database.execute(statement, values).fetchall()

    def make(self):
        with contextlib.closing(sqlite3.connect(self.path)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.executescript(SERVICE)

    def do(self, message, name, key=None):
        """Take effect; once for each key."""
        with contextlib.closing(sqlite3.connect(self.path, timeout=30, isolation_level=None)) as database:
            database.execute("PRAGMA synchronous = OFF")
            database.execute("BEGIN IMMEDIATE")
            is_new = key is None or database.execute("INSERT OR IGNORE INTO keys VALUES (?)", (key,)).rowcount
            if is_new:
                database.execute("INSERT INTO effects (message, tool) VALUES (?, ?)", (message, name))
            database.execute("COMMIT")

    def did(self, message, name):
        return bool(self.ask("SELECT 1 FROM effects WHERE message = ? AND tool = ?", message, name))


def tools_of(service):
    """The tools: one that reads, and each way in which one changes something."""

    @tool(effect="read")
    async def look(message: str) -> str:
        """Look something up."""
        await asyncio.sleep(0.02)
        return f"seen {message}"

    @tool
    async def pay(message: str) -> str:
        """Pay; the service takes no key."""
        await asyncio.sleep(0.05)
        service.do(message, "pay")
        await asyncio.sleep(0.05)
        return "paid"

    @tool(honours_key=True)
    async def pay_with_key(message: str, context: ToolContext) -> str:
        """Pay; the service does it once for each key."""
        await asyncio.sleep(0.05)
        service.do(message, "pay_with_key", context.key)
        await asyncio.sleep(0.05)
        return "paid"

    @tool
    async def pay_by_job(message: str, context: ToolContext) -> str:
        """Start a job that pays, and wait for it."""
        if context.handle is None:
            service.do(message, "pay_by_job")
            await context.remember({"job": message})
        await asyncio.sleep(0.1)
        return "paid"

    @tool(verify="was_paid")
    async def pay_and_ask(message: str) -> str:
        """Pay; the service can be asked."""
        await asyncio.sleep(0.05)
        service.do(message, "pay_and_ask")
        await asyncio.sleep(0.05)
        return "paid"

    @tool(effect="read")
    async def was_paid(message: str) -> dict:
        """Find out whether pay_and_ask has taken effect."""
        return {"done": service.did(message, "pay_and_ask"), "result": "paid"}

    @tool(approve=True)
    async def pay_if_approved(message: str) -> str:
        """Pay, once a person has approved it."""
        await asyncio.sleep(0.05)
        service.do(message, "pay_if_approved")
        await asyncio.sleep(0.05)
        return "paid"

    return look, pay, pay_with_key, pay_by_job, pay_and_ask, was_paid, pay_if_approved


def tool_of(message):
    """Return the tool that a message leads to; every tenth needs an approval."""
    number = int(message)
    return "pay_if_approved" if number % 10 == 9 else KINDS[number % len(KINDS)]


async def reply(messages, options):
    since = next(i for i, message in enumerate(reversed(messages)) if message.role == "user")
    position = sum(message.role == "assistant" for message in messages[len(messages) - since :])
    await asyncio.sleep(MODEL_S)
    if position:
        return says("Done.")
    message = messages[len(messages) - since - 1].content
    arguments = {"message": message}
    return calls(("look", arguments), (tool_of(message), arguments))


def chat_of(args, service):
    config = {
        "llms": {"bot": {"provider": "scripted"}},
        "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}],
        "tools": {"effects": {"lease_s": args.lease}},
        "conversations": args.conversations,
        "questions": {"expires": "1h"},
        "limits": {"turn_timeout_ms": 600_000},
    }
    if args.engine == "procrastinate":
        config["queue"] = {"concurrency": args.concurrency}
    answers = ScriptedProvider([reply], repeat=True)
    return FlexChat.from_config(config, tools=tools_of(service), providers={"bot": answers}, plugins=PLUGINS)


def queue_of(args, chat):
    if args.engine == "procrastinate":
        return open_queue(chat, QueueTable())
    from temporal_queue import TemporalQueue

    return TemporalQueue(args.temporal, "turns", lease_s=args.lease / 2)


async def work(args, service):
    """Run turns until killed, or asked to stop."""

    async def noted(handle):
        began = time.time()
        service.ask("INSERT INTO runs VALUES (?, ?, ?, NULL)", handle.id, os.getpid(), began)
        await handle.last()
        service.ask("UPDATE runs SET ended = ? WHERE turn = ? AND pid = ?", time.time(), handle.id, os.getpid())

    async with chat_of(args, service) as chat:
        if args.engine == "none":
            await look_for_turns(chat, args.concurrency, noted)
            return
        queue = queue_of(args, chat)
        worker = Worker(chat, queue, concurrency=args.concurrency, follow=lambda handle: [noted(handle)])
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        await worker.run()
        await queue.aclose()


async def look_for_turns(chat, concurrency, noted):
    """Run turns that can be resumed until stopped, as a server does."""
    stopped, running = asyncio.Event(), set()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    while not stopped.is_set():
        if len(running) < concurrency:
            for handle in await chat.resume_interrupted(most=concurrency - len(running)):
                task = asyncio.create_task(noted(handle))
                running.add(task)
                task.add_done_callback(running.discard)
        await asyncio.sleep(0.05)


async def submit(args, service):
    """Submit the turns, and approve what waits for approval, until all have ended."""
    async with chat_of(args, service) as chat:
        tenants = [f"tenant {number}" for number in range(args.tenants)]

        async def submit_all(first):
            for number in range(first, min(first + TURNS_EACH, args.turns)):
                await persistent(functools.partial(chat.submit, str(number), **options_of(number)))

        def options_of(number):
            conversation = number // TURNS_EACH
            tenant = tenants[conversation % args.tenants]
            return {"conversation": f"c{conversation}", "tenant": tenant, "idempotency_key": f"turn {number}"}

        for first in range(0, args.turns, 8 * TURNS_EACH):
            await asyncio.gather(*map(submit_all, range(first, min(first + 8 * TURNS_EACH, args.turns), TURNS_EACH)))
        print(f"{args.turns} turns submitted", flush=True)
        ended = 0
        while ended < args.turns:
            for tenant in tenants:
                for question in await persistent(lambda tenant=tenant: chat.pending(tenant=tenant)):
                    answering = chat.answer(question.id, Reply(action="accept"), tenant=tenant, resume=False)
                    with contextlib.suppress(FlexChatError):  # given before a restart; or asked for again
                        await answering
            await asyncio.sleep(0.2)
            ended = await asyncio.to_thread(count_ended, args)


async def persistent(attempt):
    """Repeat what fails while the server restarts."""
    for _ in range(200):
        try:
            return await attempt()
        except FlexChatError as error:
            last = error
            await asyncio.sleep(0.1)
    raise last


def database(args):
    if args.engine == "none":
        return contextlib.closing(sqlite3.connect(args.conversations["path"], timeout=30))
    return psycopg.connect(args.dsn, autocommit=True, options="-c search_path=flexchat")


def count_ended(args):
    while True:
        with contextlib.suppress(psycopg.Error, sqlite3.Error), database(args) as connection:
            query = "SELECT count(*) FROM journal_turns WHERE state IN ('done', 'failed', 'cancelled')"
            return connection.execute(query).fetchone()[0]
        time.sleep(0.05)


def forked(coroutine):
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        asyncio.run(coroutine())
        status = 0
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(status)


def has_ended(pid):
    """Return whether a child has ended. Raises SystemExit if it has failed."""
    child, status = os.waitpid(pid, os.WNOHANG)
    if child and status:
        sys.exit("a process of the driver failed")
    return bool(child)


def drive(args, service, server):
    """Let the workers run, kill and restart; return the kills and restarts with their times, and the seconds taken."""
    chance = random.Random(args.seed)
    kills, restarts, began = {}, [], time.time()
    client = forked(lambda: submit(args, service))
    workers = [forked(lambda: work(args, service)) for _ in range(args.workers)]
    next_kill, shown = began + args.kill_every, 0.0
    while not has_ended(client):
        time.sleep(0.1)
        now = time.time()
        if args.kill_every and now > next_kill:
            next_kill = now + args.kill_every * chance.uniform(0.5, 1.5)
            victim = workers.pop(chance.randrange(len(workers)))
            os.kill(victim, signal.SIGKILL)
            kills[victim] = time.time()
            os.waitpid(victim, 0)
            workers.append(forked(lambda: work(args, service)))
        if len(restarts) < args.restarts and (now - began > (len(restarts) + 1) * args.restart_every):
            stop = (server.stop, server.crash)[len(restarts) % 2]
            stop()
            server.start()
            restarts.append((now, time.time()))
        if now - shown > 10:
            shown = now
            print(
                f"{now - began:.0f} s: {count_ended(args)} ended, {len(kills)} kills, {len(restarts)} restarts",
                flush=True,
            )
        if now - began > args.minutes * 60:
            print("the time is over")
            os.kill(client, signal.SIGKILL)
            os.waitpid(client, 0)
            break
    seconds = time.time() - began
    for worker in workers:
        os.kill(worker, signal.SIGTERM)
    for worker in workers:
        os.waitpid(worker, 0)
    return kills, restarts, seconds


def takeovers(service, kills):
    """Return, for each turn that ran in a worker when it was killed, the seconds until another went on with it."""
    runs = collections.defaultdict(list)
    for turn, pid, began, ended in service.ask("SELECT * FROM runs ORDER BY began"):
        runs[turn].append((pid, began, ended))
    found = []
    for turn, of in runs.items():
        for index, (pid, _, ended) in enumerate(of):
            if ended is None and pid in kills:
                later = of[index + 1][1] if index + 1 < len(of) else None
                found.append((turn, kills[pid], later))
    return found


def report(args, service, kills, restarts, seconds):
    """Print the counts; return the exit status."""
    problems = []
    with database(args) as connection:
        states = dict(connection.execute("SELECT state, count(*) FROM journal_turns GROUP BY state").fetchall())
        effects = dict(connection.execute("SELECT state, count(*) FROM effects GROUP BY state").fetchall())
        turns = connection.execute(
            "SELECT tenant, conversation, message, state, error, fence, suspensions FROM journal_turns ORDER BY number"
        ).fetchall()
        stored = connection.execute(
            "SELECT t.tenant, t.conversation, j.message FROM turns t JOIN journal_turns j ON j.id = t.id "
            "ORDER BY t.tenant, t.conversation, t.number"
        ).fetchall()
        questions = dict(connection.execute("SELECT state, count(*) FROM questions GROUP BY state").fetchall())
        used = connection.execute("SELECT count(*) FROM questions WHERE used_by <> ''").fetchone()[0]
    order = collections.defaultdict(list)
    for tenant, conversation, message in stored:
        order[tenant, conversation].append(int(message))
    disordered = sum(numbers != sorted(numbers) for numbers in order.values())
    did = collections.Counter()
    for message, name, count in service.ask("SELECT message, tool, count(*) FROM effects GROUP BY message, tool"):
        did["effects"] += 1
        if count > 1:
            did["doubled"] += 1
            problems.append(f"{name} took effect {count} times for {message}")
    missing = args.turns - did["effects"]
    taken = takeovers(service, kills)
    times = sorted(later - at for _, at, later in taken if later is not None)
    calm = [
        later - at for _, at, later in taken if later is not None and not any(a < later and b > at for a, b in restarts)
    ]
    lost = [turn for turn, _, later in taken if later is None]
    print(f"engine {args.engine}: {args.turns} turns, {args.workers} workers of {args.concurrency}, {seconds:.1f} s")
    print(f"  kills {len(kills)}, restarts {len(restarts)}, lease {args.lease:g} s")
    print(f"  turns: {states}; conversations out of order: {disordered} of {len(order)}")
    print(f"  effects at the services: {did['effects']} of {args.turns}, doubled {did['doubled']}, missing {missing}")
    print(f"  ledger: {effects}; questions: {questions}, approvals used: {used}")
    if times:
        calm = sorted(calm) or [float("nan")]
        print(
            f"  takeovers: {len(times)}, p50 {times[len(times) // 2]:.2f} s, max {times[-1]:.2f} s; "
            f"without a restart meanwhile: {len(calm)}, p50 {calm[len(calm) // 2]:.2f} s, max {calm[-1]:.2f} s"
        )
    print(f"  most runners of a turn: {max(row[5] - row[6] for row in turns)}; ended when killed: {len(lost)}")
    if states != {"done": args.turns}:
        problems.append(f"not all turns are done: {states}: {[row for row in turns if row[3] != 'done'][:5]}")
    if missing > effects.get("unknown", 0):
        problems.append(f"{missing} effects are missing, and {effects.get('unknown', 0)} are unknown")
    if disordered:
        problems.append(f"{disordered} conversations are out of order")
    if not args.any_time and calm and times and calm[-1] > args.lease + 2:
        problems.append(f"a takeover took {calm[-1]:.2f} s")
    if args.verbose:
        for turn, at, later in sorted((each for each in taken if each[2]), key=lambda each: each[1] - each[2])[:5]:
            print("slow:", turn, f"killed at {at % 1000:.2f}, taken over at {later % 1000:.2f}")
            for row in service.ask("SELECT pid, began, ended FROM runs WHERE turn = ? ORDER BY began", turn):
                print(
                    "   run",
                    row[0],
                    *(f"{value % 1000:.2f}" for value in row[1:] if value),
                    kills.get(row[0], 0) % 1000,
                )
            with database(args) as connection:
                query = f"SELECT kind, at FROM journal_entries WHERE turn = '{turn}' ORDER BY number"
                for kind, at in connection.execute(query):
                    print("   ", kind, at)
    for problem in problems:
        print("BROKEN:", problem)
    print(f"{len(problems)} broken promises")
    return 1 if problems else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--tenants", type=int, default=3)
    parser.add_argument("--kill-every", type=float, default=2.0)
    parser.add_argument("--restarts", type=int, default=2)
    parser.add_argument("--restart-every", type=float, default=6.0, help="seconds")
    parser.add_argument("--lease", type=float, default=4.0)
    parser.add_argument("--engine", choices=("procrastinate", "temporal", "none"), default="procrastinate")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--any-time", action="store_true", help="do not judge the time of takeovers")
    parser.add_argument("--verbose", action="store_true", help="show the slowest takeovers")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="workers"))
    server = temporal = None
    args.conversations = {"path": str(folder / "turns.db")}
    if args.engine == "none":
        args.restarts = 0
    else:
        server = postgres_server.Server(postgres_server.binaries(), fsync=False)
        args.dsn = server.dsn()
        args.conversations = {"provider": "postgresql", "dsn": args.dsn, "connect_timeout_s": 20}
    if args.engine == "temporal":
        import temporal_queue

        temporal = temporal_queue.TemporalServer()
        args.temporal = temporal.address
    service = Service(folder)
    service.make()
    try:
        kills, restarts, seconds = drive(args, service, server)
        return report(args, service, kills, restarts, seconds)
    finally:
        if server is not None:
            server.remove()
        if temporal is not None:
            temporal.remove()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
