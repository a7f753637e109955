"""Kill processes in the middle of turns and calls: no effect happens twice, none is lost, no answer is paid for twice.

    python benchmarks/effects.py --runs 10000              runs; the counts; exit status 1 if a promise is broken
    python benchmarks/effects.py --continue FOLDER         go on with a run that was stopped
    python benchmarks/effects.py --runs 200 --break journal    break the order on purpose: see that it is caught
    python benchmarks/effects.py --store postgresql            in PostgreSQL, which is restarted in a part of the runs
    python benchmarks/effects.py --minutes 15              as many runs as fit

A run is a turn with a tool that changes something, or a call by hand under a key. It runs in a forked process, which is
killed (SIGKILL) at one of the POINTS or at a random moment; then two processes at once take it up, of which one may be
killed again, until it has ended. The model writes other words, ids and orders each time it is asked, and in half of the
runs other arguments. Every second turn has a key of its caller's, who sends it twice at once, and again and again until
there is an answer. The clock of every second process is 11 hours ahead or behind. What the tools did is counted by a
service of its own, which knows nothing of FlexChat's ledger. HTTP tools reach it over HTTP, and it answers them late,
twice, never, or breaks off: effects_http.py. Others belong to an MCP server that does so, too, or dies: effects_mcp.py.

Once a call has been claimed, every second process declares its tool in another way: as one that reads, is idempotent,
or honours keys that the first attempt did not send, in the tool itself, in its entry of tools.registry, or in the table
of its MCP server. Or another source offers a tool of that name: a second server, the same one under another name or
with other hints, or the program. The row in the ledger has to decide in each case. The counts are broken down by the
kind of tool, with the number of runs in which a process had another declaration.

PostgreSQL is a server of this driver's own, of Debian's package if that is installed, in a temporary folder. In one run
of ten it is stopped and started again while the processes work: half of the times as a crash would stop it.
"""

import argparse
import asyncio
import contextlib
import datetime
import functools
import json
import os
import random
import secrets
import signal
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "servers"))

import attrs
import effects_http
import effects_mcp
from effects_broken import BREAKS, break_order
from flexchat import EffectUnknownError, FlexChat, FlexChatError, Reply, StuckTurnError, ToolContext, tool
from flexchat.assembly import installed_plugins
from flexchat.host import wait_for_answer
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_testing import ScriptedProvider, calls, says

STEPS = ("bind", "write", "model", "claim", "tool", "remember", "finish", "append")
STEPS += ("suspend", "answer", "acquire", "use", "release")
POINTS = tuple(f"{step} {when}" for step in STEPS for when in ("before", "after"))
ASKING = ("pay_approved", "pay_rejected", "pay_first", "pay_first_approved", "pay_as_told")
"""The tools that need replies, or follow one that does."""
TURNS = ("pay", "pay_with_key", "pay_and_ask", "pay_late", "pay_or_die")
TURNS += (*ASKING, *effects_http.TURNS, *effects_mcp.TURNS)
TOOLS = {"by hand": "pay", "by hand, with key": "pay_with_key"}
"""The tools that are called by hand."""
KINDS = (*TURNS, *(f"{tool}, delivered twice" for tool in TURNS), *TOOLS)
RESTARTS = 0.1
"""Part of the rounds in which the server is restarted."""
CHANGES = 0.5
"""Part of the processes after the first claim whose configuration declares the tools in another way."""
REAL_TIME = time.time
COLUMNS = ("runs", "killed", "redeclared", "effects", "doubled", "done", "unknown", "unknown that happened")
CLOCKS = (0, 0, 11 * 3600, -11 * 3600)
"""By how many seconds the clock of a process is ahead: it jumps from one process to the next, but never by the 24 hours
after which a key is free again."""
IN_THE_WINDOW = (
    "claim after",
    "tool before",
    "tool after",
    "remember before",
    "finish before",
    "at random",
    "pay_late",
    "pay_or_die",
)
IN_THE_WINDOW += (*effects_http.TURNS, *effects_mcp.TURNS)
AROUND_A_QUESTION = ("write before", "write after", "answer before", "answer after")
"""Of a tool that asks: it has started before its question is written, and goes on once the reply is."""

