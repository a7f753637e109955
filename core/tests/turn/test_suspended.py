"""Turns that wait for a reply without a process, and go on in any."""

import asyncio
import contextlib
import sqlite3
from datetime import UTC, datetime, timedelta

import attrs
import pytest
from flexchat import (
    ChatRequestError,
    ClosedQuestionError,
    FlexChat,
    InvalidReplyError,
    LostTurnError,
    Reply,
    SuspendedTurnError,
    SyncFlexChat,
    ToolContext,
    ToolError,
    TurnCancelled,
    TurnFinished,
    TurnNotWaitingError,
    TurnSuspended,
    UnknownQuestionError,
    tool,
)
from flexchat.host import wait_for_answer
from flexchat.plugin import hookimpl
from flexchat.turn.active import NOT_STARTED
from flexchat_sqlite.journal import SqliteJournal
from flexchat_testing import ScriptedProvider, calls, says

YES, NO = Reply(action="accept"), Reply(action="decline")


@pytest.fixture
def ran():
    """Return a list of what the tools have done."""
    return []


@pytest.fixture
def tools(ran):
    @tool(approve=True)
    async def pay(amount: int) -> str:
        """Pay."""
        ran.append(("pay", amount))
        return "paid"

    @tool(effect="read", approve=True)
    async def look(at: str) -> str:
        """Look."""
        ran.append(("look", at))
        return "seen"

    @tool(effect="read")
    async def note(text: str) -> str:
        """Take a note."""
        ran.append(("note", text))
        return "noted"

    @tool(asks_first=True)
    async def book(context: ToolContext) -> str:
        """Book a seat."""
        seat = await context.ask("Which seat?")
        meal = await context.ask("Which meal?")
        ran.append(("book", seat.action, meal.action))
        return "booked"

    @tool
    async def order(context: ToolContext) -> str:
        """Order something."""
        reply = await context.ask("Really?")
        ran.append(("order", reply.action))
        return "ordered" if reply.action == "accept" else "left"

    return [pay, look, note, book, order]


@pytest.fixture
def open_chat(tmp_path, tools):
    """Return a function that opens a chat on one file, as another process would."""

    def open_chat(*replies, hooks=(), **questions):
        config = {
            "llms": {"bot": {"provider": "scripted"}},
            "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}],
            "conversations": {"provider": "sqlite", "path": str(tmp_path / "c.db")},
            "questions": {"expires": "1h", **questions},
            "limits": {"question_timeout_ms": 2000},
        }
        return FlexChat.from_config(config, tools=tools, providers={"bot": ScriptedProvider(replies)}, hooks=hooks)

    return open_chat


async def asked(chat):
    """Return the open questions, once there are some."""
    while True:
        rows = await chat.pending()
        if rows:
            return rows


def outcomes(turn):
    return [record.result.result if record.result.success else record.result.error for record in turn.tool_calls]


async def test_a_call_that_needs_approval_suspends_its_turn_and_runs_in_another_process(open_chat, ran):
    async with open_chat(calls(("pay", {"amount": 5}))) as chat:
        turn = await chat.respond("Pay", conversation="c")

        assert (turn.status, turn.succeeded, ran) == ("suspended", False, [])
        (pending,) = turn.pending
        assert pending.question.details["arguments"] == {"amount": 5}
        assert [row.state for row in await chat.turns()] == ["suspended"]
        assert [each.id for each in await chat.pending()] == [pending.id]
        assert outcomes(turn) == ["Not executed yet: it waits for the reply to a question"]
    async with open_chat(says("Paid.")) as chat:
        handle = await chat.answer(pending.id, YES, by="ann")
        turn = await handle.result()

        assert (turn.status, turn.content, ran) == ("done", "Paid.", [("pay", 5)])
        assert outcomes(turn) == ["paid"]
        row = await chat.question(pending.id)
        (effect,) = await chat.effects()
        assert (row.replied_by, row.state, row.used_by) == ("ann", "replied", effect.key)
        with pytest.raises(ClosedQuestionError, match="answered by ann"):
            await chat.answer(pending.id, YES, by="bob")
        assert ran == [("pay", 5)]
        assert len(await chat.conversations.turns("c")) == 1


