"""The clients' loop over models that answer anything: what no server is needed for."""

import asyncio
from typing import Any

import attrs
import pytest
from flexchat import ChatRequestError, FlexChat, RequestRefusedError, UserMessage, tool
from flexchat.calls.manager import ToolManager
from flexchat.plugin import hookimpl
from flexchat_langchain.client import ClientAnswer, LangChainClient
from flexchat_langchain.results import all_calls
from flexchat_sdk import ProviderProtocolError, ProviderRequestError
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from examples import examples


class Scripted(BaseChatModel):
    """Says what it is told, streamed in pieces if it is a list, and remembers what it was asked."""

    script: list[Any]
    asked: list[Any]

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **kwargs):
        return self.bind(tools=tools, **kwargs)

    def _next(self, messages):
        self.asked.append(messages)
        return self.script.pop(0) if self.script else AIMessage("The end.")

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        raise NotImplementedError

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        return ChatResult(generations=[ChatGeneration(message=self._next(messages))])

    async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
        said = self._next(messages)
        for chunk in said if isinstance(said, list) else [AIMessageChunk(content=said.content)]:
            yield ChatGenerationChunk(message=chunk)


@tool(repeatable=True)
def double(n: int) -> int:
    """Double a number."""
    return 2 * n


def client(*script, tools=(double,), **rest):
    return LangChainClient(tools, Scripted(script=[*script], asked=[]), **rest)


names, ids = st.sampled_from(["double", "nobody", "a.b", ""]), st.sampled_from(["a", "b", None, ""])
args = st.dictionaries(st.sampled_from(["n", "m"]), st.integers(-9, 9) | st.none() | st.text(max_size=3), max_size=2)
valid = st.builds(lambda n, a, i: {"name": n, "args": a, "id": i}, names, args, ids)
invalid = st.builds(lambda n, a, i: {"name": n, "args": a, "id": i, "error": None}, names, st.text(max_size=5), ids)
whole = st.builds(
    lambda text, good, bad, finish: AIMessage(
        text, tool_calls=good, invalid_tool_calls=bad, response_metadata={"finish_reason": finish}
    ),
    st.text(max_size=5),
    st.lists(valid, max_size=4),
    st.lists(invalid, max_size=2),
    st.sampled_from(["stop", "tool_calls", "length", "refusal", "content_filter", "pause_turn", "odd", ""]),
)
pieces = st.lists(
    st.builds(
        lambda text, name, args, id, index: AIMessageChunk(
            content=text, tool_call_chunks=[tool_call_chunk(name=name, args=args, id=id, index=index)]
        ),
        st.text(max_size=3),
        names | st.none(),
        st.sampled_from(['{"n": 1}', '{"n"', ": 2}", "", "[1]", "{broken"]),
        ids,
        st.integers(0, 2) | st.none(),
    ),
    min_size=1,
    max_size=4,
)


def check(answer):
    """Behind each AIMessage stand its results, one for each call, in their order; nothing else is answered."""
    waiting = []
    for message in answer.messages:
        if isinstance(message, ToolMessage):
            assert message.tool_call_id == waiting.pop(0)
            assert isinstance(message.content, str)
        else:
            assert not waiting
            waiting = [call["id"] for call in all_calls(message)] if isinstance(message, AIMessage) else []
            assert all(waiting)
    assert not waiting
    assert isinstance(answer.messages[-1], AIMessage | ToolMessage)


@settings(max_examples=examples(40))
@given(st.lists(whole, max_size=3))
def test_every_call_is_answered_once(script):
    """Whatever a model says: calls doubled, unread, unknown, without ids, cut or filtered (LC-11, LC-16)."""
    made = client(*script, max_iterations=3)
    answer = asyncio.run(made.send("Go."))
    check(answer)
    assert len(made.chat_model.asked) <= 3


@settings(max_examples=examples(40))
@given(st.lists(pieces, max_size=2))
def test_every_streamed_call_is_answered_once(script):
    """Pieces that fit together, and pieces that do not."""

    async def run():
        return [event async for event in client(*script, max_iterations=2).stream("Go.")]

    try:
        *events, answer = asyncio.run(run())
    except ProviderProtocolError:  # a call without a name is an error of the answer
        assert any(call["name"] is None for chunks in script for chunk in chunks for call in chunk.tool_call_chunks)
        return
    assert type(answer) is ClientAnswer
    check(answer)
    assert all(isinstance(event, AIMessageChunk | ToolMessage) for event in events)


async def test_an_answer_that_paused_is_gone_on_with():
    """Anthropic's pause_turn: the same conversation is sent again, with what was said so far."""
    paused = AIMessage("Searching", response_metadata={"stop_reason": "pause_turn"})
    made = client(paused, AIMessage(" and found."))
    answer = await made.send("Search.")
    assert answer.content == "Searching and found."
    assert [m.type for m in made.chat_model.asked[1]] == ["human", "ai"]


async def test_calls_beside_a_refusal_are_not_run():
    """What was filtered runs nothing; its calls have placeholders, so that the conversation can go on."""
    ran = []

    @tool
    def write() -> None:
        """Write."""
        ran.append(1)

    refused = AIMessage(
        "", tool_calls=[{"name": "write", "args": {}, "id": "c"}], response_metadata={"stop_reason": "refusal"}
    )
    answer = await client(refused, tools=[write]).send("Go.")
    assert ran == []
    assert answer.messages[-1].content.startswith('Error: no result for tool "write" (')
    assert answer.warnings == ("the model refused to answer",)


