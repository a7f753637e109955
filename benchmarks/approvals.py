"""Let replies, deaths, clocks and edits meet in every order: nothing runs unapproved, and no reply is lost.

    python benchmarks/approvals.py --schedules 100000 [--seed N]
    python benchmarks/approvals.py --store postgresql --schedules 300
    python benchmarks/approvals.py --break use       break the order on purpose: see that it is noticed

A state machine of hypothesis over whole turns, with the real journal and ledger, as in effects_schedules.py: several
processes share one store; each stops at every write and at every effect until the machine lets it go on, kills it
there, or leaves it frozen while the others' clocks run on. The model asks for tools that need an approval, ask
themselves, or both. Meanwhile people reply: twice, late, from another tenant, to a question that does not exist, with
an answer that does not fit; to a process that goes on with the turn, or to one that only writes the reply. Turns are
cancelled, accepted, resumed twice and ended by new messages; conversations are deleted; the arguments in the journal
and the definitions of the tools change.

Each tool counts for itself: when it runs, it looks for the question that approves exactly this call with exactly these
arguments, has an accepting reply, is marked as used by this call, and has let nothing run before. At the end, every
reply that was acknowledged has to be in its row and in the journal of its turn, unless that ended otherwise.

A PostgreSQL server gets the simulated clock by a function clock_timestamp() that its own one stands behind, and one
connection serves all processes, so that a schedule can be repeated. Its journal is watched by looking every 0.1 s.
"""

import argparse
import asyncio
import collections
import contextlib
import functools
import json
import random
import sys
import tempfile
import time
from pathlib import Path

import effects_schedules as base
from flexchat import FlexChat, FlexChatError, Reply, ToolContext, tool
from flexchat.calls import steps
from flexchat.calls.effects import Effects
from flexchat.host import wait_for_answer
from flexchat.plugin.call import Call
from flexchat.turn import journal as turn_journal
from flexchat.turn import questions
from flexchat.turn.keyed import KeyMemory
from flexchat_approvals import policies
from flexchat_sqlite import conversations as sqlite_store
from flexchat_sqlite.journal import SqliteJournal
from flexchat_testing import ScriptedProvider, calls, says
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

TENANTS = ("default", "other")
CONVERSATIONS = ("c1", "c2")
TOOLS = ("pay", "pay_first", "pay_first_approved", "pay_asking", "fetch", "look", "look_asking")
APPROVED = {"pay", "pay_first_approved", "pay_asking", "fetch"}
WRITES = {"pay", "pay_first", "pay_first_approved", "pay_asking"}
VARIANTS = (
    *((0, "end", ""), (0, "end", ""), (1, "end", ""), (0, "queue", ""), (0, "reject", "")),
    *((0, "end", "always"), (0, "end", "always"), (0, "end", "once"), (0, "end", "once"), (1, "queue", "always")),
)
"""Of processes: the version of their tools, questions.new_message, and what their policies ask; without policies, the
tools themselves require approvals."""
OTHERS = (None, None, None, None, *VARIANTS)
"""Most processes of a schedule have the same configuration."""
EXPIRES_S = 90.0
MAX_PROCESSES = 10
ENDED = ("done", "failed", "cancelled")
FORGERIES = ("", "", "", "", "", "", "id", "tenant", "beginning", "content", "action")
SCHEMA = {"type": "object", "properties": {"account": {"type": "string"}}, "required": ["account"]}
EPOCH = 1_800_000_000.0
COUNTS = collections.Counter()
"""What has happened in all schedules: a run in which nothing did proves nothing."""
POOLS = {variant: [] for variant in VARIANTS}
"""Chats are made once, and are new processes in each schedule."""


