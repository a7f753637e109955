"""Questions, suspended and accepted turns in a SQLite file: what the laws of every journal leave open."""

import asyncio
import os
import time

import attrs
import pytest
from flexchat.conversations.effect_rows import now_text, time_text
from flexchat.domain import AssistantMessage, ConversationTurn, EffectCall, TextPart, UserMessage
from flexchat.domain.journal import JournaledEvent, JournaledTurn, JournalEntry, TurnEnd
from flexchat.domain.questions import Approval, PendingQuestion, Question, Reply
from flexchat.errors import StorageError, UnknownQuestionError
from flexchat_sqlite import conversations as sqlite_conversations
from flexchat_sqlite import database as sqlite_database
from flexchat_sqlite import questions as sqlite_questions
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_sqlite.ledger import SqliteLedger

YES = Reply(action="accept", content={"amount": 5}, why="as agreed")


@pytest.fixture
async def store(tmp_path):
    store = SqliteConversations(tmp_path / "c.db")
    yield store
    await store.aclose()


@pytest.fixture
def journal(store):
    return store.journal


def asked(id, turn="a1", *, conversation="c", expires_in_s=3600.0, asked_s_ago=0.0, **rest):
    question = Question(message="Pay 5?", id=id, tool="pay", call_id="call", details={"amount": 5}, **rest)
    return PendingQuestion(
        question=question,
        tenant="t",
        conversation=conversation,
        turn=turn,
        asked_at=time_text(time.time() - asked_s_ago),
        expires_at=time_text(time.time() + expires_in_s),
    )


async def begin(journal, *questions, id="a1", conversation="c"):
    turn = JournaledTurn(id=id, tenant="t", conversation=conversation, state="running", owner="one")
    await journal.write(turn, [JournalEntry(number=1, kind="started", data={})], lease_s=60, questions=questions)
    return turn


async def end(store, turn):
    messages = UserMessage(content="Hi"), AssistantMessage(parts=(TextPart(text="Hello"),))
    kept = ConversationTurn(id=turn.id, messages=messages, topic="", llm="s", model="m")
    await store.append(turn.conversation, kept, tenant="t", end=TurnEnd(turn=turn, entries=(), state="done"))


@pytest.mark.parametrize("is_ended", [False, True])
async def test_a_reply_that_counts_for_the_tenant_outlives_its_conversation_without_texts(store, journal, is_ended):
    """One that counts within the conversation is deleted with it."""
    scopes = {"conversation": "k1", "tenant": "k2"}
    questions = [asked(id, digest="d", remember=scopes) for id in ("q1", "q2", "q3")]
    turn = await begin(journal, *questions)
    for id, scope in (("q1", "conversation"), ("q2", "tenant")):
        await journal.answer(id, tenant="t", reply=attrs.evolve(YES, remember=scope), by="ann")
    if is_ended:
        await end(store, turn)
    else:
        await store.append("c", ConversationTurn(id="b", messages=(), topic="", llm="s", model="m"), tenant="t")

    await store.delete("c", tenant="t")

    (left,) = await journal.questions(tenant="t")
    assert (left.id, left.conversation, left.remembered, left.replied_by) == ("q2", "", "k2", "ann")
    assert left.question == Question(message="", id="q2", tool="pay", digest="d", remember=scopes)
    assert left.reply == Reply(action="accept", remember="tenant")
    assert b"Pay 5?" not in store.path.read_bytes()
    if is_ended:
        await journal.revoke("q2", tenant="t")
        with pytest.raises(UnknownQuestionError):
            await journal.question("q2", tenant="t")


async def test_a_question_is_sent_again_in_growing_pauses(store, journal):
    """Until it was sent, has a reply or has expired; the one that was due longest comes first."""
    ages = {"q1": 0.0, "q2": 600.0, "q3": 100_000.0, "q4": 5.0, "q5": 5.0}
    await begin(journal, *(asked(id, asked_s_ago=age) for id, age in ages.items()), asked("q6", expires_in_s=-1))
    await journal.answer("q4", tenant="t", reply=YES, by="ann")
    await journal.mark_sent("q5", tenant="t")
    await journal.mark_sent("q1", tenant="another")
    await journal.mark_sent("none", tenant="t")

    taken = await journal.take_unsent(limit=2, again_s=60)
    rest = await journal.take_unsent(limit=9, again_s=60)

    assert [question.id for question in (*taken, *rest)] == ["q3", "q2", "q1"]
    assert not await journal.take_unsent(limit=9, again_s=60)
    rows = await store.database.read(
        lambda database: database.execute("SELECT id, send_at FROM questions WHERE id < 'q4'").fetchall()
    )
    for (_, send_at), pause_s in zip(sorted(rows), (60, 600, 3600), strict=True):
        assert time_text(time.time() + pause_s - 30) < send_at < time_text(time.time() + pause_s + 30)


