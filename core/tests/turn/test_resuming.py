"""A turn whose process died goes on where it stopped: nothing recorded is paid for or run again.

A death is a copy of the database, taken at the moment of it, whose owners are no longer alive: what only the memory of
the process had is not in it.
"""

import asyncio
import contextlib
import sqlite3
import threading

import attrs
import pytest
from flexchat import (
    ChatRequestError,
    ConversationTurn,
    FlexChat,
    InterruptedTurnError,
    LostTurnError,
    StorageError,
    StuckTurnError,
    ToolContext,
    TurnNotWaitingError,
    TurnResumed,
    UnknownConversationError,
    UnknownTurnError,
    Usage,
    tool,
)
from flexchat.plugin import hookimpl
from flexchat.plugin.host import PluginHost
from flexchat.store import ConversationStoreType
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_testing import ScriptedProvider, calls, says

C = {"conversation": "c"}
RULE = {"name": "desk", "llm": "s", "model": "m", "tools": {"enabled": True}}
CONFIG = {"llms": {"s": {"provider": "scripted"}}, "responses": [RULE]}


def replies(*given):
    """Answer by what the model is sent, and not by how often it was asked: by the number of messages that are new."""

    def reply(messages, options):
        since = next(i for i, m in enumerate(reversed(messages)) if m.role == "user")
        answers = sum(m.role == "assistant" for m in messages[len(messages) - since :])
        return given[answers](messages, options) if callable(given[answers]) else given[answers]

    return ScriptedProvider([reply], repeat=True)


def chat_of(path, model, *tools, hooks=(), **config):
    chat = FlexChat.from_config({**CONFIG, **config}, providers={"s": model}, tools=tools, hooks=hooks)
    chat.keep_in(SqliteConversations(path))
    return chat


@pytest.fixture
def died(tmp_path):
    """Return what makes the copy, and where it is."""
    path = tmp_path / "died.db"

    def die():
        if path.exists():
            return
        with (
            contextlib.closing(sqlite3.connect(tmp_path / "c.db")) as old,
            contextlib.closing(sqlite3.connect(path)) as new,
        ):
            old.backup(new)
            new.execute("DELETE FROM owners")
            new.commit()

    die.path = path
    return die


class Counted:
    """Two tools that count, and may do something while they run."""

    def __init__(self, *, before=None, after=None):
        self.reads, self.writes = [], []

        @tool(effect="read")
        def look(what: str) -> str:
            """Look something up."""
            self.reads.append(what)
            return f"seen {what}"

        @tool(effect="write")
        def pay(amount: int) -> str:
            """Pay."""
            if before is not None:
                before()
            self.writes.append(amount)
            if after is not None:
                after()
            return f"paid {amount}"

        self.tools = look, pay


async def resumed(died, model, tools, **more):
    """Resume the only turn of the copy."""
    chat = chat_of(died.path, model, *tools.tools, **more)
    async with contextlib.AsyncExitStack() as closing:
        closing.push_async_callback(chat.aclose)
        closing.push_async_callback(chat.conversations.store.aclose)
        (waiting,) = await chat.turns(states=["interrupted"])
        turn = await chat.resume(waiting.id[:6])
        kept = await chat.conversations.turns("c")
        (now,) = await chat.turns()
        assert (now.id, now.state, [k.id for k in kept]) == (turn.id, "done", [turn.id])
        assert kept[0].messages == turn.response.messages
    return turn


LOOK, PAY = calls(("look", {"what": "tea"})), calls(("pay", {"amount": 5}))


async def interrupted(tmp_path, model, tools, **more):
    """Run a turn, in which something dies, to its end: what the dead process would have done does not count."""
    chat = chat_of(tmp_path / "c.db", model, *tools.tools, **more)
    turn = await chat.respond("Pay for the tea", **C)
    await chat.conversations.store.aclose()
    return turn


async def test_recorded_answers_and_results_are_not_asked_or_run_again(tmp_path, died):
    """Died while the model wrote its last answer: only that is asked for again."""

    def last(messages, options):
        died()
        return says("Done.")

    before, again = Counted(), Counted()
    whole = await interrupted(tmp_path, replies(LOOK, PAY, last), before)
    model = replies(None, None, says("All done."))

    turn = await resumed(died, model, again)

    assert (before.reads, before.writes, again.reads, again.writes) == (["tea"], [5], [], [])
    assert len(model.requests) == 1
    assert [m.role for m in model.requests[0].messages] == ["user", "assistant", "tool", "assistant", "tool"]
    assert (turn.id, turn.content) == (whole.id, "All done.")
    assert turn.response.tool_calls == whole.response.tool_calls
    assert [one.finish_reason for one in turn.response.rounds] == ["tool_calls", "tool_calls", "stop"]