async def test_a_rejected_call_does_not_run_and_the_model_reads_the_reason(open_chat, ran):
    async with open_chat(calls(("pay", {"amount": 5})), says("As you wish.")) as chat:
        turn = await chat.respond("Pay", conversation="c")
        handle = await chat.answer(turn.pending[0].id, Reply(action="decline", why="too much"), by="ann")
        turn = await handle.result()

    assert (turn.content, ran) == ("As you wish.", [])
    assert "too much" in turn.tool_calls[0].result.explained()


async def test_the_calls_of_an_answer_are_pending_together_and_the_others_run(open_chat, ran):
    requested = calls(("pay", {"amount": 1}), ("note", {"text": "a"}), ("pay", {"amount": 2}), ("look", {"at": "b"}))
    async with open_chat(requested, says("Done.")) as chat:
        turn = await chat.respond("Pay", conversation="c")

        assert ran == [("note", "a")]
        first, second, third = sorted(turn.pending, key=lambda each: each.question.message)
        assert len(await chat.pending(turn=turn.id)) == 3
        turn = await (await chat.answer(second.id, YES)).result()
        assert (turn.status, ran) == ("suspended", [("note", "a"), ("pay", 1)])
        assert {each.id for each in turn.pending} == {first.id, third.id}
        turn = await (await chat.answer(first.id, NO)).result()
        turn = await (await chat.answer(third.id, YES)).result()

    assert turn.status == "done"
    assert ran == [("note", "a"), ("pay", 1), ("pay", 2)] or ran == [("note", "a"), ("pay", 1), ("look", "b")]
    assert len(turn.tool_calls) == 4


async def test_a_tool_that_asks_first_gets_its_earlier_replies_in_order(open_chat, ran):
    async with open_chat(calls(("book", {})), says("Booked.")) as chat:
        turn = await chat.respond("Book", conversation="c")
        assert [effect.state for effect in await chat.effects()] == ["pending"]
        assert turn.pending[0].question.message == "Which seat?"
        turn = await (await chat.answer(turn.pending[0].id, NO)).result()
        assert turn.pending[0].question.message == "Which meal?"
        turn = await (await chat.answer(turn.pending[0].id, YES)).result()

        assert (turn.status, ran) == ("done", [("book", "decline", "accept")])
        assert [effect.state for effect in await chat.effects()] == ["done"]


async def test_a_write_that_has_started_waits_in_memory(open_chat, ran):
    async with open_chat(calls(("order", {})), says("Ordered.")) as chat, open_chat() as other:
        handle = chat.start("Order", conversation="c")
        rows = await asked(other)
        assert await other.answer(rows[0].id, YES, by="bob") is None
        turn = await handle.result()

    assert (turn.status, ran) == ("done", [("order", "accept")])


async def test_a_live_question_is_answered_from_another_process(open_chat, ran):
    async with open_chat(calls(("pay", {"amount": 3})), says("Paid.")) as chat, open_chat() as other:
        handle = chat.start("Pay", conversation="c", on_question=wait_for_answer)
        rows = await asked(other)
        assert await other.answer(rows[0].id, YES, by="bob") is None
        turn = await handle.result()

    assert (turn.status, ran) == ("done", [("pay", 3)])