class Process(base.Process):
    """A process that runs turns, replies, cancels, or looks for what can go on; it stops at each gate."""

    def __init__(self, version, new_message, asks):
        self.version, self.has_policies = version, bool(asks)
        policies = [{"tools": sorted(APPROVED), "ask": asks}] if asks else []
        self.chat = FlexChat.from_config(
            {
                "llms": {"bot": {"provider": "scripted"}},
                "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}],
                "tools": {"effects": {"lease_s": base.LEASE_S}},
                "limits": {"turn_timeout_ms": 60_000, "question_timeout_ms": 30_000},
                "questions": {"expires": f"{EXPIRES_S:.0f}s", "new_message": new_message},
                **({"approvals": policies} if policies else {}),
            },
            tools=self.tools(),
            providers={"bot": ScriptedProvider([self.reply], repeat=True)},
            plugins=base.PLUGINS,
        )
        self.effects = self.chat.tools.effects

    def __repr__(self):
        at = [name for name, _ in self.gates]
        return f"<process {self.number}, version {self.version}, policies: {self.has_policies}, at {at}>"

    def renew(self):
        """Renew its leases, by the time of the machine."""
        self.world.set_clock()
        super().renew()

    def begin(self, world, work, number):
        """Be a new process, of which nothing is known yet."""
        self.world, self.kind, self.number = world, "", number
        self.is_dead = self.is_frozen = self.was_slow = False
        self.gates = []
        self.effects._begin()
        self.chat.keys = KeyMemory()
        self.effects._lease._thread = self  # the machine renews leases, not threads
        self.chat.keep_in(world.store)
        self.keeper = self.chat._engine.recorder
        self.keeper._lease._thread = self
        journal = base.Gated(
            world.store.journal,
            self,
            *("bind", "write", "acquire", "release", "suspend", "answer", "use_approval"),
            *("request_cancel", "expire_questions"),
        )
        self.keeper.journal = self.effects.questions = journal
        self.keeper.watch(self.chat._engine.parts.questions)
        self.keeper.store = base.Gated(world.store, self, "append")
        self.effects.ledger = base.Gated(world.ledger, self, "claim", "finish", "release")
        self.task = world.loop.create_task(self.run(work))

    def tools(self):
        async def act(context, name, params):
            await self.gate("tool before")
            self.world.run_tool(self, context, name, params)
            await self.gate("tool after")
            return "done"

        async def ask(context, name, params):
            await self.gate("question before")
            reply = await context.ask(f"Which account for {params}?", SCHEMA)
            self.world.got_reply(context, reply)
            await self.gate("question after")
            return reply.action == "accept"

        def made(name, *, asks=False, **declared):
            async def call(amount: int, context: ToolContext, note: str = "") -> str:
                params = {"amount": amount, **({"note": note} if note else {})}
                if asks and not await ask(context, name, params):
                    return "no account was named"
                return await act(context, name, params)

            description = f"Do {name}{', in another way' * self.version}."
            approve = name in APPROVED and not self.has_policies
            return tool(name=name, description=description, approve=approve, **declared)(call)

        return (
            made("pay"),
            made("pay_first", asks=True, asks_first=True),
            made("pay_first_approved", asks=True, asks_first=True),
            made("pay_asking", asks=True),
            made("fetch", effect="read"),
            made("look", effect="read"),
            made("look_asking", asks=True, effect="read"),
        )

    async def reply(self, messages, options):
        """Answer as a model that never writes the same twice: it calls tools, and answers."""
        since = next(i for i, message in enumerate(reversed(messages)) if message.role == "user")
        position = sum(message.role == "assistant" for message in messages[len(messages) - since :])
        await self.gate("model")
        chance = self.world.chance
        if position >= chance.choice((1, 1, 2)):
            return says(f"Done, {chance.random():.9f}.")
        names = messages[len(messages) - since - 1].content.split()
        return calls(*((name, {"amount": chance.choice((5, 7))}) for name in names))


