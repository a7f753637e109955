"""Workers run the turns that were accepted or interrupted, whatever the queue has of them."""

import asyncio
import contextlib
import datetime

import psycopg
import pytest
from flexchat import FlexChat, Reply, ToolContext, tool
from flexchat.host import installed_plugins
from flexchat_queue import ProcrastinateQueue, QueuedTurn, Worker
from flexchat_queue.producer import open_queue
from flexchat_testing import ScriptedProvider, calls, says

LEASE_S = 2.0


class Shared:
    """A database, and chats of several processes that share it."""

    def __init__(self, dsn, schema):
        self.dsn, self.schema = dsn, schema
        self.queue_schema = f"{schema}_queue"
        self.stack = contextlib.AsyncExitStack()
        self.asked = []

    async def chat(self, reply=None, *, tools=(), queue=True, name="support", **tables):
        config = {
            "llms": {"bot": {"provider": "scripted"}},
            "responses": [{"llm": "bot", "model": "m", "name": name, "tools": {"enabled": True}}],
            "conversations": {"provider": "postgresql", "dsn": self.dsn, "schema": self.schema},
            "tools": {"effects": {"lease_s": LEASE_S}},
            **({"queue": {"schema": self.queue_schema}} if queue else {}),
            **tables,
        }

        def answer(messages, options):
            self.asked.append(messages[-1].content)
            return says(f"answer to {messages[-1].content}")

        provider = ScriptedProvider([reply or answer], repeat=True)
        chat = FlexChat.from_config(config, providers={"bot": provider}, tools=tools, plugins=installed_plugins())
        return await self.stack.enter_async_context(chat)

    def queue(self, chat):
        connections = chat.conversations.store.connections
        return ProcrastinateQueue(connections.config, schema=self.queue_schema, lease_s=LEASE_S / 2)

    @contextlib.asynccontextmanager
    async def working(self, chat, **settings):
        """Run a worker meanwhile."""
        async with contextlib.aclosing(self.queue(chat)) as queue:
            worker = Worker(chat, queue, **settings)
            running = asyncio.create_task(worker.run())
            try:
                yield worker
            finally:
                worker.stop()
                await running

    def sql(self, statement, *values):
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(statement.format(q=self.queue_schema, s=self.schema).encode(), values or None)
            return cursor.fetchall() if cursor.description else []


@pytest.fixture
async def shared(server, schema):
    made = Shared(server.dsn(), schema)
    yield made
    await made.stack.aclose()
    made.sql("DROP SCHEMA IF EXISTS {q} CASCADE")


async def ended(chat, *turns, tenant="default", within_s=20.0):
    """Wait until turns have ended; return their states."""
    async with asyncio.timeout(within_s):
        while True:
            rows = {row.id: row.state for row in await chat.turns(tenant=tenant, limit=1000)}
            if all(rows[turn] in ("done", "failed", "cancelled") for turn in turns):
                return [rows[turn] for turn in turns]
            await chat.wait_for_change(turns[-1], timeout_s=0.2)


async def contents(chat, conversation, tenant="default"):
    return [turn.message for turn in await chat.conversations.of(tenant).turns(conversation)]


async def test_an_accepted_turn_is_enqueued_and_run(shared):
    """In another process than the one that accepted it, which has its place in the queue at once."""
    web, other = await shared.chat(), await shared.chat()
    turn = await web.submit("Hello", conversation="c", tenant="t")
    assert shared.sql("SELECT args->>'turn', args->>'tenant', queueing_lock FROM {q}.procrastinate_jobs") == [
        (turn, "t", None)
    ]
    async with shared.working(other) as worker:
        assert await ended(web, turn, tenant="t") == ["done"]
        async with asyncio.timeout(20):  # its place in the queue is left after its end
            while shared.sql("SELECT count(*) FROM {q}.procrastinate_jobs") != [(0,)]:
                await web.wait_for_change(turn, timeout_s=0.2)
    assert worker.ended == 1
    assert shared.asked == ["Hello"]


async def test_turns_of_a_conversation_run_in_order_on_several_workers(shared):
    """Whatever their priorities, and though all are free."""
    seen, running = [], []

    async def reply(messages, options):
        assert not running, "two turns of a conversation ran at once"
        running.append(1)
        await asyncio.sleep(0.01)
        running.clear()
        seen.append(messages[-1].content)
        return says("ok")

    chats = [await shared.chat(reply) for _ in range(3)]
    turns = [await chats[0].submit(str(n), conversation="c", priority=n) for n in range(6)]
    async with contextlib.AsyncExitStack() as stack:
        for chat in chats:
            await stack.enter_async_context(shared.working(chat))
        await ended(chats[0], *turns)
    assert seen == [str(n) for n in range(6)]