async def test_a_live_question_without_a_store_is_answered_by_its_id(tools, ran):
    provider = ScriptedProvider([calls(("pay", {"amount": 3})), says("Paid.")])
    config = {"llms": {"bot": {"provider": "scripted"}}, "responses": [{"llm": "bot", "model": "m", "tools": {}}]}
    future = asyncio.get_running_loop().create_future()

    class Watching:
        @hookimpl
        def flexchat_question_asked(self, question):
            future.set_result(question)

    chat = FlexChat.from_config(config, tools=tools, providers={"bot": provider}, hooks=[Watching()])
    async with chat:
        handle = chat.start("Pay", on_question=wait_for_answer)
        question = await future
        with pytest.raises(UnknownQuestionError):
            await chat.answer(question.id, YES, tenant="other")
        with pytest.raises(InvalidReplyError, match="remember"):
            await chat.answer(question.id, Reply(action="accept", remember="always"))
        assert await chat.answer(question.id, YES) is None
        assert (await handle.result()).content == "Paid."

    assert ran == [("pay", 3)]


async def test_a_live_reply_is_recorded_under_its_name(open_chat, ran):
    """That of the person whom ``on_question`` asks, if it has one."""
    for name in ("ann", ""):
        async with open_chat(calls(("pay", {"amount": 5})), says("a")) as chat:
            turn = await chat.respond("Pay", conversation=f"c{name}", on_question=lambda _: attrs.evolve(YES, by=name))  # noqa: B023
            (question,) = await chat.pending(states=["replied"], conversation=f"c{name}")

        assert turn.content == "a"
        assert (question.replied_by, question.reply) == (name, YES)


async def test_of_two_replies_the_first_counts(open_chat, ran):
    async with open_chat(calls(("pay", {"amount": 5})), says("a")) as chat, open_chat(says("b")) as other:
        turn = await chat.respond("Pay", conversation="c")
        id = turn.pending[0].id
        answers = [chat.answer(id, YES, by="ann"), other.answer(id, NO, by="bob"), chat.answer(id, YES, by="ann")]
        came = await asyncio.gather(*answers, return_exceptions=True)
        handles = [each for each in came if not isinstance(each, Exception)]
        for each in handles:
            if each is not None:
                await each.result()

    assert len(handles) == 1
    assert all(isinstance(each, ClosedQuestionError) for each in came if isinstance(each, Exception))
    assert len(ran) <= 1


async def test_an_approval_of_a_read_lets_it_run_once(open_chat, ran, monkeypatch):
    """A run that was killed after it began needs another approval, since its first may have happened."""
    async with open_chat(calls(("look", {"at": "x"})), says("Seen.")) as chat:
        turn = await chat.respond("Look", conversation="c")
        first = turn.pending[0].id
        await chat.answer(first, YES, resume=False)
        row = await chat.question(first)
        from flexchat.domain.questions import Approval

        assert await chat.journal.use_approval(Approval(first, row.question.digest), tenant="default", by="a dead run")
        turn = await chat.resume(turn.id)
        assert (turn.status, ran) == ("suspended", [])
        assert turn.pending[0].id != first
        turn = await (await chat.answer(turn.pending[0].id, YES)).result()

    assert (turn.status, ran) == ("done", [("look", "x")])


async def test_a_stream_ends_with_the_suspension_and_goes_on_elsewhere(open_chat):
    async with open_chat(calls(("pay", {"amount": 5})), says("Paid.")) as chat:
        events = [event async for event in chat.stream("Pay", conversation="c")]
        assert type(events[-1]) is TurnSuspended
        assert events[-1].turn.pending
        handle = await chat.answer(events[-1].turn.pending[0].id, YES)
        came = [event async for _, event in handle.events()]
        assert type(came[-1]) is TurnFinished


async def test_a_new_message_ends_a_suspended_turn(open_chat, ran):
    async with open_chat(calls(("pay", {"amount": 5})), says("Hello.")) as chat:
        suspended = await chat.respond("Pay", conversation="c")
        turn = await chat.respond("Hi", conversation="c")

        assert turn.content == "Hello."
        first, second = await chat.conversations.turns("c")
        assert (first.status, second.status) == ("failed", "done")
        with pytest.raises(ClosedQuestionError, match="its turn has ended"):
            await chat.answer(suspended.pending[0].id, YES)
    assert ran == []