async def test_of_many_that_take_unsent_questions_one_gets_each(store, journal, tmp_path):
    other = SqliteConversations(tmp_path / "c.db")
    await begin(journal, *(asked(f"q{n}") for n in range(20)))
    taking = [each.journal.take_unsent(limit=3, again_s=60) for each in (store, other) * 5]
    taken = [question.id for page in await asyncio.gather(*taking) for question in page]
    assert sorted(taken) == sorted(f"q{n}" for n in range(20))
    await other.aclose()


async def test_any_number_of_questions_expire_together(journal, monkeypatch):
    """In transactions of some each."""
    monkeypatch.setattr(sqlite_questions, "MAX_EXPIRED", 2)
    late = [asked(f"q{n}", expires_in_s=-1) for n in range(5)]
    await begin(journal, *late, asked("q9"))
    assert await journal.expire_questions() == 5
    assert [question.id for question in await journal.questions(tenant="t", states=["open"])] == ["q9"]


async def test_a_ledger_apart_from_the_journal_holds_no_questions(store, tmp_path):
    apart = SqliteLedger(SqliteConversations(tmp_path / "l.db").database, closes=True)
    assert (store.ledger().holds_questions, apart.holds_questions) == (True, False)
    await apart.aclose()


async def test_an_abandoned_pending_effect_is_forgotten_unless_it_has_a_handle(store, journal):
    """While its turn can go on, it stays."""
    ledger = store.ledger()
    await journal.suspend(await begin(journal, asked("q1")), [])
    for key, turn, handle in (("a" * 64, "gone", None), ("b" * 64, "gone", "1"), ("c" * 64, "a1", None)):
        call = EffectCall(key=key, tenant="t", conversation="c", turn=turn, place="1", tool="pay", digest="d")
        await ledger.claim(call, owner="o", lease_s=60)
        if handle is not None:
            await ledger.remember(key, 1, handle=handle)
        await ledger.release(key, 1, note="a question", is_pending=True)

    await ledger.forget(older_than_s=3600)
    assert {effect.state for effect in await ledger.list(tenant="t")} == {"pending"}
    await ledger.forget(older_than_s=-1)

    states = {effect.key[0]: effect.state for effect in await ledger.list(tenant="t")}
    assert states == {"a": "failed", "b": "pending", "c": "pending"}


async def _next(watch):
    return await asyncio.wait_for(anext(watch), 10)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["c.db", ":memory:"])
async def test_a_watch_sees_each_way_to_write(tmp_path, path):
    """Through the connection that syncs, through the one that does not, and through another store on the file."""
    store = SqliteConversations(path if path == ":memory:" else tmp_path / path)
    other = store if path == ":memory:" else SqliteConversations(tmp_path / path)
    turn = await begin(store.journal, asked("q1"), asked("q2"))
    unchanged = await begin(store.journal, id="b1")
    watch = store.journal.watch()
    assert await _next(watch) == ""
    for change in (
        lambda: store.journal.add_events(turn, [JournaledEvent(1, "text", "{}")]),
        lambda: store.journal.answer("q1", tenant="t", reply=YES, by="ann"),
        lambda: other.journal.answer("q2", tenant="t", reply=YES, by="ann"),
        lambda: other.journal.add_events(turn, [JournaledEvent(2, "text", "{}")]),
    ):
        seen = asyncio.create_task(_next(watch))
        await asyncio.sleep(0)
        assert not seen.done()
        await store.journal.write(unchanged, [], lease_s=30)  # a commit that concerns nobody who watches
        await change()
        assert await seen == turn.id
    await store.database.write(lambda database: database.execute("DELETE FROM journal_changes"))
    await store.journal.add_events(turn, [JournaledEvent(3, "text", "{}")])
    assert await _next(watch) == ""  # the notices it has missed are gone: any turn may have changed
    await watch.aclose()
    for each in {store, other}:
        await each.aclose()