class World(base.World):
    """A store, the processes that use it, and what tools and people did."""

    def __init__(self, store, seed):
        super().__init__(store, seed)
        store.database.write_blocking(lambda database: database.execute("DELETE FROM questions"))
        self.set_clock()
        self.loop.run_until_complete(store.journal.list_commands(""))  # its connection is this loop's from now on
        self.home = self.chance.choice(VARIANTS)
        self.ran = []  # (turn, call, tool)
        self.used = {}  # what an approval let run, by the id of its question
        self.acknowledged = collections.defaultdict(list)
        self.faults, self.changed, self.deleted, self.ran_by_another = [], set(), set(), set()
        self.in_use = collections.Counter()

    def add(self, work, variant=None):
        variant = variant or self.home
        number, pool = self.in_use[variant], POOLS[variant]
        self.in_use[variant] += 1
        if number == len(pool):
            pool.append(Process(*variant))
        self.processes.append(pool[number])
        pool[number].begin(self, work, len(self.processes))
        self.settle_down()

    def set_clock(self):
        """Set the clock of the store's server, if it has one."""
        if isinstance(self.store.database, Server):
            self.store.database.set_clock(base.Clock.now)

    def settle_down(self):
        """Let everybody run until each stands at a gate, sleeps, or has ended, and the server has answered."""
        self.set_clock()
        super().settle_down()
        if isinstance(self.store.database, Server):
            while self.store.connections._slots.locked():
                self.loop.run_until_complete(asyncio.sleep(0))
                super().settle_down()

    def questions(self, condition="", *values):
        names = ("id", "tenant", "conversation", "turn", "state", "used_by", "digest", "question", "reply")
        names += ("replied_by", "remembered")
        rows = self.read(f"SELECT {', '.join(names)} FROM questions {condition}", *values)
        found = [dict(zip(names, row, strict=True)) for row in rows]
        for each in found:
            each["question"], each["reply"] = json.loads(each["question"]), json.loads(each["reply"] or "null")
        return found

    def run_tool(self, process, context, name, params):
        """Count a run of a tool, and look for what has approved it."""
        COUNTS[f"ran {name}"] += 1
        call = context.turn_id, context.call_id, name
        if name in WRITES and call in self.ran:
            self.faults.append(f"{call} happened twice")
        self.ran.append(call)
        if name not in APPROVED:
            return
        by = context.key or context.turn_id
        fits = [
            each["id"]
            for each in self.questions("WHERE turn = ? AND tenant = ?", context.turn_id, context.tenant)
            if each["digest"]
            and each["question"]["tool"] == name
            and each["question"]["call_id"] == context.call_id
            and each["question"]["details"]["arguments"] == params
            and each["reply"].get("content", {}).get("arguments", params) == params
            and each["state"] == "replied"
            and each["reply"]["action"] == "accept"
            and each["used_by"].split(" ")[0] == by
        ]
        unused = [id for id in fits if id not in self.used]
        if not unused and self.is_remembered(process, context, name, params):
            COUNTS["runs by a remembered reply"] += 1
            self.ran_by_another.add(context.call_id)
            for each in self.questions("WHERE turn = ? AND state = 'replied' AND digest != ''", context.turn_id):
                if each["question"]["call_id"] == context.call_id and each["reply"]["action"] == "decline":
                    self.faults.append(f"{call} with {params} ran, although it was rejected: {each}")
        elif not unused:
            of_tool = [each for each in self.questions() if each["question"]["tool"] == name]
            self.faults.append(
                f"{call} with {params} ran in {process} without an unused approval; used: {fits}; there are {of_tool}"
            )
        else:
            self.used[unused[-1]] = call

    def is_remembered(self, process, context, name, params):
        """Return whether a reply that counts again covers a call: one that has let its own call run."""
        for each in self.questions("WHERE tenant = ? AND remembered != '' AND used_by != ''", context.tenant):
            if each["question"]["tool"] != name or each["reply"]["action"] != "accept" or not process.has_policies:
                continue
            scope = each["reply"].get("remember", "")
            here = scope == "always" or each["conversation"] == context.conversation
            # Once its turn is deleted, such a row has no texts: its key stands for the arguments.
            same = scope == "" or each["question"].get("details", {}).get("arguments", params) == params
            if here and same:
                return True
        return False

    def got_reply(self, context, reply):
        """Check what a question of a tool returned: an answer that nobody gave is a fault."""
        COUNTS[f"questions of tools: {reply.action}"] += 1
        given = (
            each["reply"] is not None and each["reply"].get("content") == dict(reply.content)
            for each in self.questions("WHERE turn = ?", context.turn_id)
        )
        # The rows go with their conversation, while the call that read the reply may still run.
        if reply.action == "accept" and context.turn_id not in self.deleted and not any(given):
            self.faults.append(f"a tool got a reply that nobody gave: {reply}")

    def acknowledge(self, id, by, action, forgery):
        COUNTS["replies acknowledged"] += 1
        if forgery in ("id", "tenant", "content", "action"):
            self.faults.append(f"a reply with a forged {forgery} to {id} was acknowledged")
        self.acknowledged[id].append((by, action))
        if len(self.acknowledged[id]) > 1:
            self.faults.append(f"two replies to {id} were acknowledged: {self.acknowledged[id]}")

    def turns(self, *states):
        marks = ", ".join("?" * len(states))
        names = "id, tenant, conversation, state, error"
        return self.read(f"SELECT {names} FROM journal_turns WHERE state IN ({marks}) ORDER BY number", *states)