async def test_a_new_message_is_rejected_while_a_turn_waits(open_chat):
    async with open_chat(calls(("pay", {"amount": 5})), says("Paid."), new_message="reject") as chat:
        suspended = await chat.respond("Pay", conversation="c")
        with pytest.raises(SuspendedTurnError, match=suspended.id):
            await chat.respond("Hi", conversation="c")
        turn = await (await chat.answer(suspended.pending[0].id, YES)).result()

    assert turn.content == "Paid."


async def test_a_new_message_waits_for_the_end_of_a_suspended_turn(open_chat):
    replies = calls(("pay", {"amount": 5})), says("Paid."), says("Hello.")
    async with open_chat(*replies, new_message="queue") as chat:
        suspended = await chat.respond("Pay", conversation="c")
        queued = await chat.respond("Hi", conversation="c")
        assert queued.status == "accepted"
        with pytest.raises(TurnNotWaitingError, match="earlier turn"):
            await chat.resume(queued.id)
        await (await chat.answer(suspended.pending[0].id, YES)).result()
        (handle,) = await chat.resume_interrupted()

        assert (handle.id, (await handle.result()).content) == (queued.id, "Hello.")
        assert [turn.answer for turn in await chat.conversations.turns("c")] == ["Paid.", "Hello."]


async def test_a_question_that_expires_is_rejected_and_its_turn_goes_on(open_chat, ran, tmp_path):
    async with open_chat(calls(("pay", {"amount": 5})), says("Too late.")) as chat:
        turn = await chat.respond("Pay", conversation="c")
        with contextlib.closing(sqlite3.connect(tmp_path / "c.db", isolation_level=None)) as database:
            database.execute("UPDATE questions SET expires_at = '2020-01-01T00:00:00.000+00:00'")
        (handle,) = await chat.resume_interrupted()
        with pytest.raises(ClosedQuestionError, match="expired"):
            await chat.answer(turn.pending[0].id, YES)
        turn = await handle.result()

    assert (turn.content, ran) == ("Too late.", [])
    assert "there was no reply until" in turn.tool_calls[0].result.explained()


async def test_a_suspended_turn_is_cancelled_by_any_process(open_chat, ran):
    async with open_chat(calls(("pay", {"amount": 5}))) as chat, open_chat() as other:
        suspended = await chat.respond("Pay", conversation="c")
        turn = await other.cancel_turn(suspended.id, by="bob")
        assert turn.status == "cancelled"
        assert [row.state for row in await chat.turns()] == ["cancelled"]
        with pytest.raises(ClosedQuestionError):
            await chat.answer(suspended.pending[0].id, YES)
    assert ran == []


async def test_a_running_turn_is_cancelled_by_another_process(open_chat):
    started = asyncio.Event()

    class Watching:
        @hookimpl
        def flexchat_question_asked(self, question):
            started.set()

    hooks = [Watching()]
    async with open_chat(calls(("order", {})), hooks=hooks) as chat, open_chat() as other:
        handle = chat.start("Order", conversation="c")
        await started.wait()
        turn = await other.cancel_turn(handle.id)

        assert turn.status == "cancelled"
        assert type(await handle.last()) is TurnCancelled


async def test_a_turn_run_by_respond_is_cancelled_by_another_process_and_returned(open_chat):
    async with open_chat(calls(("order", {}))) as chat, open_chat() as other:
        answering = asyncio.create_task(chat.respond("Order", conversation="c"))
        rows = await asked(other)
        await other.cancel_turn(rows[0].turn)

        assert (await answering).status == "cancelled"


