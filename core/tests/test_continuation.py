"""A turn that goes on from calls whose tools the caller has run."""

import pytest
from flexchat import AssistantMessage, ChatRequest, FlexChat, ToolCall, ToolMessage, UserMessage
from flexchat.errors import ChatRequestError
from flexchat_testing import ScriptedProvider, says

CALL = ToolCall(id="c1", name="get_weather", arguments={"city": "Rome"})
ASKED = AssistantMessage(parts=(CALL,))
RESULT = ToolMessage(tool_call_id="c1", name="get_weather", content="warm")


def over(model):
    config = {"llms": {"it": {"provider": "scripted"}}, "responses": [{"llm": "it", "model": "m"}]}
    return FlexChat.from_config(config, providers={"it": model})


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_model_goes_on_behind_the_results(streamed):
    """In their order behind the question; the turn's messages hold all of it, so that it can be kept."""
    model = ScriptedProvider([says("It is warm.")])
    request = ChatRequest(user_message="Rome?", history=(UserMessage(content="Hi"),), continuation=(ASKED, RESULT))
    async with over(model) as chat:
        if streamed:
            turn = [event async for event in chat.stream(request)][-1].turn
        else:
            turn = await chat.respond(request)
    sent = [m for m in model.requests[-1].messages if m.role != "system"]
    assert sent == [UserMessage(content="Hi"), UserMessage(content="Rome?"), ASKED, RESULT]
    assert turn.content == "It is warm."
    assert turn.response.messages[:3] == (UserMessage(content="Rome?"), ASKED, RESULT)


async def test_what_broke_off_is_repaired_with_a_warning():
    """A call without a result gets one that says so; a result of no call is left out."""
    model = ScriptedProvider([says("Sorry.")], repeat=True)
    async with over(model) as chat:
        turn = await chat.respond(ChatRequest(user_message="Rome?", continuation=(ASKED,)))
        assert "had no result" in turn.response.warnings[0]
        assert model.requests[-1].messages[-1].is_error
        turn = await chat.respond(ChatRequest(user_message="Rome?", continuation=(RESULT,)))
        assert "belongs to no call" in turn.response.warnings[0]
        assert model.requests[-1].messages[-1] == UserMessage(content="Rome?")


@pytest.mark.parametrize("wrong", [UserMessage(content="x"), {"role": "user", "content": "x"}, 7])
async def test_only_answers_and_results_follow_a_question(wrong):
    """Another question would be a turn of its own."""
    async with over(ScriptedProvider([])) as chat:
        with pytest.raises(ChatRequestError, match=r"continuation|history entry"):
            await chat.respond(ChatRequest(user_message="Rome?", continuation=(wrong,)))


async def test_none_is_nothing_so_far():
    """As with a history."""
    async with over(ScriptedProvider([says("Hi.")])) as chat:
        assert (await chat.respond(ChatRequest(user_message="Hi", continuation=None))).content == "Hi."