class Schedules(RuleBasedStateMachine):
    """See the text at the top of this file."""

    store = None

    def __init__(self):
        super().__init__()
        base.Clock.now = 1000.0
        self.world = None
        self.replies = 0

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

    def may_follow(self):
        return self.may_start() and bool(self.world.processes)

    @precondition(may_start)
    @rule(
        names=st.lists(st.sampled_from(TOOLS), min_size=1, max_size=3),
        conversation=st.sampled_from(CONVERSATIONS),
        tenant=st.sampled_from((TENANTS[0], TENANTS[0], TENANTS[1])),
        key=st.sampled_from((None, None, "k1", "k2")),
        variant=st.sampled_from(OTHERS),
        how=st.sampled_from(("ask", "ask", "ask", "live", "submit")),
    )
    def ask(self, names, conversation, tenant, key, variant, how):
        """A process gets a message, perhaps one that another has got before, or that follows a suspended turn."""

        async def work(process):
            options = {"conversation": conversation, "tenant": tenant}
            message = " ".join(names) if key is None else TOOLS[int(key[1])]
            options |= {} if key is None else {"idempotency_key": f"{key} {conversation}"}
            if how == "submit":
                await process.chat.submit(message, **options)
                COUNTS["turns submitted"] += 1
            else:
                asked = {"on_question": wait_for_answer} if how == "live" else {}
                turn = await process.chat.respond(message, **options, **asked)
                COUNTS[f"turns returned as {turn.status}"] += 1

        self.world.add(work, variant)

    @precondition(may_follow)
    @rule(data=st.data())
    def reply_to_the_newest(self, data):
        """Somebody replies to a question that has just been asked."""
        asked = self.world.questions("WHERE state = 'open' ORDER BY number DESC LIMIT 3")
        if asked:
            row = data.draw(st.sampled_from(asked), "question")
            self.send(row, "", data.draw(st.booleans(), "resume"), None)

    @precondition(may_follow)
    @rule(data=st.data(), forgery=st.sampled_from(FORGERIES), resume=st.booleans(), variant=st.sampled_from(OTHERS))
    def reply(self, data, forgery, resume, variant):
        """Somebody replies to a question, open or not, through any process."""
        asked = self.world.questions("ORDER BY state = 'open' DESC, number")
        if not asked:
            return
        chosen = data.draw(st.sampled_from([*range(min(len(asked), 3)), len(asked) - 1]), "question")
        yes = data.draw(st.sampled_from((True, True, True, False)), "yes")
        self.send(asked[chosen], forgery, resume, variant, yes=yes)

    def send(self, row, forgery, resume, variant, *, yes=True):
        self.replies += 1
        by, action = f"p{self.replies}", "accept" if yes else "decline"
        id, tenant, content = row["id"], row["tenant"], {"account": by}
        remember = self.world.chance.choice(("", "", *row["question"].get("remember", ())))
        if row["digest"]:
            is_edited = bool(row["question"].get("schema")) and self.world.chance.random() < 0.2
            content = {"arguments": {"amount": 6}} if is_edited else {}
            COUNTS["replies with other arguments"] += is_edited
        if forgery == "id":
            id = id[:-4] + "zzzz"
        elif forgery == "beginning":
            id = id[:20]
        elif forgery == "tenant":
            tenant = TENANTS[tenant == TENANTS[0]]
        elif forgery == "action":
            action = "approve"
        elif forgery == "content":
            if row["digest"]:
                return
            action, content = "accept", {"account": 5}

        async def work(process):
            reply = Reply(action=action, content=content if action == "accept" else {}, remember=remember)
            COUNTS["replies sent"] += 1
            handle = await process.chat.answer(id, reply, by=by, tenant=tenant, resume=resume)
            self.world.acknowledge(row["id"], by, action, forgery)
            if handle is not None:
                await handle.result()

        self.world.add(work, variant)

    @precondition(may_follow)
    @rule(variant=st.sampled_from(OTHERS))
    def look_around(self, variant):
        """A process takes up what can go on; two may try it at once."""

        async def work(process):
            for handle in await process.chat.resume_interrupted():
                with contextlib.suppress(FlexChatError):
                    await handle.result()

        self.world.add(work, variant)

    @precondition(may_follow)
    @rule(data=st.data())
    def resume(self, data):
        """A person resumes a turn, whatever its state."""
        turns = self.world.turns("running", "suspended", "accepted")
        if turns:
            id, tenant, *_ = data.draw(st.sampled_from(turns), "turn")
            self.world.add(lambda process: process.chat.resume(id, tenant=tenant))

    @precondition(may_follow)
    @rule(data=st.data())
    def cancel(self, data):
        """Somebody cancels a turn, through any process."""
        turns = self.world.turns("running", "suspended", "accepted")
        if turns:
            id, tenant, *_ = data.draw(st.sampled_from(turns), "turn")
            COUNTS["cancellations"] += 1
            self.world.add(lambda process: process.chat.cancel_turn(id, tenant=tenant, by="ann"))

    @precondition(may_follow)
    @rule(data=st.data())
    def delete(self, data):
        """A conversation is deleted, whatever happens in it."""
        found = self.world.read("SELECT tenant, id FROM conversations")
        if found and data.draw(st.sampled_from((True, False, False)), "really"):
            tenant, conversation = data.draw(st.sampled_from(found), "conversation")
            COUNTS["deletions"] += 1
            self.world.deleted |= {
                id
                for id, whose, where, *_ in self.world.turns("running", "interrupted", "suspended", "accepted", *ENDED)
                if (whose, where) == (tenant, conversation)
            }
            self.world.loop.run_until_complete(self.store.delete(conversation, tenant=tenant))

    @precondition(may_follow)
    @rule(data=st.data())
    def revoke(self, data):
        """A remembered reply is revoked."""
        found = self.world.questions("WHERE remembered != ''")
        if found:
            row = data.draw(st.sampled_from(found), "question")
            COUNTS["replies revoked"] += 1
            self.world.loop.run_until_complete(self.store.journal.revoke(row["id"], tenant=row["tenant"]))

    @precondition(may_follow)
    @rule(data=st.data())
    def change_arguments(self, data):
        """The arguments of the calls of a suspended turn are changed in its journal."""
        turns = self.world.turns("suspended")
        if not turns or data.draw(st.sampled_from((True, False)), "really"):
            return
        id = data.draw(st.sampled_from(turns), "turn")[0]
        for number, text in self.world.read(
            "SELECT number, data FROM journal_entries WHERE turn = ? AND kind = 'answer'", id
        ):
            changed = text.replace('"amount":5', '"amount":9999')
            if changed != text:
                self.world.changed.add(id)
                COUNTS["arguments changed"] += 1
                update = "UPDATE journal_entries SET data = ? WHERE turn = ? AND number = ?"
                self.store.database.write_blocking(functools.partial(_execute, update, (changed, id, number)))

    def standing(self):
        return [] if self.world is None else [process for process in self.world.processes if process.gates]

    @precondition(standing)
    @rule(data=st.data(), steps=st.sampled_from([1, 1, 2, 3, 8, 30]))
    def go_on(self, data, steps):
        process = data.draw(st.sampled_from(self.standing()), "process")
        for _ in range(steps):
            if process.gates:
                process.go_on()
                self.world.settle_down()

    @precondition(standing)
    @rule(steps=st.sampled_from([3, 12, 40]))
    def all_go_on(self, steps):
        for _ in range(steps):
            for process in self.standing():
                if process.gates and not process.is_frozen:
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
            process.keeper.journal.renew(process.keeper._lease.owner, 0.0)

    @precondition(standing)
    @rule(data=st.data())
    def freeze(self, data):
        """A process stands still, or goes on, as after a suspend of its machine."""
        process = data.draw(st.sampled_from(self.standing()), "process")
        process.is_frozen = not process.is_frozen
        COUNTS["frozen"] += process.is_frozen

    @precondition(lambda self: self.world is not None)
    @rule(seconds=st.sampled_from([0.2, 1, 20, 40, 100]))
    def time_passes(self, seconds):
        self.world.pass_time(seconds)

    @invariant()
    def nothing_runs_unapproved(self):
        if self.world is not None:
            assert not self.world.faults, self.world.faults

    def finish_all(self):
        """Let everybody come to an end, reply to what is open or let it expire, and compare what is left."""
        world = self.world
        for process in world.processes:
            process.is_frozen = False
        self.run_out()
        # Each round is enough for one question of one turn of a conversation, and both may have many.
        for number in range(100):
            if not world.turns("running", "suspended", "accepted"):
                break
            self.look_around_at_last()
            self.run_out()
            for id, tenant, conversation, state, error in world.turns("running", "suspended", "accepted"):
                if not conversation:
                    delete = "DELETE FROM journal_turns WHERE id = ?"
                    world.store.database.write_blocking(functools.partial(_execute, delete, (id,)))
                elif state != "suspended" and (error or number > 3):
                    world.add(lambda process, id=id, tenant=tenant: process.chat.resume(id, tenant=tenant))
            for row in world.questions("WHERE state = 'open'"):
                if world.chance.random() < 0.8 and number < 8:
                    self.send(row, "", world.chance.random() < 0.5, None, yes=world.chance.random() < 0.8)
            self.run_out()
            if number >= 8:
                world.pass_time(EXPIRES_S)
        left = world.turns("running", "suspended", "accepted")
        assert not left, f"turns have not ended: {left}"
        self.nothing_runs_unapproved()
        self.no_reply_is_lost()

    def look_around_at_last(self):
        async def work(process):
            for handle in await process.chat.resume_interrupted(most=8):
                with contextlib.suppress(FlexChatError):
                    await handle.result()

        self.world.add(work)

    def run_out(self):
        for number in range(4000):
            standing = self.standing()
            if standing:
                standing[0].go_on()
                self.world.settle_down()
                if number % 20 == 19:  # a turn whose cancellation is requested sees it after a moment
                    self.world.pass_time(1)
            elif all(process.is_dead or process.task.done() for process in self.world.processes):
                break
            else:
                self.world.pass_time(1)
        else:
            waiting = {p: where(p.task) for p in self.world.processes if not (p.is_dead or p.task.done())}
            raise AssertionError(f"somebody waits for ever: {waiting}")
        self.world.pass_time(40)

    def no_reply_is_lost(self):
        world = self.world
        rows = {each["id"]: each for each in world.questions()}
        states = {id: state for id, _, _, state, _ in world.turns(*ENDED)}
        noted = collections.defaultdict(list)
        for turn, text in world.read("SELECT turn, data FROM journal_entries WHERE kind = 'reply'"):
            data = json.loads(text)
            noted[data["id"]].append((turn, data["reply"]))
        records = world.read("SELECT data FROM journal_entries WHERE kind = 'tool'")
        results = {each["call_id"]: each["result"] for each in (json.loads(text)["record"] for (text,) in records)}
        for id, row in rows.items():
            COUNTS[f"questions {row['state']}"] += 1
            COUNTS["approvals used"] += bool(row["used_by"] and row["digest"])
            assert row["state"] != "open" or row["turn"] in world.deleted, f"its turn has ended: {row}"
            replies = [reply for _, reply in noted[id]]
            assert len(replies) <= 1, f"{id} was replied to in the journal {len(replies)} times: {replies}"
            if row["state"] == "replied" and replies:
                assert replies[0] == row["reply"], f"the turn got {replies[0]}, and the row has {row}"
            if id in world.used:
                assert row["used_by"], f"{row} let {world.used[id]} run, and is not used"
        for id, replies in world.acknowledged.items():
            row, [(by, action)] = rows.get(id), replies
            if row is None or row["turn"] in world.deleted:
                assert row is not None or any(world.deleted), f"{id} is gone"
                continue
            fits = row["state"] == "replied" and row["replied_by"] == by and row["reply"]["action"] == action
            assert fits, f"{by} replied {action}, and was acknowledged; now it is {row}"
            call = row["question"]["call_id"]
            # Rows that outlive their conversation have no texts.
            later = [each for each in rows.values() if each["question"].get("call_id") == call]
            error = str(results.get(call, {}).get("error"))
            if noted[id]:
                COUNTS["replies acted on"] += 1
                result = results.get(call)
                if action == "accept" and row["digest"] and not row["used_by"] and result and result["success"]:
                    is_edited = "arguments" in row["reply"].get("content", {})
                    by_another = call in world.ran_by_another  # then it is shown as unused
                    assert is_edited or by_another or len(later) > 1, (
                        f"it was approved, has run, and did not use {row}: {result}"
                    )
            elif action == "decline" and "rejected by" in error:
                COUNTS["replies acted on"] += 1
            elif "timed out" in error or "was not finished after" in error:
                COUNTS["replies to tools whose time was over"] += 1
            elif states.get(row["turn"]) in ("failed", "cancelled"):
                COUNTS["replies to turns that ended otherwise"] += 1
            elif call in world.ran_by_another:
                COUNTS["replies to calls that another reply had let run"] += 1
            elif len(later) > 1 or row["turn"] in world.changed:
                COUNTS["replies to calls that were changed"] += 1
            else:
                steps = world.read("SELECT kind, data FROM journal_entries WHERE turn = ? ORDER BY number", row["turn"])
                shown = "\n".join(f"{kind} {data[:700]}" for kind, data in steps)
                raise AssertionError(f"a reply is lost: {row}, its turn is {states.get(row['turn'])}:\n{shown}")