async def test_a_turn_is_accepted_and_runs_in_another_process(open_chat, tmp_path):
    later = datetime.now(UTC) + timedelta(hours=1)
    async with open_chat() as chat:
        first = await chat.submit("Hi", conversation="c")
        await chat.submit("Ho", conversation="c")
        urgent = await chat.submit("Hey", conversation="d", priority=1)
        await chat.submit("Tomorrow", conversation="e", at=later)
        assert {row.state for row in await chat.turns()} == {"accepted"}
    async with open_chat(says("1"), says("2"), says("3")) as chat:
        order = []
        while handles := await chat.resume_interrupted(most=1):
            order.append(handles[0].id)
            await handles[0].result()

        assert order[:2] == [urgent, first]
        assert len(order) == 3
        assert [turn.messages[0].content for turn in await chat.conversations.turns("c")] == ["Hi", "Ho"]
        assert [row.state for row in await chat.turns(conversation="e")] == ["accepted"]


async def test_an_accepted_turn_is_cancelled_before_it_begins(open_chat):
    async with open_chat(says("1")) as chat:
        first = await chat.submit("Hi", conversation="c")
        second = await chat.submit("Ho", conversation="c")
        assert (await chat.cancel_turn(second)).status == "cancelled"
        for handle in await chat.resume_interrupted(most=1):
            await handle.result()
        for handle in await chat.resume_interrupted(most=1):
            assert (await handle.result()).status == "cancelled"

        states = {row.id: row.state for row in await chat.turns()}
    assert states == {first: "done", second: "cancelled"}


async def test_what_cannot_be_accepted_is_refused(open_chat):
    async with open_chat() as chat:
        with pytest.raises(ChatRequestError, match="name its conversation"):
            await chat.submit("Hi")
        for priority in (10**20, -1_000_001):
            with pytest.raises(ChatRequestError, match="priority is at least -1,000,000"):
                await chat.submit("Hi", conversation="c", priority=priority)
        with pytest.raises(ChatRequestError, match="time zone"):
            await chat.submit("Hi", conversation="c", at=datetime(2026, 1, 1))
        id = await chat.submit("Hi", conversation="c", idempotency_key="k")
        assert await chat.submit("Hi", conversation="c", idempotency_key="k") == id


async def test_a_repeated_key_finds_the_suspended_turn(open_chat, ran):
    async with open_chat(calls(("pay", {"amount": 5})), says("Paid.")) as chat:
        first = await chat.respond("Pay", conversation="c", idempotency_key="k")
        again = await chat.respond("Pay", conversation="c", idempotency_key="k")
        assert (first.id, again.id, again.status) == (first.id, first.id, "suspended")
        assert again.pending[0].id == first.pending[0].id
        await (await chat.answer(first.pending[0].id, YES)).result()
        assert (await chat.respond("Pay", conversation="c", idempotency_key="k")).content == "Paid."
    assert ran == [("pay", 5)]


async def test_deleting_the_conversation_deletes_its_suspended_turn(open_chat, ran):
    async with open_chat(says("Hello."), calls(("pay", {"amount": 5}))) as chat:
        await chat.respond("Hi", conversation="c")
        suspended = await chat.respond("Pay", conversation="c")
        await chat.conversations.delete("c")

        assert await chat.turns() == await chat.pending() == []
        with pytest.raises(UnknownQuestionError):
            await chat.answer(suspended.pending[0].id, YES)
    assert ran == []


@pytest.mark.parametrize("has_job", [False, True])
async def test_an_effect_does_not_wait_for_a_conversation_that_is_deleted_as_its_turn_asks(
    open_chat, ran, tools, has_job
):
    """It has not happened; a job that its tool had started is unknown, and can be settled."""

    @tool(asks_first=True)
    async def ship(context: ToolContext) -> str:
        """Ship."""
        if has_job:
            await context.remember("7")
        async with open_chat() as other:
            await other.conversations.delete("c")
        reply = await context.ask("Where to?")
        ran.append(("ship", reply.action))
        return "shipped"

    tools.append(ship)
    async with open_chat(says("Hello."), calls(("ship", {}))) as chat:
        await chat.respond("Hi", conversation="c")
        with pytest.raises(LostTurnError):
            await chat.respond("Ship", conversation="c")
        (effect,) = await chat.effects()
        assert await chat.pending() == []
        assert "its conversation was deleted" in effect.note
        assert effect.state == ("unknown" if has_job else "failed")
        if has_job:
            assert (await chat.settle_effect(effect.key, "failed", by="ann")).state == "failed"
    assert ran == []


