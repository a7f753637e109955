"""Let processes, deaths, clocks and people meet in every order: no effect happens twice, and none is lost.

    python benchmarks/effects_schedules.py --schedules 100000 [--seed N] [--store memory|sqlite]
    python benchmarks/effects_schedules.py --break claim       break the order on purpose: see that it is noticed

A state machine of hypothesis over whole turns and calls by hand, with the real journal and ledger. Several processes
share one store; each stops at every write and at every effect until the machine lets it go on, kills it there, or
leaves it frozen while the others' clocks run on and its leases end. The model writes something else each time it is
asked. What the tools did is counted apart from the ledger; the promise is checked after every step, and once more
after everybody has come to an end. Time is simulated, so nothing waits.

With --store memory, calls by hand in one process: its ledger is all there is.
"""

import argparse
import asyncio
import collections
import contextlib
import functools
import random
import sys
import tempfile
import time
from pathlib import Path

import hypothesis
from effects_broken import break_order
from flexchat import EffectUnknownError, FlexChat, FlexChatError, ToolContext, tool
from flexchat.assembly import installed_plugins
from flexchat.calls.effects import Effects
from flexchat.conversations import effect_rows
from flexchat.conversations.memory_ledger import MemoryLedger
from flexchat.turn.keyed import KeyMemory
from flexchat_sqlite import conversations as sqlite_store
from flexchat_sqlite.database import Database
from flexchat_testing import ScriptedProvider, calls, says
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

CONVERSATIONS, KEYS = ("c1", "c2"), ("k1", "k2")
REQUESTS = {"first": "c1", "second": "c1", "third": "c2"}
"""What callers ask for, each under its key and in its conversation: as often as they like."""
KINDS = ("pay", "pay_with_key", "pay_and_ask", "pay_or_die")
LEASE_S = 30.0
MAX_PROCESSES = 8

PLUGINS = installed_plugins()


class Clock:
    """The time of the simulated machine, in seconds since it was started."""

    now = 1000.0


class Dead(BaseException):
    """Raised in a killed process wherever it tries to do something that others could see."""


class AtOnce(Database):
    """A database whose work is done in the calling thread: nothing happens at the same time as anything else."""

    async def _run(self, threads, work):
        return work()

    def _submit(self, threads, work):
        from concurrent.futures import Future

        done = Future()
        done.set_result(work())
        return done


class Service:
    """Counts what tools did; takes effect once for each key where it is given one."""

    def __init__(self):
        self.effects = []  # (what it stands for, key)

    def do(self, stands_for, key, *, honours_key):
        if not (honours_key and (stands_for, key) in self.effects):
            self.effects.append((stands_for, key))

    def did(self, key):
        return any(key == known for _, known in self.effects)