async def test_recorded_answers_keep_their_price(tmp_path, died):
    """Prices have changed by the time the turn is resumed: what was paid then, was paid then."""

    def at(dollars):
        return {"llms": {"s": {"provider": "scripted", "prices": {"*": {"input": dollars, "output": 0}}}}}

    def last(messages, options):
        died()
        return says("Done.", usage=used)

    used = Usage(input_tokens=1_000_000, output_tokens=0)
    look = attrs.evolve(LOOK, usage=used)
    await interrupted(tmp_path, replies(look, last), Counted(), **at(2))

    turn = await resumed(died, replies(None, says("Done.", usage=used)), Counted(), **at(50))

    assert [one.cost.amount for one in turn.response.rounds] == [2, 50]


async def test_what_a_write_did_is_unknown_if_it_was_running(tmp_path, died):
    """The model is told so in plain words, and the tool is not run again."""
    before, again = Counted(before=died), Counted()
    await interrupted(tmp_path, replies(PAY, says("Paid.")), before)
    model = replies(None, lambda messages, options: messages[-1].content)

    turn = await resumed(died, model, again)

    assert again.writes == []
    assert "unknown" in turn.content
    assert "pay" in turn.content
    assert not turn.succeeded


async def test_an_answer_that_was_recorded_is_acted_on(tmp_path, died):
    """Died after the answer and before its call was claimed: the call runs, once."""

    class Hook:
        @hookimpl
        def flexchat_before_tool_call(self):
            died()

    before, again = Counted(), Counted()
    await interrupted(tmp_path, replies(PAY, says("Paid.")), before, hooks=[Hook()])

    turn = await resumed(died, replies(None, says("Paid.")), again)

    assert again.writes == [5]
    assert turn.succeeded


async def test_a_result_that_only_the_ledger_has_is_used(tmp_path, died):
    """Died between the end of the effect and its entry in the journal."""

    class Hook:
        @hookimpl
        def flexchat_tool_finished(self):
            died()

    before, again = Counted(), Counted()
    await interrupted(tmp_path, replies(PAY, says("Paid.")), before, hooks=[Hook()])

    turn = await resumed(died, replies(None, lambda messages, options: messages[-1].content), again)

    assert again.writes == []
    assert "paid 5" in turn.content
    assert turn.succeeded


async def test_phases_that_were_recorded_are_not_run_again(tmp_path, died):
    """The topic was asked for: it is known when the turn goes on, with its record and its tokens."""
    topics = []

    def reply(messages, options):
        if "topic_status" in messages[-1].content:
            topics.append(1)
            return '{"topic_status": "new_topic", "topic_summary": "tea money"}'
        died()
        return says("Yes.")

    config = {
        "topic": {"llm": "s", "model": "m"},
        "responses": [{**RULE, "match": {"topic_contains": "tea"}}, {"llm": "s", "model": "m"}],
    }
    whole = await interrupted(tmp_path, ScriptedProvider([reply], repeat=True), Counted(), **config)

    turn = await resumed(died, ScriptedProvider([reply], repeat=True), Counted(), **config)

    assert len(topics) == 1
    assert turn.profile == whole.profile
    assert [p.phase for p in turn.phases] == [p.phase for p in whole.phases]
    assert turn.phases[0] == whole.phases[0]


async def test_what_happened_before_is_not_told_again(tmp_path, died):
    """The reader of a resumed turn hears that it goes on, and then what is new."""

    def last(messages, options):
        died()
        return says("Done.")

    class Told:
        def __init__(self):
            self.names = []

        @hookimpl
        def flexchat_turn_started(self):
            self.names.append("started")

        @hookimpl
        def flexchat_turn_resumed(self, user_message):
            self.names.append(f"resumed {user_message}")

        @hookimpl
        def flexchat_tool_finished(self):
            self.names.append("tool")

        @hookimpl
        def flexchat_model_request_started(self):
            self.names.append("asked")

        @hookimpl
        def flexchat_turn_finished(self):
            self.names.append("finished")

    await interrupted(tmp_path, replies(LOOK, last), Counted())
    told = Told()
    await resumed(died, replies(None, says("Done.")), Counted(), hooks=[told])

    assert told.names == ["resumed Pay for the tea", "asked", "finished"]
    assert TurnResumed.__doc__


async def test_the_history_is_that_of_its_beginning(tmp_path, died):
    """Turns that came into the conversation meanwhile are behind it."""

    def reply(messages, options):
        if messages[-1].content == "two":
            died()
        return "|".join(m.content for m in messages)

    model = ScriptedProvider([reply], repeat=True)
    chat = chat_of(tmp_path / "c.db", model)
    for said in ("one", "two"):
        await chat.respond(said, **C)
    await chat.conversations.store.aclose()

    again = chat_of(died.path, model)
    (waiting,) = await again.turns(states=["interrupted"])
    turn = await again.resume(waiting.id)
    assert turn.content == "one|one|two"
    await again.conversations.store.aclose()