class Server:
    """A PostgreSQL server with the simulated clock; answers what the machine asks a SQLite file otherwise."""

    def __init__(self):
        sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "servers"))
        import postgres_server
        import psycopg
        from flexchat_postgresql.config import PostgresqlConfig
        from flexchat_postgresql.conversation_store import PostgresqlConversations

        self._server = postgres_server.Server(postgres_server.binaries(), fsync=False)
        dsn = self._server.dsn()
        self._connection, self._now = psycopg.connect(dsn, autocommit=True), 0.0
        self._connection.execute("""
            CREATE SCHEMA simulated; CREATE TABLE simulated.clock AS SELECT 0.0::double precision AS now;
            CREATE FUNCTION simulated.clock_timestamp() RETURNS timestamptz LANGUAGE sql
                AS 'SELECT to_timestamp(now) FROM simulated.clock';
            ALTER DATABASE postgres SET search_path TO simulated, pg_catalog""")
        self.store = PostgresqlConversations(PostgresqlConfig(dsn=dsn, pool_size=1))
        asyncio.run(self.store.connections.make_tables())
        self._connection.execute("SET search_path TO simulated, pg_catalog, flexchat")
        self.store.database, self.store.journal.watch = self, self._watch

    @staticmethod
    async def _watch():
        while True:
            yield ""
            await asyncio.sleep(0.1)

    def set_clock(self, now):
        if now != self._now:
            self._now = now
            self.execute("UPDATE simulated.clock SET now = ?", (now,))

    def execute(self, statement, values=()):
        return self._connection.execute(statement.replace("?", "%s"), values)

    def read_blocking(self, work):
        return work(self)

    write_blocking = read_blocking

    def close(self):
        self._connection.close()
        self._server.remove()