def test_the_synchronous_chat_has_the_same_methods(open_chat, ran):
    with SyncFlexChat(open_chat(calls(("pay", {"amount": 5})), says("Paid."))) as chat:
        turn = chat.respond("Pay", conversation="c")
        chat.answer(chat.pending()[0].id, YES, by="ann", resume=False)
        assert chat.resume(turn.id).content == "Paid."
    assert ran == [("pay", 5)]


async def test_a_repeated_key_finds_the_turn_that_waits_for_its_place(open_chat):
    async with open_chat(calls(("pay", {"amount": 5})), new_message="queue") as chat:
        await chat.respond("Pay", conversation="c")
        first = await chat.respond("Hi", conversation="c", idempotency_key="k")
        again = await chat.respond("Hi", conversation="c", idempotency_key="k")

    assert (first.id, first.status, first.is_repeat) == (again.id, "accepted", False)
    assert (again.status, again.is_repeat) == ("accepted", True)


class Reserving:
    """A plugin with a step that asks a question of its own before the claim."""

    name = "budget"
    stage = "reserve"

    @hookimpl
    def flexchat_register_steps(self):
        return [self]

    async def __call__(self, call, rest):
        await call.ask("From which budget?")
        return await rest()


async def test_a_question_after_the_approval_leaves_it_to_the_claim(open_chat, ran):
    async with open_chat(calls(("pay", {"amount": 5})), says("Done."), hooks=[Reserving()]) as chat:
        turn = await chat.respond("Pay", conversation="c")
        (approval,) = turn.pending
        while turn.pending:
            handle = await chat.answer(turn.pending[0].id, YES)
            turn = await handle.result()

        assert ran == [("pay", 5)]
        assert (await chat.question(approval.id)).used_by == (await chat.effects())[0].key


@pytest.fixture
def meanwhile(monkeypatch):
    """Return a list of what happens just before the journal suspends a turn: one function each time."""
    works, suspend = [], SqliteJournal.suspend

    async def suspend_later(self, *args):
        if works:
            await works.pop(0)()
        return await suspend(self, *args)

    monkeypatch.setattr(SqliteJournal, "suspend", suspend_later)
    return works


async def test_replies_that_come_before_a_turn_is_suspended_are_noted_once(open_chat, ran, meanwhile):
    async with open_chat(calls(("book", {}), ("pay", {"amount": 5})), says("Done.")) as chat, open_chat() as other:

        async def reply():
            await other.answer((await other.pending())[-1].id, YES)

        meanwhile += [reply] * 3
        turn = await chat.respond("Do both", conversation="c")
        _, steps = await chat.turn(turn.id)

    assert (turn.status, sorted(name for name, *_ in ran)) == ("done", ["book", "pay"])
    noted = [step.data["id"] for step in steps if step.kind == "reply"]
    assert len(noted) == len({*noted}) == 3


async def test_exclusive_tools_that_get_their_replies_at_once_run_alone(open_chat, ran, meanwhile, tools):
    running = []

    def alone(name):
        @tool(name=name, exclusive=True, approve=True)
        async def run() -> str:
            """Run alone."""
            running.append(name)
            await asyncio.sleep(0.01)
            running.append(name)
            return "ran"

        return run

    tools += [alone("first"), alone("second")]
    async with open_chat(calls(("first", {}), ("second", {})), says("Done.")) as chat, open_chat() as other:

        async def reply():
            for row in await other.pending():
                await other.answer(row.id, YES)

        meanwhile.append(reply)
        assert (await chat.respond("Run", conversation="c")).status == "done"
    assert running == ["first", "first", "second", "second"]