async def test_the_answer_keeps_its_format(tmp_path, died):
    """The schema is recorded with the request; a class is not, so that its data is what is returned."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    def reply(messages, options):
        died()
        return says('{"n": 3}')

    model = ScriptedProvider([reply], repeat=True)
    chat = chat_of(tmp_path / "c.db", model)
    await chat.respond("How many?", response_format=schema, variables={"who": "Ada"}, **C)
    await chat.conversations.store.aclose()

    assert (await resumed(died, model, Counted())).response.parsed == {"n": 3}


async def test_only_one_takes_it_up_and_only_an_interrupted_one(tmp_path, died):
    """Of two, one succeeds; a turn that runs, has ended, or is not there is refused with the reason."""
    seen = []

    async def reply(messages, options):
        died()
        (running,) = await chat.turns()
        with pytest.raises(TurnNotWaitingError, match="it is still running"):
            await chat.resume(running.id)
        seen.append(running)
        return says("Yes.")

    chat = chat_of(tmp_path / "c.db", ScriptedProvider([reply], repeat=True))
    turn = await chat.respond("x", **C)
    assert [one.state for one in seen] == ["running"]
    with pytest.raises(TurnNotWaitingError, match=r"it has ended \(done\)"):
        await chat.resume(turn.id)
    with pytest.raises(UnknownTurnError, match="there is no turn 'zz'"):
        await chat.resume("zz")
    with pytest.raises(UnknownTurnError):
        await chat.turn(turn.id, tenant="other")
    await chat.conversations.store.aclose()


async def test_who_lost_the_turn_changes_nothing(tmp_path):
    """A process that stood still finds its turn taken up, and ended, by another: it neither writes nor keeps."""
    path = tmp_path / "c.db"
    other = chat_of(path, ScriptedProvider([says("Mine.")], repeat=True))

    async def reply(messages, options):
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute("DELETE FROM owners")
            database.commit()
        (waiting,) = await other.turns(states=["interrupted"])
        assert (await other.resume(waiting.id)).content == "Mine."
        return says("Too late.")

    slow = chat_of(path, ScriptedProvider([reply], repeat=True))
    with pytest.raises(LostTurnError, match="another one has taken it up"):
        await slow.respond("x", **C)
    (kept,) = await other.conversations.turns("c")
    assert kept.messages[-1].content == "Mine."
    for chat in (slow, other):
        await chat.conversations.store.aclose()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "tools", "why"),
    [
        ({"responses": [{**RULE, "name": "other"}]}, True, "the rule desk it was answered by is gone"),
        ({}, False, "the tool pay it was calling is gone"),
    ],
)
async def test_a_turn_that_the_config_no_longer_fits_is_stuck(tmp_path, died, config, tools, why):
    """It says why, stays interrupted, and goes on when the change is undone."""

    class Hook:
        @hookimpl
        def flexchat_before_tool_call(self):
            died()

    await interrupted(tmp_path, replies(PAY, says("Paid.")), Counted(), hooks=[Hook()])
    chat = chat_of(died.path, replies(None, says("Paid.")), *(Counted().tools if tools else ()), **config)
    (waiting,) = await chat.turns(states=["interrupted"])
    with pytest.raises(StuckTurnError, match=why):
        await chat.resume(waiting.id)
    (stuck,) = await chat.turns(states=["interrupted"])
    assert why in stuck.error
    await chat.conversations.store.aclose()

    assert (await resumed(died, replies(None, says("Paid.")), Counted())).succeeded


async def test_the_steps_are_the_trace_of_the_turn(tmp_path):
    """What was asked, answered and run, in order, with the times; a deleted conversation takes them with it."""
    tools = Counted()
    chat = chat_of(tmp_path / "c.db", replies(LOOK, says("Seen.")), *tools.tools)
    turn = await chat.respond("Look", **C)

    found, steps = await chat.turn(turn.id)
    assert (found.state, found.message, found.error) == ("done", "Look", "")
    assert found.began_at <= found.ended_at
    assert [s.kind for s in steps] == ["started", "rule", "request", "answer", "tool", "request", "answer"]
    assert [s.number for s in steps] == [1, 2, 3, 4, 5, 6, 7]
    assert steps[4].data["record"]["result"]["result"] == "seen tea"
    assert steps[0].data["packages"] == ["flexchat-core 0.1.0", "flexchat-testing 0.1.0"]
    other = chat_of(tmp_path / "o.db", replies(says("x")), limits={"tool_calls_per_turn": 3})
    begun = [(await each.turn((await each.respond("x", **C)).id))[1][0].data["config"] for each in (other, chat, chat)]
    assert begun[0] != begun[1] == begun[2] == steps[0].data["config"]
    await other.conversations.store.aclose()

    await chat.conversations.delete("c")
    assert await chat.turns() == []
    await chat.conversations.store.aclose()


async def test_steps_are_deleted_long_after_the_end_of_their_turn(tmp_path):
    """The conversation keeps the turn; one that waits to be resumed keeps its steps."""
    chat = chat_of(tmp_path / "c.db", ScriptedProvider([says("x")], repeat=True), tools={"effects": {"keep_days": 1}})
    store = chat.conversations.store
    await chat.respond("old", **C)
    await store.database.write(lambda database: database.execute("UPDATE journal_turns SET ended_at = '2020-01-01'"))
    again = chat_of(tmp_path / "c.db", ScriptedProvider([says("x")], repeat=True), tools={"effects": {"keep_days": 1}})
    new = await again.respond("new", **C)

    assert [turn.id for turn in await again.turns()] == [new.id]
    assert len(await again.conversations.turns("c")) == 2
    for each in (store, again.conversations.store):
        await each.aclose()


async def test_the_thread_that_keeps_the_lease_ends_with_the_chat(tmp_path):
    """A server that reads its configuration again and again does not collect threads."""

    def threads():
        return {thread for thread in threading.enumerate() if thread.name == "flexchat lease"}

    before = threads()
    chat = chat_of(tmp_path / "c.db", ScriptedProvider([says("x")]))
    await chat.respond("x", **C)
    (thread,) = threads() - before
    await chat.aclose()
    thread.join(5)
    assert not thread.is_alive()
    await chat.conversations.store.aclose()


async def test_without_a_journal_nothing_can_be_resumed():
    """The error says what to add."""
    chat = FlexChat.from_config(CONFIG, providers={"s": ScriptedProvider(["x"])})
    with pytest.raises(ChatRequestError, match="conversations"):
        await chat.resume("x")


@pytest.mark.parametrize("how", ["by the next turn", "by hand"])
async def test_a_turn_that_is_not_resumed_is_told_to_the_next(tmp_path, died, how):
    """What was done stands in the conversation, and what is unknown: the model reads both."""
    ended = []

    class Hook:
        @hookimpl
        def flexchat_turn_failed(self, error):
            ended.append(error)

    before, again = Counted(before=died), Counted()
    await interrupted(tmp_path, replies(LOOK, PAY, says("Paid.")), before)
    chat = chat_of(died.path, ScriptedProvider([says("I see.")], repeat=True), *again.tools, hooks=[Hook()])
    (waiting,) = await chat.turns(states=["interrupted"])
    if how == "by hand":
        closed = await chat.close_turn(waiting.id)
        assert (closed.id, closed.status, [r.result.success for r in closed.response.tool_calls]) == (
            waiting.id,
            "failed",
            [True, False],
        )
    turn = await chat.respond("And?", **C)

    (request,) = chat.llms["s"].provider.requests
    texts = [m.content for m in request.messages if m.role == "tool"]
    assert "seen tea" in texts[0]
    assert "It is unknown whether 'pay' took effect" in texts[1]
    assert (again.reads, again.writes) == ([], [])
    assert [k.status for k in await chat.conversations.turns("c")] == ["failed", "done"]
    assert [(t.id, t.state) for t in await chat.turns()] == [(turn.id, "done"), (waiting.id, "failed")]
    assert [type(error).__name__ for error in ended] == ["InterruptedTurnError"]
    with pytest.raises(TurnNotWaitingError, match="failed"):
        await chat.resume(waiting.id)
    await chat.conversations.store.aclose()


@pytest.mark.parametrize("how", ["by the next turn", "by hand"])
async def test_an_interrupted_turn_without_a_rule_is_ended_whatever_the_rules_are_now(tmp_path, died, how):
    """It died in its first phase. No rule is chosen for it any more, and so none fails it, or the message after it."""
    of_topic = {"llm": "s", "model": "m", "match": {"topic_contains": "never"}}
    llms, topic = {"s": {"provider": "scripted"}, "t": {"provider": "scripted"}}, {"llm": "t", "model": "m"}

    def find(messages, options):
        died()
        return says("tea")

    first = ScriptedProvider([find, says("Done.")])
    config = {"llms": llms, "topic": topic, "responses": [of_topic, RULE]}
    async with FlexChat.from_config(config, providers={"s": first, "t": first}) as chat:
        chat.keep_in(SqliteConversations(tmp_path / "c.db"))
        await chat.respond("Pay", **C)
        await chat.conversations.store.aclose()
    config = {"llms": {"s": llms["s"]}, "responses": [{**RULE, "prompt": "Serve {{customer}}."}]}
    async with FlexChat.from_config(config, providers={"s": ScriptedProvider([says("I see.")])}) as chat:
        chat.keep_in(SqliteConversations(died.path))
        (waiting,) = await chat.turns(states=["interrupted"])

        if how == "by hand":
            closed = await chat.close_turn(waiting.id)
            assert (closed.id, closed.status, closed.rule) == (waiting.id, "failed", None)
        else:
            assert (await chat.respond("And?", variables={"customer": "Ann"}, **C)).content == "I see."

        ended = (await chat.turns())[-1]
        assert (ended.id, ended.state) == (waiting.id, "failed")
        assert "was interrupted, and was not resumed" in ended.error
        await chat.conversations.store.aclose()


async def test_a_closed_turn_whose_ledger_cannot_be_read_leaves_its_call_unknown(tmp_path, died):
    """Its open call may have run: only the ledger could exclude it."""

    async def broken(*args, **rest):
        raise StorageError("the file is damaged")

    await interrupted(tmp_path, replies(PAY, says("Paid.")), Counted(before=died))
    again = Counted()
    chat = chat_of(died.path, ScriptedProvider([says("I see.")]), *again.tools)
    chat.tools.effects.ledger.get = broken
    (waiting,) = await chat.turns(states=["interrupted"])
    closed = await chat.close_turn(waiting.id)
    (record,) = closed.response.tool_calls
    assert "what it did is unknown" in record.result.error
    assert ((await chat.respond("And?", **C)).content, again.writes) == ("I see.", [])
    await chat.conversations.store.aclose()


async def test_a_stuck_turn_can_be_ended(tmp_path, died):
    """Without its rule and its tools, too."""
    await interrupted(tmp_path, replies(PAY, says("Paid.")), Counted(before=died))
    chat = chat_of(died.path, ScriptedProvider([says("x")]), responses=[{"llm": "s", "model": "m"}])
    (waiting,) = await chat.turns(states=["interrupted"])
    turn = await chat.close_turn(waiting.id)
    (record,) = turn.response.tool_calls
    assert "It is unknown whether 'pay' took effect" in record.result.error
    await chat.conversations.store.aclose()


async def test_what_is_interrupted_is_taken_up_unasked(tmp_path, died):
    """By one of two processes; of all tenants."""
    model = replies(lambda m, o: died() or says("Done."))
    async with chat_of(tmp_path / "c.db", model) as chat:
        await chat.respond("Hi", **C, tenant="red")
        await chat.conversations.store.aclose()
    chats = [chat_of(died.path, replies(says("All done."))) for _ in range(2)]
    found = await asyncio.gather(*(chat.resume_interrupted() for chat in chats))
    ((handle,),) = [handles for handles in found if handles]
    assert ((await handle.result()).content, handle.info.tenant) == ("All done.", "red")
    assert await chats[0].resume_interrupted() == []
    for chat in chats:
        await chat.aclose()
        await chat.conversations.store.aclose()


async def test_a_turn_that_is_stuck_is_left_and_said_once(tmp_path, died, caplog):
    await interrupted(tmp_path, replies(PAY, says("Paid.")), Counted(before=died))
    chat = chat_of(died.path, ScriptedProvider([says("x")]), responses=[{"llm": "s", "model": "m"}])
    for _ in range(2):
        assert await chat.resume_interrupted() == []
    assert [record.message.count("cannot be resumed") for record in caplog.records] == [1]
    (waiting,) = await chat.turns(states=["interrupted"])
    assert waiting.error
    await chat.conversations.store.aclose()


async def test_a_turn_of_another_configuration_is_not_answered_by_this_one(tmp_path, died):
    """Where a file is shared: no rule had been chosen, so nothing says which would answer. A person may decide."""

    def reply(messages, options):
        if "topic_status" in messages[-1].content:
            died()
            return '{"topic_status": "new_topic", "topic_summary": "tea"}'
        return says("Yes.")

    config = {
        "topic": {"llm": "s", "model": "m"},
        "responses": [{**RULE, "match": {"topic_contains": "tea"}}, {"llm": "s", "model": "m"}],
    }
    await interrupted(tmp_path, ScriptedProvider([reply], repeat=True), Counted(), **config)
    chat = chat_of(died.path, replies(says("Another's.")))
    assert await chat.resume_interrupted() == []
    (waiting,) = await chat.turns(states=["interrupted"])
    assert "another configuration" in waiting.error
    assert (await chat.resume(waiting.id)).content == "Another's."
    await chat.conversations.store.aclose()


async def test_a_turn_whose_process_always_dies_is_not_resumed_for_ever(tmp_path, died, caplog):
    """A person still can."""
    await interrupted(tmp_path, replies(lambda m, o: died() or says("Done.")), Counted())
    chat = chat_of(died.path, replies(says("Done.")))
    with contextlib.closing(sqlite3.connect(died.path)) as file:
        file.execute("UPDATE journal_turns SET fence = 6")
        file.commit()
    for _ in range(2):
        assert await chat.resume_interrupted() == []
    assert [record.message.count("is not resumed any more") for record in caplog.records] == [1]
    (waiting,) = await chat.turns(states=["interrupted"])
    assert waiting.error == "it was interrupted 6 times"
    assert (await chat.resume(waiting.id)).status == "done"
    await chat.conversations.store.aclose()


async def test_a_turn_that_cannot_be_read_is_left_to_people(tmp_path, died):
    await interrupted(tmp_path, replies(lambda m, o: died() or says("Done.")), Counted())
    with contextlib.closing(sqlite3.connect(died.path)) as file:
        file.execute("UPDATE journal_entries SET data = '{' WHERE number = 1")
        file.commit()
    chat = chat_of(died.path, replies(says("Done.")))
    with pytest.raises(StorageError, match="cannot be read"):
        await chat.resume_interrupted()
    assert await chat.resume_interrupted() == []
    assert "cannot be read" in (await chat.turns())[0].error
    await chat.conversations.store.aclose()


async def test_a_turn_inside_a_tool_makes_its_effects_once(tmp_path, died):
    """The tool only reads, so it runs again, and with it the turn it starts; what that turn paid is not paid again."""
    counted = Counted(after=died)
    inner = FlexChat.from_config(CONFIG, providers={"s": replies(PAY, says("Paid."))}, tools=counted.tools)

    def agent_of(path, model):
        @tool(effect="read")
        async def agent() -> str:
            """Let another model do it."""
            return (await inner.respond("Pay")).content

        outer = chat_of(path, model, agent)
        inner.tools.effects.ledger = outer.tools.effects.ledger
        return outer

    first = agent_of(tmp_path / "c.db", replies(calls(("agent", {})), says("Done.")))
    assert (await first.respond("x", **C)).succeeded
    await first.conversations.store.aclose()
    again = agent_of(died.path, replies(None, says("Done again.")))
    (waiting,) = await again.turns(states=["interrupted"])
    turn = await again.resume(waiting.id)

    assert turn.content == "Done again."
    assert counted.writes == [5]
    await again.conversations.store.aclose()


async def test_a_kept_turn_inside_a_tool_is_the_same_one_with_the_key_of_the_call(tmp_path, died):
    """The tool passes its key on, and so finds the turn that it started before it died."""
    counted = Counted(after=died)

    def agents_of(path, model):
        inner = chat_of(path, replies(PAY, says("Paid.")), *counted.tools)

        @tool(honours_key=True)
        async def agent(context: ToolContext) -> str:
            """Let another model do it."""
            return (await inner.respond("Pay", conversation="inner", idempotency_key=context.key)).content

        return chat_of(path, model, agent), inner

    async def close(*chats):
        for chat in chats:
            await chat.conversations.store.aclose()
            await chat.aclose()

    first, inner = agents_of(tmp_path / "c.db", replies(calls(("agent", {})), says("Done.")))
    assert (await first.respond("x", **C)).succeeded
    await close(first, inner)
    again, inner = agents_of(died.path, replies(None, says("Done again.")))
    waiting = {turn.conversation: turn for turn in await again.turns(states=["interrupted"])}
    turn = await again.resume(waiting["c"].id)

    assert turn.content == "Done again."
    assert counted.writes == [5]
    assert [kept.id for kept in await again.conversations.turns("inner")] == [waiting["inner"].id]
    states = {effect.tool: effect.state for effect in await again.effects()}
    assert states == {"agent": "done", "pay": "unknown"}
    await close(again, inner)


@attrs.frozen
class Nothing:
    pass


class Theirs:
    """A third party's store: it keeps conversations, and neither effects nor a journal."""

    def __init__(self):
        self.kept = {}

    async def append(self, conversation, turn, *, tenant):
        turns = self.kept.setdefault(conversation, [])
        if all(turn.id != known.id for known in turns):
            turns.append(turn)

    async def turns(self, conversation, *, tenant, last=None):
        if conversation not in self.kept:
            raise UnknownConversationError(conversation)
        return self.kept[conversation]

    async def delete(self, conversation, *, tenant):
        del self.kept[conversation]

    async def aclose(self):
        pass