PLUGINS = installed_plugins()
"""Loaded once: the processes are forked from this one."""

# A second approval, of a declaration that was changed back, is not needed: the call runs with the first one.
NEEDED = """state = 'replied' AND (used_by <> '' OR digest = '' OR NOT EXISTS (
    SELECT 1 FROM questions q WHERE q.turn = questions.turn AND q.used_by <> ''
))"""
REPLIES = "SELECT data FROM journal_entries WHERE kind = 'reply' AND turn = ?"

SERVICE = """
CREATE TABLE IF NOT EXISTS effects (number INTEGER PRIMARY KEY, run TEXT, tool TEXT, key TEXT);
CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS paid_again (run TEXT, position INTEGER);
CREATE TABLE IF NOT EXISTS redeclared (run TEXT, change TEXT);
CREATE TABLE IF NOT EXISTS runs (run TEXT PRIMARY KEY, kind TEXT, kills TEXT, ended INTEGER);
"""


class Sqlite:
    """What was kept, in one file."""

    def __init__(self, folder):
        self._path = folder / "kept.db"

    def store(self):
        return SqliteConversations(self._path)

    def ask(self, statement, *values):
        """Run a statement, with ? for each value, and return its rows."""
        with contextlib.closing(sqlite3.connect(self._path, timeout=30)) as database:
            rows = database.execute(statement, values).fetchall()
            database.commit()
            return rows

    def restart(self, chance):
        """There is no server."""

    def close(self):
        """There is no server."""


class Postgresql:
    """What was kept, in a server of its own, which can be restarted."""

    def __init__(self, folder):
        import postgres_server
        import psycopg
        from flexchat_postgresql.config import PostgresqlConfig
        from flexchat_postgresql.conversation_store import PostgresqlConversations

        if (folder / "postgresql").exists():
            raise SystemExit("runs on PostgreSQL cannot be continued: its data went with the driver's process")
        (folder / "postgresql").touch()
        debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        self._server = postgres_server.Server(debian[-1] if debian else postgres_server.binaries(), fsync=False)
        config = PostgresqlConfig(dsn=self._server.dsn(), schema="kept", connect_timeout_s=20, pool_size=3)
        self.store = lambda: PostgresqlConversations(config)
        self._psycopg, self._connection = psycopg, (0, None)

    def ask(self, statement, *values):
        """Run a statement, with ? for each value, and return its rows."""
        until = time.monotonic() + 20
        while True:
            process, connection = self._connection
            try:
                if process != os.getpid():  # a fork has a connection of its own
                    options = "-c search_path=kept"
                    connection = self._psycopg.connect(self._server.dsn(), autocommit=True, options=options)
                    self._connection = (os.getpid(), connection)
                done = connection.execute(statement.replace("?", "%s"), values)
                return done.fetchall() if done.description else []
            except self._psycopg.OperationalError:
                self._connection = (0, None)
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)

    def restart(self, chance):
        """Restart the server: as its owner would, or as a crash would."""
        time.sleep(chance.random() * 0.1)
        stop = chance.choice((self._server.stop, self._server.crash))
        stop()
        self._server.start()
        return stop.__name__

    def close(self):
        self._server.remove()


STORES = {"sqlite": Sqlite, "postgresql": Postgresql}


class Killer:
    """Ends this process at a point, the so-manieth time it is passed.

    Attributes:
        clock: How many seconds its clock is ahead.
        may_move: Whether a tool may belong to another source in this process: then its turn may not end here.
    """

    def __init__(self, point, passes, clock=0, may_move=False):
        self.point, self.left, self.clock, self.may_move = point, passes, clock, may_move

    def __call__(self, point):
        if point == self.point:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class Watched:
    """Something whose methods may be the last thing this process does."""

    def __init__(self, inner, kill, **points):
        self._inner, self._kill, self._points = inner, kill, points

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        if name not in self._points:
            return found

        @functools.wraps(found)
        async def passed(*args, **rest):
            self._kill(f"{self._points[name]} before")
            result = await found(*args, **rest)
            self._kill(f"{self._points[name]} after")
            return result

        return passed


