"""Replies of a person outlive the process that asked: a resumed turn takes them from its journal."""

import asyncio
import contextlib
import sqlite3

import pytest
from flexchat import FlexChat, LostTurnError, QuestionAsked, Reply, ToolContext, tool
from flexchat.plugin import ToolResult, hookimpl
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_testing import ScriptedProvider, calls, says

YES, NO = Reply(action="accept"), Reply(action="decline")
PAY = calls(("pay", {"amount": 5}))


class World:
    """A turn whose process dies at a chosen moment: its database is copied then, without its owner."""

    def __init__(self, folder):
        self.folder, self.paid, self.asked, self.moments = folder, [], [], []

    def die(self):
        target = self.folder / "died.db"
        if not target.exists():
            with (
                contextlib.closing(sqlite3.connect(self.folder / "c.db")) as old,
                contextlib.closing(sqlite3.connect(target)) as new,
            ):
                old.backup(new)
                new.execute("DELETE FROM owners")
                new.commit()

    def chat(self, file, *tools, hooks=(), reply=PAY, **rule):
        def answer(messages, options):
            return reply if messages[-1].role == "user" else says(messages[-1].content)

        chat = FlexChat.from_config(
            {
                "llms": {"s": {"provider": "scripted"}},
                "responses": [{"llm": "s", "model": "m", "tools": {"enabled": True, **rule}}],
            },
            providers={"s": ScriptedProvider([answer], repeat=True)},
            tools=tools,
            hooks=hooks,
        )
        chat.keep_in(SqliteConversations(self.folder / file))
        return chat

    def tool(self, **options):
        @tool(**options)
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        return pay

    def person(self, reply, *, dies=False):
        async def on_question(question):
            self.asked.append(question)
            if dies:
                self.die()
            return reply

        return on_question

    async def first(self, *tools, on_question=None, **more):
        chat = self.chat("c.db", *tools, **more)
        turn = await chat.respond("Pay", conversation="c", on_question=on_question)
        await chat.conversations.store.aclose()
        self.paid.clear()
        return turn

    async def resume(self, *tools, on_question=None, **more):
        chat = self.chat("died.db", *tools, **more)
        (waiting,) = await chat.turns(states=["interrupted"])
        try:
            return await chat.resume(waiting.id, on_question=on_question)
        finally:
            await chat.conversations.store.aclose()


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def said(turn):
    return turn.tool_calls[0].result.result


class DiesAfterApproval:
    """A step nearer to the tool than the approval."""

    name = "dies"
    stage = "reserve"

    def __init__(self, world):
        self.world = world

    async def __call__(self, call, rest):
        self.world.die()
        return await rest()

    @hookimpl
    def flexchat_register_steps(self):
        yield self


@pytest.mark.parametrize("effect", ["read", "write"])
async def test_an_approval_is_not_asked_for_again(world, effect):
    """Killed after the reply and before the tool: the call runs once, and there need be no one to ask."""
    pay = world.tool(approve=True, effect=effect)
    await world.first(pay, on_question=world.person(YES), hooks=[DiesAfterApproval(world)])

    turn = await world.resume(pay, on_question=world.person(NO))

    assert (said(turn), world.paid, len(world.asked)) == ("paid 5", [5], 1)


async def test_a_refusal_stands(world):
    """Killed after the person has refused: whoever resumes the turn cannot turn the no into a yes."""
    pay = world.tool(approve=True)

    class Dies:
        @hookimpl
        def flexchat_tool_finished(self):
            world.die()

    await world.first(pay, on_question=world.person(NO), hooks=[Dies()])

    turn = await world.resume(pay, on_question=world.person(YES))

    assert "did not approve" in turn.content
    assert (world.paid, len(world.asked)) == ([], 1)


async def test_an_open_question_is_asked_again_as_the_same_question(world):
    pay = world.tool(approve=True)
    await world.first(pay, on_question=world.person(YES, dies=True))

    turn = await world.resume(pay, on_question=world.person(YES))

    assert (said(turn), world.paid) == ("paid 5", [5])
    first, second = world.asked
    assert (first.id, first.call_id, first.message) == (second.id, second.call_id, second.message)


async def test_an_open_question_without_a_person_refuses(world):
    pay = world.tool(approve=True)
    await world.first(pay, on_question=world.person(YES, dies=True))

    turn = await world.resume(pay)

    assert "nobody approved" in turn.content
    assert world.paid == []


async def test_a_turn_that_is_interrupted_while_a_person_thinks_asks_again(world):
    """The end of the process is not a reply."""
    pay = world.tool(approve=True)
    waiting = asyncio.Event()

    async def thinks(question):
        world.asked.append(question)
        waiting.set()
        await asyncio.Event().wait()

    chat = world.chat("died.db", pay)
    handle = chat.start("Pay", conversation="c", on_question=thinks)
    await waiting.wait()
    await chat.aclose()
    await chat.conversations.store.aclose()
    with contextlib.closing(sqlite3.connect(world.folder / "died.db")) as database:
        kinds = [kind for (kind,) in database.execute("SELECT kind FROM journal_entries ORDER BY number")]
    assert kinds[-1] == "question"
    assert handle.id