async def test_a_watch_goes_on_where_its_file_was_replaced_and_ends_when_it_is_closed(store, journal, tmp_path):
    turn = await begin(journal)
    await journal.request_cancel(turn.id, tenant="t", by="ann")
    watch = journal.watch()
    await _next(watch)
    aside = tmp_path / "aside.db"
    os.rename(store.path, aside)
    seen = asyncio.create_task(_next(watch))
    await asyncio.sleep(0)
    os.rename(aside, store.path)
    await journal.request_cancel(turn.id, tenant="t", by="ann")
    assert await seen == turn.id
    waiting = asyncio.create_task(_next(watch))
    await asyncio.sleep(0)
    await store.aclose()
    with pytest.raises(StorageError, match="is closed"):
        await waiting


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["behind", "of one conversation", "due later"])
async def test_suspended_and_accepted_turns_cost_other_turns_nothing(tmp_path, monkeypatch, kind):
    """SQLite takes as many steps for each operation as with an empty file, however many turns wait."""
    counted = []
    add_functions = sqlite_conversations._add_functions

    def prepare(connection):
        add_functions(connection)
        connection.set_progress_handler(lambda: counted.append(None), 1)

    monkeypatch.setattr(sqlite_database, "READERS", 1)  # the first statement of a connection reads the schema
    costs = []
    for waiting in (0, 500):
        monkeypatch.setattr(sqlite_conversations, "_add_functions", add_functions)
        store = SqliteConversations(tmp_path / f"{waiting}.db")
        await store.database.write(lambda database, many=waiting: _fill(database, many, kind))
        await store.aclose()
        monkeypatch.setattr(sqlite_conversations, "_add_functions", prepare)
        store = SqliteConversations(tmp_path / f"{waiting}.db")
        await _all_operations(store, "w0", {}, counted)  # opens the connections, and makes rows in each table
        cost = {}
        await _all_operations(store, "w1", cost, counted)
        await store.aclose()
        costs.append(cost)
    empty, full = costs
    assert {name: steps for name, steps in full.items() if steps > 1.1 * empty[name] + 30} == {}, empty


def _fill(database, waiting, kind):
    later = time_text(time.time() + 3600) if kind == "due later" else ""
    for n in range(waiting):
        queue = "queue" if kind == "of one conversation" else f"s{n}" if kind == "behind" else f"q{n}"
        for id, state, conversation, due_at in (
            (f"e{n}", "suspended", f"s{n}", ""),
            (f"f{n}", "accepted", queue, later),
        ):
            database.execute(
                "INSERT INTO journal_turns (id, tenant, conversation, state, message, owner, fence, began_at, due_at) "
                "VALUES (?, 't', ?, ?, '', '', 1, ?, ?)",
                (id, conversation, state, now_text(), due_at),
            )
        database.execute(
            "INSERT INTO questions (id, tenant, conversation, turn, digest, state, asked_at, expires_at, replied_by, "
            "replied_at, used_by, remembered, question, send_at) "
            "VALUES (?, 't', ?, ?, '', 'open', ?, ?, '', '', '', '', '{}', NULL)",
            (f"e{n}", f"s{n}", f"e{n}", now_text(), time_text(time.time() + 3600)),
        )
    if kind == "of one conversation" and waiting:  # one runs, so that none of them is next
        database.execute(
            "INSERT INTO journal_turns (id, tenant, conversation, state, message, owner, fence, began_at) "
            "VALUES ('g', 't', 'queue', 'suspended', '', '', 1, '')"
        )


async def _all_operations(store, id, cost, counted):
    journal, ledger, conversation = store.journal, store.ledger(), f"c{id}"
    queue = "queue" if id == "w1" else "other"

    async def measured(name, operation):
        counted.clear()
        result = await operation
        cost[name] = len(counted)
        return result

    await measured("list_interrupted", journal.list_interrupted(queue, tenant="t"))
    turn = await measured("begin", begin(journal, id=id, conversation=conversation))
    step = JournalEntry(number=2, kind="question", data={})
    question = asked(f"q{id}", id, conversation=conversation, digest="d")
    await measured("ask", journal.write(turn, [step], lease_s=None, questions=[question]))
    await measured("list_commands", journal.list_commands("one"))
    assert await measured("suspend", journal.suspend(turn, []))
    await measured("question", journal.question(question.id, tenant="t"))
    await measured("answer", journal.answer(question.id, tenant="t", reply=YES, by="ann"))
    assert [each.id for each in await measured("list_resumable", journal.list_resumable(limit=1))] == [id]
    turn = await measured("acquire", journal.acquire(id, tenant="t", owner="one", lease_s=60))
    values = {"conversation": conversation, "turn": id, "place": "1", "tool": "pay", "digest": "d"}
    call = EffectCall(key=f"{id}{'0' * 62}", tenant="t", **values)
    approval = Approval(question.id, "d")
    claim = await measured("claim", ledger.claim(call, owner="o", lease_s=60, approval=approval))
    assert claim.outcome == "yours"
    assert await measured("release", ledger.release(call.key, 1, note=""))
    await measured("list_resumable of none", journal.list_resumable(limit=9))
    await measured("expire", journal.expire_questions())
    await measured("take_unsent", journal.take_unsent(limit=9, again_s=60))
    await measured("open of conversation", journal.questions(tenant="t", conversation=conversation, states=["open"]))
    await measured("remembered", journal.questions(tenant="t", remembered="k"))
    await measured("remembered at all", journal.questions(tenant="t", remembered=""))
    await measured("of turn", journal.questions(tenant="t", turn=id))
    await measured("request_cancel", journal.request_cancel(id, tenant="t", by="ann"))
    await measured("end", end(store, turn))
    await measured("delete", store.delete(conversation, tenant="t"))