@pytest.mark.parametrize("loss", ["TRUNCATE {q}.procrastinate_jobs CASCADE", "DROP SCHEMA {q} CASCADE", None])
async def test_a_lost_queue_loses_no_turn(shared, loss):
    """Emptied or dropped, before and while workers run; or never written, by a program without the table queue."""
    web = await shared.chat(queue=loss is not None)
    turns = [await web.submit("One", conversation=f"c{n}") for n in range(3)]
    if loss is not None:
        shared.sql(loss)
    async with shared.working(web):
        assert await ended(web, *turns) == ["done"] * 3
        if loss is not None:
            shared.sql(loss)
        later = await web.submit("Two", conversation="c0")
        assert await ended(web, later) == ["done"]
    assert len(shared.asked) == 4


async def test_a_turn_runs_when_it_is_due(shared):
    """Not before, and it does not hold up those of other conversations."""
    chat = await shared.chat()
    now = datetime.datetime.now(datetime.UTC)
    due = now + datetime.timedelta(seconds=1.5)
    later = await chat.submit("Later", conversation="a", at=due)
    never = await chat.submit("Tomorrow", conversation="b", at=now + datetime.timedelta(days=1))
    soon = await chat.submit("Now", conversation="c")
    async with shared.working(chat):
        await ended(chat, soon)
        assert shared.asked == ["Now"]
        await ended(chat, later)
        assert datetime.datetime.now(datetime.UTC) >= due
    assert shared.asked == ["Now", "Later"]
    assert (await chat.turn(never))[0].state == "accepted"


async def test_a_worker_that_stops_leaves_its_turns_to_others(shared):
    """They go on where they were: what the model has answered is not asked for again."""
    release, asked = asyncio.Event(), []

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        await release.wait()
        return "seen"

    async def reply(messages, options):
        asked.append(len(messages))
        return calls(("look", {})) if len(asked) == 1 else says("done")

    one, other = await shared.chat(reply, tools=[look]), await shared.chat(reply, tools=[look])
    turn = await one.submit("Look", conversation="c")
    async with shared.working(one) as worker:
        while not asked:
            await one.wait_for_change(turn, timeout_s=0.1)
    assert (worker.ended, worker.interrupted) == (0, 1)
    assert (await one.turn(turn))[0].state == "interrupted"
    assert shared.sql("SELECT status::text FROM {q}.procrastinate_jobs") == [("todo",)]
    release.set()
    async with shared.working(other):
        assert await ended(one, turn) == ["done"]
    assert len(asked) == 2


async def test_workers_take_the_turns_that_fit_their_configuration(shared):
    """Others leave them in the queue as they were."""
    parked = asyncio.Event()

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        parked.set()
        await asyncio.Event().wait()

    def reply(messages, options):
        return calls(("look", {})) if messages[-1].role == "user" else says("done")

    first = await shared.chat(reply, tools=[look])
    turn = await first.submit("Look", conversation="c")
    async with shared.working(first):
        await parked.wait()

    @tool(name="look", effect="read")
    async def quick_look() -> str:
        """Look."""
        return "seen"

    misfit, fit = await shared.chat(reply, name="another"), await shared.chat(reply, tools=[quick_look])
    async with shared.working(misfit, stuck_after_s=60) as worker:
        while not worker._misfits:
            await misfit.wait_for_change(turn, timeout_s=0.1)
        row = (await fit.turn(turn))[0]
        assert (row.state, row.error, row.fence) == ("interrupted", "", 1)
        async with shared.working(fit):
            assert await ended(fit, turn) == ["done"]


async def test_a_turn_that_fits_no_worker_is_reported(shared, caplog):
    """In the log, and in the journal, where flexchat turns shows it; no worker tries it again."""

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        parked.set()
        await asyncio.Event().wait()

    parked = asyncio.Event()
    first = await shared.chat(lambda m, o: calls(("look", {})), tools=[look])
    turn = await first.submit("Look", conversation="c")
    async with shared.working(first):
        await parked.wait()
    misfit = await shared.chat(name="another")
    async with shared.working(misfit, stuck_after_s=0.2):
        async with asyncio.timeout(20):
            while not (row := (await misfit.turn(turn))[0]).error:
                await misfit.wait_for_change(turn, timeout_s=0.1)
    assert row.state == "interrupted"
    assert "support" in row.error
    assert f"the turn {turn} is not resumed any more" in caplog.text
    assert shared.sql("SELECT count(*) FROM {q}.procrastinate_jobs") == [(0,)]