class Service:
    """Counts what tools did, in a file of its own."""

    def __init__(self, folder):
        self.path = folder / "service.db"
        self.write(lambda database: database.executescript(SERVICE))
        self.http = effects_http.HttpService(self)

    def write(self, work):
        with contextlib.closing(sqlite3.connect(self.path, timeout=30, isolation_level=None)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = OFF")
            return work(database)

    def do(self, run, name, key=None):
        """Take effect; once for each key."""

        def work(database):
            database.execute("BEGIN IMMEDIATE")
            is_new = key is None or database.execute("INSERT OR IGNORE INTO keys VALUES (?)", (key,)).rowcount
            if is_new:
                database.execute("INSERT INTO effects (run, tool, key) VALUES (?, ?, ?)", (run, name, key))
            database.execute("COMMIT")

        self.write(work)

    def did(self, run, name):
        return self.write(
            lambda d: d.execute("SELECT count(*) FROM effects WHERE run = ? AND tool = ?", (run, name)).fetchone()[0]
        )


WORD = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}


def tools(service, run, kill):
    """The tools that change something: each way in which one can end badly."""

    def act(name, key=None):
        kill("tool before")
        service.do(run, name, key)
        kill("tool after")
        return f"{name} done"

    @tool
    async def pay(amount: int, note: str = "") -> str:
        """Pay; the service takes no key."""
        return act("pay")

    @tool(honours_key=True)
    async def pay_with_key(amount: int, context: ToolContext, note: str = "") -> str:
        """Pay; the service does it once for each key."""
        return act("pay_with_key", context.key)

    @tool(verify="was_paid")
    async def pay_and_ask(amount: int, note: str = "") -> str:
        """Pay; the service can be asked."""
        return act("pay_and_ask")

    @tool(effect="read")
    async def was_paid() -> dict:
        """Say whether pay_and_ask has taken effect."""
        return {"done": service.did(run, "pay_and_ask") > 0, "result": "pay_and_ask done"}

    @tool(timeout_ms=5)
    def pay_late(amount: int, note: str = "") -> str:
        """Pay, in a thread that answers when nobody waits any more."""
        time.sleep(0.01)
        return act("pay_late")

    @tool
    async def pay_or_die(amount: int, note: str = "") -> str:
        """Pay, and lose the connection."""
        act("pay_or_die")
        raise EffectUnknownError("the connection was lost")

    @tool(effect="read")
    async def look(what: str) -> str:
        """Look something up."""
        return f"seen {what}"

    @tool(effect="read")
    async def look_and_ask(what: str, context: ToolContext) -> str:
        """Ask a person about something."""
        reply = await context.ask(f"What of {what}?", WORD)
        return f"{reply.action} {dict(reply.content)}"

    def asking(name, **declared):
        @tool(name=name, **declared)
        async def pay_asking(amount: int, context: ToolContext, note: str = "") -> str:
            """Pay, from the account that a person names."""
            if declared.get("asks_first") and (await context.ask("Which account?", WORD)).action != "accept":
                return "not paid"
            return act(name)

        return pay_asking

    asking_tools = (
        *(asking(name, approve=True) for name in ("pay_approved", "pay_rejected")),
        asking("pay_first", asks_first=True),
        asking("pay_first_approved", asks_first=True, approve=True),
        asking("pay_as_told"),
        look_and_ask,
    )
    return (pay, pay_with_key, pay_and_ask, was_paid, pay_late, pay_or_die, look, *asking_tools)