def _execute(statement, values, database):
    database.execute(statement, values)


def where(task):
    """Return where a task stands: the functions it awaits, from the outside in."""
    names, awaited = [], task.get_coro()
    while awaited is not None:
        names.append(getattr(awaited, "__qualname__", repr(awaited)))
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None)
    return " > ".join(names)


def simulate_time():
    """Make all clocks those of the simulated machine, the one for people included."""
    base.simulate_time()
    time.time = lambda: EPOCH + base.Clock.now
    for module in (questions, steps, policies):
        module.run_in_thread = at_once  # threads would run beside the machine


async def at_once(function, *args, **rest):
    """Call a function, as run_in_thread does, here."""
    return function(*args)


BREAKS = ("use", "digest", "suspend", "reply")


def break_order(what):
    """Change the order of things, to see that the machine notices."""
    if what == "use":  # an approval is not used up
        claim = Effects.claim

        async def unapproved(self, call, *, take_over=False, approval=None):
            return await claim(self, call, take_over=take_over)

        Effects.claim = unapproved
    elif what == "digest":  # an approval is for any arguments
        Call.approval_digest = lambda self, policy=None: f"{self.turn.id} {self.path}"
        turn_journal._place_of = lambda place, digest, question: (place, question.digest)
    elif what == "suspend":  # a reply that has come meanwhile is overlooked
        suspend = SqliteJournal.suspend

        async def always(self, turn, entries):
            done = await suspend(self, turn, entries)
            if not done:
                sql = "UPDATE journal_turns SET state = 'suspended', owner = '' WHERE id = ?"
                await self.database.write(lambda d: d.execute(sql, (turn.id,)))
            return True

        SqliteJournal.suspend = always
    else:  # the second reply counts as well
        answer = SqliteJournal.answer

        async def twice(self, id, *, tenant, reply, by):
            await self.database.write(lambda d: d.execute("UPDATE questions SET state = 'open' WHERE id = ?", (id,)))
            return await answer(self, id, tenant=tenant, reply=reply, by=by)

        SqliteJournal.answer = twice