@pytest.mark.parametrize("appended", [False, True])
async def test_turns_of_another_store_are_journaled_in_a_file_of_ours(data_folder, tmp_path, appended):
    """Their end and the conversation are not changed in one transaction: died before, or between the two."""
    theirs, ours, copy = Theirs(), data_folder / "conversations.db", tmp_path / "copy.db"

    class Plugin:
        @hookimpl
        def flexchat_register_conversation_stores(self):
            yield ConversationStoreType(name="theirs", config_class=Nothing, create=lambda settings, folder: theirs)

    def made(model, tools):
        plugins = PluginHost()
        plugins.load_installed()
        plugins.register(Plugin(), "theirs")
        config = {**CONFIG, "conversations": {"provider": "theirs"}}
        return FlexChat.from_config(config, providers={"s": model}, tools=tools.tools, plugins=plugins)

    def last(messages, options):
        with contextlib.closing(sqlite3.connect(ours)) as old, contextlib.closing(sqlite3.connect(copy)) as new:
            old.backup(new)
            new.execute("DELETE FROM owners")
            new.commit()
        return says("Done.")

    before, again = Counted(), Counted()
    async with made(replies(PAY, last), before) as chat:
        whole = await chat.respond("Pay", **C)
        assert [turn.state for turn in await chat.turns()] == ["done"]
    for file in data_folder.glob("conversations.db*"):
        file.unlink()
    copy.rename(ours)
    if not appended:
        theirs.kept.clear()

    async with made(replies(None, says("All done.")), again) as chat:
        (waiting,) = await chat.turns(states=["interrupted"])
        turn = await chat.resume(waiting.id)
        (now,) = await chat.turns()
        effects = await chat.effects()
        await chat.conversations.delete("c")
        assert (await chat.turns(), (await chat.effects())[0].arguments) == ([], "")

    assert (now.state, turn.id, before.writes, again.writes) == ("done", whole.id, [5], [])
    assert [effect.state for effect in effects] == ["done"]