def model(run, kind, kill, kept, service):
    """A model that never says the same twice: it looks, pays, and answers."""
    chance = random.Random()

    def reply(messages, options):
        since = next(i for i, message in enumerate(reversed(messages)) if message.role == "user")
        position = sum(message.role == "assistant" for message in messages[len(messages) - since :])
        ((recorded,),) = kept.ask(
            "SELECT count(*) FROM journal_entries JOIN journal_turns ON turn = id "
            "WHERE conversation = ? AND kind = 'answer'",
            run,
        )
        if recorded > position:
            service.write(lambda d: d.execute("INSERT INTO paid_again VALUES (?, ?)", (run, position)))
        kill("model before")
        words = secrets.token_hex(4)
        amount = chance.choice((5, 5, 7, 9))
        pay = (
            kind.partition(",")[0],
            {"amount": amount, "note": words} if chance.random() < 0.5 else {"amount": amount},
        )
        look = ("look_and_ask" if pay[0] == "pay_as_told" else "look", {"what": words})
        both = [pay, look] if chance.random() < 0.5 else [look, pay]
        answers = [calls(look), calls(*both), says(f"Done, {words}.")]
        kill("model after")
        return answers[min(position, 2)]

    return ScriptedProvider([reply], repeat=True)


def is_claimed(kept, run):
    """Return whether a tool of the run may have acted: before that, a declaration alone decides."""
    statement = "SELECT count(*) FROM effects WHERE coalesce(conversation, place) IN (?, ?) AND owner <> ''"
    ((count,),) = kept.ask(statement, run, f"key:{run}")
    return count > 0


def as_read(service, run, kill, name):
    """Return a tool of this name, given in code, which a program may have put in place of another source's."""

    @tool(name=name, effect="read")
    async def pay(amount: int, note: str = "") -> str:
        """Pay."""
        kill("tool before")
        service.do(run, name)
        return f"{name} done"

    return pay


def declarations(kind, may_move):
    """Return the declarations that a configuration changed between kill and resumption may have, by name."""
    name = TOOLS.get(kind, kind.partition(",")[0])
    plain = {
        "reads": {"effect": "read", "honours_key": False},
        "is idempotent": {"effect": "idempotent", "honours_key": False},
        "honours keys": {"honours_key": True},
    }
    registry = {f"registry: {each}": {"registry": {"name": name, **changes}} for each, changes in plain.items()}
    in_code = {"given in code": {"in_code": name}}
    if kind.startswith("http"):
        kinds, moves = {f"entry: {each}": {"entry": changes} for each, changes in plain.items()}, in_code
        kinds |= {
            "entry: a header for keys": {"header": "Idempotency-Key"},
            "entry: no header for keys": {"header": ""},
        }
    elif kind.startswith("mcp"):
        kinds, moves = {**registry, **effects_mcp.declarations()}, {**effects_mcp.moves(), **in_code}
    else:
        kinds = {f"tool: {each}": {"tool": {"verify": None, **changes}} for each, changes in plain.items()}
        kinds, moves = kinds if name == "pay_and_ask" else {**kinds, **registry}, {}  # an entry cannot unset verify
    return {**kinds, **moves} if may_move else kinds


def chat_of(folder, kept, service, run, kind, kill):
    """The chat of one process, which tells its owners' ids to whoever buries it."""
    change = {}
    if not run.startswith("warm-up") and is_claimed(kept, run) and random.random() < CHANGES:
        name, change = random.choice([*declarations(kind, kill.may_move).items()])
        service.write(lambda d: d.execute("INSERT INTO redeclared VALUES (?, ?)", (run, name)))
    config = {
        "llms": {"bot": {"provider": "scripted"}},
        "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}],
        "tools": {},
        "questions": {"expires": "7d"},
        "limits": {"question_timeout_ms": 50},
    }
    given = tools(service, run, kill)
    if kind.startswith("http"):
        config["tools"]["registry"] = effects_http.tools_of(service.http.url, run, kind.partition(",")[0], change)
        config["network"] = {"allow": ["127.0.0.1"]}
        effects_http.watch_requests(kill)
    if kind.startswith("mcp") and "in_code" not in change:
        tables, lock, allowed = effects_mcp.tables_of(folder, service.path, run, kind, change)
        config["tools"] |= {"mcp": tables, "lock": str(folder / lock)}
        config["responses"][0]["tools"]["allowed_tools"] = [f"{allowed}/*", "look"]
        effects_mcp.watch_calls(kill)
    if "registry" in change:
        config["tools"]["registry"] = [change["registry"]]
    if "tool" in change:
        given = [
            attrs.evolve(made.definition, **change["tool"]) if made.definition.effect == "write" else made
            for made in given
        ]
    if "in_code" in change:
        given = (*given, as_read(service, run, kill, change["in_code"]))
    store = kept.store()
    answers = model(run, kind, kill, kept, service)
    chat = FlexChat.from_config(config, tools=given, providers={"bot": answers}, plugins=PLUGINS)
    chat.keep_in(store)
    keeper = chat._engine.recorder
    owners = chat.tools.effects.owner, keeper._lease.owner
    record = folder / "owners" / f"{os.getpid()}"
    record.with_suffix(".new").write_text(json.dumps(owners))
    record.with_suffix(".new").rename(record)  # whole or not at all: it may be killed here, too
    chat.tools.effects.ledger = Watched(
        chat.tools.effects.ledger, kill, claim="claim", remember="remember", finish="finish", release="release"
    )
    steps = {name: name for name in ("write", "bind", "suspend", "answer", "acquire")}
    keeper.journal = Watched(keeper.journal, kill, **steps, use_approval="use")
    chat.tools.effects.questions = keeper.journal
    keeper.watch(chat._engine.parts.questions)
    keeper.store = Watched(store, kill, append="append")
    return chat, store


