"""Questions in PostgreSQL: commits that break, servers that crash, and transactions that meet."""

import asyncio
import contextlib

import attrs
import psycopg
import pytest
from flexchat import FlexChatError, UserMessage
from flexchat.store import (
    Approval,
    ClosedQuestionError,
    ConversationTurn,
    EffectCall,
    JournaledTurn,
    JournalEntry,
    LostTurnError,
    PendingQuestion,
    Question,
    Reply,
    TurnEnd,
    TurnNotWaitingError,
    UnknownQuestionError,
)
from flexchat_postgresql.config import PostgresqlConfig
from flexchat_postgresql.conversation_store import PostgresqlConversations
from postgres_server import breaking

LIVES = 600.0
LATER, EARLIER = "2999-01-01T00:00:00.000+00:00", "2026-01-01T00:00:00.000+00:00"
YES = Reply(action="accept", content={"amount": 5})
WHEN = pytest.mark.parametrize("when", ["before", "after"])


def begun(id="a1", conversation="c", **rest):
    return JournaledTurn(id=id, tenant="t", conversation=conversation, state="running", owner="o", **rest)


def accepted(id, conversation="c"):
    return JournaledTurn(id=id, tenant="t", conversation=conversation, state="accepted", fence=0)


def steps(*numbers, kind="phase", **data):
    return [JournalEntry(number=n, kind=kind, data=data, at="2026") for n in numbers]


def question(id="q1", turn="a1", conversation="c", expires_at=LATER, **rest):
    asked = Question(id=id, message="May it?", details={"arguments": {"amount": 5}}, digest=f"d{id}", **rest)
    return PendingQuestion(
        question=asked, tenant="t", conversation=conversation, turn=turn, asked_at=EARLIER, expires_at=expires_at
    )


def call(name="1"):
    return EffectCall(
        key=name.encode().hex().ljust(64, "0"),
        **{"tenant": "t", "conversation": "c", "turn": "a1", "place": "1.0", "tool": "pay", "digest": "d"},
    )


@pytest.fixture
async def open_store(dsn, schema):
    made = []

    def open_store(dsn=dsn, **settings):
        made.append(PostgresqlConversations(PostgresqlConfig(**{"dsn": dsn, "schema": schema, **settings})))
        return made[-1]

    yield open_store
    for store in made:
        await store.aclose()


@pytest.fixture
def store(open_store):
    return open_store(pool_size=3)


async def ask(store, *asked):
    turn = begun(asked[0].turn, asked[0].conversation)
    await store.journal.write(turn, steps(1), lease_s=LIVES)
    await store.journal.write(turn, steps(2), lease_s=None, questions=asked)
    return turn


async def state_of(store, id="a1"):
    return (await store.journal.read(id, tenant="t"))[0].state


@WHEN
async def test_a_question_is_asked_suspended_and_answered_once(store, when):
    """Each where its commit broke; the reply is not refused because it is there."""
    journal = store.journal
    await journal.write(begun(), steps(1), lease_s=LIVES)
    with breaking(store.connections, when):
        await journal.write(begun(), steps(2), lease_s=None, questions=[question()])
    with breaking(store.connections, when):
        assert await journal.suspend(begun(), steps(3))
    with breaking(store.connections, when):
        answered = await journal.answer("q1", tenant="t", reply=YES, by="ann")
    assert answered == await journal.question("q1", tenant="t")
    assert (answered.state, answered.reply, answered.replied_by) == ("replied", YES, "ann")
    with breaking(store.connections, when), pytest.raises(ClosedQuestionError, match="by ann"):
        await journal.answer("q1", tenant="t", reply=YES, by="ann")
    turn, entries = await journal.read("a1", tenant="t")
    assert (turn.state, turn.suspensions, [step.number for step in entries]) == ("interrupted", 1, [1, 2, 3])


async def test_a_suspension_that_was_committed_is_true_after_the_reply(store):
    """Though the turn goes on by then."""
    await ask(store, question())

    async def answer():
        await store.journal.answer("q1", tenant="t", reply=YES, by="ann")

    with broken_after(store.connections, answer):
        assert await store.journal.suspend(begun(), steps(3))
    assert await state_of(store) == "interrupted"


@contextlib.contextmanager
def broken_after(connections, meanwhile):
    """Break the connection of the next transaction after its commit, and await *meanwhile* before it is repeated."""
    acquire = connections._acquire

    @contextlib.asynccontextmanager
    async def broken(begin):
        async with acquire(begin) as connection:
            yield connection
        connections._acquire = acquire
        await meanwhile()
        raise psycopg.OperationalError("the connection is lost")

    connections._acquire = broken
    try:
        yield
    finally:
        connections._acquire = acquire


async def test_a_reply_that_another_gave_meanwhile_is_not_ours(store, open_store):
    """A broken connection proves nothing: the row shows who has replied."""
    await ask(store, question())
    other = open_store()

    async def meanwhile():
        await other.journal.answer("q1", tenant="t", reply=YES, by="bob")

    with breaking(store.connections, "before", meanwhile), pytest.raises(ClosedQuestionError, match="by bob"):
        await store.journal.answer("q1", tenant="t", reply=YES, by="ann")