async def test_a_turn_that_is_leased_twice_runs_once(shared):
    """As after a rescue whose runner was alive: the journal lets one runner have it."""
    chats = [await shared.chat(), await shared.chat(queue=False)]
    other = Shared(shared.dsn, shared.schema)
    other.queue_schema += "_2"  # a second queue of the same turns
    turn = await chats[0].submit("Hello", conversation="c")
    async with shared.working(chats[0]), other.working(chats[1]):
        await ended(chats[0], turn)
    assert shared.asked == ["Hello"]
    other.sql("DROP SCHEMA IF EXISTS {q} CASCADE")


async def test_a_turn_is_enqueued_once_by_many(shared):
    """By sweeps and a producer at the same moment."""
    chat = await shared.chat(queue=False)
    turn = QueuedTurn(id="a", tenant="t", conversation="c")
    async with contextlib.AsyncExitStack() as stack:
        queues = [await stack.enter_async_context(contextlib.aclosing(shared.queue(chat))) for _ in range(4)]
        await asyncio.gather(*(queue.count_waiting() for queue in queues))
        added = await asyncio.gather(*(queue.enqueue([turn]) for queue in queues for _ in range(5)))
        assert (sum(added), await queues[0].count_waiting()) == (1, 1)


async def test_a_turn_that_another_program_runs_is_left_to_it(shared):
    """flexchat serve and chat.resume need no queue: the row that remains is dropped."""
    chat = await shared.chat()
    turn = await chat.submit("Hello", conversation="c")
    await chat.resume(turn)
    async with shared.working(chat) as worker, asyncio.timeout(20):
        while shared.sql("SELECT count(*) FROM {q}.procrastinate_jobs") != [(0,)]:
            await chat.wait_for_change(turn, timeout_s=0.1)
    assert worker.ended == 0
    assert shared.asked == ["Hello"]


async def test_a_turn_whose_question_is_answered_elsewhere_goes_on(shared):
    """The worker holds nothing while the turn is suspended."""

    @tool
    async def pay(amount: int, context: ToolContext) -> str:
        """Pay."""
        return f"paid {amount}"

    def reply(messages, options):
        return calls(("pay", {"amount": 5})) if messages[-1].role == "user" else says("done")

    tables = {"questions": {"expires": "1h"}}
    worker_chat, web = [await shared.chat(reply, tools=[pay], **tables) for _ in range(2)]
    turn = await web.submit("Pay", conversation="c", approve=True)
    async with shared.working(worker_chat), asyncio.timeout(20):
        while not (pending := await web.pending(turn=turn)):
            await web.wait_for_change(turn, timeout_s=0.1)
        while shared.sql("SELECT count(*) FROM {q}.procrastinate_jobs") != [(0,)]:
            await web.wait_for_change(turn, timeout_s=0.1)
        await web.answer(pending[0].id, Reply(action="accept"), resume=False)
        assert await ended(web, turn) == ["done"]


async def test_a_turn_that_was_interrupted_too_often_is_left_to_a_person(shared):
    """It may be what ends the workers."""
    chat = await shared.chat()
    turn = await chat.submit("Hello", conversation="c")
    await chat.journal.acquire(turn, tenant="default", owner="dead", lease_s=0)
    shared.sql("UPDATE {s}.journal_turns SET fence = 7")
    async with shared.working(chat), asyncio.timeout(20):
        # Its row may not be there yet: without the first wait, an empty queue would look like one that is done.
        while not (row := (await chat.turn(turn))[0]).error:
            await chat.wait_for_change(turn, timeout_s=0.1)
        while shared.sql("SELECT count(*) FROM {q}.procrastinate_jobs") != [(0,)]:
            await chat.wait_for_change(turn, timeout_s=0.1)
    # Once more if it was enqueued again before the first report was written.
    assert (row.error.split(": ")[-1].startswith("it was interrupted"), row.fence in (8, 9)) == (True, True), row.error
    assert shared.asked == []


