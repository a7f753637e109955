"""Tools that the caller runs: offered beside the rule's, and never run here."""

import asyncio

import pytest
from flexchat import ChatRequestError, FlexChat, ToolMessage, tool
from flexchat.domain.history import repair_history
from flexchat_testing import ScriptedProvider, calls, says
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

LOOK = {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": {"type": "object"}}}
RAN = []


@tool
def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    RAN.append((a, b))
    return a + b


def chat_of(*replies, folder=None, tools=(add,), **rule_tools):
    provider = ScriptedProvider(replies)
    rule = {"llm": "robot", "model": "r1", "tools": {"enabled": True, **rule_tools}}
    kept = {} if folder is None else {"conversations": {"path": str(folder / "chat.db")}}
    tables = {"llms": {"robot": {"provider": "scripted"}}, "responses": [rule], **kept}
    return FlexChat.from_config(tables, tools=tools, providers={"robot": provider}), provider


def result_of(call, text="seen"):
    return ToolMessage(tool_call_id=call.id, name=call.name, content=text)


def roles(messages):
    return [message.role for message in messages]


async def test_the_turn_ends_with_the_calls_of_the_caller():
    """Nothing of theirs runs, and the results come with the next request."""
    chat, provider = chat_of(calls(("look", {"at": "x"}), text="One moment."), says("It is red."))
    async with chat:
        turn = await chat.respond("Look!", caller_tools=[LOOK])
        (call,) = turn.response.calls
        assert (turn.status, turn.content, call.name, call.arguments) == ("done", "One moment.", "look", {"at": "x"})
        assert turn.tool_calls == ()
        continuation = [*turn.response.messages[1:], result_of(call)]
        after = await chat.respond("Look!", caller_tools=[LOOK], continuation=continuation)
    assert (after.content, after.response.calls) == ("It is red.", ())
    assert [tool["function"]["name"] for tool in provider.requests[0].options.tools] == ["add", "look"]
    assert roles(provider.requests[1].messages) == ["user", "assistant", "tool"]


async def test_of_calls_of_both_sides_ours_run_at_once():
    """Their results are in the turn's messages, and the caller's call is the only open one."""
    RAN.clear()
    chat, _ = chat_of(calls(("add", {"a": 1}), ("look", {}), ("add", {"a": 2})))
    async with chat:
        turn = await chat.respond("Both!", caller_tools=[LOOK])
    assert sorted(RAN) == [(1, 0), (2, 0)]
    assert [call.name for call in turn.response.calls] == ["look"]
    assert roles(turn.response.messages) == ["user", "assistant", "tool", "tool"]


async def test_a_kept_conversation_continues_with_the_results_alone(tmp_path):
    """The message is not added again; every call is answered in its place."""
    chat, provider = chat_of(calls(("look", {}), ("add", {"a": 1})), says("Red."), says("Bye."), folder=tmp_path)
    async with chat:
        turn = await chat.respond("Look!", caller_tools=[LOOK], conversation="c")
        given = [result_of(turn.response.calls[0])]
        after = await chat.respond("Look!", caller_tools=[LOOK], conversation="c", continuation=given)
        assert roles(after.response.messages) == ["tool", "assistant"]
        await chat.respond("Bye!", conversation="c")
        with pytest.raises(ChatRequestError, match="not of the calls with which the history ends"):
            await chat.respond("Look!", conversation="c", continuation=given)
    sent = provider.requests[2].messages
    assert roles(sent) == ["user", "assistant", "tool", "tool", "assistant", "user"]
    assert [each.name for each in sent[2:4]] == ["look", "add"]
    assert repair_history(sent) == (sent, ())


async def test_an_accepted_turn_has_the_tools_of_its_caller(tmp_path):
    """They are kept with its request."""
    chat, _ = chat_of(calls(("look", {})), folder=tmp_path)
    async with chat:
        id = await chat.submit("Look!", caller_tools=[LOOK], tool_choice="look", conversation="c")
        turn = await chat.resume(id)
    assert [call.name for call in turn.response.calls] == ["look"]


async def test_results_that_a_failed_turn_has_brought_are_not_added_again(tmp_path):
    """The client asks again after an error of the service."""
    chat, provider = chat_of(calls(("look", {})), RuntimeError("broken"), says("Red."), folder=tmp_path)
    async with chat:
        turn = await chat.respond("Look!", caller_tools=[LOOK], conversation="c")
        given = [result_of(turn.response.calls[0])]
        with pytest.raises(RuntimeError):
            await chat.respond("Look!", conversation="c", continuation=given)
        after = await chat.respond("Look!", conversation="c", continuation=given)
    assert (after.content, roles(after.response.messages), after.response.warnings) == ("Red.", ["assistant"], ())
    assert roles(provider.requests[2].messages) == ["user", "assistant", "tool"]


async def test_results_of_earlier_calls_do_not_stand_for_those_that_wait(tmp_path):
    """They would be left out, and the calls that wait would count as never answered."""
    chat, provider = chat_of(calls(("look", {})), calls(("look", {})), says("Red."), folder=tmp_path)
    async with chat:
        first = await chat.respond("Look!", caller_tools=[LOOK], conversation="c")
        given = [result_of(first.response.calls[0])]
        second = await chat.respond("Look!", caller_tools=[LOOK], conversation="c", continuation=given)
        with pytest.raises(ChatRequestError, match="of earlier calls"):
            await chat.respond("Look!", conversation="c", continuation=given)
        await chat.respond("Look!", conversation="c", continuation=[result_of(second.response.calls[0])])
    assert roles(provider.requests[2].messages) == ["user", "assistant", "tool", "assistant", "tool"]


async def test_calls_without_results_are_answered_when_the_person_goes_on(tmp_path):
    """A new message instead of the results."""
    chat, provider = chat_of(calls(("look", {})), says("As you like."), folder=tmp_path)
    async with chat:
        await chat.respond("Look!", caller_tools=[LOOK], conversation="c")
        await chat.respond("Never mind.", conversation="c")
    sent = provider.requests[1].messages
    assert roles(sent) == ["user", "assistant", "tool", "user"]
    assert "never answered" in sent[2].content


async def test_the_named_tool_of_the_caller_must_be_called():
    """tool_choice with its name: it alone is offered, until something was called."""
    chat, provider = chat_of(calls(("look", {})))
    async with chat:
        await chat.respond("Look!", caller_tools=[LOOK], tool_choice="look")
    options = provider.requests[0].options
    assert ([tool["function"]["name"] for tool in options.tools], options.tool_choice) == (["look"], "required")


async def test_unreadable_arguments_go_back_to_the_model():
    """The caller never sees them."""
    chat, _ = chat_of(calls(("look", "{broken")), calls(("look", {})))
    async with chat:
        turn = await chat.respond("Look!", caller_tools=[LOOK])
    assert len(turn.response.calls) == 1
    assert "Invalid tool arguments" in turn.response.messages[2].content


async def test_it_works_where_the_rule_has_no_tools():
    """Only the caller's are offered."""
    chat, provider = chat_of(calls(("look", {})), tools=(), enabled=False)
    async with chat:
        turn = await chat.respond("Look!", caller_tools=[LOOK])
    assert len(turn.response.calls) == len(provider.requests[0].options.tools) == 1


@pytest.mark.parametrize(
    ("tools", "problem"),
    [
        ([{**LOOK, "function": {**LOOK["function"], "name": "add"}}], "'add' has the name of the tool 'add'"),
        ([LOOK, LOOK], r"caller_tools\[1\]: another tool before it is called 'look'"),
        ([{"function": {"name": "a b", "description": "x", "parameters": {"type": "object"}}}], "must be 1 to 128"),
        ([{"function": {"name": "f", "description": "x", "parameters": {"type": "array"}}}], "object schema"),
        (["look"], "must be an object"),
        ({"look": 1}, "a list of messages was expected"),
    ],
)
async def test_unusable_tools_are_refused(tools, problem):
    """Before anything runs; a name of ours is refused with both names."""
    chat, provider = chat_of(says("x"))
    async with chat:
        with pytest.raises(ChatRequestError, match=problem):
            await chat.respond("Look!", caller_tools=tools)
    assert provider.requests == []


async def test_a_turn_cancelled_among_calls_of_both_sides_answers_all(tmp_path):
    """So that its conversation can go on."""
    begun = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await asyncio.sleep(60)
        return ""

    chat, provider = chat_of(calls(("look", {}), ("wait", {})), says("Bye."), folder=tmp_path, tools=[wait])
    async with chat:
        task = asyncio.create_task(chat.respond("Go!", caller_tools=[LOOK], conversation="c"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await chat.respond("Bye!", conversation="c")
    assert roles(provider.requests[1].messages) == ["user", "assistant", "tool", "tool", "user"]


SIDES = st.lists(st.lists(st.sampled_from(["ours", "theirs", "broken"]), max_size=4), min_size=1, max_size=5)


def interleaved(sides):
    """Run a dialogue in which the model calls tools of these sides, answer by answer; return what it was sent."""
    replies = []
    for number, answer in enumerate(sides):
        named = {"ours": ("add", {"a": number}), "theirs": ("look", {"n": number}), "broken": ("look", "{")}
        made = [(named[side][0], {**named[side][1], "b": at}) if side != "broken" else named[side]
                for at, side in enumerate(answer)]  # fmt: skip
        replies.append(calls(*made) if made else says("text"))
    chat, provider = chat_of(*replies, *[says("end")] * 3)

    async def talk():
        async with chat:
            turn, followed = await chat.respond("Go!", caller_tools=[LOOK]), []
            while turn.response.calls:
                followed = [*turn.response.messages[1:], *map(result_of, reversed(turn.response.calls))]
                turn = await chat.respond("Go!", caller_tools=[LOOK], continuation=followed)
            return turn

    return asyncio.run(talk()), [request.messages for request in provider.requests]


@settings(max_examples=examples(500), deadline=None)
@given(SIDES)
def test_any_interleaving_sends_valid_histories(sides):
    """Each call is answered once, right after the answer that made it, and in its order."""
    turn, sent = interleaved(sides)
    assert turn.response.calls == ()
    for messages in sent:
        open_calls = []
        for message in messages:
            if message.role == "tool":
                assert open_calls.pop(0) == message.tool_call_id
            else:
                assert open_calls == []
                open_calls = [call.id for call in message.tool_calls] if message.role == "assistant" else []
        assert open_calls == []