@WHEN
async def test_an_approval_whose_use_broke_is_used_once(store, when):
    """By the call that used it, and by no later one of the same name."""
    await ask(store, question())
    await store.journal.answer("q1", tenant="t", reply=YES, by="ann")
    approval = Approval("q1", "dq1")
    with breaking(store.connections, when):
        assert await store.journal.use_approval(approval, tenant="t", by="a1 1.0")
    with breaking(store.connections, when):
        assert not await store.journal.use_approval(approval, tenant="t", by="a1 1.0")


@WHEN
@pytest.mark.parametrize("is_pending", [False, True])
async def test_a_claim_with_an_approval_whose_commit_broke_is_yours_once(store, when, is_pending):
    """So is its release."""
    await ask(store, question())
    await store.journal.answer("q1", tenant="t", reply=YES, by="ann")
    ledger, approval = store.ledger(), Approval("q1", "dq1")
    for fence in (1, 2):
        with breaking(store.connections, when):
            claim = await ledger.claim(call(), owner="a", lease_s=LIVES, approval=approval)
        assert (claim.outcome, claim.effect.fence) == ("yours", fence)
        assert (await store.journal.question("q1", tenant="t")).used_by == call().key
        assert (await ledger.claim(call("2"), owner="a", lease_s=LIVES, approval=approval)).outcome == "unapproved"
        with breaking(store.connections, when):
            assert await ledger.release(call().key, fence, note="why", is_pending=is_pending)
        used_by = (await store.journal.question("q1", tenant="t")).used_by
        assert used_by == (call().key if is_pending else "")
    assert (await ledger.get(call().key, tenant="t")).state == ("pending" if is_pending else "failed")


@WHEN
async def test_an_accepted_turn_whose_commit_broke_is_accepted_once(store, when):
    """So is its acquisition, and a request to cancel it."""
    journal = store.journal
    with breaking(store.connections, when):
        await journal.write(accepted("a1"), steps(1, kind="accepted"), lease_s=None)
    with breaking(store.connections, when):
        asked = await journal.request_cancel("a1", tenant="t", by="ann")
    assert (asked.state, asked.cancelled_by) == ("accepted", "ann")
    with breaking(store.connections, when):
        taken = await journal.acquire("a1", tenant="t", owner="p", lease_s=LIVES)
    assert (taken.state, taken.fence, taken.owner) == ("running", 1, "p")
    with pytest.raises(TurnNotWaitingError):
        await journal.acquire("a1", tenant="t", owner="p", lease_s=LIVES)


async def test_an_accepted_turn_that_runs_before_its_commit_is_confirmed_is_accepted(store):
    """Its caller is not refused because another process was quick."""
    await store.list(tenant="t")

    async def run():
        await store.journal.acquire("a1", tenant="t", owner="p", lease_s=LIVES)

    with broken_after(store.connections, run):
        await store.journal.write(accepted("a1"), steps(1, kind="accepted"), lease_s=None)
    assert await state_of(store) == "running"


@WHEN
async def test_questions_whose_expiry_broke_are_expired(store, when):
    """Also more of them than one transaction marks."""
    await ask(store, *(question(f"q{n}", expires_at=EARLIER) for n in range(510)))
    await store.journal.forget(older_than_s=LIVES, events_older_than_s=LIVES)
    with breaking(store.connections, when):
        await store.journal.expire_questions()
    assert await store.journal.expire_questions() == 0
    assert len(await store.journal.questions(tenant="t", states=["expired"], limit=1000)) == 510


async def test_a_reply_with_any_text_is_a_reply(store):
    """Also with escapes that the server's JSON functions refuse, and a step that records it."""
    text, journal = "\0 \ud83d", store.journal
    turn = await ask(store, question())
    await journal.answer("q1", tenant="t", reply=attrs.evolve(YES, content={"text": text}), by=text)
    assert (await journal.question("q1", tenant="t")).reply.content == {"text": text}
    assert await journal.use_approval(Approval("q1", "dq1"), tenant="t", by="b")
    assert not await journal.use_approval(Approval(text, text), tenant="t", by="b")
    assert await journal.list_commands("o") == ["a1"]
    await journal.write(
        turn, steps(3, kind="reply", id="q1", text=text) + steps(4, kind="reply", id=text), lease_s=None
    )
    assert await journal.list_commands("o") == []


async def test_a_remembered_reply_outlives_its_conversation_without_its_texts(store):
    """Unless it counts within that conversation only."""
    remember = {"conversation": "k1", "always": "k2"}
    await store.append("c", ConversationTurn(id="1", messages=(UserMessage(content="x"),)), tenant="t")
    asked = [question(f"q{n}", remember=remember) for n in range(3)]
    await ask(store, *asked)
    for n, scope in enumerate(("conversation", "always", "")):
        reply = attrs.evolve(YES, remember=scope, why="reason")
        await store.journal.answer(f"q{n}", tenant="t", reply=reply, by="ann")

    await store.delete("c", tenant="t")

    (kept,) = await store.journal.questions(tenant="t")
    assert (kept.id, kept.remembered, kept.conversation, kept.question.digest) == ("q1", "k2", "", "dq1")
    assert (kept.question.message, kept.question.details, kept.reply.content, kept.reply.why) == ("", {}, {}, "")
    await store.journal.revoke("q1", tenant="t")
    store.journal.renew("o", 0.0)
    await store.journal.forget(older_than_s=0, events_older_than_s=0)
    with pytest.raises(UnknownQuestionError):
        await store.journal.question("q1", tenant="t")