async def test_a_turn_whose_cancellation_is_requested_is_not_run_again(open_chat, meanwhile):
    async with open_chat(calls(("book", {}))) as chat, open_chat() as other:
        cancelling = []

        async def cancel():
            (row,) = await other.turns()
            cancelling.append(asyncio.create_task(other.cancel_turn(row.id)))
            while not (await other.turns())[0].cancelled_by:  # noqa: ASYNC110  another process
                await asyncio.sleep(0)

        async def never():
            raise AssertionError("it was run again")

        meanwhile += [cancel, never]
        turn = await chat.respond("Book", conversation="c")
        assert (turn.status, (await cancelling[0]).status) == ("cancelled", "cancelled")


async def finished(chat):
    """Reply to all questions of the only turn, and return it once it has ended."""
    turn = None
    while rows := await chat.pending():
        handle = await chat.answer(rows[-1].id, YES)
        turn = await handle.result()
    return turn


async def test_a_write_that_died_at_its_first_question_runs_anew(open_chat, ran, tmp_path):
    async with open_chat(calls(("book", {}))) as dead, open_chat(says("Done.")) as other:
        handle = dead.start("Book", conversation="c", on_question=wait_for_answer)
        (first,) = await asked(other)
        with contextlib.closing(sqlite3.connect(tmp_path / "c.db", isolation_level=None)) as database:
            database.execute("DELETE FROM owners")
        (resumed,) = await other.resume_interrupted()
        assert (await resumed.result()).pending == (first,)
        turn = await finished(other)
        with pytest.raises(LostTurnError):
            await handle.result()

        assert (turn.status, ran) == ("done", [("book", "accept", "accept")])
        assert [effect.state for effect in await other.effects()] == ["done"]


@pytest.mark.parametrize("catches", [False, True], ids=["lets through", "converts"])
async def test_a_call_whose_question_finds_the_turn_lost_has_no_outcome(open_chat, ran, tmp_path, tools, catches):
    """Stored as the call's failure, it would keep the process that has the turn from running it."""

    @tool(asks_first=True)
    async def ship(context: ToolContext) -> str:
        """Ship."""
        if not losses:
            losses.append(context.turn_id)
            with contextlib.closing(sqlite3.connect(tmp_path / "c.db", isolation_level=None)) as database:
                database.execute("UPDATE journal_turns SET fence = fence + 1, owner = 'gone'")
        try:
            reply = await context.ask("Where to?")
        except Exception as error:
            raise (ToolError(f"not asked: {error}") if catches else error) from error
        ran.append(("ship", reply.action))
        return "shipped"

    losses = []
    tools.append(ship)
    async with open_chat(calls(("ship", {}))) as dead, open_chat(says("Done.")) as other:
        with pytest.raises(LostTurnError):
            await dead.respond("Ship", conversation="c", on_question=lambda question: YES)
        (resumed,) = await other.resume_interrupted()
        assert (await resumed.result()).status == "suspended"
        turn = await finished(other)

    assert (turn.status, ran) == ("done", [("ship", "accept")])


async def test_a_write_that_died_after_a_reply_is_unknown(open_chat, ran, tmp_path, tools):
    @tool(asks_first=True)
    async def ship(context: ToolContext) -> str:
        """Ship."""
        await context.ask("Where to?")
        ran.append("ship")
        await asyncio.get_running_loop().create_future()

    tools.append(ship)
    async with open_chat(calls(("ship", {}))) as dead, open_chat(says("Done.")) as other:
        handle = dead.start("Ship", conversation="c", on_question=lambda question: YES)
        while not ran:  # noqa: ASYNC110  another process
            await asyncio.sleep(0)
        with contextlib.closing(sqlite3.connect(tmp_path / "c.db", isolation_level=None)) as database:
            database.execute("DELETE FROM owners")
        (resumed,) = await other.resume_interrupted()
        turn = await resumed.result()
        handle.cancel()

        assert "unknown" in turn.tool_calls[0].result.error
        assert ran == ["ship"]