def run(schedules, seed, store, *, steps=35, shrinks=True):
    """Run so many schedules on a store.

    Raises:
        AssertionError: The promise is broken; hypothesis shows the schedule.
    """
    base.run_machine(Schedules, schedules, seed, store, steps=steps, shrinks=shrinks)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--no-shrink", action="store_true", help="show the first schedule that breaks it, however long")
    parser.add_argument("--break", dest="broken", choices=BREAKS, help="break the order on purpose")
    args = parser.parse_args()
    if args.broken in ("suspend", "reply") and args.store != "sqlite":
        parser.error(f"--break {args.broken} changes the SQLite journal only")
    server = Server() if args.store == "postgresql" else None  # started by the real clock
    simulate_time()
    if args.broken:
        break_order(args.broken)
    began, done = time.perf_counter(), 0
    print(f"seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        store = server.store if server else sqlite_store.SqliteConversations(Path(folder) / "kept.db")
        while done < args.schedules:
            count = min(100 if server else 1000, args.schedules - done)
            run(count, args.seed + done, store, shrinks=not args.no_shrink)
            done += count
            print(f"{done} schedules, 0 broken promises, {time.perf_counter() - began:.0f} s", flush=True)
        print(", ".join(f"{count:,} {what}" for what, count in sorted(COUNTS.items())))
        store.database.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
