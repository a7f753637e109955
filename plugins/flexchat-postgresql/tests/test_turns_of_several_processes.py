"""Turns that one process begins and others answer, cancel or run, on one database."""

import asyncio

import pytest
from flexchat import FlexChat, Reply, tool
from flexchat.host import wait_for_answer
from flexchat_testing import ScriptedProvider, calls, says

YES = Reply(action="accept")


@pytest.fixture
def ran():
    """Return a list of what the tools have done."""
    return []


@pytest.fixture
def open_chat(dsn, schema, ran):
    """Return a function that opens a chat on one database, as another process would."""

    @tool(approve=True)
    async def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return "paid"

    def open_chat(*replies):
        config = {
            "llms": {"bot": {"provider": "scripted"}},
            "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}],
            "conversations": {"provider": "postgresql", "dsn": dsn, "schema": schema},
            "questions": {"expires": "1h"},
            "limits": {"question_timeout_ms": 600_000},
        }
        return FlexChat.from_config(config, tools=[pay], providers={"bot": ScriptedProvider(replies)})

    return open_chat


async def asked(chat):
    """Return the open question, once there is one."""
    while not (rows := await chat.pending()):  # noqa: ASYNC110  another process
        await asyncio.sleep(0.01)
    return rows[0]


async def test_a_turn_is_suspended_answered_and_finished_in_three(open_chat, ran):
    async with open_chat(calls(("pay", {"amount": 5}))) as first:
        turn = await first.respond("Pay", conversation="c")
        assert (turn.status, ran) == ("suspended", [])
    async with open_chat() as second:
        assert await second.answer(turn.pending[0].id, YES, by="ann", resume=False) is None
    async with open_chat(says("Paid.")) as third:
        (handle,) = await third.resume_interrupted()
        turn = await handle.result()
        (effect,) = await third.effects()
        assert (await third.pending(states=["replied"]))[0].used_by == effect.key

    assert (turn.status, turn.content, ran) == ("done", "Paid.", [5])


async def test_a_process_that_waits_gets_a_reply_and_a_cancellation_from_another(open_chat, ran):
    """By a notice: it would wait for ten minutes."""
    replies = calls(("pay", {"amount": 1})), says("Paid."), calls(("pay", {"amount": 2}))
    async with asyncio.timeout(60), open_chat(*replies) as chat, open_chat() as other:
        paid = chat.start("Pay", conversation="c", on_question=wait_for_answer)
        await other.answer((await asked(other)).id, YES, by="bob")
        assert (await paid.result()).status == "done"

        stopped = chat.start("Pay", conversation="c", on_question=wait_for_answer)
        await asked(other)
        assert (await other.cancel_turn(stopped.id)).status == "cancelled"
        assert [each.state for each in await chat.pending(turn=stopped.id, states=["withdrawn"])] == ["withdrawn"]

    assert ran == [1]


@pytest.mark.slow
async def test_accepted_turns_of_a_conversation_run_in_sequence_in_any_process(open_chat):
    """Whichever of them is first to look; each once."""
    async with open_chat() as chat:
        for n in range(12):
            await chat.submit(f"{n}", conversation="cd"[n % 2])
    finished = []

    async def work(chat):
        while len(finished) < 12:
            for handle in await chat.resume_interrupted(most=1):
                finished.append((await handle.result()).id)
            await asyncio.sleep(0.01)

    chats = [open_chat(*(says("Done.") for _ in range(12))) for _ in range(3)]
    await asyncio.gather(*map(work, chats))
    for name, expected in (("c", [0, 2, 4, 6, 8, 10]), ("d", [1, 3, 5, 7, 9, 11])):
        turns = await chats[0].conversations.turns(name)
        assert [turn.messages[0].content for turn in turns] == [f"{n}" for n in expected]
    for chat in chats:
        await chat.aclose()
    assert len(set(finished)) == len(finished) == 12