async def test_a_write_that_is_stopped_at_its_first_question_has_done_nothing(open_chat, ran):
    async with open_chat(calls(("book", {}))) as chat:
        handle = chat.start("Book", conversation="c", on_question=wait_for_answer)
        await asked(chat)
        handle.cancel()
        turn = await handle.result()
        assert (turn.status, outcomes(turn)) == ("cancelled", [NOT_STARTED])
        assert [effect.state for effect in await chat.effects()] == ["failed"]


async def test_a_write_that_waits_is_still_one_if_its_tool_is_declared_to_read(open_chat, ran, tools):
    async with open_chat(calls(("book", {}))) as chat:
        await chat.respond("Book", conversation="c")
    tools[3] = attrs.evolve(tools[3].definition, effect="read")
    async with open_chat(says("Done.")) as chat:
        assert (await finished(chat)).status == "done"
        (effect,) = await chat.effects()

    assert (effect.state, len(ran)) == ("done", 1)


async def test_a_call_whose_tool_needs_no_approval_any_more_keeps_its_question(open_chat, tools, ran):
    async with open_chat(calls(("pay", {"amount": 5}), ("look", {"at": "sky"}))) as chat:
        turn = await chat.respond("Pay", conversation="c")
        pay, look = turn.pending
        await chat.answer(look.id, NO, by="ann", resume=False)
    tools[:2] = [attrs.evolve(each.definition, approve=False) for each in tools[:2]]
    async with open_chat(says("Paid.")) as chat:
        turn = await chat.resume(turn.id)
        assert (turn.status, [each.id for each in turn.pending], ran) == ("suspended", [pay.id], [])
        turn = await (await chat.answer(pay.id, YES, by="ann")).result()
        row = await chat.question(pay.id)
        (effect,) = await chat.effects()

    assert outcomes(turn) == ["paid", "Not executed: the user did not approve this call of 'look'"]
    assert (row.used_by, ran) == (effect.key, [("pay", 5)])


async def test_the_effect_of_a_call_that_is_cancelled_while_it_waits_has_failed(open_chat, ran):
    async with open_chat(calls(("book", {}))) as chat:
        turn = await chat.respond("Book", conversation="c")
        assert [each.state for each in await chat.effects()] == ["pending"]
        turn = await chat.cancel_turn(turn.id)
        (effect,) = await chat.effects()

    assert (effect.state, effect.owner, effect.note) == (
        "failed",
        "",
        "it was waiting for a reply, and had changed nothing",
    )
    assert (outcomes(turn), ran) == ([NOT_STARTED], [])


async def test_a_job_of_a_call_that_is_cancelled_while_it_waits_is_unknown(open_chat, tools, ran):
    @tool
    async def ship(context: ToolContext) -> str:
        """Ship something."""
        await context.remember({"job": 1})
        ran.append("job")
        await context.ask("By air?")
        return "shipped"

    tools.append(ship)
    async with open_chat(calls(("ship", {}))) as chat:
        turn = await chat.respond("Ship", conversation="c")
        assert [each.state for each in await chat.effects()] == ["pending"]
        turn = await chat.cancel_turn(turn.id)
        (effect,) = await chat.effects()

    assert (effect.state, effect.handle) == ("unknown", '{"job": 1}')
    assert "unknown" in outcomes(turn)[0]


async def test_the_effect_of_a_call_that_is_refused_when_its_turn_goes_on_has_failed(open_chat, tools):
    async with open_chat(calls(("book", {}))) as chat:
        turn = await chat.respond("Book", conversation="c")
    tools[3] = attrs.evolve(tools[3].definition, approve=True)
    async with open_chat(says("No seat.")) as chat:
        turn = await chat.resume(turn.id, on_question=lambda question: NO)
        (effect,) = await chat.effects()

    assert (turn.status, effect.state) == ("done", "failed")