async def test_a_pending_effect_of_an_ended_turn_is_forgotten(store):
    """Nothing was changed; of one that may have started a job elsewhere, that is unknown."""
    turn, ledger = await ask(store, question()), store.ledger()
    for name in "12":
        await ledger.claim(call(name), owner="a", lease_s=LIVES)
    await ledger.remember(call("2").key, 1, handle="job")
    for name in "12":
        await ledger.release(call(name).key, 1, note="", is_pending=True)
    await asyncio.sleep(0.005)  # rows hold milliseconds

    async def states():
        await ledger.forget(older_than_s=0)
        return [(await ledger.get(call(name).key, tenant="t")).state for name in "12"]

    assert await states() == ["pending", "pending"]
    end = TurnEnd(turn=turn, entries=(), state="cancelled")
    await store.append("c", ConversationTurn(id="a1", messages=(UserMessage(content="x"),)), tenant="t", end=end)
    assert await states() == ["failed", "unknown"]


@pytest.mark.slow
async def test_a_question_survives_the_crash_of_the_server(own_server, open_store):
    """With the steps before it; so does an accepted turn."""
    store = open_store(own_server.dsn(), connect_timeout_s=30)
    await ask(store, question())
    await store.journal.write(accepted("b1", "d"), steps(1, kind="accepted"), lease_s=None)
    await asyncio.to_thread(own_server.crash)
    await asyncio.to_thread(own_server.start)
    other = open_store(own_server.dsn())
    assert (await other.journal.question("q1", tenant="t")).state == "open"
    assert len((await other.journal.read("a1", tenant="t"))[1]) == 2
    assert await state_of(other, "b1") == "accepted"


@pytest.mark.slow
async def test_whatever_meets_waits_for_no_deadlock(dsn, open_store):
    """Replies, suspensions, expiry, ends and deletions of the same turns, in two processes; every turn ends right."""
    stores = open_store(pool_size=8), open_store(pool_size=8)
    await stores[0].list(tenant="t")
    done = False

    async def turns(worker):
        store = stores[worker % 2]
        for n in range(15):
            id, ids = f"{worker}{n:02}", [f"{worker}-{n}-{m}" for m in range(3)]
            turn = begun(id, f"c{n % 3}")
            await store.append(turn.conversation, ConversationTurn(id=f"0{id}", messages=()), tenant="t")
            expiries = (LATER, LATER, EARLIER if n % 4 == 0 else LATER)
            asked = [question(q, id, turn.conversation, e) for q, e in zip(ids, expiries, strict=True)]
            with contextlib.suppress(FlexChatError):
                await store.journal.write(turn, steps(1), lease_s=LIVES, questions=asked)
                answers = [
                    stores[m % 2].journal.answer(q, tenant="t", reply=YES, by=f"{m}") for q in ids for m in range(2)
                ]
                suspending = store.journal.suspend(turn, steps(2))
                is_suspended, *outcomes = await asyncio.gather(suspending, *answers, return_exceptions=True)
                replied = [one for one in outcomes if not isinstance(one, Exception)]
                assert len({one.id for one in replied}) == len(replied)
                if is_suspended is True and replied:
                    turn = await stores[1].journal.acquire(id, tenant="t", owner="p", lease_s=LIVES)
                end = TurnEnd(turn=turn, entries=(), state="done", lease_s=LIVES)
                await store.append(turn.conversation, ConversationTurn(id=id, messages=()), tenant="t", end=end)

    async def disturb(store):
        n = 0
        while not done:
            n += 1
            await store.journal.expire_questions()
            with contextlib.suppress(FlexChatError):
                await store.delete(f"c{n % 3}", tenant="t")

    async def deadlocks():
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            counted = await connection.execute(
                "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            )
            return await counted.fetchone()

    before = await deadlocks()
    disturbing = [asyncio.create_task(disturb(store)) for store in stores]
    await asyncio.gather(*(turns(n) for n in range(6)))
    done = True
    await asyncio.gather(*disturbing)
    assert await deadlocks() == before


async def test_a_turn_of_a_deleted_conversation_is_not_suspended(store):
    """Its questions are gone, so that no reply could resume it."""
    await store.append("c", ConversationTurn(id="1", messages=()), tenant="t")
    turn = await ask(store, question())
    await store.delete("c", tenant="t")
    await store.journal.write(turn, steps(3), lease_s=None, questions=[question("q2")])
    assert await store.journal.questions(tenant="t") == []
    with pytest.raises(LostTurnError):
        await store.journal.suspend(turn, steps(4))