async def test_effects_of_a_turn_that_may_still_be_resumed_are_not_forgotten(tmp_path, died):
    """However long it lies around: without its row, an effect would happen again. Its conversation has not begun."""

    def last(messages, options):
        died()
        return says("Done.")

    before, again = Counted(), Counted()
    await interrupted(tmp_path, replies(PAY, last), before)
    store = SqliteConversations(died.path)
    await store.database.write(lambda database: database.execute("UPDATE effects SET ended_at = '2020-01-01'"))
    from_the_result = (
        "DELETE FROM journal_entries WHERE number >= (SELECT number FROM journal_entries WHERE kind = 'tool')"
    )
    await store.database.write(lambda database: database.execute(from_the_result))

    await store.ledger().forget(older_than_s=0)

    await store.aclose()
    turn = await resumed(died, replies(None, says("Done.")), again)
    assert (again.writes, turn.response.tool_calls[0].result.result) == ([], "paid 5")


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_conversation_deleted_while_its_turn_runs_does_not_come_back(tmp_path, elsewhere, fails):
    """Nor with a turn that waits for it; the effect stays in the ledger, and the next message begins it anew."""
    asked, go, tools = asyncio.Event(), asyncio.Event(), Counted()

    class Slow(ScriptedProvider):
        async def generate_chat(self, messages, model, options):
            if messages[-1].role == "tool":
                asked.set()
                await go.wait()
                if fails:
                    raise RuntimeError("broken")
            return await super().generate_chat(messages, model, options)

    def answer(messages, options):
        return calls(("pay", {"amount": 5})) if messages[-1].content == "pay" else says("Done.")

    chat = chat_of(tmp_path / "c.db", Slow([answer], repeat=True), *tools.tools)
    other = chat_of(tmp_path / "c.db", Slow([answer], repeat=True)) if elsewhere else chat
    await chat.respond("hello", **C)
    running = asyncio.create_task(chat.respond("pay", **C))
    await asked.wait()
    waiting = asyncio.create_task(chat.respond("and then?", **C))
    await asyncio.sleep(0)

    await other.conversations.delete("c")
    go.set()
    ended, refused = await asyncio.gather(running, waiting, return_exceptions=True)

    if fails:
        assert isinstance(ended, Exception)
        ended = ended.turn
    assert ended.conversation is None
    assert isinstance(refused, UnknownConversationError)
    assert await chat.conversations.list() == []
    assert [effect.state for effect in await chat.effects()] == ["done"]
    assert tools.writes == [5]
    new = await chat.respond("new", **C)
    assert [turn.id for turn in await chat.conversations.turns("c")] == [new.id]
    (message,) = chat.llms["s"].provider.requests[-1].messages
    assert message.content == "new"
    for each in {chat, other}:
        await each.aclose()
        await each.conversations.store.aclose()