async def attempt(folder, kept, service, run, kind, kill):
    """Run a turn, take it up, or make a call by hand; in a process of its own."""
    set_clock(kill.clock)
    chat, store = chat_of(folder, kept, service, run, kind, kill)
    live = {"on_question": wait_for_answer} if kind.startswith(ASKING) and random.random() < 0.5 else {}
    with contextlib.suppress(FlexChatError):
        if (asked := await open_questions(store, run)) and random.random() < 0.8:
            await reply_to(random.choice(asked), chat, kind)
        elif kind.startswith("by hand"):
            await chat.call_tool(TOOLS[kind], {"amount": 5}, idempotency_key=run)
        elif "twice" in kind:
            try:
                await chat.respond("Pay, please.", conversation=run, idempotency_key=run, **live)
            except StuckTurnError as stuck:  # its processes were killed too often: a person takes it up
                await chat.resume(stuck.id)
        elif waiting := await store.journal.list(tenant="default", conversation=run):
            await chat.resume(waiting[0].id, **live)
        else:
            await chat.respond("Pay, please.", conversation=run, **live)
    await asyncio.sleep(0.02 if kind.startswith("pay_late") else 0)
    await chat.aclose()
    await store.aclose()


async def open_questions(store, run):
    """Return the open questions of a run's turn."""
    return await store.journal.questions(tenant="default", states=["open"], conversation=run)


async def reply_to(asked, chat, kind):
    """Reply to a question, perhaps as another process does at the same time, and let its turn go on here."""
    is_yes = not (asked.question.digest and kind.startswith("pay_rejected"))
    content = {"word": secrets.token_hex(4)} if is_yes and not asked.question.digest else {}
    reply = Reply(action="accept" if is_yes else "decline", content=content)
    handle = await chat.answer(asked.id, reply, by=f"{os.getpid()}", resume=random.random() < 0.8)
    if handle is not None:
        await handle.result()