async def test_a_worker_that_was_taken_for_dead_goes_on(shared):
    """Removed by the others, it registers again; two with the same configuration are different workers."""
    chat = await shared.chat()
    async with contextlib.aclosing(shared.queue(chat)) as queue:
        await queue.enqueue([QueuedTurn(id=id, tenant="t", conversation=id) for id in ("a", "b")])
        lost = await queue.lease()
        shared.sql("DELETE FROM {q}.procrastinate_workers")
        assert (await queue.lease() or await queue.lease()).turn == "b"
        await queue.renew()
        await queue.complete(lost)
        assert shared.sql("SELECT args->>'turn', status::text FROM {q}.procrastinate_jobs ORDER BY id") == [
            ("a", "todo"),
            ("b", "doing"),
        ]


async def test_a_lease_whose_commit_was_cut_off_is_released(shared):
    """The worker does not know of it, and lives: nobody else would release it."""
    chat = await shared.chat()
    async with contextlib.aclosing(shared.queue(chat)) as queue:
        await queue.enqueue([QueuedTurn(id="a", tenant="t", conversation="a")])
        lease = await queue.lease()
        queue._held.clear()
        await queue.renew()
        again = await queue.lease()
        assert again.turn == lease.turn


async def test_the_tables_are_brought_up_to_date(shared, monkeypatch):
    """Those that an older version of the engine made, with what is in them."""
    from flexchat_queue import procrastinate_queue

    chat, tables = await shared.chat(), procrastinate_queue._engine_tables()
    monkeypatch.setattr(procrastinate_queue, "_engine_tables", lambda: tables[:-3])
    async with contextlib.aclosing(shared.queue(chat)) as old:
        assert await old.count_waiting() == 0
    monkeypatch.undo()
    async with contextlib.aclosing(shared.queue(chat)) as queue:
        assert await queue.enqueue([QueuedTurn(id="a", tenant="t", conversation="a")]) == 1
        assert (await queue.lease()).turn == "a"


async def test_the_events_of_a_workers_turn_are_kept_as_a_servers(shared):
    """With flexchat-web installed, servers stream the turns of workers, and the pieces of their answers."""
    chat, host = await shared.chat(), installed_plugins()
    turn = await chat.submit("Hello", conversation="c")

    def follow(handle):
        return [answer for _, answer in host.ask("flexchat_worker_turn", chat=chat, handle=handle)]

    async with shared.working(chat, follow=follow):
        await ended(chat, turn)
    _, events = await chat.events(turn)
    assert [event.number for event in events] == [*range(1, len(events) + 1)]
    names = [event.name for event in events]
    assert (names[0], names[-1]) == ("turn_started", "turn")
    assert names.count("text") > 1


@pytest.mark.slow
async def test_a_turn_whose_end_could_not_be_written_goes_on_later(own_server):
    """The database was away for longer than a write waits: the turn is released once it is back."""
    shared, away, asked = Shared(own_server.dsn(), "flexchat"), asyncio.Event(), []

    async def reply(messages, options):
        asked.append(1)
        if len(asked) == 1:
            await asyncio.to_thread(own_server.stop)
            away.set()
        return says("done")

    conversations = {"provider": "postgresql", "dsn": shared.dsn, "connect_timeout_s": 0.5}
    chat = await shared.chat(reply, conversations=conversations)
    turn = await chat.submit("Hello", conversation="c")
    async with shared.working(chat) as worker:
        await away.wait()
        async with asyncio.timeout(20):
            while turn not in worker._unreleased:
                await asyncio.wait([asyncio.create_task(worker._changed.wait())], timeout=0.05)
        await asyncio.to_thread(own_server.start)
        assert await ended(chat, turn) == ["done"]
    await shared.stack.aclose()


def test_the_engine_is_imported_by_what_uses_it():
    """A command that reads a configuration with the table does not wait for it."""
    import subprocess
    import sys

    code = "import flexchat_queue.plugin as p, sys; [*p.flexchat_register_chat_hooks(tables={})]; "
    code += "print('procrastinate' in sys.modules, 'psycopg' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False", "False"]


async def test_a_chat_without_postgresql_has_no_queue(tmp_path):
    chat = FlexChat.from_config(
        {
            "llms": {"bot": {"provider": "scripted"}},
            "responses": [{"llm": "bot", "model": "m"}],
            "conversations": {"path": str(tmp_path / "c.db")},
        }
    )
    assert open_queue(chat, None) is None
    await chat.aclose()