async def test_a_killed_turn_of_a_deleted_conversation_is_not_resumed(tmp_path, died):
    """It was running when the conversation was deleted; what it has changed stays in the ledger."""
    tools = Counted()
    chat = chat_of(tmp_path / "c.db", ScriptedProvider([says("Hi")], repeat=True))
    await chat.respond("hello", **C)
    await chat.aclose()

    other = SqliteConversations(tmp_path / "c.db")

    class Deleting(ScriptedProvider):
        async def generate_chat(self, messages, model, options):
            if messages[-1].role == "tool":
                await other.delete("c", tenant="default")
                died()
            return await super().generate_chat(messages, model, options)

    killed = chat_of(tmp_path / "c.db", Deleting([PAY, says("Done.")]), *tools.tools)
    turn = await killed.respond("pay", **C)
    async with chat_of(died.path, ScriptedProvider([says("never")]), *tools.tools) as again:
        assert await again.turns() == []
        with pytest.raises(UnknownTurnError):
            await again.resume(turn.id)
        assert [effect.state for effect in await again.effects()] == ["done"]
        assert await again.conversations.list() == []
        await again.conversations.store.aclose()
    for each in (killed.conversations.store, other, chat.conversations.store):
        await each.aclose()


async def test_a_store_without_a_journal_keeps_no_turn_of_a_conversation_deleted_meanwhile():
    """The first turn begins a conversation; the second one's is deleted before the model answers."""
    theirs = Theirs()

    class Deleting(ScriptedProvider):
        async def generate_chat(self, messages, model, options):
            if messages[-1].content == "again":
                await theirs.delete("c", tenant="default")
            return await super().generate_chat(messages, model, options)

    chat = FlexChat.from_config(CONFIG, providers={"s": Deleting([says("Hi")], repeat=True)})
    chat.keep_in(theirs)
    async with chat:
        assert (await chat.respond("hello", **C)).conversation == "c"
        assert (await chat.respond("again", **C)).conversation is None
        assert theirs.kept == {}