def set_clock(seconds):
    """Set this process's clock forward, or back: what it writes, and what it takes for old, follows that."""

    class Set(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.datetime.now(tz) + datetime.timedelta(seconds=seconds)

    for name, module in list(sys.modules.items()):
        # A class that an earlier call has set here is replaced too: the process that others are forked from sets 0.
        kind = getattr(module, "datetime", None)
        if name.startswith("flexchat") and isinstance(kind, type) and issubclass(kind, datetime.datetime):
            module.datetime = Set
    time.time = lambda: REAL_TIME() + seconds


def forked(work):
    """Run work in a process of its own, and return its id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        asyncio.run(work())
        status = 0
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(status)


def bury(folder, kept):
    """Wait for the end of any process, and end its leases at once. Return its id, and whether it was killed."""
    child, status = os.wait()
    was_killed = os.WIFSIGNALED(status)
    record = folder / "owners" / str(child)
    if record.exists():
        for owner in json.loads(record.read_text()):
            kept.ask("DELETE FROM owners WHERE owner = ?", owner)
    record.unlink(missing_ok=True)
    if not was_killed and os.WEXITSTATUS(status):
        sys.exit("a process of the driver failed")
    return child, was_killed


def one(folder, kept, service, run, chance, only):
    """Make one run to its end; return its kind, and where it was killed."""
    kind, kills = chance.choice([kind for kind in KINDS if kind.startswith(only)]), []
    for trial in range(12 if kind.startswith(ASKING) else 6):
        together = 2 if kind not in TURNS or states_of(kept, run) else 1
        children = []
        for _ in range(together):
            point = chance.choice((*POINTS, "at random", "not at all")) if trial < 4 else "not at all"
            kill = Killer(point, chance.choice((1, 1, 2, 3)), clock=chance.choice(CLOCKS), may_move=trial < 4)
            children.append((forked(lambda kill=kill: attempt(folder, kept, service, run, kind, kill)), point))
        for child, point in children:
            if point == "at random":
                time.sleep(chance.random() * 0.04)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        restarted = kept.restart(chance) if trial < 3 and chance.random() < RESTARTS else None
        ended = dict(bury(folder, kept) for _ in children)
        killed = [point for child, point in children if ended[child]]
        kills += killed + ([f"server: {restarted}"] if restarted else [])
        states = states_of(kept, run)
        if not killed and (kind.startswith("by hand") or (states and not {"running", "suspended"} & {*states})):
            break
    return kind, kills


def states_of(kept, run):
    """Return the states of a run's turn: none before it has begun."""
    return [state for (state,) in kept.ask("SELECT state FROM journal_turns WHERE conversation = ?", run)]


def verdict(kept, service):
    """Compare what the service counted with the ledger; return the counts, also by kind of tool, and the faults."""
    runs = service.write(lambda d: d.execute("SELECT run, kind, kills FROM runs WHERE ended = 1").fetchall())
    did = dict(service.write(lambda d: d.execute("SELECT run, count(*) FROM effects GROUP BY run").fetchall()))
    (again,) = service.write(lambda d: d.execute("SELECT count(*) FROM paid_again").fetchone())
    rows = kept.ask("SELECT coalesce(conversation, place), state FROM effects")
    with_handle = "SELECT state, count(*) FROM effects WHERE handle IS NOT NULL AND {} GROUP BY state"
    asked_after = dict(kept.ask(with_handle.format("fence > 1"))).get("done", 0)
    given_up = dict(kept.ask(with_handle.format("fence > 0"))).get("unknown", 0)
    turns = dict(kept.ask("SELECT conversation, count(*) FROM journal_turns GROUP BY conversation"))
    unended = "SELECT conversation FROM journal_turns WHERE state IN ('running', 'suspended')"
    unended = {run for (run,) in kept.ask(unended)}
    lost = {
        run
        for run, id, turn in kept.ask(f"SELECT conversation, id, turn FROM questions WHERE {NEEDED}")
        if not any(f'"{id}"' in text for (text,) in kept.ask(REPLIES, turn))
    }
    unended &= {run for run, _, _ in runs}  # the run in which the driver was stopped has left one
    states = {}
    for run, state in rows:
        states.setdefault(run.removeprefix("key:"), []).append("unknown" if state == "claimed" else state)
    redeclared = {run for (run,) in service.write(lambda d: d.execute("SELECT run FROM redeclared").fetchall())}
    table, wrong = {}, []
    for run, kind, kills in runs:
        happened, known = did.get(run, 0), states.get(run, [])
        tool_kind = next((each for each in ("http", "mcp", "by hand", *ASKING) if kind.startswith(each)), "python")
        tool_kind = "approvals and questions" if tool_kind in ASKING else tool_kind
        counts = table.setdefault(tool_kind, dict.fromkeys(COLUMNS, 0))
        counts["runs"] += 1
        counts["killed"] += bool(json.loads(kills))
        counts["redeclared"] += run in redeclared
        counts["effects"] += happened
        counts["doubled"] += happened > 1
        counts["done"] += known.count("done")
        counts["unknown"] += known.count("unknown")
        counts["unknown that happened"] += "unknown" in known and bool(happened)
        about = f"{run} ({kind}, killed at {kills}{', redeclared' if run in redeclared else ''})"
        if "twice" in kind and turns[run] > 1:
            wrong.append(f"{about}: {turns[run]} turns of one key")
        if kind.startswith("pay_rejected") and happened:
            wrong.append(f"{about}: it was rejected, and happened")
        if kind.startswith(ASKING) and not kind.startswith("pay_rejected") and not (happened or "unknown" in known):
            wrong.append(f"{about}: it was approved, and did not happen; the ledger has {known}")
        if run in lost:
            wrong.append(f"{about}: a reply is lost")
        if happened > 1:
            wrong.append(f"{about}: {happened} effects")
        if happened and "done" not in known and "unknown" not in known:
            wrong.append(f"{about}: the effect is lost, the ledger says {known}")
        if not happened and "done" in known:
            wrong.append(f"{about}: done, and nothing happened")
        is_asking = kind.startswith(("pay_first", "pay_as_told"))  # the second pays while another call asks
        window = {*IN_THE_WINDOW, *(AROUND_A_QUESTION if is_asking else ())}
        if "unknown" in known and not {*json.loads(kills), kind.partition(",")[0]} & window:
            wrong.append(f"{about}: unknown outside of the window")
    counts = {name: sum(each[name] for each in table.values()) for name in COLUMNS}
    counts["done by polling a task"], counts["unknown in spite of a task"] = asked_after, given_up
    if again:
        wrong.append(f"{again} recorded answers were paid for again")
    if unended:
        wrong.append(f"turns have not ended: {', '.join(sorted(unended))}")
    return counts, table, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after the run that ends after these")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--continue", dest="folder", type=Path, help="the folder of a run that was stopped")
    parser.add_argument("--only", default="", help="kinds of tools that begin so: mcp")
    parser.add_argument("--break", dest="broken", choices=BREAKS, help="break the order on purpose")
    parser.add_argument("--store", choices=STORES, default="sqlite", help="where conversations and effects are kept")
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp(prefix="flexchat-effects-"))
    (folder / "owners").mkdir(exist_ok=True)
    service, kept = Service(folder), STORES[args.store](folder)
    try:
        return drive(args, folder, kept, service)
    finally:
        service.http.close()
        kept.close()


