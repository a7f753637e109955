"""Turns that run one call and ask no model: kept, waiting for replies, and finished by another process."""

import asyncio

import pytest
from flexchat import ChatRequest, FlexChat, RequestedCall, tool
from flexchat.plugin import Reply, ToolContext

YES = Reply(action="accept")


@pytest.fixture
def ran():
    return []


@pytest.fixture
def open_chat(tmp_path, ran):
    """Return a function that opens a chat on one file, as another process would."""

    @tool(approve=True)
    async def pay(amount: int, context: ToolContext) -> str:
        """Pay."""
        ran.append(amount)
        return f"paid {amount} for {context.tenant}"

    @tool(effect="read")
    async def seats(context: ToolContext) -> list[str]:
        """Choose seats."""
        return [each.action for each in await asyncio.gather(context.ask("Which row?"), context.ask("Which seat?"))]

    def open_chat(*, max_tokens=10):
        config = {
            "llms": {"bot": {"provider": "scripted"}},
            "responses": [{"llm": "bot", "model": "m", "max_tokens": max_tokens}],
            "conversations": {"provider": "sqlite", "path": str(tmp_path / "c.db")},
            "questions": {"expires": "1h"},
        }
        return FlexChat.from_config(config, tools=[pay, seats])

    return open_chat


def request(name, key=None, **arguments):
    call = RequestedCall(name=name, arguments=arguments, origin="mcp")
    return ChatRequest(f"{name} by hand", call=call, conversation=f"c {name}", idempotency_key=key)


async def test_a_call_waits_for_its_approval_and_runs_once_in_another_process(open_chat, ran):
    async with open_chat() as chat:
        id = await chat.submit(request("pay", amount=5))
        turn = await (await chat.start_resumed(id)).result()

        assert (turn.status, ran) == ("suspended", [])
        (question,) = await chat.pending(turn=id)
    async with open_chat(max_tokens=20) as chat:
        handle = await chat.answer(question.id, YES)
        turn = await handle.result()

        assert (turn.status, turn.content, turn.rule, ran) == ("done", "paid 5 for default", None, [5])
        (record,) = turn.tool_calls
        (effect,) = await chat.effects()
        assert (record.tool, effect.tool, effect.state) == ("pay", "pay", "done")
        (kept,) = await chat.conversations.turns("c pay")
        assert [type(message).__name__ for message in kept.messages] == [
            "UserMessage",
            "AssistantMessage",
            "ToolMessage",
            "AssistantMessage",
        ]


async def test_a_repeated_key_is_the_same_call(open_chat, ran):
    async with open_chat() as chat:
        first = await chat.submit(request("pay", key="k", amount=5))
        again = await chat.submit(request("pay", key="k", amount=5))

        assert first == again


async def test_questions_that_are_asked_together_are_answered_one_by_one(open_chat):
    async with open_chat() as chat:
        id = await chat.submit(request("seats"))
        await (await chat.start_resumed(id)).result()
        first, second = await chat.pending(turn=id)

        turn = await (await chat.answer(first.id, YES)).result()

        assert (turn.status, [each.id for each in await chat.pending(turn=id)]) == ("suspended", [second.id])
        turn = await (await chat.answer(second.id, Reply(action="decline"))).result()
        assert sorted(turn.tool_calls[0].result.result) == ["accept", "decline"]


async def test_another_configuration_takes_up_a_call(open_chat, ran):
    async with open_chat() as chat:
        id = await chat.submit(request("seats"))
        await (await chat.start_resumed(id)).result()
        first, second = await chat.pending(turn=id)
        await chat.answer(first.id, YES, resume=False)
        await chat.answer(second.id, YES, resume=False)
    async with open_chat(max_tokens=20) as chat:
        (handle,) = await chat.resume_interrupted()

        assert (await handle.result()).content == '["accept", "accept"]'


async def test_a_call_of_an_unknown_tool_fails_and_its_turn_is_done(open_chat):
    async with open_chat() as chat:
        turn = await chat.respond(request("fly"))

        assert (turn.status, turn.tool_calls[0].result.error) == ("done", "Tool 'fly' not found")


async def test_a_cancelled_call_ends(open_chat, ran):
    async with open_chat() as chat:
        id = await chat.submit(request("pay", amount=5))
        await (await chat.start_resumed(id)).result()

        turn = await chat.cancel_turn(id)

        assert (turn.status, ran, await chat.pending(turn=id)) == ("cancelled", [], [])
