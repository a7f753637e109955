"""An effect that was unknown when its turn ended: later turns of the conversation read how it ended."""

import asyncio
import threading

import pytest
from flexchat import FlexChat, ToolMessage, tool
from flexchat.plugin import hookimpl
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_testing import ScriptedProvider, calls, says

C = {"conversation": "c"}
CONFIG = {
    "llms": {"s": {"provider": "scripted"}},
    "responses": [{"llm": "s", "model": "m", "tools": {"enabled": True}}],
}


@tool(timeout_ms=1)
async def pay(amount: int) -> None:
    """Pay, and never answer."""
    await asyncio.Event().wait()


@pytest.fixture
async def store(tmp_path):
    store = SqliteConversations(tmp_path / "c.db")
    yield store
    await store.aclose()


def chat_with(store, *replies, tools=(pay,)):
    model = ScriptedProvider(replies)
    chat = FlexChat.from_config(CONFIG, tools=list(tools), providers={"s": model})
    if store is not None:
        chat.keep_in(store)
    return chat, model


def results_in(model):
    return [m for m in model.requests[-1].messages if isinstance(m, ToolMessage)]


@pytest.mark.parametrize(
    ("state", "result", "text", "is_error"),
    [
        ("done", None, "'pay' took effect (settled by ann: receipt 118).", False),
        ("done", {"id": 7}, "'pay' took effect (settled by ann: receipt 118). Its result: ", False),
        ("failed", None, "'pay' did not take effect (settled by ann: receipt 118).", True),
    ],
)
async def test_the_next_turn_reads_what_a_person_settled(store, state, result, text, is_error):
    chat, model = chat_with(
        store, calls(("pay", {"amount": 10})), says("Unknown."), says("Still unknown."), says("Known.")
    )
    await chat.respond("Pay 10", **C)
    await chat.respond("And?", **C)
    (before,) = results_in(model)
    (effect,) = await chat.effects(states=["unknown"])

    await chat.settle_effect(effect.key, state, by="ann", note="receipt 118", result=result)
    await chat.respond("And now?", **C)

    (after,) = results_in(model)
    assert before.is_error
    assert "Known since then" not in before.content
    assert after.content.startswith(before.content)  # which asks not to repeat the call
    assert f"Known since then: {text}" in after.content
    assert ('"id": 7' in after.content) is bool(result)
    assert after.is_error is is_error


async def test_in_another_process_and_for_its_own_call_only(store):
    chat, _ = chat_with(store, calls(("pay", {"amount": 10}), ("pay", {"amount": 20})), says("Unknown."))
    await chat.respond("Pay 10 and 20", **C)
    effects = await chat.effects(states=["unknown"])
    second = next(effect for effect in effects if "20" in effect.arguments)
    await chat.settle_effect(second.key, "failed", by="ann")

    other, model = chat_with(store, says("Known."))
    await other.respond("And?", **C)

    first, second = results_in(model)
    assert "Known since then" not in first.content
    assert "did not take effect (settled by ann)" in second.content


async def test_a_cancelled_turn_too(store):
    started = asyncio.Event()

    @tool
    async def pay(amount: int) -> None:
        """Pay, and never answer."""
        started.set()
        await asyncio.Event().wait()

    chat, model = chat_with(store, calls(("pay", {"amount": 10})), says("Known."), tools=[pay])
    running = chat.start("Pay 10", **C)
    await started.wait()
    running.cancel()
    assert (await running.result()).status == "cancelled"
    (effect,) = await chat.effects(states=["unknown"])

    await chat.settle_effect(effect.key, "done", by="ann")
    await chat.respond("And?", **C)

    (result,) = results_in(model)
    assert "'pay' took effect (settled by ann)" in result.content


async def test_an_answer_that_came_late(store):
    finish = threading.Event()

    @tool(timeout_ms=20)
    def pay(amount: int) -> dict:
        """Pay."""
        finish.wait(60)
        return {"paid": amount}

    chat, model = chat_with(store, calls(("pay", {"amount": 10})), says("Unknown."), says("Known."), tools=[pay])
    await chat.respond("Pay 10", **C)
    finish.set()
    while (await chat.effects())[0].state == "unknown":  # noqa: ASYNC110  the thread's end is recorded in the background
        await asyncio.sleep(0.01)
    await chat.respond("And?", **C)

    (result,) = results_in(model)
    assert "'pay' took effect (reported by its tool). Its result: " in result.content
    assert '"paid": 10' in result.content


async def test_a_turn_cancelled_while_the_outcome_is_recorded(store):
    """Its record has the effect as unknown; the next turn reads the outcome, and not that the tool was late."""
    ledger, entered, leave = store.ledger(), asyncio.Event(), asyncio.Event()
    finish = ledger.finish

    async def slow(*args, **rest):
        entered.set()
        await leave.wait()
        return await finish(*args, **rest)

    ledger.finish = slow

    @tool
    def pay(amount: int) -> dict:
        """Pay."""
        return {"paid": amount}

    chat, model = chat_with(store, calls(("pay", {"amount": 10})), says("Known."), tools=[pay])
    chat.tools.effects.ledger = ledger
    running = chat.start("Pay 10", **C)
    await entered.wait()
    running.cancel()
    await asyncio.sleep(0)
    leave.set()
    turn = await running.result()
    assert (turn.status, turn.tool_calls[0].facts["effect"]["state"]) == ("cancelled", "unknown")
    assert [effect.state for effect in await chat.effects()] == ["done"]

    await chat.respond("And?", **C)

    (result,) = results_in(model)
    assert "'pay' took effect (reported by its tool). Its result: " in result.content
    assert '"paid": 10' in result.content
    assert "late" not in result.content


@pytest.mark.parametrize("fact", [{"state": "unknown"}, {"state": "unknown", "key": 7}, "unknown", [], None])
async def test_a_step_may_have_facts_of_the_same_name(store, fact):
    """They are kept with the turn, and no effect is looked for."""

    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    class Audit:
        name = "audit"
        stage = "report"

        async def __call__(self, call, rest):
            call.facts["effect"] = fact
            return await rest()

        @hookimpl
        def flexchat_register_steps(self):
            yield self

    model = ScriptedProvider([calls(("look", {})), says("Seen."), says("Again.")])
    chat = FlexChat.from_config(CONFIG, tools=[look], providers={"s": model}, hooks=[Audit()])
    chat.keep_in(store)

    await chat.respond("Look", **C)
    turn = await chat.respond("And?", **C)

    assert (turn.content, len(results_in(model))) == ("Again.", 1)
    (first, _) = await store.turns(**C, tenant="default")
    assert first.tool_calls[0].facts == {"effect": fact}
    assert first.unknown_effects == {}