def drive(args, folder, kept, service):
    """Make the runs, and say what came of them."""
    if args.broken:
        break_order(args.broken)
    for kind in ("pay", "http_pay", *effects_mcp.TURNS):  # imports what the forked processes need
        asyncio.run(attempt(folder, kept, service, f"warm-up-{kind}", kind, Killer("", 0)))
    made = service.write(lambda d: d.execute("SELECT count(*) FROM runs").fetchone()[0])
    chance = random.Random(args.seed)
    started = time.monotonic()
    print(f"{folder}: {made} of {args.runs} runs were made before", flush=True)
    for number in range(made, args.runs):
        run = secrets.token_hex(8)
        kind, kills = one(folder, kept, service, run, chance, args.only)
        row = run, kind, json.dumps(kills)
        service.write(lambda d, row=row: d.execute("INSERT INTO runs VALUES (?, ?, ?, 1)", row))
        if (number + 1) % 500 == 0:
            print(f"{number + 1} runs, {time.monotonic() - started:.0f} s", flush=True)
        if time.monotonic() - started > 60 * args.minutes:
            break
        if args.broken and number % 20 == 19 and verdict(kept, service)[2]:
            break
    counts, table, wrong = verdict(kept, service)
    for name, count in counts.items():
        print(f"{name + ':':30}{count:,}")
    for tool_kind, row in sorted(table.items()):
        print(f"{args.store}, {tool_kind}: " + ", ".join(f"{count:,} {name}" for name, count in row.items()))
    for text in wrong[:20]:
        print(text)
    print(f"{len(wrong)} broken promises in {time.monotonic() - started:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