class Process:
    """A process that runs a turn, takes one up, or makes a call by hand, and stops at each gate.

    Attributes:
        gates: Where it stands: the names of what it is about to do, each with the future that lets it.
    """

    def __init__(self):
        self.chat = FlexChat.from_config(
            {
                "llms": {"bot": {"provider": "scripted"}},
                "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}],
                "tools": {"effects": {"lease_s": LEASE_S}},
                "limits": {"turn_timeout_ms": 1_000_000_000},
            },
            tools=self.tools(),
            providers={"bot": ScriptedProvider([self.reply], repeat=True)},
            plugins=PLUGINS,
        )
        self.effects = self.chat.tools.effects

    def begin(self, world, kind, conversation, work):
        """Be a new process, which nobody has heard of yet."""
        self.world, self.kind, self.conversation = world, kind, conversation
        self.is_dead = self.is_frozen = self.was_slow = False
        self.gates = []
        self.effects._begin()
        self.chat.keys = KeyMemory()
        self.effects._lease._thread = self  # the machine renews leases, not threads
        self.keeper = None
        if world.store is not None:
            self.chat.keep_in(world.store)
            self.keeper = self.chat._engine.recorder
            self.keeper._lease._thread = self
            self.keeper.journal = Gated(world.store.journal, self, "bind", "write", "acquire", "release")
            self.keeper.store = Gated(world.store, self, "append")
        self.effects.ledger = Gated(world.ledger, self, "claim", "finish", "release")
        self.task = world.loop.create_task(self.run(work))

    async def run(self, work):
        with contextlib.suppress(FlexChatError, Dead, BaseExceptionGroup):
            await work(self)

    async def gate(self, name):
        """Stop until the machine lets this process go on, or kills it."""
        if self.is_dead:
            raise Dead
        if name == "tool before" and self.kind == "pay_and_ask":
            self.is_frozen = False  # what nobody can promise: verify is asked while a frozen process is about to act
        opening = self.world.loop.create_future()
        self.gates.append((name, opening))
        await opening

    def go_on(self):
        _, opening = self.gates.pop(0)
        if not opening.done():
            opening.set_result(None)

    def kill(self):
        self.is_dead = True
        for _, opening in self.gates:
            if not opening.done():
                opening.set_exception(Dead())
        self.gates.clear()

    def renew(self):
        """Do what its threads do while its event loop may be standing still."""
        if self.keeper is not None:
            self.keeper.journal.renew(self.keeper._lease.owner, LEASE_S)
        self.effects.ledger.renew(self.effects.owner, LEASE_S)
        self.effects._lease.extend(Clock.now)

    def tools(self):
        async def act(context, honours_key=False):
            await self.gate("tool before")
            stands_for = self.world.request_of(context.turn_id) if context.turn_id else context.key
            self.world.service.do(stands_for, context.key, honours_key=honours_key)
            self.world.began[context.key] = self
            await self.gate("tool after")
            return "done"

        @tool
        async def pay(amount: int, context: ToolContext, note: str = "") -> str:
            """Pay; the service takes no key."""
            return await act(context)

        @tool(honours_key=True)
        async def pay_with_key(amount: int, context: ToolContext, note: str = "") -> str:
            """Pay; the service does it once for each key."""
            return await act(context, honours_key=True)

        @tool(verify="was_paid")
        async def pay_and_ask(amount: int, context: ToolContext, note: str = "") -> str:
            """Pay; the service can be asked."""
            return await act(context)

        @tool(effect="read")
        async def was_paid(key: str) -> dict:
            """Say whether pay_and_ask has taken effect."""
            return {"done": self.world.service.did(key)}

        @tool
        async def pay_or_die(amount: int, context: ToolContext, note: str = "") -> str:
            """Pay, and lose the connection."""
            await act(context)
            raise EffectUnknownError("the connection was lost")

        @tool(effect="read")
        async def look(what: str) -> str:
            """Look something up."""
            return f"seen {what}"

        return pay, pay_with_key, pay_and_ask, was_paid, pay_or_die, look

    async def reply(self, messages, options):
        """Answer as a model that never says the same twice: it looks, pays, and answers."""
        since = next(i for i, message in enumerate(reversed(messages)) if message.role == "user")
        position = sum(message.role == "assistant" for message in messages[len(messages) - since :])
        await self.gate("model")
        self.world.asked(self, position)
        chance = self.world.chance
        words = f"{chance.random():.9f}"
        amount = chance.choice((5, 5, 7, 9))
        pay = (self.kind, {"amount": amount, "note": words} if chance.random() < 0.5 else {"amount": amount})
        look = ("look", {"what": words})
        both = [pay, look] if chance.random() < 0.5 else [look, pay]
        said = [message for message in messages[len(messages) - since :] if message.role == "assistant"]
        if any(call.name.startswith("pay") for message in said for call in message.tool_calls):
            return says(f"Done, {words}.")
        return calls(look) if position == 0 and chance.random() < 0.3 else calls(*both)