async def test_an_interrupted_turn_deleted_before_it_is_ended_does_not_fail_the_next(tmp_path, died, monkeypatch):
    """Another process deletes the conversation between the list of its interrupted turns and their end."""
    await interrupted(tmp_path, replies(LOOK, PAY, says("Paid.")), Counted(before=died))
    chat, other = chat_of(died.path, ScriptedProvider([says("Hi")])), SqliteConversations(died.path)
    journal = chat.conversations.store.journal
    read = journal.list_interrupted

    async def waiting(conversation, *, tenant):
        ids = await read(conversation, tenant=tenant)
        await other.append("c", ConversationTurn(id="0", messages=()), tenant=tenant)
        await other.delete("c", tenant=tenant)
        return ids

    monkeypatch.setattr(journal, "list_interrupted", waiting)
    async with chat:
        turn = await chat.respond("And?", **C)
        assert [one.id for one in await chat.conversations.turns("c")] == [turn.id]
    for each in (other, chat.conversations.store):
        await each.aclose()


async def test_a_turn_that_is_stopped_in_order_is_resumed_as_often_as_that_happens(tmp_path):
    """A process that ends with a signal releases it: that is no sign that the turn ends its process."""
    began = asyncio.Event()

    async def stands_still(messages, options):
        began.set()
        await asyncio.Event().wait()

    chat = chat_of(tmp_path / "c.db", ScriptedProvider([stands_still], repeat=True))
    handle = chat.start("Pay", **C)
    for _ in range(8):
        await began.wait()
        began.clear()
        handle.interrupt()
        await handle.last()
        (handle,) = await chat.resume_interrupted()
    (row,) = await chat.turns()
    assert (row.state, row.fence, row.interruptions) == ("running", 9, 1)
    await chat.aclose()
    await chat.conversations.store.aclose()