async def test_limits_are_those_of_the_chat():
    """A FlexChat brings its tools and its limits: here two calls of one answer, two hundred characters of a result."""

    @tool
    def long(n: int) -> str:
        """Write much."""
        return "x" * 1000

    config = {
        "llms": {"it": {"provider": "rehearsal", "default_model": "m"}},
        "responses": [{"llm": "it"}],
        "limits": {"tool_calls_per_answer": 2},
        "tools": {"max_result_chars": 200, "max_iterations": 1},
    }
    calls = [{"name": "long", "args": {"n": n}, "id": f"c{n}"} for n in range(3)]
    async with FlexChat.from_config(config, tools=[long]) as chat:
        answer = await client(AIMessage("", tool_calls=calls), tools=chat).send("Go.")
    first, _, third = answer.messages[2:5]
    assert "characters left out" in first.content
    assert third.content.startswith("Error: Not executed: at most 2 calls in one answer")
    assert answer.max_iterations_reached


async def test_a_conversation_may_be_given_whole():
    """As a list of messages, or as one message."""
    made = client()
    await made.send([HumanMessage("A"), AIMessage("B"), HumanMessage("C")])
    await made.send(HumanMessage("D"))
    assert [[m.content for m in asked] for asked in made.chat_model.asked] == [["A", "B", "C"], ["D"]]


async def test_what_is_no_answer_is_a_provider_error():
    """A model that streams nothing, and a class without bind_tools."""
    with pytest.raises(ProviderRequestError, match="Scripted failed"):
        [event async for event in client([]).stream("Go.")]

    class Toolless(Scripted):
        bind_tools = BaseChatModel.bind_tools

    with pytest.raises(ProviderRequestError, match="Toolless failed with NotImplementedError"):
        await LangChainClient([double], Toolless(script=[], asked=[])).send("Go.")


@pytest.mark.parametrize("executor", ["calculator", ToolManager().get_executor(), None])
def test_what_runs_no_tools_is_refused(executor):
    """An executor alone does not say which tools there are: its manager does."""
    with pytest.raises(TypeError, match="tools are run by a FlexChat or a ToolManager"):
        client(tools=executor)


def test_a_limit_below_one_is_refused():
    with pytest.raises(ChatRequestError, match="max_iterations must be at least 1, got 0"):
        client(max_iterations=0)


async def test_leaving_a_stream_cancels_the_tools():
    """Whoever closes the generator ends what runs for it."""
    began, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> None:
        """Wait for ever."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    call = [AIMessageChunk(content="", tool_call_chunks=[tool_call_chunk(name="wait", args="{}", id="c", index=0)])]
    stream = client(call, tools=[wait]).stream("Go.")

    async def read():
        async for _ in stream:
            pass

    reading = asyncio.create_task(read())
    await asyncio.wait_for(began.wait(), 5)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert ended.is_set()


async def test_an_answer_that_only_looks_like_one_goes_on():
    """Arguments that are no object, an id that is a number: the call is answered, and not run."""
    odd = AIMessage("")
    odd.tool_calls = [{"name": "double", "args": '{"n": 2}', "id": 7}]
    asked = client(odd, AIMessage("So."))
    answer = await asked.send("Double 2.")
    assert answer.content == "So."
    assert [m.tool_call_id for m in asked.chat_model.asked[-1] if isinstance(m, ToolMessage)] == ["7"]
    assert not answer.tool_calls[0].result.success


async def test_whatever_langchain_takes_for_a_message_is_one():
    """Pairs and tables too, in the history as well; all else is told, and so is a model that is none."""
    one = client(AIMessage("Hi."))
    answer = await one.send([("user", "and?")], history=[{"role": "user", "content": "So"}, ("ai", "Hm.")])
    assert [m.type for m in answer.messages] == ["human", "ai", "human", "ai"]
    for message, history in ((None, ()), (7, ()), ([7], ()), ("Hi", [7])):
        with pytest.raises(ChatRequestError, match="message"):
            await one.send(message, history=history)
    with pytest.raises(TypeError, match="not str"):
        LangChainClient([double], "gpt")


async def test_one_tool_may_be_named_by_itself():
    """A text is a name, not a list of letters."""
    one = client(AIMessage("Hi."))
    assert (await one.send("Hi", tools="double")).content == "Hi."


async def test_gates_see_what_goes_to_a_langchain_model():
    """One that refuses, and one that changes what is sent; the conversation stays as it was."""

    class Gate:
        refuses = False

        @hookimpl
        def flexchat_before_model_request(self, request):
            if self.refuses:
                raise RequestRefusedError("not this one")
            *rest, last = request.messages
            return attrs.evolve(request, messages=(*rest, UserMessage(content=last.content.replace("Ann", "…"))))

    gate = Gate()
    config = {"llms": {"s": {"provider": "scripted"}}, "responses": [{"llm": "s", "model": "m"}]}
    async with FlexChat.from_config(config, hooks=[gate]) as chat:
        asked = client(tools=chat)
        answer = await asked.send("I am Ann.")
        assert asked.chat_model.asked[0][-1].content == "I am …."
        assert answer.messages[0].content == "I am Ann."
        gate.refuses = True
        with pytest.raises(RequestRefusedError, match="not this one"):
            await asked.send("Go.")
    assert len(asked.chat_model.asked) == 1