async def test_a_yes_to_one_call_is_none_to_another(world):
    """A gate that asks the same words about other arguments gets no recorded reply for them."""
    pay = world.tool()

    class Gate:
        name = "gate"
        stage = "approve"

        async def __call__(self, call, rest):
            reply = await call.ask("Sure?")
            world.die()
            return await rest() if reply.action == "accept" else ToolResult.failed(call.name, "no")

        @hookimpl
        def flexchat_register_steps(self):
            yield self

    class Doubles:
        """A policy of the new configuration."""

        name = "doubles"
        stage = "authorize"

        async def __call__(self, call, rest):
            return await rest() if call.arguments["amount"] == 10 else await call.again({"amount": 10})

        @hookimpl
        def flexchat_register_steps(self):
            yield self

    await world.first(pay, on_question=world.person(YES), hooks=[Gate()])

    turn = await world.resume(pay, on_question=world.person(NO), hooks=[Gate(), Doubles()])

    assert (turn.tool_calls[0].result.error, world.paid) == ("no", [])
    assert len(world.asked) == 2


async def test_several_questions_of_a_call_get_their_own_replies(world):
    """The same words twice: the first reply answers the first question, and the second is asked."""

    class Twice:
        name = "twice"
        stage = "approve"

        async def __call__(self, call, rest):
            first, second = await call.ask("Sure?"), await call.ask("Sure?")
            call.note(f"{first.content} {second.content}")
            return await rest()

        @hookimpl
        def flexchat_register_steps(self):
            yield self

    pay = world.tool()
    numbers = iter(range(9))

    async def person(question):
        number = next(numbers)
        if number == 1:
            world.die()
        return Reply(action="accept", content={"n": number})

    await world.first(pay, on_question=person, hooks=[Twice()])

    turn = await world.resume(pay, on_question=person, hooks=[Twice()])

    assert turn.tool_calls[0].result.notes == ("{'n': 0} {'n': 2}",)


async def test_tools_get_their_replies_back(world):
    """A tool that only reads runs again, and its question has its reply."""

    @tool(effect="read", name="pay")
    async def pay(amount: int, context: ToolContext) -> str:
        """Look."""
        reply = await context.ask("Which account?", {"type": "object"})
        world.die()
        return f"account {reply.content['n']}"

    await world.first(pay, on_question=world.person(Reply(action="accept", content={"n": 7})))

    turn = await world.resume(pay)

    assert (said(turn), len(world.asked)) == ("account 7", 1)


async def test_calls_made_by_tools_have_their_own_replies(world):
    inner = world.tool()

    @tool(effect="read")
    async def settle(context: ToolContext) -> str:
        """Pay."""
        result = (await context.call_tool("pay", {"amount": 5})).result
        world.die()
        return str(result)

    both = calls(("settle", {}))
    await world.first(inner, settle, on_question=world.person(YES), approve=True, reply=both)

    turn = await world.resume(inner, settle, on_question=world.person(NO), approve=True, reply=both)

    assert (said(turn), len(world.asked)) == ("paid 5", 2)


async def test_a_resumed_turn_that_keeps_asking_for_approval(world):
    """respond(approve=True) is part of the request: it holds when another process resumes the turn."""
    pay = world.tool()
    chat = world.chat("c.db", pay)
    await chat.respond("Pay", conversation="c", on_question=world.person(NO, dies=True), approve=True)
    await chat.conversations.store.aclose()

    turn = await world.resume(pay)

    assert "nobody approved" in turn.content
    assert world.paid == []


async def test_approval_demanded_later_does_not_deny_what_may_have_happened(world):
    """The tool was running when the process died; the new configuration requires approval, and nobody is there."""

    @tool(name="pay")
    async def dying(amount: int) -> str:
        """Pay."""
        world.die()
        return "paid"

    await world.first(dying)

    turn = await world.resume(world.tool(approve=True))

    assert "unknown" in turn.content
    assert world.paid == []


async def test_a_reply_that_cannot_be_recorded_is_not_acted_on(world):
    """Another process has resumed the turn meanwhile: this one runs nothing."""
    pay = world.tool(approve=True)

    async def person(question):
        with contextlib.closing(sqlite3.connect(world.folder / "c.db")) as database:
            database.execute("UPDATE journal_turns SET fence = fence + 1")
            database.commit()
        return YES

    with pytest.raises(LostTurnError):
        await world.first(pay, on_question=person)
    assert world.paid == []


async def test_replays_are_not_reported_again(world):
    pay = world.tool(approve=True)
    await world.first(pay, on_question=world.person(YES), hooks=[DiesAfterApproval(world)])
    chat = world.chat("died.db", pay)
    (waiting,) = await chat.turns(states=["interrupted"])
    handle = await chat.start_resumed(waiting.id)
    await handle.last()
    events = [event async for _, event in handle.events()]
    await chat.conversations.store.aclose()

    assert not any(isinstance(event, QuestionAsked) for event in events)