@pytest.mark.slow
@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_a_tool_that_stops_its_process_each_time_is_left_to_a_person(tmp_path, effect):
    """By a signal that its process ends with in order: the sixth time counts as a sixth death would."""
    stops = asyncio.Event()

    @tool(effect=effect)
    async def look() -> str:
        """Signal its own process."""
        stops.set()
        await asyncio.Event().wait()
        return "never"

    chat = chat_of(tmp_path / "c.db", replies(calls(("look", {}))), look)
    handles, runs = [chat.start("Look", **C)], 0
    while handles and runs < 20:
        await stops.wait()
        stops.clear()
        runs += 1
        handles[0].interrupt()
        await handles[0].last()
        handles = await chat.resume_interrupted()
    (row,) = await chat.turns()
    assert (runs, row.state, row.error) == (7, "interrupted", "it was interrupted 6 times")
    await chat.aclose()
    await chat.conversations.store.aclose()


@pytest.mark.parametrize("failures", [1, 9])
async def test_a_turn_goes_on_when_its_steps_can_be_written_again(tmp_path, monkeypatch, failures):
    """Whether its release could be written at once, or is when interrupted turns are looked for."""
    counted, left = Counted(), [failures]

    def goes_away(messages, options):
        if left[0] == failures:
            monkeypatch.setattr(chat.journal, "write", write)
        return PAY

    async def write(*args, **options):
        left[0] -= 1
        if left[0] >= 0:
            raise StorageError("the database is away")
        return await written(*args, **options)

    chat = chat_of(tmp_path / "c.db", replies(LOOK, goes_away, says("Paid.")), *counted.tools)
    written = chat.journal.write
    with pytest.raises(InterruptedTurnError, match="can be resumed: the database is away"):
        await chat.respond("Pay", **C)
    assert [each.state for each in await chat.turns()] == ["interrupted" if failures == 1 else "running"]
    left[0] = 0
    (handle,) = await chat.resume_interrupted()
    assert (await handle.result()).content == "Paid."
    assert (len(counted.reads), counted.writes) == (1, [5])
    assert [each.state for each in await chat.turns()] == ["done"]
    await chat.conversations.store.aclose()