class Gated:
    """Something whose named methods pass a gate before and after they do their work."""

    def __init__(self, inner, process, *names):
        self._inner, self._process, self._names = inner, process, names

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        if name not in self._names:
            return found

        @functools.wraps(found)
        async def passed(*args, **rest):
            await self._process.gate(f"{name} before")
            result = await found(*args, **rest)
            await self._process.gate(f"{name} after")
            return result

        return passed


class World:
    """A store, a service, and the processes that use them."""

    def __init__(self, store, seed):
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda loop, context: None)
        self.chance = random.Random(seed)
        self.store, self.ledger = store, MemoryLedger() if store is None else store.ledger()
        self.service, self.processes = Service(), []
        self.began = {}  # the last process whose tool began, by key
        self.asked_for, self.paid_again = set(), []
        if store is not None:
            store.database.write_blocking(_emptied)

    def request_of(self, turn):
        """Return the key of the request that a turn answers."""
        [(key,)] = self.read("SELECT key FROM journal_turns WHERE id = ?", turn)
        return key

    def read(self, statement, *values):
        return self.store.database.read_blocking(lambda d: d.execute(statement, values).fetchall())

    def asked(self, process, position):
        """Note whether the model is asked for an answer that the journal has."""
        [(recorded,)] = self.read(
            "SELECT count(*) FROM journal_entries JOIN journal_turns ON turn = id "
            "WHERE owner = ? AND state = 'running' AND kind = 'answer'",
            process.keeper._lease.owner,
        )
        if recorded > position:
            self.paid_again.append((process.conversation, position))

    def settle_down(self):
        """Let everybody run until each stands at a gate, sleeps, or has ended."""

        async def idle():
            while True:
                await asyncio.sleep(0)
                if not self.loop._ready:
                    return

        self.loop.run_until_complete(idle())

    def add(self, kind, work, conversation=None):
        number = len(self.processes)
        if number == len(POOL):
            POOL.append(Process())
        self.processes.append(POOL[number])
        POOL[number].begin(self, kind, conversation, work)
        self.settle_down()

    def pass_time(self, seconds):
        """Let time pass; whoever is neither dead nor frozen renews its leases meanwhile."""
        for process in self.processes:
            process.was_slow |= bool(process.gates) and process.gates[0][0].startswith("tool")
        for _ in range(int(seconds // 10) or 1):
            Clock.now += min(seconds, 10)
            for process in self.processes:
                if not process.is_dead and not process.is_frozen and not process.task.done():
                    process.renew()
        self.settle_down()

    def effects(self):
        return self.loop.run_until_complete(self.ledger.list(tenant="default", limit=1000))

    def close(self):
        for process in self.processes:
            process.kill()
        self.settle_down()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.settle_down()
        self.loop.close()


def _emptied(database):
    for table in (
        "turn_keys",
        "journal_events",
        "journal_entries",
        "journal_turns",
        "effects",
        "owners",
        "turns",
        "conversations",
    ):
        database.execute(f"DELETE FROM {table}")


COUNTS = collections.Counter()
"""What has happened in all schedules: a run in which nothing did proves nothing."""

POOL = []
"""Chats are made once, and are new processes in each schedule."""


class Schedules(RuleBasedStateMachine):
    """See the text at the top of this file."""

    store = None

    def __init__(self):
        super().__init__()
        Clock.now = 1000.0
        self.world = None

    @precondition(lambda self: self.world is None)
    @rule(seed=st.integers(0, 2**32))
    def start(self, seed):
        self.world = World(self.store, seed)

    def teardown(self):
        if self.world is None:
            return
        try:
            self.finish_all()
        finally:
            self.world.close()

    def may_start(self):
        return self.world is not None and len(self.world.processes) < MAX_PROCESSES

    @precondition(lambda self: self.may_start() and self.store is not None)
    @rule(request=st.sampled_from([*REQUESTS]), kind=st.sampled_from(KINDS))
    def ask(self, request, kind):
        """A process gets a request, perhaps not the first to get it; an interrupted turn before it is closed."""
        conversation = REQUESTS[request]
        COUNTS["requests repeated"] += request in self.world.asked_for
        self.world.asked_for.add(request)

        async def work(process):
            await process.chat.respond("Pay, please.", conversation=conversation, idempotency_key=request)

        self.world.add(kind, work, conversation=conversation)

    @precondition(lambda self: self.may_start() and self.store is not None and self.world.processes)
    @rule(conversation=st.sampled_from(CONVERSATIONS), kind=st.sampled_from(KINDS))
    def resume(self, conversation, kind):
        """A process takes up what another one left; two may try it at once."""
        self.world.add(kind, self.resuming(conversation), conversation=conversation)

    def resuming(self, conversation):
        async def work(process):
            for id in await process.keeper.journal.list_interrupted(conversation, tenant="default"):
                await process.chat.resume(id)

        return work

    @precondition(may_start)
    @rule(key=st.sampled_from(KEYS), kind=st.sampled_from(KINDS))
    def call_by_hand(self, key, kind):
        """A process is told, perhaps for the second time, to make a call under a key."""

        async def work(process):
            await process.chat.call_tool(kind, {"amount": 5}, idempotency_key=f"{kind} {key}")

        self.world.add(kind, work)

    def standing(self):
        return [] if self.world is None else [process for process in self.world.processes if process.gates]

    @precondition(standing)
    @rule(data=st.data(), steps=st.sampled_from([1, 1, 2, 3, 8]))
    def go_on(self, data, steps):
        process = data.draw(st.sampled_from(self.standing()), "process")
        for _ in range(steps):
            if process.gates:
                process.go_on()
                self.world.settle_down()

    @precondition(standing)
    @rule(data=st.data(), soon=st.booleans())
    def die(self, data, soon):
        """A process is killed where it stands; its leases end when their time is over, or are ended at once."""
        process = data.draw(st.sampled_from(self.standing()), "process")
        process.kill()
        COUNTS["deaths"] += 1
        self.world.settle_down()
        if soon:
            process.effects.ledger.renew(process.effects.owner, 0.0)
            if process.keeper is not None:
                process.keeper.journal.renew(process.keeper._lease.owner, 0.0)

    @precondition(standing)
    @rule(data=st.data())
    def freeze(self, data):
        """A process stands still, or goes on, as after a suspend; but see ``gate``."""
        process = data.draw(st.sampled_from(self.standing()), "process")
        acting = process.kind == "pay_and_ask" and process.gates[0][0] == "tool before"
        process.is_frozen = not process.is_frozen and not acting
        COUNTS["frozen"] += process.is_frozen
        process.was_slow |= process.is_frozen

    @precondition(lambda self: self.world is not None)
    @rule(seconds=st.sampled_from([0.1, 1, 20, 40]))
    def time_passes(self, seconds):
        self.world.pass_time(seconds)

    @precondition(lambda self: self.world is not None and self.world.processes)
    @rule()
    def people_settle(self):
        """A person finds out at the service what nobody here can know, once whoever did it is dead."""
        world = self.world
        for effect in world.effects():
            doer = world.began.get(effect.key)
            owner = next((p for p in world.processes if p.effects.owner == effect.owner), None)
            alive = any(p is not None and not p.is_dead and not p.task.done() for p in (doer, owner))
            if effect.state == "unknown" and not alive:
                state = "done" if world.service.did(effect.key) else "failed"
                COUNTS["settled"] += 1
                world.loop.run_until_complete(world.ledger.settle(effect.key, tenant="default", state=state, by="ann"))

    @invariant()
    def happens_at_most_once(self):
        if self.world is None:
            return
        done = [stands_for for stands_for, _ in self.world.service.effects]
        assert len(done) == len(set(done)), f"an effect happened twice: {done}"
        assert not self.world.paid_again, f"recorded answers were paid for again: {self.world.paid_again}"

    def finish_all(self):
        """Let everybody come to an end, take up what was left, and compare the service with the ledger."""
        world = self.world
        for process in world.processes:
            process.is_frozen = False
        self.run_out()
        if self.store is not None and world.processes:
            for conversation in CONVERSATIONS:
                world.add("pay", self.resuming(conversation), conversation=conversation)
            self.run_out()
            COUNTS["turns taken up"] += world.read("SELECT count(*) FROM journal_turns WHERE fence > 1")[0][0]
            COUNTS["turns"] += world.read("SELECT count(*) FROM journal_turns")[0][0]
            unended = world.read("SELECT id, state FROM journal_turns WHERE state = 'running'")
            assert not unended, f"turns have not ended: {unended}"
        self.happens_at_most_once()
        self.nothing_is_lost()

    def run_out(self):
        for _ in range(2000):
            standing = self.standing()
            if standing:
                standing[0].go_on()
                self.world.settle_down()
            elif all(process.is_dead or process.task.done() for process in self.world.processes):
                break
            else:
                self.world.pass_time(1)
        else:
            raise AssertionError(f"somebody waits for ever: {[p.task for p in self.world.processes]}")
        self.world.pass_time(40)

    def nothing_is_lost(self):
        world = self.world
        rows = {effect.key: effect for effect in world.effects()}
        happened = {key for _, key in world.service.effects}
        COUNTS["effects that happened"] += len(happened)
        for effect in rows.values():
            COUNTS[f"rows {effect.state}"] += 1
            COUNTS["take-overs"] += effect.fence - 1
        for key in happened:
            assert key in rows, f"an effect without a row: {key}"
            assert rows[key].state in ("done", "unknown"), f"an effect that happened is {rows[key]}"
        for key, effect in rows.items():
            if effect.state == "done":
                assert key in happened, f"done, and nothing happened: {effect}"
            if effect.state == "unknown" and effect.tool != "pay_or_die":
                owner = next(process for process in world.processes if process.effects.owner == effect.owner)
                assert owner.is_dead or owner.was_slow, f"unknown, and nobody died or was slow: {effect}"


def simulate_time():
    """Make all clocks that leases and deadlines use those of the simulated machine."""
    effect_rows._SINCE_BOOT = None
    time.monotonic = lambda: Clock.now
    sqlite_store.Database = AtOnce
    Effects._forget = _nothing


async def _nothing(self):
    self._forget_at = Clock.now + 1e9


def run(schedules, seed, store=None, *, steps=40):
    """Run so many schedules on a store; None for a ledger in memory.

    Raises:
        AssertionError: The promise is broken; hypothesis shows the schedule.
    """
    run_machine(Schedules, schedules, seed, store, steps=steps)


def run_machine(schedule, schedules, seed, store, *, steps, shrinks=True):
    """Run so many schedules of a state machine on a store. Raises AssertionError."""

    @hypothesis.seed(seed)
    class Machine(schedule):
        pass

    Machine.store = store
    run_state_machine_as_test(
        Machine,
        settings=hypothesis.settings(
            max_examples=schedules,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            print_blob=False,
            suppress_health_check=list(hypothesis.HealthCheck),
            phases=(hypothesis.Phase.generate, *([hypothesis.Phase.shrink] if shrinks else [])),
        ),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--break", dest="broken", choices=("claim", "finish"), help="break the order on purpose")
    parser.add_argument("--store", choices=("sqlite", "memory"), default="sqlite")
    args = parser.parse_args()
    simulate_time()
    if args.broken:
        break_order(args.broken)
    began, done = time.perf_counter(), 0
    print(f"seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        store = sqlite_store.SqliteConversations(Path(folder) / "kept.db") if args.store == "sqlite" else None
        while done < args.schedules:
            count = min(1000, args.schedules - done)
            run(count, args.seed + done, store)
            done += count
            print(f"{done} schedules, 0 broken promises, {time.perf_counter() - began:.0f} s", flush=True)
        print(", ".join(f"{count:,} {what}" for what, count in sorted(COUNTS.items())))
        if store is not None:
            store.database.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
